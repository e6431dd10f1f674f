"""The screen of `lore status --watch`: move, open, allow, deny, filter, quit. Usable from 80 columns on.

`StatusScreen` is the state and takes keys; it reads and writes through operations only. `run_screen` connects it with terminal and log.
"""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Literal, TypeAlias

from fleetlore.cli import decide, status_table
from fleetlore.cli.terminal import format_ago, sanitise_text
from fleetlore.errors import FleetloreError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from fleetlore.operations.agents import AgentStatus, FleetStatus, ReadFleetStatus
    from fleetlore.operations.approvals import OpenApproval
    from fleetlore.operations.context import OperationContext

Key: TypeAlias = str
"""A character, or `up`, `down`, `enter`, `escape`, `backspace`, `page up`, `page down`."""
AnswerRequest: TypeAlias = Callable[["OpenApproval", Literal["allow", "deny"], str], str]
"""Stores an answer with its reason; returns the message to show."""
Input: TypeAlias = "Key | BaseException | None"
"""What the screen waits for: a key, an error of the thread that follows the log, or `None` for a new event."""

_KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\x08": "backspace",
}
_INPUT = re.compile(
    r"""
    \x1b{1,2} (?: \[\[?[0-?]*[ -/]*[@-~]?        # control sequence: arrows, function keys, with Ctrl and Alt
                | O[0-9;]*[@-~]?                 # function key
                | [\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?   # report of the terminal, e.g. of a colour
                | [^\x1b] )                      # Alt and a character
    | .""",
    re.DOTALL | re.VERBOSE,
)
"""One key: an escape sequence or a character."""
_CUT_OFF = re.compile(r"\x1b(?:\[\[?[0-?]*[ -/]*|O[0-9;]*|[\]PX^_][^\x07\x1b]*\x1b?)?\Z")
"""The beginning of an escape sequence."""
SEQUENCE_SECONDS = 0.05
"""How long the rest of an escape sequence may take; after that it is the Escape key."""
REDRAW_SECONDS = 10.0
"""How often the shown ages are updated while nothing happens."""
_CHROME_LINES = 5
"""Lines of the screen around the list: headline, empty line, column titles, message, keys."""

_NO_LONGER_OPEN = "This request is no longer open. Esc, then Enter shows the next one."


