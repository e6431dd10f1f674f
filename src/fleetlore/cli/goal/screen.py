"""Shows running goals: events as lines and, on a terminal, a live panel with the state of each goal below them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.goal.lines import BAD, BOLD, DIM, GOOD, WARN, Line
from fleetlore.cli.terminal import display_width, pad_columns, sanitise_text, truncate_columns
from fleetlore.events import codec
from fleetlore.views.goal_turns import EXTRA_PREFIX

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console, Group
    from rich.live import Live

    from fleetlore.events.envelope import Event
    from fleetlore.goal.workspace.workspace import Handover, SourceChanges
    from fleetlore.programs.harness import TurnProgress
    from fleetlore.views.goal_state import GoalState


# --- Goal events that are printed while the goal runs, one or two lines each.

EVIDENCE_LINES = 2
_ASKS = "bold yellow"


def format_event_lines(event: Event, goal: GoalState | None) -> Iterator[Line]:
    """The lines of an event; none for most kinds."""
    format_event = _FORMATTERS.get(event.kind)
    if format_event is not None:
        yield from format_event(event, goal)


def _format_started(event: Event, goal: GoalState | None) -> Iterator[Line]:
    yield [(sanitise_text(event.text or ""), BOLD), (f"  goal {_clean_value(event.goal)}", DIM)]


def _attempt_started(event: Event, goal: GoalState | None) -> Iterator[Line]:
    is_summary = goal is not None and goal.attempt is not None and goal.attempt.is_summary
    yield [
        (f"turn {_clean_value(event.data.get('turn_index'))}", BOLD),
        (" writes a summary to shorten its context" if is_summary else " starts", DIM),
    ]


def _attempt_completed(event: Event, goal: GoalState | None) -> Iterator[Line]:
    result = _as_object(event.data.get("result"))
    kind = str(_as_object(result.get("outcome")).get("kind") or "")
    style = {"done": GOOD, "escalate": _ASKS, "budget_exhausted": BAD}.get(kind, "")
    turn, words = _clean_value(result.get("turn_index")), goal_lines.shorten_to_line(str(result.get("final_text") or ""))
    yield [(f"turn {turn}: ", BOLD), (goal_lines.OUTCOMES.get(kind, sanitise_text(kind)), style), (f"  {words}" if words else "", "italic")]


def _format_acceptance(event: Event, goal: GoalState | None) -> Iterator[Line]:
    verdict = _as_object(event.data.get("verdict"))
    failures = [_as_object(each) for each in _as_list(verdict.get("failures"))]
    for failure in failures:
        yield [
            ("  ✗ ", BAD),
            (_clean_value(failure.get("criterion_label")), ""),
            (f"  {_clean_value(failure.get('message'))}", BAD),
        ]
        yield from _format_evidence(str(failure.get("evidence") or ""))
    for line in _as_list(event.data.get(f"{EXTRA_PREFIX}touched")):
        yield [("  judge  ", WARN), (f"the agent {_clean_value(line)}", "")]
    if event.data.get(f"{EXTRA_PREFIX}sandbox") == []:
        yield [("  note  ", WARN), ("this system has no sandbox (Landlock): the commands of the check could use all your files", DIM)]
    if verdict.get("met") is True:
        has_none = goal is not None and not goal.criteria
        yield [("  ✓ ", GOOD), ("no criteria; the agent says it is done" if has_none else "all criteria are met", "")]


def _format_evidence(text: str) -> Iterator[Line]:
    """The last lines of a failed check's output."""
    tail = [line for line in text.splitlines() if line.strip(" -") not in ("", "stderr")][-EVIDENCE_LINES:]
    yield from ([("    | ", DIM), (goal_lines.shorten_to_line(line), DIM)] for line in tail)


def _format_question(event: Event, goal: GoalState | None) -> Iterator[Line]:
    asked = goal_lines.format_question(event.id or "", str(event.data.get("tool") or ""), event.data.get("input"))
    yield from ([("  ", ""), *line] for line in asked)


