"""`lore setup`: from a fresh install to one's own story."""

from __future__ import annotations

import os
import sys
import textwrap
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from fleetlore import clock
from fleetlore.cli import arguments, opening, progress, terminal
from fleetlore.cli.install import PROGRAMS, file_of, put_in, said_of
from fleetlore.errors import ConfigError
from fleetlore.intake import hook_settings

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from fleetlore.log.recorder import BlockingRecorder

SUMMARY = "find your coding agents, take in their last week, have them recorded, and tell yesterday"

DAYS = 7
_DAY = 86_400.0
_SHOWN = 14
"""Lines of the story."""
_WIDEST = 100

_EXAMPLES = (
    ("lore setup", "asks once before it changes anybody's settings"),
    ("lore setup --yes", "does not ask"),
    ("lore setup --no-hooks", "only reads what is there"),
)
_NOTES = """\
Looks for Claude Code (~/.claude/projects) and Codex (~/.codex/sessions). Running it again does no harm: what is in the
log is not taken in twice, and `lore uninstall` takes the hooks out again. Nothing leaves this machine.
"""
_NEXT = """
Now try:
  lore tell --day today
      what they did since midnight, as a story
  lore status --watch
      who needs you, who works, who has fallen silent
  lore costs --by day
      what it came to, in tokens and dollars"""


class Found(NamedTuple):
    """What this user has of one program."""

    program: str
    executable: str | None
    folders: tuple[str, ...]
    paths: tuple[str, ...]
    """Its recordings."""
    size: int
    newest: float
    """When something was last written to one of them, in seconds since 1970."""

    @property
    def is_there(self) -> bool:
        """Whether there is anything of it at all."""
        return self.executable is not None or bool(self.paths)

    @property
    def title(self) -> str:
        """Its name, for people."""
        return PROGRAMS[self.program].title


