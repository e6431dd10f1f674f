"""The summary of an import: rejected lines, skipped files and counts, the same for every command that imports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleetlore.cli import open_log, terminal
from fleetlore.cli.main import OK, SOME_REJECTED
from fleetlore.redact import Redactor

if TYPE_CHECKING:
    from fleetlore.ingest.batch_writer import BatchWriter, ImportTally
    from fleetlore.ingest.lines import SourceLine
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings

MOST_SHOWN = 10
MOST_FILES_SHOWN = 100


class SkippedFiles:
    """Says which files are not read, and why, each once."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        """Path → reason."""

    def add(self, path: str, reason: str) -> None:
        """Print one more, up to a limit."""
        if path in self.paths:
            return
        self.paths[path] = reason
        if len(self.paths) <= MOST_FILES_SHOWN:
            terminal.print_error(f"lore: {path}: {reason}")

    def print_rest(self) -> None:
        """Print how many were not shown."""
        if len(self.paths) > MOST_FILES_SHOWN:
            terminal.print_error(f"lore: … and {len(self.paths) - MOST_FILES_SHOWN:,} more files that are not read")


class Rejections:
    """Says why lines were rejected; the first few at once, the others as a number at the end."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, line: SourceLine, reason: str) -> None:
        """Print one more, up to a limit."""
        self._count += 1
        if self._count <= MOST_SHOWN:
            # A file of which not even a line could be read has no line to name.
            where = f"{line.path or line.source}, line {line.n}" if line.size else line.path or line.source
            terminal.print_error(f"lore: {where}: {Redactor().redact_value(reason)[0]}")

    def print_rest(self) -> None:
        """Print how many were not shown."""
        if self._count > MOST_SHOWN:
            terminal.print_error(f"lore: … and {self._count - MOST_SHOWN:,} more; `lore events --kind log.rejected --all` shows them")


def print_summary(tally: ImportTally, *, json: bool, verb: str = "stored", skipped: int = 0, subject: str = "") -> int:
    """The counts, and the exit code that they call for; `skipped` files were not read. `subject` says of what they are."""
    if json:
        terminal.print_value(tally)
    parts = [f"{verb} {tally.recorded:,}", f"already there {tally.already_there:,}", f"rejected {tally.rejected:,}"]
    if tally.folded:
        parts.insert(2, f"nothing new in {tally.folded:,}")
    if tally.forgotten:
        parts.append(f"erased earlier and left out {tally.forgotten:,}")
    if skipped:
        parts.append(f"{skipped:,} {'file' if skipped == 1 else 'files'} not read")
    terminal.print_error((f"{subject}: " if subject else "") + " · ".join(parts))
    return SOME_REJECTED if tally.rejected or skipped else OK


class ImportSummary:
    """The writer of an import and the exit code of its command."""

    def __init__(self, deposit: BatchWriter) -> None:
        self.deposit, self.code = deposit, OK


@contextmanager
def import_with_summary(
    log: BlockingRecorder, dialect: str, settings: Settings, *, json: bool, skipped: SkippedFiles | None = None, subject: str = ""
) -> Iterator[ImportSummary]:
    """Import within the block; at its end the summary is printed and the exit code is set."""
    from fleetlore.ingest.batch_writer import BatchWriter
    from fleetlore.log.admission import Admission

    rejections = Rejections()
    admission = Admission(redactor=open_log.make_redactor(settings), anonymise=open_log.load_anonymiser(settings))
    ending = ImportSummary(BatchWriter(log, dialect=dialect, admission=admission, on_rejected=rejections.add))
    yield ending
    open_log.apply_retention(log, settings)
    rejections.print_rest()
    if skipped is not None:
        skipped.print_rest()
    not_read = len(skipped.paths) if skipped else 0
    ending.code = print_summary(ending.deposit.tally, json=json, verb="imported", skipped=not_read, subject=subject)