def _format_decision(event: Event, goal: GoalState | None) -> Iterator[Line]:
    decision = _as_object(event.data.get("decision"))
    if _as_object(decision.get("choice")).get("kind") == "deny":
        yield [
            ("  denied  ", BAD),
            (_clean_value(decision.get("tool")), ""),
            (f"  {_clean_value(decision.get('rationale'))}", DIM),
        ]


def _format_waiting(event: Event, goal: GoalState | None) -> Iterator[Line]:
    until = ""
    if goal is not None and goal.wake is not None:
        wake = goal.wake.astimezone()
        is_today = wake.date() == (event.at or clock.now()).astimezone().date()
        until = f" until {wake:%H:%M}" if is_today else f" until {wake:%Y-%m-%d %H:%M}"
    yield [(f"  waits{until}  ", "cyan"), (_clean_value(event.data.get("why")), "")]


def _format_retry(event: Event, goal: GoalState | None) -> Iterator[Line]:
    words = {
        "fresh_session_retry": "retrying in a new session",
        "next_turn": "continuing with the next turn",
        "compact_and_retry": "compacting its context and retrying",
        "escalate": "needs a person",
    }
    kind = str(_as_object(event.data.get("decision")).get("kind") or "")
    yield [
        ("  error  ", WARN),
        (_clean_value(event.data.get("error_message")), ""),
        (f"  {words.get(kind, sanitise_text(kind))}", DIM),
    ]


def _format_memory(event: Event, goal: GoalState | None) -> Iterator[Line]:
    saved = event.data.get("memories_saved")
    if saved:
        yield [(f"  saved {_clean_value(saved)} note{'' if saved == 1 else 's'} to memory", DIM)]


def _format_control(event: Event, goal: GoalState | None) -> Iterator[Line]:
    action, who = _clean_value(event.data.get("action")), sanitise_text(event.actor or "unknown")
    yield [(f"  {who}: ", BOLD), (action, ""), (f"  {sanitise_text(event.text)}" if event.text else "", "italic")]


def _format_completed(event: Event, goal: GoalState | None) -> Iterator[Line]:
    outcome = _as_object(_as_object(event.data.get("outcome")).get("outcome"))
    kind = str(outcome.get("kind") or "")
    style = {"done": GOOD, "cancelled": DIM, "escalate": _ASKS}.get(kind, BAD)
    why = sanitise_text(str(outcome.get("reason") or outcome.get("axis") or "")).replace("_", " ")
    spent = "" if goal is None or event.at is None else f"  {goal_lines.format_spending(goal, event.at)}"
    yield [
        (goal_lines.OUTCOMES.get(kind, sanitise_text(kind)), f"bold {style}" if "bold" not in style else style),
        (f": {why}" if why else "", ""),
        (spent, DIM),
    ]


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _clean_value(value: Any) -> str:
    """A value of a payload as safe text; empty if it is missing."""
    return "" if value is None else sanitise_text(str(value))


_FORMATTERS: Mapping[str, Callable[[Event, GoalState | None], Iterator[Line]]] = {
    "driver.goal_started": _format_started,
    "driver.attempt_started": _attempt_started,
    "driver.attempt_completed": _attempt_completed,
    "driver.acceptance": _format_acceptance,
    "driver.decision": _format_decision,
    "driver.replay_decision": _format_retry,
    "driver.extract_memories_completed": _format_memory,
    "driver.goal_completed": _format_completed,
    "approval.requested": _format_question,
    "goal.permission_asked": _format_question,
    "goal.waiting": _format_waiting,
    "control.requested": _format_control,
}


# ---

TICK = 0.5
_WIDEST = 120
_WIDEST_NAME = 16
_CRITERIA_SHOWN = 8
_PANELS = 4
"""With more goals than this, each has one line."""


