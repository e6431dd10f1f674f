"""Between goals, a mind puts an agent's memories in order: what says one thing is merged, what is out of date rewritten, the rest let be.

Gates come first, the cheapest first: switched off, nothing there, too early, too few goals since, somebody else at it. Then there is one
question, and its answer is carried out whole or not at all. A dream that fails changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Protocol, TypeAlias

from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import LeaseLost, LogError, MindError, MindTimeout
from fleetlore.events.driver_types import DreamOutcome
from fleetlore.events.goal_plan import Memory
from fleetlore.minds.base import Ask, Mind
from fleetlore.runtime.driver.memory import dream_changes
from fleetlore.runtime.driver.memory.dream_changes import SCHEMA, SYSTEM, Escape
from fleetlore.runtime.driver.memory.files import Files
from fleetlore.runtime.driver.memory.folder import MemoryFolder
from fleetlore.runtime.driver.memory.journal import Changes, Overtaken
from fleetlore.state.shared import Lease

ROLE = "dream"
"""What a script of answers calls whoever asks this."""
_DIARY = ".dreams.json"
_HOUR = timedelta(hours=1)
_MOST_SESSIONS = 1000
_MOST_TOKENS = 8000
_MARGIN = 60.0
"""Seconds that the lease outlasts the question."""

Complain: TypeAlias = Callable[[str], object]
"""Told why a dream came to nothing."""


def _nobody(reason: str) -> None:
    """Listens to no complaint."""


class Leases(Protocol):
    """Where the right to dream is taken: `state.shared.AsyncShared`."""

    async def take(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Take it, or `None` while another has it."""

    async def renew(self, lease: Lease, seconds: float | None = None) -> Lease:
        """Keep it, or `LeaseLost`."""

    async def release(self, lease: Lease) -> None:
        """Give it back."""


class Diary(Struct, frozen=True, kw_only=True):
    """When there was a dream, and which goals were pursued since."""

    last: datetime | None = None
    sessions: tuple[str, ...] = ()


def why_not_dream(memory: Memory | None, *, has_notes: bool, diary: Diary, now: datetime) -> DreamOutcome | None:
    """What speaks against a dream now, or `None`; pure. A dream in the future is none: a clock was wrong."""
    if memory is None or not memory.dream:
        return "skipped_disabled"
    if not memory.enabled or not has_notes:
        return "skipped_auto_memory_disabled"
    if diary.last is not None and 0 <= (now - diary.last) / _HOUR < memory.dream_after_hours:
        return "skipped_time_gate"
    return "skipped_session_gate" if len(diary.sessions) < min(memory.dream_after_sessions, _MOST_SESSIONS) else None


async def dream_if_due(
    memory: Memory | None,
    mind: Mind,
    folder: MemoryFolder,
    leases: Leases,
    *,
    session: str,
    now: clock.Clock = clock.now,
    complain: Complain = _nobody,
) -> DreamOutcome:
    """Count a goal that has ended, and dream if nothing speaks against it. Raises nothing but its cancellation."""
    if memory is None or not memory.dream or not memory.enabled:
        return why_not_dream(memory, has_notes=False, diary=Diary(), now=now()) or "skipped_disabled"
    try:
        await asyncio.to_thread(count_session, folder, session)
        reason = await _why_not(memory, folder, now)
        return reason or await _dream_alone(memory, mind, folder, leases, session=session, now=now, complain=complain)
    except (LogError, OSError) as error:
        complain(str(error))
        return "errored"


async def _dream_alone(
    memory: Memory, mind: Mind, folder: MemoryFolder, leases: Leases, *, session: str, now: clock.Clock, complain: Complain
) -> DreamOutcome:
    name = f"dream:{sha256(folder.path.encode(errors='replace')).hexdigest()[:16]}"
    lease = await leases.take(name, session, memory.dream_timeout + _MARGIN)
    if lease is None:
        return "lock_blocked"
    try:
        reason = await _why_not(memory, folder, now)  # somebody may have had one before we got in
        return reason or await dream(mind, folder, memory.dream_timeout, now=now, may=lambda: _still(leases, lease), complain=complain)
    finally:
        with suppress(LogError):
            await leases.release(lease)


