"""`lore import PROGRAM`, `forge`, `otlp`: what programs recorded for themselves."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from fleetlore import clock
from fleetlore.cli import open_log, progress, summary
from fleetlore.errors import Invalid
from fleetlore.ingest import discovery, recognise, recordings, retention
from fleetlore.ingest.database_file import open_transcript
from fleetlore.ingest.files import STDIN
from fleetlore.ingest.prompt_history import import_prompt_history
from fleetlore.ingest.transcript_file import TranscriptFile
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.dialects.recording import Recording
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.programs.base import Program
    from fleetlore.settings import Settings


def import_recordings(args: Namespace, program: str) -> int:
    """Find the files, then merge and store their events."""
    settings = open_log.load_settings_for(args)
    skipped = summary.SkippedFiles()
    with _find_files(args.files, program, skipped) as paths:
        chosen = _choose_files(paths, program, skipped, named=args.files)
        with (
            open_log.open_log(args, settings=settings) as log,
            summary.import_with_summary(log, chosen.recording.name, settings, json=args.json, skipped=skipped) as ending,
        ):
            store_recordings(chosen, ending, log, settings, is_at_home=not args.files)
    return ending.code


class ChosenFiles(NamedTuple):
    """What is to be imported for one reader."""

    program: Program | None
    recording: Recording
    transcripts: Sequence[TranscriptFile]
    histories: Sequence[str]
    """Files with nothing but prompts."""


def choose_recognised(paths: Sequence[str], reader: str) -> ChosenFiles:
    """Files that were recognised as those of a reader."""
    return _choose_files(paths, reader, None, named=())


def _choose_files(paths: Sequence[str], reader: str, skipped: summary.SkippedFiles | None, *, named: Sequence[str]) -> ChosenFiles:
    known, recording = registry.find_program(reader), registry.find_recording(reader)
    histories = [path for path in paths if known is not None and _is_prompt_history(path, known)]
    others = [path for path in paths if path not in histories]
    if known is not None and skipped is not None:
        others = [path for path in others if not _is_other_format(path, reader, skipped, is_own=not named)]
    return ChosenFiles(known, recording, list(_open_files(others, recording, named=named)), histories)


def store_recordings(
    chosen: ChosenFiles, ending: summary.ImportSummary, log: BlockingRecorder, settings: Settings, *, is_at_home: bool = False
) -> None:
    """Import the files; `is_at_home` if they are those that the program keeps on this machine."""
    change = discovery.make_machine_stamp() if is_at_home else None
    not_before = retention.retention_cutoff(settings, clock.now())
    with progress.show_progress("importing", bytes=True) as show:
        on_read = progress.count_bytes(show, sum(file.size for file in chosen.transcripts))
        recordings.import_transcripts(chosen.transcripts, ending.deposit, log, change=change, not_before=not_before, on_read=on_read)
    if chosen.program is not None:
        for path in (None,) if is_at_home else chosen.histories:
            import_prompt_history(chosen.program, ending.deposit, log, change=change, not_before=not_before, path=path)


def _open_files(paths: Sequence[str], recording: Recording, *, named: Sequence[str]) -> Iterator[TranscriptFile]:
    """The files, open; one that was in a folder a moment ago and is gone is left out, one that was named is missed."""
    needed = set(map(os.path.abspath, named))
    for path in paths:
        try:
            yield open_transcript(path, recording)
        except FileNotFoundError:
            if path in needed:
                raise


def _is_prompt_history(path: str, program: Program) -> bool:
    history = program.load_prompt_history()
    return history is not None and os.path.basename(path) == history.file


def _is_other_format(path: str, program: str, skipped: summary.SkippedFiles, *, is_own: bool) -> bool:
    """Whether a file was written by another program; if so, prints by which."""
    reason = recognise.find_mismatch(path, program, is_own=is_own)
    if reason is not None:
        skipped.add(path, reason)
    return reason is not None


@contextmanager
def _find_files(given: Sequence[str], program: str, skipped: summary.SkippedFiles) -> Iterator[list[str]]:
    """The files that are meant: standard input as a file, too."""
    with TemporaryDirectory(prefix="fleetlore-") as folder:
        named = [copy_if_stream(path, folder) for path in given] if given else _at_home(program)
        yield discovery.expand_paths(named, on_skipped=skipped.add)


def copy_if_stream(path: str, folder: str) -> str:
    """The path; of what can be read only once, that of a copy."""
    if path != STDIN and (os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)):
        return path
    copy = os.path.join(folder, "stdin" if path == STDIN else os.path.basename(path))
    with ExitStack() as stack:
        source = sys.stdin.buffer if path == STDIN else stack.enter_context(open(path, "rb"))
        shutil.copyfileobj(source, stack.enter_context(open(copy, "wb")))
    return copy


def _at_home(program: str) -> list[str]:
    known = registry.find_program(program)
    if known is None:
        raise Invalid(f"name the files: `lore import {program} FILE…`; - is standard input")
    folders = known.recording_folders()
    found = [folder for folder in folders if os.path.exists(folder)]
    if not found:
        raise Invalid(
            f"{program} keeps nothing here: there is no {' and no '.join(folders)}; name the files, as in `lore import {program} FILE…`"
        )
    return found