class GoalView:
    """The base view: prints nothing, but keeps outcomes and errors."""

    def __init__(self) -> None:
        self.troubles: list[str] = []
        self.states: dict[str, Callable[[], GoalState]] = {}
        self._progress: dict[str, Callable[[], TurnProgress | None]] = {}
        self._after: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the view."""

    def add(
        self, goal: str, state: Callable[[], GoalState], *, progress: Callable[[], TurnProgress | None] = lambda: None, after: str = ""
    ) -> None:
        """Add a running goal. Events up to `after` are not printed; `progress` returns the output of the open turn."""
        self.states[goal], self._progress[goal], self._after[goal] = state, progress, after

    def has_begun(self, goal: str) -> bool:
        """Whether the goal is in the log."""
        return goal in self.states and self.states[goal]().goal is not None

    def find_outcome(self, goal: str) -> str | None:
        """The outcome; `None` while it runs."""
        return self.states[goal]().outcome if goal in self.states else None

    async def on_event(self, event: Event) -> None:
        """Handle an event of a goal."""
        if (event.position or "") > self._after.get(event.goal or "", ""):
            self.print_event(event)

    def print_event(self, event: Event) -> None:
        """Print an event."""

    def on_preparing(self, goal: str, agent: str) -> None:
        """Called while its workspace is opened, which can be slow for large repositories."""

    def on_started(self, state: GoalState, beside: SourceChanges | None) -> None:
        """Called when a goal starts, with what its worktree lacks."""

    def on_ended(self, state: GoalState, work: Handover) -> None:
        """Called when a goal ends, with the place of the work."""

    @asynccontextmanager
    async def refresh_while_running(self) -> AsyncIterator[None]:
        """A context that lasts while goals run."""
        yield


def make_goal_view(*, json: bool, names: Mapping[str, str], on: str = "") -> GoalView:
    """The view for this output: JSON, lines or a live panel. `on` is the `--log` option of suggested commands."""
    if json:
        return JsonGoalView()
    return GoalScreen(names=names, on=on) if terminal.is_terminal(sys.stdout) else PlainGoalView(names=names, on=on)


class JsonGoalView(GoalView):
    """Each event as a line of JSON."""

    def print_event(self, event: Event) -> None:
        """Print it as `lore events --json` does."""
        terminal.print_json(codec.encode_with_position(event))
        terminal.flush_output()


class PlainGoalView(GoalView):
    """Prints events as lines, prefixed with the goal's name if there are several."""

    def __init__(self, *, names: Mapping[str, str], on: str = "") -> None:
        super().__init__()
        self._names, self._on = names, on
        self._widest = min(_WIDEST_NAME, max((display_width(sanitise_text(name)) for name in names.values()), default=0))

    def print_event(self, event: Event) -> None:
        """Print the lines of an event."""
        state = self.states[event.goal or ""]() if event.goal in self.states else None
        for line in format_event_lines(event, state):
            self.print_line([*self._goal_prefix(event.goal or ""), *line])

    def on_started(self, state: GoalState, beside: SourceChanges | None) -> None:
        """Print what its worktree lacks."""
        for line in goal_lines.format_worktree_notes(beside):
            self.print_line([*self._goal_prefix(state.id), *line])

    def on_ended(self, state: GoalState, work: Handover) -> None:
        """Print where the work is, how to merge it, and how to continue."""
        for line in (*goal_lines.format_handover(work, on=self._on), *goal_lines.suggest_resume(state, on=self._on)):
            self.print_line([*self._goal_prefix(state.id), *line])

    def print_line(self, line: Line) -> None:
        """Print a line."""
        [text] = goal_lines.strip_styles([line])
        terminal.print_line(text)
        terminal.flush_output()

    def _goal_prefix(self, goal: str) -> Line:
        if goal not in self._names:
            return []
        name = truncate_columns(sanitise_text(self._names[goal]), self._widest)
        return [(f"{pad_columns(name, self._widest)}  ", BOLD)]


