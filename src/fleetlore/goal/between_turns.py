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
        self._journal, self._resources, self._shared = book, crew, shared
        self._extraction: _Extraction | None = None

    @property
    def _memory(self) -> Memory | None:
        plan = self._journal.state.plan
        return None if plan is None else plan.memory

    async def extract_memories(self) -> None:
        """See to the memories of the newest turn: written down, or said why not. One fact each time."""
        if self._extraction is not None and self._extraction.task.done():
            await self._record_extraction(self._extraction)
        reason = await self._find_skip_reason()
        if reason is not None:
            await self._journal.append([self._journal.event_factory.extraction_skipped(reason)])
            return
        self._extraction = self._start_extraction()
        await asyncio.wait([self._extraction.task], timeout=EXTRACTION_WAIT_SECONDS)
        if self._extraction.task.done():
            await self._record_extraction(self._extraction)
        else:
            await self._journal.append([self._journal.event_factory.extraction_skipped("in_progress")])

    async def _find_skip_reason(self) -> SkipReason | None:
        state, folder = self._journal.state, self._resources.memory
        kept = state.remembering
        reason = find_extraction_skip_reason(
            self._memory if folder is not None and self._resources.thinker is not None else None,
            turn=state.turn,
            last_turn=kept.last_turn or None,
            is_running=self._extraction is not None,
            failures=kept.failures,
            breaker_opened_turn=kept.opened_turn,
        )
        if reason is not None or folder is None:
            return reason
        wrote = await asyncio.to_thread(folder.has_writes_since, _turn_started_at(self._journal))
        return "main_agent_wrote" if wrote else None

    def _start_extraction(self) -> _Extraction:
        state, crew = self._journal.state, self._resources
        assert crew.thinker is not None
        assert crew.memory is not None
        last = state.turns[-1]
        mind = RecordedModel(self._journal, crew.thinker, purpose="memory")
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
                now=self._journal.now,
            )
        )
        return _Extraction(last.number, task, asyncio.get_running_loop().time())

    async def _record_extraction(self, question: _Extraction) -> None:
        self._extraction = None
        took = int((asyncio.get_running_loop().time() - question.began) * 1000)
        try:
            saved = await question.task
        except (MindError, OSError) as error:
            event = self._journal.event_factory.extraction_skipped("circuit_breaker_open", failed=True, why=str(error))
        else:
            event = self._journal.event_factory.memories_extracted(question.turn, saved=saved, duration_ms=took)
        await self._journal.append([event])

    async def run_dream(self) -> None:
        """Put memories in order, if it is time for that; one fact each time."""
        if self._extraction is not None:
            await asyncio.wait([self._extraction.task], timeout=EXTRACTION_WAIT_SECONDS)
            await (self._record_extraction(self._extraction) if self._extraction.task.done() else self.close())
        complaints: list[str] = []
        outcome = await self._dream_if_due(complaints.append)
        await self._journal.append([self._journal.event_factory.dream_ended(outcome, why="; ".join(complaints))])

    async def close(self) -> None:
        """Call off a question that is still out."""
        if self._extraction is not None:
            self._extraction.task.cancel()
            await asyncio.gather(self._extraction.task, return_exceptions=True)
            self._extraction = None

    async def _dream_if_due(self, complain: Callable[[str], object]) -> DreamOutcome:
        crew, book, leases = self._resources, self._journal, AsyncCoordination(self._shared)
        if crew.thinker is None or crew.memory is None:
            return "skipped_disabled"
        mind = RecordedModel(book, crew.thinker, purpose="dream")
        return await dream_if_due(self._memory, mind, crew.memory, leases, session=book.state.id, now=book.now, complain=complain)


def _turn_started_at(book: GoalJournal) -> datetime:
    last = book.state.turns[-1]
    return last.at or book.now()
