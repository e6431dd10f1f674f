"""Check the transcript reader and the tool calls of a coding agent."""

from __future__ import annotations

from collections.abc import Iterable

from fleetlore.dialects.recording import Recording, RecordReader
from fleetlore.errors import DialectError, FleetloreError
from fleetlore.events.envelope import Event, Origin
from fleetlore.log.admission import Admission
from fleetlore.programs.base import Program
from fleetlore.testing.dialects import MALFORMED_RECORDS, damage_samples


def check_program(program: Program, samples: Iterable[bytes | str]) -> list[Event]:
    """Read the records of one transcript; returns their events. `AssertionError` says what is wrong.

    Every sample is read, and its events can be stored. A reader that is saved and opened again after each record makes the same events.
    What is cut, bent or no record at all makes events or a `DialectError`, nothing else.
    """
    raws = [sample.encode() if isinstance(sample, str) else sample for sample in samples]
    assert raws, "give it the records of a transcript"
    recording = program.load_recording()
    assert recording.name == program.dialect, f"the recording is called {recording.name!r}; it has to be {program.dialect!r}"
    events = _read_whole(recording, raws)
    assert events == _read_in_pieces(recording, raws), f"{program.name}: a reader that is saved and opened again makes other events"
    for event in events:
        assert event.origin == Origin(dialect=program.dialect), f"{event.kind}: its origin is not Origin(dialect={program.dialect!r})"
        try:
            Admission().admit(event)
        except FleetloreError as error:
            raise AssertionError(f"no log would take the {event.kind}: {error}") from error
    for raw in (*MALFORMED_RECORDS, *damage_samples(raws)):
        _read_or_refuse(recording.open(None), raw)
    _check_tool_calls(program)
    return events


def _read_whole(recording: Recording, raws: list[bytes]) -> list[Event]:
    reader = recording.open(None)
    return [*(event for raw in raws for event in reader.read(raw)), *reader.end()]


def _read_in_pieces(recording: Recording, raws: list[bytes]) -> list[Event]:
    events, reader = list[Event](), recording.open(None)
    for raw in raws:
        events += reader.read(raw)
        reader = recording.open(reader.save())
    return [*events, *reader.end()]


def _read_or_refuse(reader: RecordReader, raw: bytes) -> None:
    try:
        reader.read(raw)
    except DialectError:
        return
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} ({error}), not DialectError, on {raw[:200]!r}") from error


def _check_tool_calls(program: Program) -> None:
    calls = program.load_tool_calls()
    if calls is None:
        return
    odd: tuple[object, ...] = (None, "", [], {}, {"path": 5}, {"command": None})
    for given in odd:
        call = calls.read_input("bash", given)
        if call is not None:
            calls.read_output(call, "", {})