async def _still(leases: Leases, lease: Lease) -> bool:
    try:
        await leases.renew(lease)
    except LeaseLost:
        return False
    return True


async def _why_not(memory: Memory, folder: MemoryFolder, now: clock.Clock) -> DreamOutcome | None:
    notes, diary = await asyncio.to_thread(lambda: (folder.notes(), diary_of(folder)))
    return why_not_dream(memory, has_notes=bool(notes), diary=diary, now=now())


async def _always() -> bool:
    return True


async def dream(
    mind: Mind,
    folder: MemoryFolder,
    timeout: float,  # noqa: ASYNC109  a time-out is one of the outcomes
    *,
    now: clock.Clock = clock.now,
    may: Callable[[], Awaitable[bool]] = _always,
    complain: Complain = _nobody,
) -> DreamOutcome:
    """One question about all memories, and its answer carried out. `may` is asked once more before anything is changed."""
    try:
        shown = await asyncio.to_thread(lambda: dream_changes.shown_of(folder.notes()))
        data = await _asked(mind, dream_changes.question(shown), timeout)
        taken = await asyncio.to_thread(folder.names)
        changes = dream_changes.changes_of(shown, data, taken=taken, now=now())
        if not await may():
            return "lock_blocked"
        await asyncio.to_thread(_carry_out, folder, changes, now())
    except Escape as error:
        complain(str(error))
        return "escape_audit"
    except MindTimeout as error:
        complain(str(error))
        return "timed_out"
    except (MindError, OSError, Overtaken, LogError) as error:
        complain(str(error))
        return "errored"
    return "completed"


async def _asked(mind: Mind, prompt: str, seconds: float) -> dict[str, object] | None:
    ask = Ask(prompt=prompt, system=SYSTEM, schema=SCHEMA, max_tokens=_MOST_TOKENS, timeout=seconds, role=ROLE)
    try:
        async with asyncio.timeout(seconds):
            return (await mind.reply(ask)).data
    except TimeoutError:
        raise MindTimeout(f"{mind.name}: no answer within {seconds:g} s", waiting_for="the whole answer") from None


def _carry_out(folder: MemoryFolder, changes: Changes, now: datetime) -> None:
    if changes.writes or changes.removals:
        folder.change(changes)
    with suppress(OSError):  # the dream stands; the next may then come early
        _keep(folder, lambda _: Diary(last=now))


# --- the diary


def diary_of(folder: MemoryFolder) -> Diary:
    """What is known of dreams in this folder; a file that somebody broke says nothing."""
    return _diary(folder.read(_DIARY))


def count_session(folder: MemoryFolder, session: str) -> None:
    """Note that a goal was pursued; the same one counts once."""
    if session not in diary_of(folder).sessions:
        _keep(folder, lambda diary: Diary(last=diary.last, sessions=(*diary.sessions, session)[-_MOST_SESSIONS:]))


def _keep(folder: MemoryFolder, change: Callable[[Diary], Diary]) -> None:
    with folder.writing() as files:
        _write(files, change(_diary(folder.read(_DIARY))))


def _write(files: Files, diary: Diary) -> None:
    last = diary.last.astimezone(UTC).isoformat() if diary.last else None
    files.write(_DIARY, json.dumps({"last": last, "sessions": diary.sessions}, indent=1).encode())


def _diary(raw: bytes | None) -> Diary:
    try:
        found = json.loads(raw or b"{}")
        last = datetime.fromisoformat(found["last"]) if found.get("last") else None
        sessions = tuple(one for one in found.get("sessions", ()) if isinstance(one, str))
        return Diary(last=last.astimezone(UTC) if last else None, sessions=sessions)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return Diary()
