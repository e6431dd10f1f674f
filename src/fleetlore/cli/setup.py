"""`lore setup`: from a fresh install to the brief of the newest day."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from fleetlore import clock
from fleetlore.cli import arguments, open_log, progress, summary, terminal
from fleetlore.cli.approve_hook import WAIT
from fleetlore.cli.install import describe_result, install_approvals, install_hooks
from fleetlore.cli.main import OK, SOME_REJECTED
from fleetlore.errors import ConfigError
from fleetlore.programs import registry
from fleetlore.programs.recording_files import plain_name

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from fleetlore.ingest.discovery import OnSkipped
    from fleetlore.ingest.history import HistoryFile
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.programs.base import Program
    from fleetlore.programs.hook_settings import HookFile

_DAY = 86_400.0

_EXAMPLES = (
    ("lore setup", "ask once before changing a program's settings"),
    ("lore setup --yes", "do not ask"),
    ("lore setup --no-hooks", "only import existing sessions"),
)
_NOTES = """\
{programs}
Imports the last 7 days first, then older days, newest first. Ctrl-C keeps what is imported; run it
again to continue. `lore uninstall` removes the hooks. Nothing leaves this machine.
Exit code: 0 done, 1 nothing found, 3 some files or lines could not be read (they are listed),
130 stopped by Ctrl-C.
"""
_NEXT = """
Now try:
  lore sessions --all
      one line per session: what was delivered, which checks passed, what it cost
  lore status --watch
      who needs you, who is working, who is silent
  lore costs --by day
      costs per day, in tokens and dollars"""


class ProgramFiles(NamedTuple):
    """One coding agent: its executable and its recordings."""

    program: Program
    executable: str | None
    folders: tuple[str, ...]
    files: tuple[HistoryFile, ...]
    """Its recordings."""

    @property
    def is_there(self) -> bool:
        """Whether the program or recordings of it were found."""
        return self.executable is not None or bool(self.files)

    @property
    def title(self) -> str:
        """Its name, for people."""
        return self.program.title


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask before hooks are installed")
    parser.add_argument("--no-hooks", action="store_true", help="do not change any settings")
    programs = [f"{each.title} ({each.home}/{each.recordings[0]})" for each in registry.load_programs() if each.recordings]
    arguments.add_examples(parser, _EXAMPLES, _NOTES.format(programs=_wrap(f"Looks for {_join_names(programs, 'and')}.")))


def run(args: Namespace) -> int:
    """Look, import, ask, install, sum up."""
    skipped = summary.SkippedFiles()
    found = [find_program_files(program, on_skipped=skipped.add) for program in registry.load_programs() if program.recordings]
    there = [each for each in found if each.is_there]
    for each in there or found:
        terminal.print_line(_describe_program(each))
    missing = [each.title for each in found if not each.is_there]
    if there and missing:
        terminal.print_line(_wrap(f"Not found: {_join_names(missing, 'and')}."))
    if not there:
        return _print_nothing_found()
    if not (args.yes or _can_ask()):
        return _print_plan(there, hooks=not args.no_hooks)
    terminal.print_line("")
    with open_log.open_log(args) as log:
        rejected, is_brief_shown = _import_all(args, log, [file for each in there for file in each.files])
        skipped.print_rest()
        if not args.no_hooks:
            _install_missing(there, ask=not args.yes)
        if not (args.yes or args.no_hooks):
            _offer_more(there)
        if not is_brief_shown:
            _show_brief(args, log)
    terminal.print_line(_NEXT)
    return SOME_REJECTED if rejected or skipped.paths else OK


def find_program_files(program: Program, *, on_skipped: OnSkipped = lambda path, reason: None) -> ProgramFiles:
    """What this user has of a program."""
    from shutil import which

    from fleetlore.ingest import discovery, history

    folders = program.recording_folders()
    paths = discovery.expand_paths([folder for folder in folders if os.path.exists(folder)], on_skipped=on_skipped)
    files = tuple(history.inspect_file(program.name, path, status) for path in paths if (status := discovery.stat_file(path)))
    return ProgramFiles(program, which(program.command), tuple(folders), files)


def _describe_program(found: ProgramFiles) -> str:
    from fleetlore.ingest import history

    name = f"{found.title:<12} "
    if not found.is_there:
        return f"{name}not found: neither `{found.program.command}` nor {_shorten_path(found.folders[0])}"
    if not found.files:
        return f"{name}installed, but has recorded nothing yet in {_shorten_path(found.folders[0])}"
    names = {plain_name(file.path) for file in found.files}
    sessions = sum(f"{os.sep}subagents{os.sep}" not in each for each in names)
    counted = "a database" if names <= set(found.folders) else _count_noun(sessions, "session")
    amount = f"{counted}, {_format_bytes(sum(file.size for file in found.files))}"
    first, last = history.find_time_span(found.files)
    ago = _format_age((clock.now() - last).total_seconds())
    return f"{name}{amount}, the newest {ago}, {_format_days(first, last)}, in {_shorten_path(found.folders[0])}"


def _print_nothing_found() -> int:
    variables = _join_names([each.home_variable for each in registry.load_programs() if each.home_variable], "or")
    terminal.print_line(
        "\nNo coding agent has left anything here. Run this again after the first session of one; if they keep their files elsewhere,\n"
        f"set {variables}. `lore demo` shows what a fleet looks like, `lore import git .` reads a repository."
    )
    return 1


def _print_plan(found: Sequence[ProgramFiles], *, hooks: bool) -> int:
    terminal.print_line("\n`lore setup --yes` imports all of it" + (", and has them recorded from now on:" if hooks else "."))
    if hooks:
        for each in found:
            if (file := registry.find_hook_file(each.program)) is not None:
                terminal.print_line(f"  hooks in {_shorten_path(file.path)}, for {each.title}")
    terminal.print_line("There is no terminal to ask at, so nothing was changed.")
    return 0


def _import_all(args: Namespace, log: BlockingRecorder, files: Sequence[HistoryFile]) -> tuple[int, bool]:
    """Import every recording, the newest first. Answers how many lines were rejected, and whether the brief was shown before older ones."""
    if not files:
        return 0, False
    from fleetlore.ingest import discovery as ingest_discovery
    from fleetlore.ingest import history, recordings, retention
    from fleetlore.ingest.batch_writer import BatchWriter
    from fleetlore.ingest.prompt_history import import_prompt_history
    from fleetlore.log.admission import Admission

    settings, rejections = open_log.load_settings_for(args), summary.Rejections()
    admission = Admission(redactor=open_log.make_redactor(settings), anonymise=open_log.load_anonymiser(settings))
    deposit = BatchWriter(log, dialect="lore", admission=admission, on_rejected=rejections.add)
    change, oldest = ingest_discovery.make_machine_stamp(), retention.retention_cutoff(settings, clock.now())
    transcripts = recordings.open_history([(file.path, registry.find_recording(file.program)) for file in files], log)
    batches = history.make_batches(files, newest_first=oldest is None)
    order = ", the newest first" if len(batches) > 1 else ""
    terminal.print_line(f"Importing {_count_noun(len(files), 'file')}, {_format_days(*history.find_time_span(files))}{order}.")
    terminal.flush_output()
    done, is_brief_shown = 0, False
    try:
        with progress.show_file_progress("importing", len(files), sum(file.remaining_bytes for file in transcripts.values())) as bar:
            for batch in batches:
                bar.begin_day(f"{history.find_time_span(batch)[1].astimezone():%Y-%m-%d}", done)
                if new := [transcripts.pop(file.path) for file in batch if file.path in transcripts]:
                    recordings.import_transcripts(new, deposit, log, change=change, on_read=bar.add, not_before=oldest)
                done += len(batch)
                if done == len(batch) < len(files):
                    terminal.print_line(
                        f"{_format_days(*history.find_time_span(batch))}: {_count_noun(done, 'file')} imported. Older ones follow."
                    )
                    is_brief_shown = _show_brief(args, log)
                    terminal.print_line("")
                    terminal.flush_output()
            for program in registry.load_programs():
                import_prompt_history(program, deposit, log, change=change, not_before=oldest)
    except KeyboardInterrupt:
        terminal.print_error(
            f"\nlore: stopped; {done:,} of {_count_noun(len(files), 'file')} are imported. Run `lore setup` again to continue."
        )
        raise
    finally:
        rejections.print_rest()
    terminal.print_line(f"Imported {_count_noun(len(files), 'file')}: {_count_noun(deposit.tally.recorded, 'record')} new to your log.")
    return deposit.tally.rejected, is_brief_shown


def _install_missing(found: Sequence[ProgramFiles], *, ask: bool) -> None:
    """Install what is missing, after one yes for all of it."""
    files = [file for each in found if (file := registry.find_hook_file(each.program)) is not None]
    wanted = [file for file in files if not _is_installed(file)]
    for file in files:
        if file not in wanted:
            terminal.print_line(describe_result(file, changed=False))
    if not wanted:
        return
    names = " and ".join(f"{registry.require_program(file.program).title} ({_shorten_path(file.path)})" for file in wanted)
    if ask and not _ask_yes_no(f"Add hooks to {names}, so that they are recorded as they work? [Y/n] "):
        terminal.print_line(
            f"No hooks then. `lore install` adds them whenever you like; `lore watch {wanted[0].program}` reads along without."
        )
        return
    for file in wanted:
        try:
            terminal.print_line(describe_result(file, changed=install_hooks(file, project=False)))
        except ConfigError as error:
            terminal.print_error(f"lore: {error}")


def _offer_more(found: Sequence[ProgramFiles]) -> None:
    """Ask for what changes more than recording: approvals, notifications and the service. Each says what it changed and how to undo it."""
    for each in found:
        _offer_approvals(each.program)
    _offer_notifications()


def _offer_approvals(program: Program) -> None:
    file, approvals = registry.find_hook_file(program), program.load_approvals()
    if file is None or approvals is None or not _is_installed(file):
        return
    if approvals.event in file.asking_for_approval(approvals.event, wait=WAIT).find_installed_events():
        return
    question = f"Answer permission requests of {program.title} from the control room, your phone or `lore decide`, too? [y/N] "
    if _ask_yes_no(question, default=False):
        install_approvals(file, wait=WAIT)
        install_hooks(file, project=False)
        undo = f"`lore uninstall {program.name}`, then `lore install {program.name}` to keep recording"
        terminal.print_line(f"Changed {_shorten_path(file.path)}. Undo it with {undo}.")


def _offer_notifications() -> None:
    from fleetlore.cli import default_notifications, notify, service

    if not default_notifications.is_on():
        if not _ask_yes_no("Notify you on this desktop when an agent needs you, finishes, fails or loops? [y/N] ", default=False):
            return
        address = _ask_line("Also to a phone or a chat? Address of an ntfy topic, Slack or another webhook (empty: no): ")
        terminal.print_line(notify.describe_switched_on(default_notifications.turn_on(address, zone=notify.find_zone())))
    if service.is_running() or not service.can_install():
        return
    if _ask_yes_no("Run `lore up` in the background, so that they are sent? [y/N] ", default=False):
        terminal.print_line(service.install_service())


def _is_installed(file: HookFile) -> bool:
    try:
        return not file.find_missing_events()
    except (ConfigError, OSError):  # said when it is tried
        return False


def _show_brief(args: Namespace, log: BlockingRecorder) -> bool:
    """Print the brief of the newest day that has sessions; answers whether there is one."""
    from fleetlore.cli.progress import show_progress_if_long
    from fleetlore.operations.context import OperationContext, open_source
    from fleetlore.operations.periods import ReadBrief, make_brief
    from fleetlore.story.brief_formats import write_text

    with open_source(log, open_log.load_settings_for(args), progress=show_progress_if_long) as source:
        found = make_brief(OperationContext(source, actor=""), ReadBrief())
    if found.bill.sessions:
        terminal.print_line("")
        for line in write_text(found).splitlines():
            terminal.print_line(terminal.sanitise_text(line))
    return bool(found.bill.sessions)


def _can_ask() -> bool:
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout)


def _ask_yes_no(question: str, *, default: bool = True) -> bool:
    answer = _ask_line(question).lower()
    return default if not answer else answer in ("y", "yes")


def _ask_line(question: str) -> str:
    sys.stdout.write(question)
    terminal.flush_output()
    return sys.stdin.readline().strip()


def _shorten_path(path: str) -> str:
    """A path with `~` for the home directory."""
    home = os.path.join(os.path.expanduser("~"), "")
    return terminal.sanitise_text(f"~/{path.removeprefix(home)}" if path.startswith(home) else path)


def _format_bytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB" if count >= 1e6 else f"{max(1, round(count / 1e3)):,} kB"


def _count_noun(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _wrap(text: str) -> str:
    from textwrap import fill

    return fill(text, 100)


def _join_names(names: Sequence[str], word: str) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _format_days(first: datetime, last: datetime) -> str:
    """Two moments as days, in the user's time zone."""
    days = [f"{at.astimezone():%Y-%m-%d}" for at in (first, last)]
    return days[0] if days[0] == days[1] else " to ".join(days)


def _format_age(seconds: float) -> str:
    for length, unit in ((_DAY, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count:,} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
