"""Prints a stage run: with colours and layout on a terminal, as plain lines in a pipe. Thoughts only with `--read-minds`."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.terminal import display_width, pad_columns, sanitise_text, truncate_columns
from fleetlore.events import codec
from fleetlore.events.visibility import OWNER, READER, can_see
from fleetlore.views.goal_state import usd_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleetlore.events.envelope import Event
    from fleetlore.stage.conductor import StageEventCallback
    from fleetlore.stage.scenario import StageScenario

# Of the 256 colours, distinct ones that are readable on dark and light backgrounds.
_COLOURS = (75, 173, 71, 176, 179, 109, 167, 103)
_WIDEST, _NARROW, _NAME = 100, 56, 12
_SECONDS_A_LINE, _SECONDS_A_CHARACTER = 0.7, 0.022
_DIM, _BOLD, _SCENE, _THOUGHT, _BAD, _VISITOR, _VERDICT = "2", "1", "3;2", "3;38;5;103", "31", "1;33", "1;36"
_TOO_MUCH = 1000
"""Scores are at most 10; larger ones, NaN and infinity are not shown."""
_FIELDS_WITH_THOUGHTS = {"run.started": ("play",), "log.rejected": ("sample",)}
_HIDDEN_KINDS = ("model.called", "model.replied", "context.built", "tool.called")


def make_viewer(scenario: StageScenario, *, json: bool, read_minds: bool, speed: float) -> StageEventCallback:
    """A callback that prints events as JSON, for a terminal or plainly, at reading speed."""
    if json:
        return _print_json if read_minds else _print_json_without_thoughts
    screen: StageScreen | PlainStageLines
    if terminal.is_terminal(sys.stdout):
        colour = terminal.has_colour(sys.stdout)
        screen = StageScreen(scenario, width=min(terminal.terminal_width(sys.stdout), _WIDEST), colour=colour, read_minds=read_minds)
    else:
        screen = PlainStageLines(read_minds=read_minds)
    return _ReadingPace(screen, speed).print_event


async def _print_json(event: Event) -> None:
    terminal.print_json(codec.encode_with_position(event))
    terminal.flush_output()


async def _print_json_without_thoughts(event: Event) -> None:
    shown = remove_thoughts(event)
    if shown is not None:
        await _print_json(shown)


def remove_thoughts(event: Event) -> Event | None:
    """The event without thoughts and secret roles; `None` if it is nothing else.

    The scenario in `run.started` has the thoughts of scripts, and a rejected answer may have one.
    """
    if not can_see(event, READER) or event.kind == "agent.reflected":
        return None
    hidden = {"thought", *_FIELDS_WITH_THOUGHTS.get(event.kind, ())}
    return replace(event, data={name: value for name, value in event.data.items() if name not in hidden})


class _ReadingPace:
    """Delays each event until the previous one could be read."""

    def __init__(self, screen: StageScreen | PlainStageLines, speed: float) -> None:
        self._screen, self._speed, self._due = screen, speed, 0.0
        self._began = clock.now()

    async def print_event(self, event: Event) -> None:
        """Print an event."""
        lines = list(self._screen.format_lines(event))
        if not lines:
            return
        is_past = event.at is not None and event.at < self._began  # of a resumed run: printed at once
        if self._speed and not is_past and (early := self._due - monotonic()) > 0:
            await asyncio.sleep(early)
        for line in lines:
            terminal.print_line(line)
        terminal.flush_output()
        reading = _SECONDS_A_LINE + _SECONDS_A_CHARACTER * len(event.text or "")
        self._due = monotonic() + (reading / self._speed if self._speed else 0.0)


class PlainStageLines:
    """One untruncated line per event."""

    def __init__(self, *, read_minds: bool) -> None:
        self._reads_minds = read_minds

    def format_lines(self, event: Event) -> Iterator[str]:
        """The lines of an event."""
        text, turn, name = (
            public_text(event, read_minds=self._reads_minds),
            event.data.get("turn"),
            sanitise_text(event.agent or event.actor or "?"),
        )
        if text:
            yield f"{turn if isinstance(turn, int) else 0:>3}  {name}  {sanitise_text(event.kind)}  {text}"
        if self._reads_minds and (thought := _thought_text(event)):
            yield f"{turn if isinstance(turn, int) else 0:>3}  {name}  thought  {thought}"


def public_text(event: Event, *, read_minds: bool) -> str:
    """The public text of an event; empty if there is none."""
    if (
        event.kind in _HIDDEN_KINDS
        or not can_see(event, OWNER if read_minds else READER)
        or (event.kind == "agent.reflected" and not read_minds)
    ):
        return ""
    if event.kind == "model.failed":
        return sanitise_text(f"gave no answer ({event.data.get('error')})")
    if event.kind == "judge.verdict":
        return sanitise_text(f"{event.text} {_verdict_text(event)}").strip()
    return sanitise_text(event.text or "")


def _thought_text(event: Event) -> str:
    thought = event.data.get("thought")
    return sanitise_text(thought) if isinstance(thought, str) else ""


def _verdict_text(event: Event) -> str:
    """Winner, accused and revealed roles of a verdict."""
    data = event.data
    parts = []
    if data.get("accused"):
        parts.append(f"accused: {data['accused']}, {'rightly' if data.get('correct') else 'wrongly'}")
    parts += [f"{entry.get('agent')} was the {entry.get('role')}" for entry in data.get("reveal") or () if isinstance(entry, dict)]
    if data.get("winner"):
        parts.append(f"winner: {data['winner']}")
    if data.get("no_contest"):
        parts.append("no contest")
    return f"[{'; '.join(parts)}]" if parts else ""


class StageScreen:
    """A run on a terminal, with colours and wrapped lines."""

    def __init__(self, scenario: StageScenario, *, width: int, colour: bool, read_minds: bool) -> None:
        self._width, self._colour, self._reads_minds = width, colour, read_minds
        names = [manifest.name for manifest in scenario.cast]
        self._colours = {name: f"1;38;5;{_COLOURS[index % len(_COLOURS)]}" for index, name in enumerate(names)}
        longest = max(display_width(sanitise_text(name)) for name in (*names, "visitor"))
        self._name = 0 if width < _NARROW else min(longest, _NAME)
        self._indent = "  " if not self._name else " " * (self._name + 4)

    def format_lines(self, event: Event) -> Iterator[str]:
        """The lines of an event, wrapped to the width."""
        text = public_text(event, read_minds=self._reads_minds)
        match event.kind:
            case "run.started":
                yield from self._heading_lines(event)
            case "world.observed" if text:
                if event.data.get("turn") != 0 or self._reads_minds:
                    yield ""
                yield from self._wrap_lines(text, "  ", _SCENE)
                yield ""
            case "judge.verdict":
                yield from self._verdict_lines(event)
            case "run.finished":
                yield from self._end_lines(event)
            case "user.injected" if text:
                yield from self._named_lines("visitor", text, _VISITOR)
            case _ if text or (self._reads_minds and _thought_text(event)):
                yield from self._speaker_lines(event, text)

    def _speaker_lines(self, event: Event, text: str) -> Iterator[str]:
        name = sanitise_text(event.agent or event.actor or "?")
        if event.kind in ("agent.thought", "agent.reflected"):
            yield from self._named_lines(name, f"({text})", self._colours.get(name, _BOLD), _THOUGHT)
            return
        style = {"model.failed": _BAD, "log.rejected": _BAD, "commentary.posted": _DIM, "tool.returned": _DIM}.get(event.kind, "")
        thought = _thought_text(event) if self._reads_minds else ""
        if not text:
            yield from self._named_lines(name, f"({thought})", self._colours.get(name, _BOLD), _THOUGHT)
            return
        yield from self._named_lines(name, text, self._colours.get(name, _BOLD), style)
        if thought:
            yield from self._wrap_lines(f"({thought})", self._indent, _THOUGHT)

    def _named_lines(self, name: str, text: str, name_style: str, style: str = "") -> Iterator[str]:
        if not self._name:
            yield self._paint_text(name, name_style)
            yield from self._wrap_lines(text, self._indent, style)
            return
        first = self._paint_text(pad_columns(truncate_columns(name, self._name), self._name), name_style)
        for index, line in enumerate(self._wrap_lines(text, self._indent, style)):
            yield f"  {first}  {line[len(self._indent) :]}" if index == 0 else line

    def _heading_lines(self, event: Event) -> Iterator[str]:
        yield ""
        yield from self._wrap_lines(sanitise_text(event.text or ""), "  ", _BOLD)
        yield self._paint_text(f"  {sanitise_text(str(event.data.get('seed', '')))} · run {sanitise_text(event.run or '')}", _DIM)
        yield ""

    def _verdict_lines(self, event: Event) -> Iterator[str]:
        """The judge, the verdict and the scores, in a frame."""
        name, rule = sanitise_text(event.agent or "?"), self._width - 4
        yield ""
        title = f"── {name} "
        yield self._paint_text("  " + title + "─" * max(0, rule - display_width(title)), _VERDICT)
        yield from self._wrap_lines(sanitise_text(event.text or ""), "  ", "")
        if ruling := sanitise_text(_verdict_text(event)).strip("[]"):
            yield ""
            yield from self._wrap_lines(ruling, "  ", _VERDICT)
        yield from self._score_lines(event)
        yield self._paint_text("  " + "─" * rule, _VERDICT)

    def _score_lines(self, event: Event) -> Iterator[str]:
        scores = event.data.get("scores")
        marks = (
            {sanitise_text(str(name)): mark for name, mark in scores.items() if isinstance(mark, int | float) and abs(mark) < _TOO_MUCH}
            if isinstance(scores, dict)
            else {}
        )
        column = min(max((display_width(name) for name in marks), default=0), self._width // 2)
        room = max(0, self._width - column - len("      10.0  "))
        scale = min(1.0, room / max(marks.values(), default=1)) if max(marks.values(), default=0) > 0 else 1.0
        for name, mark in sorted(marks.items(), key=lambda pair: -pair[1]):
            label = pad_columns(truncate_columns(name, column), column)
            yield f"  {label}  {mark:>4.1f}  {self._paint_text('▪' * round(mark * scale), _VERDICT)}"

    def _end_lines(self, event: Event) -> Iterator[str]:
        data = event.data
        yield ""
        yield from self._wrap_lines(sanitise_text(event.text or ""), "  ", _BOLD)
        spent = [f"{data[name]} {name}" for name in ("turns", "calls", "tokens") if isinstance(data.get(name), int)]
        spent.append(f"${usd_or_zero(data.get('usd')):.2f}")
        yield self._paint_text(f"  {', '.join(spent)}", _DIM)
        yield ""

    def _wrap_lines(self, text: str, indent: str, style: str) -> Iterator[str]:
        room = max(20, self._width - 2 - len(indent))
        for line in _wrap_columns(text, room) or [""]:
            yield f"{indent}{self._paint_text(line, style)}"

    def _paint_text(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour and style else text


def _wrap_columns(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns."""
    if all(display_width(character) < 2 for character in text):
        return textwrap.wrap(text, width)
    # `wrap` counts characters, so a filler follows each character of two columns; sanitised text has no NUL.
    filled = "".join(character + "\0" * (display_width(character) - 1) for character in text)
    return [line.replace("\0", "") for line in textwrap.wrap(filled, width - 1)]  # a line may end before a filler