class StatusScreen:
    """The state of the screen: what it shows, and what keys do."""

    def __init__(self, answer_request: AnswerRequest, *, everybody: bool = False) -> None:
        self._answer_request = answer_request
        self._status: FleetStatus | None = None
        self._approvals: Sequence[OpenApproval] = ()
        self._everybody, self._selected, self._filter = everybody, "", ""
        self._mode: Literal["list", "detail", "filter", "reason"] = "list"
        self._reason = ""
        self._opened: OpenApproval | None = None  # the request that `d` or the open page is about
        self.message = ""
        self.is_done = False

    def show(self, status: FleetStatus, approvals: Sequence[OpenApproval]) -> None:
        """Replace the status and the open requests by those of the log now."""
        self._status, self._approvals = status, approvals
        if self._mode == "detail" and self._opened is None:
            self._opened = self.request

    # --- the list and the selection

    @property
    def agents(self) -> list[AgentStatus]:
        """The agents in the list, in order."""
        if self._status is None:
            return []
        found = status_table.choose_agents(self._status, everybody=self._everybody)
        wanted = self._filter.lower()
        return [agent for agent in found if wanted in f"{agent.short} {agent.state} {agent.doing} {agent.task or ''}".lower()]

    @property
    def selected(self) -> AgentStatus | None:
        """The agent that keys act on: the selected one, else the first. An open page stays with its agent."""
        if self._mode == "detail":
            everybody = [] if self._status is None else self._status.agents
            return next((agent for agent in everybody if agent.name == self._selected), None)
        agents = self.agents
        return next((agent for agent in agents if agent.name == self._selected), agents[0] if agents else None)

    @property
    def request(self) -> OpenApproval | None:
        """The oldest request of the selected agent. An open page stays with its request."""
        if self._mode == "detail" and self._opened is not None:
            return next((each for each in self._approvals if each.id == self._opened.id), None)
        return None if self.selected is None else self._find_request(self.selected)

    def _find_request(self, agent: AgentStatus) -> OpenApproval | None:
        """The oldest request of an agent (`_approvals` has the oldest first)."""
        return next((each for each in self._approvals if each.agent == agent.name or (each.goal and each.goal == agent.goal)), None)

    # --- keys

    def press(self, key: Key) -> None:
        """Handle one key."""
        if self._mode in ("filter", "reason"):
            self._press_in_line(key)
            return
        self.message = ""
        match key:
            case "q" | "\x03":
                self.is_done = True
            case "down" | "j":
                self._move(1)
            case "up" | "k":
                self._move(-1)
            case "page down" | "page up":
                self._move(10 if key == "page down" else -10)
            case "enter":
                self._open()
            case "escape" if self._mode == "detail":
                self._mode = "list"
            case "escape":
                self._filter = ""
            case "/":
                self._mode, self._filter = "filter", ""
            case "a":
                if (request := self._find_answerable()) is not None:
                    self._answer(request, "allow")
            case "d":
                self._begin_denial()
            case "A":
                self._everybody = not self._everybody

    def _press_in_line(self, key: Key) -> None:
        text = self._filter if self._mode == "filter" else self._reason
        if key in ("enter", "escape", "\x03"):
            if self._mode == "reason" and key == "enter" and self._opened is not None:
                self._answer(self._opened, "deny", self._reason)
            elif self._mode == "filter" and key != "enter":
                self._filter = ""
            self._mode = "list"
            return
        if key == "backspace":
            text = text[:-1]
        elif len(key) == 1 and key.isprintable():
            text += key
        if self._mode == "filter":
            self._filter = text
        else:
            self._reason = text

    def _open(self) -> None:
        """Open the page of the selected agent, with the request that it has now."""
        agent = self.selected
        if agent is not None:
            self._mode, self._selected, self._opened = "detail", agent.name, self._find_request(agent)

    def _begin_denial(self) -> None:
        request = self._find_answerable()
        if request is not None:
            self._mode, self._reason, self._opened = "reason", "", request

    def _move(self, by: int) -> None:
        names, selected = [agent.name for agent in self.agents], self.selected
        if names:
            index = names.index(selected.name) if selected is not None and selected.name in names else 0
            self._selected = names[max(0, min(len(names) - 1, index + by))]
            if self._mode == "detail":
                self._open()

    def _find_answerable(self) -> OpenApproval | None:
        """The request that can be answered here; if there is none, the message says why."""
        request = self.request
        if request is None:
            is_over = self._mode == "detail" and self._opened is not None
            self.message = _NO_LONGER_OPEN if is_over else "This agent asks for nothing."
            return None
        if not request.can_answer:
            self.message = f"Answer it in {request.program or 'the program'} itself."
            return None
        return request

    def _answer(self, request: OpenApproval, choice: Literal["allow", "deny"], reason: str = "") -> None:
        try:
            self.message = self._answer_request(request, choice, reason)
        except FleetloreError as error:
            self.message = str(error)
        self._approvals = [each for each in self._approvals if each.id != request.id]

    # --- drawing

    def draw(self, columns: int, lines: int) -> RenderableType:
        """The whole screen."""
        from rich.console import Group
        from rich.text import Text

        if self._status is None:
            return Text("reading the log…")
        room = max(1, lines - 2)
        body = self._fit_detail(columns, room) if self._mode == "detail" else list(self._draw_list(columns, lines))[:room]
        padding = [Text()] * max(0, lines - 2 - len(body))
        return Group(
            *body,
            *padding,
            Text(self._prompt_line(columns), style="bold yellow", no_wrap=True, overflow="ellipsis"),
            Text(self._key_line(), style="bright_black", no_wrap=True, overflow="ellipsis"),
        )

    def _draw_list(self, columns: int, lines: int) -> Iterator[Text]:
        from rich.text import Text

        assert self._status is not None
        agents, selected = self.agents, self.selected
        rows = status_table.make_status_rows(agents, self._status.now)
        yield Text.assemble(*status_table.format_headline(rows), no_wrap=True, overflow="ellipsis")
        yield Text()
        if not agents:
            yield Text(f"no agent matches {self._filter!r}" if self._filter else "no agents yet")
            return
        room = max(1, lines - _CHROME_LINES)
        index = agents.index(selected) if selected in agents else 0
        first = max(0, min(index - room // 2, len(agents) - room))
        width = max(8, min(22, columns // 4))
        doing = max(10, columns - width - 27)
        yield Text(f"  {'agent':<{width}}  {'state':<11}  {'doing':<{doing}}  seen", style="bright_black", no_wrap=True)
        for agent, row in zip(agents[first : first + room], rows[first : first + room], strict=True):
            symbol, style = status_table.LOOKS[row.standing]
            mark = "▸" if agent is selected else " "
            request = self._find_request(agent)
            what = f"allow? {row.doing}" if request is not None and request.can_answer else row.doing
            line = Text(f"{mark} {_fit_to_width(row.agent, width)}  ", style="bold reverse" if agent is selected else "", no_wrap=True)
            line.append(_fit_to_width(f"{symbol} {row.standing}", 11), style=style)
            line.append(f"  {_fit_to_width(what, doing)}  {row.seen}")
            yield line

    def _fit_detail(self, columns: int, room: int) -> list[Text]:
        """The page of an agent as lines of the screen."""
        from rich.console import Console
        from rich.text import Text

        console = Console(width=columns)
        found = [line for text in self._draw_detail() for line in text.wrap(console, columns)]
        if len(found) <= room:
            return found
        note = f"… and {len(found) - room + 1} more lines; `lore decide` shows requests in full"
        return [*found[: room - 1], Text(note, style="bold yellow", no_wrap=True, overflow="ellipsis")]

    def _draw_detail(self) -> Iterator[Text]:
        from rich.text import Text

        agent, request = self.selected, self.request
        assert self._status is not None
        if agent is None:
            return
        symbol, style = status_table.LOOKS[agent.state]
        yield Text(sanitise_text(agent.shown), style="bold", no_wrap=True, overflow="ellipsis")
        yield Text(f"{symbol} {agent.state}" + (f": {agent.reason}" if agent.reason else ""), style=style)
        if agent.disagreement:
            yield Text(f"but {sanitise_text(agent.disagreement)}", style="yellow")
        yield Text(sanitise_text(status_table.describe_doing(agent)))
        yield Text()
        seen = "never" if agent.last_seen is None else format_ago(self._status.now - agent.last_seen)
        for name, value in (("task", agent.task), ("goal", agent.goal), ("session", agent.session), ("last seen", seen)):
            if value:
                yield Text(f"{name:<10} {sanitise_text(value)}", no_wrap=True, overflow="ellipsis")
        if request is not None:
            yield Text()
            for line in decide.render_request(request, self._status.now):
                yield Text(line, no_wrap=True, overflow="ellipsis")
        elif self._opened is not None:
            yield Text()
            yield Text(_NO_LONGER_OPEN)
        elif agent.session:
            yield Text(f"\nlore show {sanitise_text(agent.session)[:8]}", style="bright_black")

    def _prompt_line(self, columns: int) -> str:
        if self._mode == "filter":
            return _show_end("filter: ", f"{self._filter}▏", columns)
        if self._mode == "reason":
            return _show_end("deny, reason (Enter sends it, Esc goes back): ", f"{self._reason}▏", columns)
        return sanitise_text(self.message) or (f"filter: {self._filter}  (Esc clears it)" if self._filter else "")

    def _key_line(self) -> str:
        opened = "Esc back" if self._mode == "detail" else "Enter open"
        return f"↑↓ move  {opened}  a allow  d deny  / filter  A {'fewer' if self._everybody else 'all'}  q quit"


def _fit_to_width(text: str, width: int) -> str:
    """A text cut or padded to a width in cells."""
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _show_end(label: str, typed: str, columns: int) -> str:
    """A line that is being typed; of a long one the end, where the cursor is."""
    from rich.cells import cell_len

    room = max(2, columns - cell_len(label))
    if cell_len(typed) <= room:
        return label + typed
    while cell_len(typed) > room - 1:
        typed = typed[1:]
    return f"{label}…{typed}"


# --- terminal and log


def run_screen(console: Console, context: OperationContext, request: ReadFleetStatus, *, everybody: bool) -> FleetStatus | None:
    """Show the screen until the person quits; returns the last status. It is redrawn on keys and events."""
    from rich.live import Live

    from fleetlore.operations.agents import read_fleet_status
    from fleetlore.operations.approvals import Decide as DecideRequest
    from fleetlore.operations.approvals import ListApprovals, decide_approval, list_approvals

    def answer(approval: OpenApproval, choice: Literal["allow", "deny"], reason: str) -> str:
        return decide_approval(context, DecideRequest(id=approval.id, choice=choice, reason=reason or None)).answer

    screen, inputs = StatusScreen(answer, everybody=everybody), SimpleQueue[Input]()
    status = read_fleet_status(context, request)
    screen.show(status, list_approvals(context, ListApprovals()).approvals)
    Thread(target=_follow_log, args=(context, status.position, inputs), name="fleetlore-watch", daemon=True).start()
    with suppress(KeyboardInterrupt), _raw_keys(inputs), Live(console=console, screen=True, auto_refresh=False) as live:
        while not screen.is_done:
            live.update(screen.draw(console.width, console.height), refresh=True)
            for received in _wait_for_inputs(inputs):
                if isinstance(received, BaseException):
                    raise received
                if received is not None:
                    screen.press(received)
            status = read_fleet_status(context, request)
            screen.show(status, list_approvals(context, ListApprovals()).approvals)
    return status


def _wait_for_inputs(inputs: SimpleQueue[Input]) -> list[Input]:
    """Everything in the queue; waits for the first input, but no longer than until the shown ages must be updated."""
    try:
        found = [inputs.get(timeout=REDRAW_SECONDS)]
    except Empty:
        return []
    while not inputs.empty():
        found.append(inputs.get())
    return found


def _follow_log(context: OperationContext, after: str | None, inputs: SimpleQueue[Input]) -> None:
    try:
        for _ in context.log.follow(after=after):
            inputs.put(None)
    except BaseException as error:  # noqa: BLE001  # raised by the screen, not in this thread
        inputs.put(error)


@contextmanager
def _raw_keys(inputs: SimpleQueue[Input]) -> Iterator[None]:
    """Read single keys from the terminal while the block runs."""
    terminal = sys.stdin.fileno()
    before, (stopped, stop) = termios.tcgetattr(terminal), os.pipe()
    tty.setcbreak(terminal)
    thread = Thread(target=_read_keys, args=(terminal, stopped, inputs), name="fleetlore-keys", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(stop)
        thread.join(1.0)
        os.close(stopped)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read_keys(terminal: int, stopped: int, inputs: SimpleQueue[Input]) -> None:
    while True:
        ready, _, _ = select.select([terminal, stopped], [], [])
        raw = os.read(terminal, 1024) if stopped not in ready else b""
        while raw and _is_cut_off(raw) and select.select([terminal], [], [], SEQUENCE_SECONDS)[0] and (more := os.read(terminal, 1024)):
            raw += more
        if not raw:
            inputs.put("q")  # standard input is closed, or the screen ends
            return
        for key in parse_keys(raw):
            inputs.put(key)


def _is_cut_off(raw: bytes) -> bool:
    """Whether the rest of an escape sequence or of a character is still to come."""
    try:
        return _CUT_OFF.search(raw.decode()) is not None
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"


def parse_keys(raw: bytes) -> list[Key]:
    """The keys in what a terminal sends. Escape sequences of other keys are left out: their letters were not typed."""
    found = [match[0] for match in _INPUT.finditer(raw.decode(errors="replace"))]
    return [_KEYS.get(key, key) for key in found if key in _KEYS or len(key) == 1]
