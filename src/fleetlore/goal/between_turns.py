"""Memory work between turns: extract memories from the last turn, and consolidate them before the goal ends.

Called by `driver.py`; records one event for each attempt, also for a skipped one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fleetlore.errors import ModelError
from fleetlore.events.driver_types import DreamOutcome, SkipReason
from fleetlore.events.goal_plan import Memory
from fleetlore.goal.journal import GoalJournal
from fleetlore.goal.memory.dream import dream_if_due
from fleetlore.goal.memory.extraction import extract_memories, find_extraction_skip_reason
from fleetlore.goal.recorded_model import RecordedModel
from fleetlore.goal.resources import GoalResources, RunBlocking
from fleetlore.log.coordination import AsyncCoordination, Coordination

EXTRACTION_WAIT_SECONDS = 20.0
"""How long the next turn waits for an extraction; a slower one continues in the background."""


class _Extraction:
    """A running extraction."""

    def __init__(self, turn: int, task: asyncio.Task[int], started_at: float) -> None:
        self.turn, self.task, self.started_at = turn, task, started_at


class MemoryTasks:
    """Runs the memory work that the goal's plan asks for."""

    def __init__(self, journal: GoalJournal, resources: GoalResources, coordination: Coordination, run_blocking: RunBlocking) -> None:
        self._journal, self._resources, self._coordination, self._run_blocking = journal, resources, coordination, run_blocking
        self._extraction: _Extraction | None = None

    @property
    def _memory(self) -> Memory | None:
        plan = self._journal.state.plan
        return None if plan is None else plan.memory

    async def extract_memories(self) -> None:
        """Extract memories from the newest turn, or record why that is skipped."""
        if self._extraction is not None and self._extraction.task.done():
            await self._record_extraction(self._extraction)
        reason = await self._find_skip_reason()
        if reason is not None:
            await self._journal.append([self._journal.event_factory.extraction_skipped(reason)])
            return
        self._extraction = self._start_extraction()
        await self._wait_for_extraction(self._extraction)
        if self._extraction.task.done():
            await self._record_extraction(self._extraction)
        else:
            await self._journal.append([self._journal.event_factory.extraction_skipped("in_progress")])

    async def _wait_for_extraction(self, extraction: _Extraction) -> None:
        await self._journal.wait_at_most(asyncio.wait([extraction.task]), EXTRACTION_WAIT_SECONDS)

    async def _find_skip_reason(self) -> SkipReason | None:
        state, folder = self._journal.state, self._resources.memory
        memory_state = state.remembering
        reason = find_extraction_skip_reason(
            self._memory if folder is not None and self._resources.thinker is not None else None,
            turn=state.turn,
            last_turn=memory_state.last_turn or None,
            is_running=self._extraction is not None,
            failures=memory_state.failures,
            breaker_opened_turn=memory_state.opened_turn,
        )
        if reason is not None or folder is None:
            return reason
        turn_started_at = state.turns[-1].at or self._journal.now()
        has_writes = await self._run_blocking(folder.has_writes_since, turn_started_at)
        return "main_agent_wrote" if has_writes else None

    def _start_extraction(self) -> _Extraction:
        state, resources = self._journal.state, self._resources
        assert resources.thinker is not None
        assert resources.memory is not None
        last_turn = state.turns[-1]
        model = RecordedModel(self._journal, resources.thinker, purpose="memory")
        task = self._journal.spawn(
            extract_memories(
                model,
                resources.memory,
                words=state.words,
                diff=last_turn.diff,
                turn=last_turn.number,
                verdict=state.verdict,
                goal=state.id,
                event=last_turn.id,
                now=self._journal.now,
            )
        )
        return _Extraction(last_turn.number, task, self._journal.ticks())

    async def _record_extraction(self, extraction: _Extraction) -> None:
        self._extraction = None
        duration_ms = int((self._journal.ticks() - extraction.started_at) * 1000)
        try:
            saved = await extraction.task
        except (ModelError, OSError) as error:
            event = self._journal.event_factory.extraction_skipped("circuit_breaker_open", failed=True, why=str(error))
        else:
            event = self._journal.event_factory.memories_extracted(extraction.turn, saved=saved, duration_ms=duration_ms)
        await self._journal.append([event])

    async def run_dream(self) -> None:
        """Consolidate memories if that is due, and record the outcome."""
        if self._extraction is not None:
            await self._wait_for_extraction(self._extraction)
            await (self._record_extraction(self._extraction) if self._extraction.task.done() else self.close())
        errors: list[str] = []
        outcome = await self._dream_if_due(errors.append)
        await self._journal.append([self._journal.event_factory.dream_ended(outcome, why="; ".join(errors))])

    async def close(self) -> None:
        """Cancel an extraction that is still running."""
        if self._extraction is not None:
            self._extraction.task.cancel()
            await asyncio.gather(self._extraction.task, return_exceptions=True)
            self._extraction = None

    async def _dream_if_due(self, on_error: Callable[[str], object]) -> DreamOutcome:
        resources, journal, leases = self._resources, self._journal, AsyncCoordination(self._coordination)
        if resources.thinker is None or resources.memory is None:
            return "skipped_disabled"
        model = RecordedModel(journal, resources.thinker, purpose="dream")
        return await dream_if_due(
            self._memory, model, resources.memory, leases, session=journal.state.id, now=journal.now, on_error=on_error
        )
