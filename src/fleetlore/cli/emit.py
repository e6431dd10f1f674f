"""`lore emit`: record one event from the arguments, or many from standard input. Must start fast, so it imports little."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from fleetlore import clock
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.errors import InvalidEvent, TooLarge
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.events.ids import find_uuid
from fleetlore.log.admission import is_traceparent

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_FIELDS = (
    ("actor", "NAME", "who did it (default: the agent, or your user name)"),
    ("agent", "NAME", "the agent that it belongs to"),
    ("parent", "NAME", "its parent agent"),
    ("child", "NAME", "its sub-agent"),
    ("task", "ID", "its task"),
    ("mission", "ID", "its mission"),
    ("goal", "ID", "its goal"),
    ("run", "ID", "its run"),
    ("cause", "UUID", "the event that led to it"),
    ("trace", "TRACEPARENT", "W3C traceparent (default: TRACEPARENT of the environment)"),
    ("old-state", "STATE", "for a transition: the state before"),
    ("new-state", "STATE", "for a transition: the state after"),
    ("text", "LINE", "one line for people"),
)
_EXAMPLES = (
    ('lore emit fleet.commit --agent ada --task t7 --text "parser fixed"', "one event; prints its position in the log"),
    ('lore emit tool.called --agent ada --data \'{"tool": "Bash"}\'', "with a payload; known kinds check theirs"),
    ("lore emit deploy.started --at 5m --json", "any dotted kind works; it happened five minutes ago; prints the event"),
    ("lore emit - < events.jsonl", "one event per line, as `lore events --json` prints them"),
)
_NOTES = """\
The same --id again stores nothing and answers with the first position, so a retry is safe.
Lines of standard input that are not events are stored as log.rejected; the rest is imported.
Exit code: 0 stored or already there, 1 failed, 2 refused (bad arguments; stored as log.rejected),
3 some lines rejected.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "kind", metavar="KIND", help="such as fleet.commit; or - to read events from standard input, one JSON object per line"
    )
    for name, metavar, help in _FIELDS:
        parser.add_argument(f"--{name}", metavar=metavar, help=help)
    parser.add_argument("--visibility", choices=("public", "private", "system"), default="public", help="who may see it")
    parser.add_argument("--at", metavar="WHEN", help="when it happened: a time, or 5m, 2h, 3d ago (default: now)")
    parser.add_argument("--id", metavar="UUID", help="its id (default: a new one)")
    parser.add_argument("--data", metavar="JSON", help="the kind's own payload, an object")
    arguments.add_json(parser, "print the stored event (for -: the counts) as JSON")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Store the event and print its position."""
    if args.kind == "-":
        from fleetlore.cli import emit_lines

        return emit_lines.emit_lines(args)
    with open_log.open_log(args, drain=False) as log:  # `emit` runs in loops and hooks: the next other command drains the spool
        try:
            event = parse_event(args)
            [position] = log.append([event])
        except (InvalidEvent, TooLarge) as error:
            log.append([_make_rejection(args, str(error))])
            raise
        if args.json:
            for stored in log.get([event.id or ""]):
                terminal.print_json(codec.encode_with_position(stored))
        else:
            terminal.print_line(position)
    return 0


def parse_event(args: Namespace) -> Event:
    """The event that the arguments describe."""
    at = None
    if args.at is not None:
        from fleetlore.cli import times

        at = times.parse_time(args.at, now=clock.now())
    fields: dict[str, Any] = {name.replace("-", "_"): getattr(args, name.replace("-", "_")) for name, _, _ in _FIELDS}
    if args.actor is None and args.agent is None:
        fields["actor"] = terminal.find_user_name()
    if args.trace is None and is_traceparent(inherited := os.environ.get("TRACEPARENT", "")):
        fields["trace"] = inherited  # coding agents pass it to the commands that they run
    id = clock.uuid7() if args.json and args.id is None else _parse_id(args.id)
    return Event(id=id, at=at, kind=args.kind, visibility=args.visibility, data=_parse_data(args.data), **fields)


def _make_rejection(args: Namespace, reason: str) -> Event:
    """A `log.rejected` event with the refused arguments, so that nothing is lost."""
    from fleetlore.ingest.batch_writer import make_rejection
    from fleetlore.ingest.lines import SourceLine

    given = {name: str(value) for name, value in vars(args).items() if value is not None and name not in ("log", "town", "json")}
    raw = msgspec.json.encode({name: value.encode(errors="replace").decode() for name, value in given.items()})
    [event] = make_rejection(SourceLine("arguments", 1, raw, 0, len(raw)), reason, dialect="emit", at=None).events
    return event


def _parse_id(text: str | None) -> str | None:
    if text is None:
        return None
    id = find_uuid(text)
    if id is None:
        raise InvalidEvent("--id", f"not a UUID: {text!r}; leave it out and the log gives one")
    return id


def _parse_data(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidEvent("--data", f"is not valid JSON ({error}); write it in single quotes, as in '{{\"issue\": 42}}'") from error
    if not isinstance(data, dict):
        raise InvalidEvent("--data", "a JSON object is needed, such as '{\"issue\": 42}'")
    return data
