"""Verifies a town on a NATS server (`lore verify`).

JetStream has a checksum per message and never returns a damaged one: it leaves it out, or drops everything behind it when it
starts. So a checksum of ours could not differ; what is missing is looked for instead.
"""

from __future__ import annotations

from fleetlore.log.base import to_position
from fleetlore.log.check_report import LogCheckReport, Problems, Progress, TownCheck
from fleetlore.log.nats.stream import NatsMessage, NatsStream
from fleetlore.log.nats.subjects import event_subject, events_subject, subject_kind, town_subjects

PAGE_MESSAGES = 1000


async def check_stream(stream: NatsStream, progress: Progress | None = None) -> LogCheckReport:
    """Read the whole stream. Others may go on writing. Changes nothing."""
    problems = Problems()
    check = _StreamCheck(stream, problems)
    state = (await stream.info()).state
    seen = bytearray((state.last_seq >> 3) + 1)  # a bit per message: those that the server returned
    subjects = town_subjects(stream.town)
    total = len(subjects) * state.last_seq
    for index, subject in enumerate(subjects):
        start, more = state.first_seq, True
        while more:
            rows, more = await stream.read_page(subject, start, PAGE_MESSAGES)
            for row in rows:
                if row.seq <= state.last_seq:
                    seen[row.seq >> 3] |= 1 << (row.seq & 7)
                if subject == events_subject(stream.town):
                    check.check_event(row)
            start = rows[-1].seq + 1 if rows else start
            more = more and bool(rows) and start <= state.last_seq  # an empty page would be asked for again and again
            if progress is not None:
                progress(index * state.last_seq + min(start, state.last_seq), total)
        if progress is not None:
            progress((index + 1) * state.last_seq, total)
    await check.check_missing(seen, state.last_seq)
    return LogCheckReport(check.events, 1, problems.list_messages(), check.newer, 0)


class _StreamCheck(TownCheck):
    """Checks the messages of one stream."""

    def __init__(self, stream: NatsStream, problems: Problems) -> None:
        super().__init__(stream.town, problems)
        self._stream = stream

    def check_event(self, row: NatsMessage) -> None:
        """Check that an event can be read, and that its id and subject are those of the message."""
        position = to_position(row.seq)
        event = self.check_record(row.raw, position, is_intact=True)
        if event is None or not row.id:  # without an id it was not written by us
            return
        if event.id != row.id:
            self.add_problem("the message's id is not the event's", position)
        if event_subject(self._stream.town, subject_kind(row.subject), row.raw) != row.subject or event.kind != subject_kind(row.subject):
            self.add_problem("the message's subject is not the event's", position)

    async def check_missing(self, seen: bytearray, last: int) -> None:
        """Find messages that the stream has and the server does not return, and what it could not even count."""
        state = (await self._stream.info(deleted_details=True)).state  # without details the server says nothing of what it lost
        if state.lost is not None:
            self.add_problem(f"the server dropped {state.lost.bytes:,} bytes of the stream when it started, because they were damaged")
        deleted = set(state.deleted)
        for seq in range(max(1, state.first_seq), last + 1):
            if not seen[seq >> 3] & (1 << (seq & 7)) and seq not in deleted:
                self.add_problem("the server has the message, but does not return it: it is damaged", to_position(seq))
