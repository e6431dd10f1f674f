"""`lore install`: add hooks to a coding agent's settings, so that it calls `fleetlore hook` at each step."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, terminal
from fleetlore.errors import ConfigError, Invalid, LogError
from fleetlore.programs import hook_settings, registry
from fleetlore.programs.hook_settings import HookFile

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

# In a shared file: people without `fleetlore` must not see an error at every step.
_QUIETLY = "2>/dev/null || true"
_FOR_OTHERS = f"--project {_QUIETLY}"
_EXAMPLES = (
    ("lore install", "list programs, and whether hooks are installed"),
    ("lore install claude-code", "for all your projects, in ~/.claude/settings.json"),
    ("lore install claude-code --project", "for everyone who works on this project, in .claude/settings.json"),
    ("lore install claude-code --ask-for-evidence", "also asks an agent for evidence of its claims when it stops"),
    ("lore install claude-code --approvals", "also lets you answer its permission requests remotely"),
    ("lore uninstall claude-code", "leaves the file as it was before"),
)
_NOTES = """\
The rest of the file is not changed; a copy from before the first change is kept beside it, as
settings.json.before-fleetlore. Installing again only updates old hooks, such as those of 0.1.
Codex asks you to review new hooks when it next starts, and does not run them before.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    add_target(parser)
    parser.add_argument(
        "--ask-for-evidence", action="store_true", help="also ask an agent once to show its evidence if it stops with an unproven claim"
    )
    parser.add_argument(
        "--approvals",
        action="store_true",
        help="also answer its permission requests with `lore decide`, on pages or from notifications",
    )
    parser.add_argument(
        "--tool-calls", action="store_true", help="also install hooks for every tool call: only for sessions that keep no transcript"
    )
    parser.add_argument("--wait", metavar="TIME", default="1h", help="how long a permission request waits for your answer (1h)")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def add_target(parser: ArgumentParser) -> None:
    """Add PROGRAM, `--user` and `--project`."""
    names = " or ".join(program.name for program in registry.list_installable())
    parser.add_argument("program", metavar="PROGRAM", nargs="?", help=f"{names}; without one, list them")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--user", action="store_true", help="in your own settings, for all projects (default)")
    whose.add_argument("--project", action="store_true", help="in the settings of the project in this folder, for everyone who works on it")


def run(args: Namespace) -> int:
    """Install hooks, or list programs."""
    if args.program is None:
        return show_programs(json=args.json)
    file = choose_hook_file(args.program, project=args.project)
    if args.approvals and args.project:
        raise Invalid("--approvals changes your own settings only: what you may be asked is not for a project to say; leave out --project")
    file = file.recording_tool_calls() if args.tool_calls else file
    changed = args.approvals and install_approvals(file, wait=_parse_wait(args.wait))
    changed = install_hooks(file, project=args.project) or changed
    if args.ask_for_evidence:
        changed = install_hooks(file.asking_for_evidence(), project=args.project) or changed
    if args.json:
        terminal.print_value({"program": args.program, "file": file.path, "changed": changed, "events": file.events})
        return 0
    terminal.print_line(describe_result(file, changed=changed))
    if file.are_hooks_disabled():
        title = registry.require_program(file.program).title
        terminal.print_error(f"lore: {file.path} has disableAllHooks: {title} calls no hooks until it is removed")
    elif changed:
        terminal.print_line("New sessions are recorded from now on: see `lore status`, `lore story` and `lore costs`.")
    return 0


def choose_hook_file(program: str, *, project: bool) -> HookFile:
    """The settings file to change."""
    file = registry.require_program(program).hook_file(project_folder() if project else None)
    if file is None:
        raise Invalid(f"{program} has no hooks; `lore watch {program}` records it")
    return file


def install_hooks(file: HookFile, *, project: bool) -> bool:
    """Install the hooks; returns whether the file was changed."""
    try:
        if project:
            command = hook_settings.hook_command(hook_settings.HOOK_PROGRAM, file.program, file.action)
            return file.install(command=f"{command} {_FOR_OTHERS if file.action == hook_settings.RECORD else _QUIETLY}")
        return file.install(command=hook_settings.hook_command(own_path(), file.program, file.action))
    except OSError as error:
        raise not_writable(file, error) from error


def install_approvals(file: HookFile, *, wait: float) -> bool:
    """Install the hook that asks for permission; returns whether the file was changed."""
    approvals = registry.require_program(file.program).load_approvals()
    if approvals is None:
        raise Invalid(f"{file.program} has no hook that asks for permission")
    asking = file.asking_for_approval(approvals.event, wait=wait)
    try:
        return asking.install(command=f"{hook_settings.hook_command(own_path(), file.program, asking.action)} --wait {wait:g}")
    except OSError as error:
        raise not_writable(file, error) from error


def _parse_wait(text: str) -> float:
    from fleetlore.cli.status import parse_duration_option

    return parse_duration_option(text).total_seconds()


def not_writable(file: HookFile, error: OSError) -> ConfigError:
    """The error for a settings file that cannot be changed."""
    return ConfigError(f"{file.path}: cannot be changed ({error.strerror}); check its permissions and those of its folder")


def describe_result(file: HookFile, *, changed: bool) -> str:
    """The result, as text."""
    program = registry.require_program(file.program)
    if not changed:
        return f"Nothing to do: {program.title} already reports to Fleetlore ({file.path})."
    text = f"Added {len(file.events)} hooks to {file.path}: {program.title} reports each step to Fleetlore.\n"
    text += f"Undo: lore uninstall {program.name}"
    return f"{text}\n{program.install_note}" if program.install_note else text


def project_folder() -> str:
    """The project that this folder belongs to: its repository, or the folder itself."""
    here = folder = os.getcwd()
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return here
        folder = above
    return folder


def own_path() -> str:
    """The path of the `fleetlore` command of this installation: a coding program may have another PATH than this process.

    First the folder that this command was started from, then that of the interpreter, then the PATH.
    """
    from shutil import which

    started = os.path.abspath(sys.argv[0])
    folders = [os.path.dirname(started)] if os.path.basename(started) in hook_settings.COMMAND_NAMES else []
    for folder in (*folders, os.path.dirname(sys.executable)):
        path = os.path.join(folder, hook_settings.HOOK_PROGRAM)
        if os.access(path, os.X_OK):
            return path
    found = which(hook_settings.HOOK_PROGRAM)
    if found is None:
        raise LogError("there is no `fleetlore` command here; install the package (pip install fleetlore), then try again")
    return os.path.abspath(found)


def show_programs(*, json: bool) -> int:
    """List programs, and whether hooks are installed."""
    rows = [_program_state(program.name, project=project) for program in registry.list_installable() for project in (False, True)]
    if json:
        terminal.print_value(rows)
        return 0
    for row in rows:
        whose = "--project" if row["project"] else "--user"
        terminal.print_line(f"{row['program']:<12} {whose:<10} {row['state']:<16} {terminal.sanitise_text(str(row['file']))}")
    terminal.print_line("\nInstall with `lore install PROGRAM`, or let `lore setup` do it.")
    return 0


def _program_state(program: str, *, project: bool) -> dict[str, object]:
    file = choose_hook_file(program, project=project)
    try:
        found = file.find_installed_events()
        is_old = file.calls_old_name()
    except (ConfigError, OSError):
        return {"program": program, "project": project, "file": file.path, "state": "unreadable", "events": []}
    missing = file.find_missing_events()
    state = "not installed" if not found else "calls `lore`" if is_old else f"{len(missing)} outdated" if missing else "installed"
    return {"program": program, "project": project, "file": file.path, "state": state, "events": sorted(found)}