class GoalScreen(PlainGoalView):
    """The same on a terminal, with a live panel of the running goals below."""

    def __init__(self, *, names: Mapping[str, str], on: str = "", console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(names=names, on=on)
        self._console = console or Console(file=sys.stdout, highlight=False, no_color=not terminal.has_colour(sys.stdout))
        self._preparing: dict[str, str] = {}
        self._live: Live = Live(console=self._console, auto_refresh=False, transient=True, get_renderable=self._render_panels)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def on_preparing(self, goal: str, agent: str) -> None:
        """Show the workspace note until the goal starts."""
        self._preparing[goal] = agent
        self._live.refresh()

    def print_event(self, event: Event) -> None:
        """Print the lines of an event, and update the panel."""
        super().print_event(event)
        self._live.refresh()

    def print_line(self, line: Line) -> None:
        """Print a line above the panel."""
        from rich.text import Text

        is_whole = goal_lines.must_not_truncate(line)
        self._console.print(Text.assemble(*line), soft_wrap=is_whole, overflow=None if is_whole else "fold")

    @asynccontextmanager
    async def refresh_while_running(self) -> AsyncIterator[None]:
        """Redraw regularly, so that durations are current."""
        ticking = asyncio.create_task(self._refresh_often())
        try:
            yield
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking

    async def _refresh_often(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._live.refresh()

    def _render_panels(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        width = min(self._console.width, _WIDEST)
        now = clock.now()
        states = [
            _with_progress(state, self._progress[id]())
            for id, each in self.states.items()
            if (state := each()).goal is not None and state.outcome is None
        ]
        waiting = [agent for id, agent in self._preparing.items() if id not in self.states]
        lines: list[Line] = [[("○ ", DIM), (sanitise_text(agent), BOLD), ("  opening its workspace", DIM)] for agent in waiting]
        lines += [line for state in states for line in format_panel(state, now, columns=width, brief=len(states) > _PANELS)]
        return Group(*(Text.assemble(*goal_lines.fit_line(line, width), no_wrap=True) for line in lines))


def _with_progress(goal: GoalState, progress: TurnProgress | None) -> GoalState:
    """The goal with output and usage of the open turn, which the log gets at the end of the turn."""
    if goal.attempt is not None and goal.attempt.ending is not None:
        return replace(goal, words=goal.attempt.ending.words or goal.words)
    if progress is None or goal.attempt is None:
        return goal
    attempt = replace(goal.attempt, tokens=max(goal.attempt.tokens, progress.tokens), usd=max(goal.attempt.usd, progress.usd or 0.0))
    return replace(goal, attempt=attempt, words=progress.words or goal.words)


def format_panel(goal: GoalState, now: datetime, *, columns: int, brief: bool = False) -> Iterator[Line]:
    """The panel of a goal: turn, budgets, current tool, last message, criteria."""
    if not brief:
        yield []
    yield goal_lines.format_headline(goal, now)
    if brief:
        return
    yield from ([("  ", ""), *line] for line in goal_lines.format_budget_bars(goal, now, columns=columns - 2))
    yield from ([("  ", ""), *line] for line in _format_activity(goal))
    criteria = list(goal_lines.format_criteria(goal))
    for line in criteria[:_CRITERIA_SHOWN]:
        yield [("  ", ""), *line]
    if len(criteria) > _CRITERIA_SHOWN:
        yield [(f"  … {len(criteria) - _CRITERIA_SHOWN} more criteria", DIM)]


def _format_activity(goal: GoalState) -> Iterator[Line]:
    if goal.attempt is not None and goal.attempt.last_tool and goal.attempt.ending is None:
        yield [("now      ", DIM), (sanitise_text(goal.attempt.last_tool), "")]
    for each in goal.questions.values():
        yield from goal_lines.format_question(each.id, each.tool, each.input)
    if words := goal_lines.shorten_to_line(goal.words):
        yield [("said     ", DIM), (words, "italic")]
    if goal.messages:
        yield [("messages ", DIM), (f"{len(goal.messages)} for its next turn", "")]
