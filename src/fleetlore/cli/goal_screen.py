"""How goals look while they are pursued: what happens goes by as lines; below them, on a terminal, each goal as it stands now."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from fleetlore import clock
from fleetlore.cli import goal_lines, goal_telling, terminal
from fleetlore.cli.goal_lines import BOLD, DIM, Line
from fleetlore.cli.terminal import sanitise
from fleetlore.events import codec
from fleetlore.views.goal_state import GoalState

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console, Group
    from rich.live import Live

    from fleetlore.events.envelope import Event

TICK = 0.5
_WIDEST = 120
_CRITERIA_SHOWN = 8
_PANELS = 4
"""More goals than this are shown with one line each."""


class View:
    """Keeps to itself; the others show more. Knows how each goal ended, and what went wrong."""

    def __init__(self) -> None:
        self.troubles: list[str] = []
        self.states: dict[str, Callable[[], GoalState]] = {}
        self._after: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to be done."""

    def add(self, goal: str, state: Callable[[], GoalState], *, after: str = "") -> None:
        """One more goal is pursued from now on; what is not behind `after` was told before."""
        self.states[goal], self._after[goal] = state, after

    def has_begun(self, goal: str) -> bool:
        """Whether it is on the log."""
        return goal in self.states and self.states[goal]().goal is not None

    def outcome(self, goal: str) -> str | None:
        """How it ended; `None` as long as it has not."""
        return self.states[goal]().outcome if goal in self.states else None

    async def watch(self, event: Event) -> None:
        """One more event of a goal."""
        if (event.position or "") > self._after.get(event.goal or "", ""):
            self.tell(event)

    def tell(self, event: Event) -> None:
        """Show what there is to show of it."""

    def end(self, state: GoalState, where: str) -> None:
        """A goal has ended; the work is there."""

    @asynccontextmanager
    async def refreshing(self) -> AsyncIterator[None]:
        """As long as goals are pursued."""
        yield


def viewer(*, json: bool, many: bool) -> View:
    """What shows goals in the way that the output can take."""
    if json:
        return Json()
    return Screen(many=many) if terminal.is_terminal(sys.stdout) else Plain(many=many)


class Json(View):
    """Each event as a line of JSON."""

    def tell(self, event: Event) -> None:
        """As `lore events --json` prints it."""
        terminal.out_json(codec.encode_with_position(event))
        terminal.flush()


class Plain(View):
    """What happens, in lines."""

    def __init__(self, *, many: bool) -> None:
        super().__init__()
        self._many = many

    def tell(self, event: Event) -> None:
        """The lines that an event is worth."""
        state = self.states[event.goal or ""]() if event.goal in self.states else None
        for line in goal_telling.lines(event, state):
            self.show([*self._whose(event.agent or (event.goal or "")[:8]), *line])

    def end(self, state: GoalState, where: str) -> None:
        """Where the work is."""
        self.show([*self._whose(state.agent), (f"the work: {sanitise(where)}", DIM)])

    def show(self, line: Line) -> None:
        """One line."""
        [text] = goal_lines.plain([line])
        terminal.out(text)
        terminal.flush()

    def _whose(self, agent: str) -> Line:
        return [(f"{sanitise(agent)}  ", BOLD)] if self._many else []


class Screen(Plain):
    """The same on a terminal, and below it every goal that is pursued, as it stands."""

    def __init__(self, *, many: bool, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(many=many)
        self._console = console or Console(file=sys.stdout, highlight=False, no_color=not terminal.has_colour(sys.stdout))
        self._live: Live = Live(console=self._console, auto_refresh=False, transient=True, get_renderable=self._panels)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def tell(self, event: Event) -> None:
        """The lines that an event is worth, and the goals as they stand after it."""
        super().tell(event)
        self._live.refresh()

    def show(self, line: Line) -> None:
        """One line, above what is live."""
        from rich.text import Text

        self._console.print(Text.assemble(*line), soft_wrap=False, overflow="fold")

    @asynccontextmanager
    async def refreshing(self) -> AsyncIterator[None]:
        """Time passes on the screen, too."""
        ticking = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._live.refresh()

    def _panels(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        width = min(self._console.width, _WIDEST)
        now = clock.now()
        states = [state for each in self.states.values() if (state := each()).goal is not None and state.outcome is None]
        lines = [line for state in states for line in panel(state, now, columns=width, brief=len(states) > _PANELS)]
        return Group(*(Text.assemble(*goal_lines.fitted(line, width), no_wrap=True) for line in lines))


def panel(goal: GoalState, now: datetime, *, columns: int, brief: bool = False) -> Iterator[Line]:
    """One goal as it stands: turn, budgets, what it does, what it said, its criteria."""
    if not brief:
        yield []
    yield goal_lines.headline(goal, now)
    if brief:
        return
    yield from ([("  ", ""), *line] for line in goal_lines.bars(goal, now, columns=columns - 2))
    yield from ([("  ", ""), *line] for line in _doing(goal))
    criteria = list(goal_lines.criteria(goal))
    for line in criteria[:_CRITERIA_SHOWN]:
        yield [("  ", ""), *line]
    if len(criteria) > _CRITERIA_SHOWN:
        yield [(f"  … {len(criteria) - _CRITERIA_SHOWN} more criteria", DIM)]


def _doing(goal: GoalState) -> Iterator[Line]:
    if goal.attempt is not None and goal.attempt.last_tool and goal.attempt.ending is None:
        yield [("now      ", DIM), (sanitise(goal.attempt.last_tool), "")]
    yield from (goal_lines.question(each.id, each.tool) for each in goal.questions.values())
    if words := goal_lines.in_a_line(goal.words):
        yield [("said     ", DIM), (words, "italic")]
    if goal.messages:
        yield [("heard    ", DIM), (f"{len(goal.messages)} for its next turn", "")]
