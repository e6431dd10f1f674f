"""Arcs that cross threads: setbacks that spread from one agent to the next, and two agents in one file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from posixpath import join, normpath
from typing import Any

from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.sifted import Spread, Trouble
from fleetlore.chronicle.walks import Step
from fleetlore.events.envelope import Event

MOST_SETBACKS = 2048
MOST_FILES, MOST_FILES_EACH, MOST_NAMESAKES = 16384, 256, 8
FEWEST_LINKED, FEWEST_AGENTS = 3, 2
_COMMITS = frozenset(("fleet.commit", "fleet.pr_merge"))
_EDITS = frozenset(("tool.returned", "goal.tool_effect"))
_COMMITTING = ("commit", "push", "pr_merge")
_TROUBLES = frozenset(("setback", "recovery", "deliver"))
_ENOUGH_EVIDENCE = 100
_SEVERAL = (list, tuple)


def is_concerned(event: Event, signs: frozenset[str]) -> bool:
    """Whether a step may mean something here; most do not."""
    kind = event.kind
    if kind in _EDITS:
        data = event.data
        return bool(data.get("paths") or data.get("deed")) or not _TROUBLES.isdisjoint(signs)
    return kind in _COMMITS or not _TROUBLES.isdisjoint(signs)


def spread_on(spread: Spread, event: Event, step: Step) -> Sequence[Arc]:
    """One more step, of whatever thread; answers the arcs that it closes."""
    kind, signs = event.kind, step.signs
    is_commit = kind in _COMMITS
    if kind in _EDITS:
        data = event.data
        if data.get("paths"):
            return _edit(spread, event, step)
        is_commit = kind == "tool.returned" and data.get("deed") in _COMMITTING
    if is_commit and step.who in spread.edited:
        _commit(spread, event, step)
    if "setback" in signs:
        _set_back(spread, event, step)
    elif spread.of_agent and ("recovery" in signs or "deliver" in signs):
        return _resolve(spread, step)
    return ()


def open_cascades(spread: Spread) -> Iterator[Arc]:
    """Cascades that nobody has resolved yet."""
    for trouble in spread.troubles.values():
        if _is_cascade(trouble):
            yield _cascade(trouble, "open")


# --- cascades


def _set_back(spread: Spread, event: Event, step: Step) -> None:
    number = _linked(spread, event, step)
    if number is None or number not in spread.troubles:
        number = spread.next
        spread.next += 1
        spread.troubles[number] = Trouble(step.thread, [], [], step.at, step.at)
    trouble = spread.troubles[number]
    trouble.last_at = step.at
    if len(trouble.evidence) < _ENOUGH_EVIDENCE:
        trouble.evidence.append(step.id)
    if step.who not in trouble.agents:
        trouble.agents.append(step.who)
    _remember(spread.of_event, step.id, number, MOST_SETBACKS)
    _remember(spread.of_agent, step.who, number, MOST_SETBACKS)
    if len(spread.troubles) > MOST_SETBACKS:
        spread.troubles.popitem(last=False)


def _linked(spread: Spread, event: Event, step: Step) -> int | None:
    """The trouble that this setback comes from: by its cause, its agent's parent, or a child of its agent's."""
    if event.cause is not None and event.cause in spread.of_event:
        return spread.of_event[event.cause]
    for name in (event.parent, event.child):
        if name is not None and name != step.who and name in spread.of_agent:
            return spread.of_agent[name]
    return None


def _resolve(spread: Spread, step: Step) -> Sequence[Arc]:
    number = spread.of_agent.pop(step.who, -1)
    trouble = spread.troubles.get(number)
    if trouble is None or any(spread.of_agent.get(agent) == number for agent in trouble.agents):
        return ()  # others are still in it
    del spread.troubles[number]
    if not _is_cascade(trouble):
        return ()
    trouble.evidence.append(step.id)
    trouble.last_at = step.at
    return (_cascade(trouble, "closed"),)


def _is_cascade(trouble: Trouble) -> bool:
    return len(trouble.evidence) >= FEWEST_LINKED and len(trouble.agents) >= FEWEST_AGENTS


def _cascade(trouble: Trouble, state: str) -> Arc:
    return Arc(
        kind="cascade",
        thread=trouble.thread,
        agents=list(trouble.agents),
        state="open" if state == "open" else "closed",
        first=trouble.evidence[0],
        last=trouble.evidence[-1],
        evidence=list(trouble.evidence),
        count=len(trouble.evidence),
        first_at=trouble.first_at,
        last_at=trouble.last_at,
    )


# --- collisions


def _edit(spread: Spread, event: Event, step: Step) -> Sequence[Arc]:
    found: list[Arc] = []
    who, editors = step.who, spread.editors
    mine = spread.edited.get(who)
    for path in _edited(event):
        before = editors.get(path)
        if before is not None and before[0] != who:
            found.append(_collision(before, step, path))
            _let_go(spread, before[0], path)
        _remember(editors, path, (who, step.id, step.thread, step.at), MOST_FILES)
        if mine is None:
            mine = spread.edited[who] = OrderedDict()
        _note_edit(mine, path)
    return found


def _collision(before: tuple[str, str, str, datetime], step: Step, path: str) -> Arc:
    agent, id, thread, at = before
    return Arc(
        kind="collision",
        thread=thread,
        agents=[agent, step.who],
        state="closed",
        first=id,
        last=step.id,
        evidence=[id, step.id],
        count=2,
        first_at=at,
        last_at=step.at,
        note=path,
    )


def _note_edit(mine: OrderedDict[str, list[str]], path: str) -> None:
    paths = mine.get(name := _last_name(path))
    if paths is None:
        paths = [path]
    elif path not in paths:
        paths = [*paths, path][-MOST_NAMESAKES:]
    _remember(mine, name, paths, MOST_FILES_EACH)


def _last_name(path: str) -> str:
    return path.rpartition("/")[2]


def _commit(spread: Spread, event: Event, step: Step) -> None:
    """What an agent commits is no longer in anybody's way: the files that the commit names, or all that it has edited."""
    named = event.data.get("files")
    if not (isinstance(named, list) and named):
        for paths in spread.edited.pop(step.who).values():
            for path in paths:
                _leave(spread, step.who, path)
        return
    mine = spread.edited[step.who]
    for file in named:
        if isinstance(file, str) and (paths := mine.get(_last_name(file), [])):
            for path in [path for path in paths if f"/{path}".endswith(f"/{file}")]:
                _let_go(spread, step.who, path)


def _let_go(spread: Spread, agent: str, path: str) -> None:
    mine: dict[str, list[str]] = spread.edited.get(agent, OrderedDict())
    paths = mine.get(name := _last_name(path), [])
    if path in paths:
        paths.remove(path)
    if not paths:
        mine.pop(name, None)
    if not mine:
        spread.edited.pop(agent, None)
    _leave(spread, agent, path)


def _leave(spread: Spread, agent: str, path: str) -> None:
    last = spread.editors.get(path)
    if last is not None and last[0] == agent:
        del spread.editors[path]


def _edited(event: Event) -> list[str]:
    """The files that an event says were changed, absolute where it tells from where."""
    paths, cwd = event.data.get("paths"), event.data.get("cwd")
    if not isinstance(paths, _SEVERAL):
        return []
    named = [path for path in paths if isinstance(path, str) and path]
    return [_normal(join(cwd, path)) for path in named] if isinstance(cwd, str) else list(map(_normal, named))


_normal = lru_cache(maxsize=4096)(normpath)


def _remember(known: OrderedDict[str, Any], key: str, value: Any, most: int) -> None:
    """Keep the newest so many."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)  # a plain dict would look through all the places that others have left
