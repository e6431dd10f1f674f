"""What is done between turns: something of the last one may be worth keeping, and memories may need to be put in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from fleetlore.errors import MindError
from fleetlore.events.driver_types import DreamOutcome, SkipReason
from fleetlore.events.goal_plan import Memory
from fleetlore.goal.journal import GoalJournal
from fleetlore.goal.memory.dream import dream_if_due
from fleetlore.goal.memory.extraction import extract_memories, find_extraction_skip_reason
from fleetlore.goal.recorded_model import RecordedModel
from fleetlore.goal.resources import GoalResources
from fleetlore.log.coordination import AsyncCoordination, Coordination

EXTRACTION_WAIT_SECONDS = 20.0
"""Seconds that the next turn waits for memories of the last one; a slower mind goes on beside it."""


class _Extraction:
    """One extraction that was begun."""

    def __init__(self, turn: int, task: asyncio.Task[int], began: float) -> None:
        self.turn, self.task, self.began = turn, task, began


class MemoryTasks:
    """Memory, as the goal's plan wants it."""

    def __init__(self, book: GoalJournal, crew: GoalResources, shared: Coordination) -> None:
        self._book, self._crew, self._shared = book, crew, shared
        self._out: _Extraction | None = None

    @property
    def _memory(self) -> Memory | None:
        plan = self._book.state.plan
        return None if plan is None else plan.memory

    async def remember(self) -> None:
        """See to the memories of the newest turn: written down, or said why not. One fact each time."""
        if self._out is not None and self._out.task.done():
            await self._tell(self._out)
        reason = await self._why_not()
        if reason is not None:
            await self._book.append([self._book.teller.no_memories(reason)])
            return
        self._out = self._begin()
        await asyncio.wait([self._out.task], timeout=EXTRACTION_WAIT_SECONDS)
        if self._out.task.done():
            await self._tell(self._out)
        else:
            await self._book.append([self._book.teller.no_memories("in_progress")])

    async def _why_not(self) -> SkipReason | None:
        state, folder = self._book.state, self._crew.memory
        kept = state.remembering
        reason = find_extraction_skip_reason(
            self._memory if folder is not None and self._crew.thinker is not None else None,
            turn=state.turn,
            last_turn=kept.last_turn or None,
            is_running=self._out is not None,
            failures=kept.failures,
            breaker_opened_turn=kept.opened_turn,
        )
        if reason is not None or folder is None:
            return reason
        wrote = await asyncio.to_thread(folder.written_since, _turn_started_at(self._book))
        return "main_agent_wrote" if wrote else None

    def _begin(self) -> _Extraction:
        state, crew = self._book.state, self._crew
        assert crew.thinker is not None
        assert crew.memory is not None
        last = state.turns[-1]
        mind = RecordedModel(self._book, crew.thinker, purpose="memory")
        task = asyncio.create_task(
            extract_memories(
                mind,
                crew.memory,
                words=state.words,
                diff=last.diff,
                turn=last.number,
                verdict=state.verdict,
                goal=state.id,
                event=last.id,
                now=self._book.now,
            )
        )
        return _Extraction(last.number, task, asyncio.get_running_loop().time())

    async def _tell(self, question: _Extraction) -> None:
        self._out = None
        took = int((asyncio.get_running_loop().time() - question.began) * 1000)
        try:
            saved = await question.task
        except (MindError, OSError) as error:
            event = self._book.teller.no_memories("circuit_breaker_open", failed=True, why=str(error))
        else:
            event = self._book.teller.memories(question.turn, saved=saved, duration_ms=took)
        await self._book.append([event])

    async def dream(self) -> None:
        """Put memories in order, if it is time for that; one fact each time."""
        if self._out is not None:
            await asyncio.wait([self._out.task], timeout=EXTRACTION_WAIT_SECONDS)
            await (self._tell(self._out) if self._out.task.done() else self.close())
        complaints: list[str] = []
        outcome = await self._dreamt(complaints.append)
        await self._book.append([self._book.teller.dreamt(outcome, why="; ".join(complaints))])

    async def close(self) -> None:
        """Call off a question that is still out."""
        if self._out is not None:
            self._out.task.cancel()
            await asyncio.gather(self._out.task, return_exceptions=True)
            self._out = None

    async def _dreamt(self, complain: Callable[[str], object]) -> DreamOutcome:
        crew, book, leases = self._crew, self._book, AsyncCoordination(self._shared)
        if crew.thinker is None or crew.memory is None:
            return "skipped_disabled"
        mind = RecordedModel(book, crew.thinker, purpose="dream")
        return await dream_if_due(self._memory, mind, crew.memory, leases, session=book.state.id, now=book.now, complain=complain)


def _turn_started_at(book: GoalJournal) -> datetime:
    last = book.state.turns[-1]
    return last.at or book.now()
