"""Verifying a NATS stream: its progress, and a server that never ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from fleetlore.log.check_report import LogCheckReport
from fleetlore.log.nats.check import check_stream
from fleetlore.log.nats.stream import MessagePage, NatsMessage, NatsStream

LAST = 10


class Stream:
    """A stream of ten messages that are no events of ours; `stuck` answers each request with an empty page and a promise of more."""

    town = "default"

    def __init__(self, *, stuck: bool = False) -> None:
        self.stuck = stuck

    async def info(self, *, deleted_details: bool = False) -> Any:
        return SimpleNamespace(state=SimpleNamespace(first_seq=1, last_seq=LAST, lost=None, deleted=[]))

    async def read_page(self, subject: str, start: int, count: int) -> MessagePage:
        await asyncio.sleep(0)  # so that a timeout can end a loop without end
        rows = [NatsMessage(seq, "", "", b"{}") for seq in range(start, min(start + 4, LAST + 1))]
        return MessagePage([], more=True) if self.stuck else MessagePage(rows, more=start + 4 <= LAST)


def check(stream: Stream, seen: list[tuple[int, int]]) -> LogCheckReport:
    async def go() -> LogCheckReport:
        async with asyncio.timeout(5):
            return await check_stream(cast("NatsStream", stream), lambda done, total: seen.append((done, total)))

    return asyncio.run(go())


def test_progress_never_goes_back_and_ends_at_the_total() -> None:
    seen: list[tuple[int, int]] = []
    check(Stream(), seen)
    assert seen == sorted(seen)
    assert len({total for _, total in seen}) == 1
    assert seen[-1][0] == seen[-1][1]


def test_an_empty_page_that_promises_more_is_the_end() -> None:
    report = check(Stream(stuck=True), [])
    assert any("does not return it" in problem for problem in report.problems)