def configure(parser: ArgumentParser) -> None:
    """Whether to ask, and whether to install."""
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask before hooks are installed")
    parser.add_argument("--no-hooks", action="store_true", help="change nobody's settings")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Look, take in, ask, install, tell."""
    found = [look_for(program) for program in PROGRAMS]
    for each in found:
        terminal.out(_described(each))
    there = [each for each in found if each.is_there]
    if not there:
        return _say_what_to_do()
    if not (args.yes or _can_ask()):
        return _say_what_would_be_done(there, hooks=not args.no_hooks)
    terminal.out("")
    with opening.open_log(args) as log:
        for each in there:
            _take_in(args, log, each)
        if not args.no_hooks:
            _install(there, ask=not args.yes)
        _tell(args, log)
    terminal.out(_NEXT)
    return 0


def look_for(program: str) -> Found:
    """What this user has of a program."""
    from shutil import which

    from fleetlore.intake import transcripts

    folders = transcripts.folders_of(program)
    paths = [path for folder in folders for path in transcripts.find_all(folder)]
    states = [state for path in paths if (state := transcripts.look(path))]
    return Found(
        program,
        which(PROGRAMS[program].executable),
        tuple(folders),
        tuple(paths),
        sum(state.st_size for state in states),
        max((state.st_mtime for state in states), default=0.0),
    )


def _described(found: Found) -> str:
    name = f"{found.title:<12} "
    if not found.is_there:
        return f"{name}not found: neither `{PROGRAMS[found.program].executable}` nor {_short(found.folders[0])}"
    if not found.paths:
        return f"{name}installed, but has recorded nothing yet in {_short(found.folders[0])}"
    sessions = sum(f"{os.sep}subagents{os.sep}" not in path for path in found.paths)
    amount = f"{sessions:,} {'session' if sessions == 1 else 'sessions'}, {_size(found.size)}"
    return f"{name}{amount}, the newest {_ago(clock.now().timestamp() - found.newest)}, in {_short(found.folders[0])}"


def _say_what_to_do() -> int:
    terminal.out(
        "\nNo coding agent has left anything here. Run this again after the first session of one; if they keep their files elsewhere,\n"
        "set CLAUDE_CONFIG_DIR or CODEX_HOME. `lore demo` shows what a fleet looks like, `lore import git .` reads a repository."
    )
    return 1


def _say_what_would_be_done(found: Sequence[Found], *, hooks: bool) -> int:
    terminal.out(f"\n`lore setup --yes` takes in the last {DAYS} days" + (" and has them recorded from now on:" if hooks else "."))
    if hooks:
        for each in found:
            terminal.out(f"  hooks in {_short(file_of(each.program, project=False).path)}, for {each.title}")
    terminal.out("There is no terminal to ask at, so nothing was changed.")
    return 0


def _take_in(args: Namespace, log: BlockingRecorder, found: Found) -> None:
    """The recordings of the last days; of somebody who has not worked since, the newest."""
    from fleetlore.cli.import_ import counting
    from fleetlore.dialects import find_recording
    from fleetlore.intake import recordings, retention, transcripts
    from fleetlore.intake.deposit import Deposit
    from fleetlore.log.admission import Admission

    since = min(clock.now().timestamp() - DAYS * _DAY, found.newest)
    paths = [path for folder in found.folders for path in transcripts.find_all(folder, since=since)]
    tapes = recordings.open_growing(transcripts.expand(paths), find_recording(found.program), log, rest=timedelta(0))
    settings = opening.settings_of(args)
    admission = Admission(redactor=opening.redactor_of(settings), veil=opening.veil_of(settings))
    deposit = Deposit(log, dialect=found.program.replace("-", "_"), admission=admission)
    if tapes:
        with progress.bar(f"reading {found.title}", bytes=True) as show:
            on_read = counting(show, sum(tape.left for tape in tapes))
            oldest = retention.oldest_kept(settings, clock.now())
            recordings.take_in(tapes, deposit, log, change=transcripts.of_this_machine(), on_read=on_read, not_before=oldest)
    files = "1 file" if len(paths) == 1 else f"{len(paths):,} files"
    new = "1 record" if deposit.tally.recorded == 1 else f"{deposit.tally.recorded:,} records"
    terminal.out(f"{found.title}: {files} of the last {DAYS} days, {new} new to your log.")


def _install(found: Sequence[Found], *, ask: bool) -> None:
    """Install what is missing, after one yes for all of it."""
    files = [file_of(each.program, project=False) for each in found]
    wanted = [file for file in files if not _is_installed(file)]
    for file in files:
        if file not in wanted:
            terminal.out(said_of(file, changed=False))
    if not wanted:
        return
    names = " and ".join(f"{PROGRAMS[file.program].title} ({_short(file.path)})" for file in wanted)
    if ask and not _asked(f"Add hooks to {names}, so that they are recorded as they work? [Y/n] "):
        terminal.out("No hooks then. `lore install` adds them whenever you like; `lore watch claude-code` reads along without.")
        return
    for file in wanted:
        try:
            terminal.out(said_of(file, changed=put_in(file, project=False)))
        except ConfigError as error:
            terminal.err(f"lore: {error}")


def _is_installed(file: hook_settings.HookFile) -> bool:
    try:
        return hook_settings.installed(file) >= set(file.events)
    except (ConfigError, OSError):  # said when it is tried
        return False


def _tell(args: Namespace, log: BlockingRecorder) -> None:
    """The beginning of yesterday's story, or else of the newest day's."""
    for what, words in (("yesterday", ["--day", "yesterday"]), ("the newest day", [])):
        story = _story(args, log, words)
        if story:
            lines = [line for part in story.splitlines() for line in _wrapped(part)]
            terminal.out(f"\nThe story of {what}, so far as it begins (`{' '.join(['lore tell', *words])}` tells it all):\n")
            for line in lines[:_SHOWN]:
                terminal.out(terminal.sanitise(line))
            if len(lines) > _SHOWN:
                terminal.out("…")
            return


def _story(args: Namespace, log: BlockingRecorder, words: Sequence[str]) -> str:
    """What `lore tell` would write; nothing if there is nothing to tell."""
    from fleetlore.chronicle.teller import NOTHING_THEN
    from fleetlore.cli import tell

    parser = arguments.Parser(prog="lore tell", description="")
    tell.configure(parser)
    with TemporaryDirectory(prefix="fleetlore-") as folder:
        path = os.path.join(folder, "story")
        tell.tell(log, parser.parse_args([*words, "--out", path]))
        with open(path, encoding="utf-8") as file:
            story = file.read()
    return "" if story.startswith(("Nothing has been recorded yet", NOTHING_THEN)) else story.strip()


def _can_ask() -> bool:
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout)


def _asked(question: str) -> bool:
    sys.stdout.write(question)
    terminal.flush()
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _short(path: str) -> str:
    """A path with `~` for the home directory."""
    home = os.path.join(os.path.expanduser("~"), "")
    return terminal.sanitise(f"~/{path.removeprefix(home)}" if path.startswith(home) else path)


def _wrapped(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, min(terminal.width(sys.stdout), _WIDEST), subsequent_indent=indent) or [""]


def _size(count: int) -> str:
    return f"{count / 1e6:,.0f} MB" if count >= 1e6 else f"{max(1, round(count / 1e3)):,} kB"


def _ago(seconds: float) -> str:
    for length, unit in ((_DAY, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count:,} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
