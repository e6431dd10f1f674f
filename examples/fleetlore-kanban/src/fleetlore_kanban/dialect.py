"""`kanban`: a board's export, one JSON object a line.

{"when": "2026-03-02T09:00:00Z", "who": "ada", "card": "K-12", "did": "moved", "column": "doing", "note": "", "tags": ["ui"]}
"""

from fleetlore.dialects.base import Dialect
from fleetlore.dialects.fields import as_name, as_text, need_text, need_time, without_none, write_time
from fleetlore.dialects.wire import PYTHON, Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event, Origin

NAME = "kanban"
ACTIONS = ("taken", "moved", "blocked", "unblocked", "finished")


def read(record: Record) -> Event:
    """What a record tells. What no field of the event holds (here: the tags) is kept by the dialect's base."""
    at, who, card, did = need_time(record, "when"), need_text(record, "who"), need_text(record, "card"), need_text(record, "did")
    if did not in ACTIONS:
        raise DialectError("$.did", f"{did[:40]!r} is none of {', '.join(ACTIONS)}")
    return Event(
        at=at,
        kind=f"kanban.card_{did}",
        actor=as_name(who) or NAME,
        agent=as_name(who),
        task=as_name(card),
        text=as_text(record.get("note")),
        data=without_none(column=as_text(record.get("column"))),
        origin=Origin(dialect=NAME),
    )


def write(event: Event, town: str) -> Record | None:
    """The record of an event of the board; of any other, none."""
    did = event.kind.removeprefix("kanban.card_")
    if did not in ACTIONS or event.at is None:
        return None
    # The usual way. Where a record was written otherwise, the base has kept how, and puts it back.
    record = {
        "when": write_time(event.at).replace(".000000Z", "Z"),
        "who": event.agent or "",
        "card": event.task or "",
        "did": did,
        "column": event.data.get("column"),
        "note": event.text,
    }
    return {key: value for key, value in record.items() if value is not None}


DIALECT = Dialect(name=NAME, style=PYTHON, read=read, write=write)
