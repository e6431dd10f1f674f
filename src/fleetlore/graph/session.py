"""One user's conversation with one agent: turns one after the other, folded from the log and told to it.

A turn belongs to the session, not to whoever asked for it: a caller that goes away does not break it off, `close` does. What comes after
the reply (memory, course) runs while the user reads. The next message waits for it, so that no turn thinks with half a memory; a press
does not wait, and takes memory as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from fleetlore import clock
from fleetlore.errors import Closed, FleetloreError, Invalid
from fleetlore.graph import controls
from fleetlore.graph.engine import Engine, NodeError
from fleetlore.graph.journal import SessionJournal
from fleetlore.graph.model import Graph
from fleetlore.graph.node import Node, has_watcher
from fleetlore.graph.settings import Toolbox
from fleetlore.graph.sink import Sink, SinkMessage
from fleetlore.graph.step_runner import TurnHost, describe_error
from fleetlore.graph.turn import GraphTurn
from fleetlore.models.base import Model
from fleetlore.redact import Redactor
from fleetlore.views.conversation_state import Conversation, Screen, UiControl
from fleetlore.views.conversations import GRAPH_PROGRAM

if TYPE_CHECKING:
    from fleetlore.graph.settings import GraphSettings

MAX_TEXT_BYTES = 16_000
MAX_ACTION_LENGTH = 200
MAX_DATA_BYTES = 16_000
GRACE = 5.0
"""Seconds that a closing session gives to what comes after a reply."""
CLOSED_MESSAGE = "the session was closed in the middle of the turn"
_Result = TypeVar("_Result")


class GraphTurnResult(NamedTuple):
    """Which turn it was, and what the user was told went wrong, if anything did."""

    turn: int
    error: str | None


class SessionContext:
    """What every session of a log shares: minds, settings, graphs, time."""

    def __init__(
        self,
        *,
        models: Mapping[str, Model],
        settings: GraphSettings,
        get_engine: Callable[[str], Engine],
        reload_engine: Callable[[str], Engine],
        reload_journal: Callable[[str], Awaitable[SessionJournal]],
        now: clock.Clock,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self.models, self.settings, self.now, self.sleep = models, settings, now, sleep
        self.get_engine, self.reload_engine, self.reload_journal = get_engine, reload_engine, reload_journal


class Session:
    """A conversation. Turns wait for each other; each ends in `done`, a failed one in `error` and then `done`."""

    def __init__(self, pen: SessionJournal, around: SessionContext) -> None:
        self.id = pen.session.id
        self._journal, self._context = pen, around
        self._sinks: list[Sink] = []
        self._lock = asyncio.Lock()
        self._running_turns: set[asyncio.Task[Any]] = set()
        self._watcher_tasks: list[asyncio.Task[None]] = []
        self._after_reply_task: asyncio.Task[None] | None = None
        self._after_reply_tasks: set[asyncio.Task[None]] = set()
        """What comes after replies and is not over: each waits for the one before, `_after` is the newest."""
        self._is_closed = False
        self._use_engine(around.get_engine(pen.session.graph))

    def _use_engine(self, engine: Engine) -> None:
        """Go by this engine from now on."""
        for task in self._watcher_tasks:
            task.cancel()
        self._engine, self._tools = engine, Toolbox(engine.graph, self._context.settings)
        beside = [node for node in engine.nodes.values() if has_watcher(node)]
        self._watcher_tasks = [asyncio.ensure_future(_run_watcher(node, self)) for node in beside]

    @property
    def graph(self) -> Graph:
        """The graph by which it goes now."""
        return self._engine.graph

    @property
    def session(self) -> Conversation:
        """The fold."""
        return self._journal.session

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more turns."""
        return self._is_closed

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being done and nobody listens."""
        return not self._running_turns and not self._sinks and (self._after_reply_task is None or self._after_reply_task.done())

    def attach_sink(self, sink: Sink) -> None:
        """Let a sink hear all that comes from now on."""
        self._sinks.append(sink)

    def detach_sink(self, sink: Sink) -> None:
        """Let it hear no more."""
        self._sinks = [each for each in self._sinks if each is not sink]

    def send(self, message: SinkMessage) -> None:
        """Tell every sink."""
        for sink in self._sinks:
            try:
                sink.send(message)
            except Exception:  # noqa: BLE001 - a sink is another's; one that breaks is let go, and the turn goes on
                self.detach_sink(sink)

    async def handle_text(self, text: str, dashboard: list[UiControl] | None = None) -> GraphTurnResult:
        """The user said something; `dashboard` is what the browser shows. Ends when the turn does. Never raises for what a node did."""
        words = text.encode(errors="replace").decode().strip()
        if not words:
            raise Invalid("nothing was said; send some words")
        if (size := len(words.encode())) > MAX_TEXT_BYTES:
            raise Invalid(f"a message has at most {MAX_TEXT_BYTES:,} bytes, not {size:,}; say it in parts")
        return await self._run_shielded(self._take_turn(_UserInput(self.session.controls, text=words, dashboard=dashboard)))

    async def handle_action(self, action: str, data: Any = None, dashboard: list[UiControl] | None = None) -> GraphTurnResult:
        """The user pressed a control."""
        if not action or len(action) > MAX_ACTION_LENGTH:
            raise Invalid(f"an action has 1 to {MAX_ACTION_LENGTH} characters; give it such a name")
        _check_json(action, data)
        return await self._run_shielded(self._take_turn(_UserInput(self.session.controls, action=action, data=data, dashboard=dashboard)))

    async def report_dashboard(self, dashboard: list[UiControl]) -> None:
        """The browser tells what it shows. Only changes are kept; what does not fit is audited."""
        self._check_open()
        self._note_dashboard(dashboard)
        for node in self._engine.nodes.values():
            node.on_dashboard_reported(self)

    async def switch_graph(self, graph: str) -> None:
        """Go on by another graph, between two turns; history and state stay. `Invalid` if there is none of that name."""
        engine = self._context.reload_engine(graph)
        await self._run_shielded(self._restart_session("switch", engine))

    async def clear_conversation(self) -> None:
        """Forget history, controls, state, machines and memory; the log keeps what was."""
        await self._run_shielded(self._restart_session("clear"))

    async def close(self) -> None:
        """Stop everything: the running turn, the sensor, children. The session can be opened again."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in (*self._running_turns, *self._watcher_tasks):
            task.cancel()
        await asyncio.gather(*self._running_turns, *self._watcher_tasks, return_exceptions=True)
        if behind := list(self._after_reply_tasks):
            await asyncio.wait(behind, timeout=GRACE)
            for task in behind:
                task.cancel()
            await asyncio.gather(*behind, return_exceptions=True)
        with suppress(Exception):  # whose turn it was has been told; what the log does not have, it does not have
            await self._journal.flush_events()

    async def wait_until_settled(self) -> None:
        """Wait until what comes after the last reply is over, and on the log."""
        if self._after_reply_task is not None:
            await asyncio.wait([self._after_reply_task])
        await self._journal.flush_events()

    def build_screen(self) -> Screen:
        """What the page shows."""
        fold = self.session
        memory, mode = fold.kept.get("memorizer"), fold.kept.get("director")
        return Screen(
            session=self.id,
            graph=self.graph.name,
            turn=fold.turn,
            busy=fold.open is not None,
            history=list(fold.history),
            controls=list(fold.controls),
            state=dict(fold.state),
            machines=dict(fold.machines),
            memory=memory if isinstance(memory, dict) else {},
            mode=mode if isinstance(mode, dict) else {},
        )

    # What nodes that live beside the turns are given.

    def seconds_since_activity(self) -> float:
        """How long ago the user last did something."""
        active = self.session.active_at
        return 0.0 if active is None else max(0.0, (self._context.now() - active).total_seconds())

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._context.sleep(seconds)

    def note(self, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Tell the log, without waiting."""
        return self._journal.note(kind, data, **envelope)

    # One turn.

    async def _run_shielded(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Let the session do it, in a task of its own, and wait for that."""
        if self._is_closed:
            work.close()
        self._check_open()
        task = asyncio.ensure_future(work)
        self._running_turns.add(task)
        task.add_done_callback(self._running_turns.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # not whoever waits, but the turn
                self._check_open()
            raise

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the session was closed; open it again")

    async def _take_turn(self, said: _UserInput) -> GraphTurnResult:
        """One turn, from what was said to `done`."""
        async with self._lock:
            began = perf_counter()
            try:
                await self._prepare_turn(wait=said.action is None)
                host, made, turn = await self._run_turn(said, began)
            except asyncio.CancelledError:
                await self._end_failed_turn("interrupted", CLOSED_MESSAGE, began)
                raise
            except Exception as error:  # noqa: BLE001 - whatever a node, a mind or the log raised, the user is told, and the next turn works
                await self._end_failed_turn("error", words := _describe_error_for_user(error), began)
                return GraphTurnResult(self.session.turn, words)
            self.send({"type": "done"})
            if self._engine.has_after_reply:
                self._after_reply_task = asyncio.ensure_future(
                    self._run_after_reply(self._engine, turn, made, host, self._after_reply_task)
                )
                self._after_reply_tasks.add(self._after_reply_task)
                self._after_reply_task.add_done_callback(self._after_reply_tasks.discard)
            return GraphTurnResult(turn.number, None)

    async def _prepare_turn(self, *, wait: bool) -> None:
        if wait and self._after_reply_task is not None:
            await asyncio.wait([self._after_reply_task])
        if self._journal.storage_error is not None:  # something that was folded is not on the log
            self._journal = await self._context.reload_journal(self.id)

    async def _run_turn(self, said: _UserInput, began: float) -> tuple[TurnHost, dict[str, Any], GraphTurn]:
        away = self.seconds_since_activity()
        fold = self.session
        dashboard = said.dashboard if said.screen is fold.controls else None  # of another screen, it is no news
        cause = self._note_user_input(said, dashboard)
        turn = GraphTurn(
            number=fold.turn,
            identity=fold.identity or "",
            channel=fold.channel,
            text=said.text,
            action=said.action,
            data=said.data,
            dashboard=None if dashboard is None else tuple(fold.reported or ()),
            away=away,
        )
        host = TurnHost(self._engine, self._journal, self._tools, self._context.models, self.send, turn.number, cause)
        made = await self._engine.run(turn, host)
        self._note_reply(turn, made, host)
        took = round((perf_counter() - began) * 1000, 3)
        self._journal.note("session.turn_ended", {"reason": "done", "turn": turn.number, "duration_ms": took}, cause=cause)
        await self._journal.flush_events()
        return host, made, turn

    def _note_user_input(self, said: _UserInput, dashboard: list[UiControl] | None) -> str:
        """What the user did, told; answers its id."""
        if dashboard is not None:
            self._note_dashboard(dashboard)
        fold = self.session
        if said.action is None:
            return self._journal.note("prompt.submitted", {"prompt": said.text}, actor=fold.identity, text=said.text[:300])
        control = next((each for each in fold.controls if each.get("action") == said.action), {})
        words = f"[pressed {control.get('label', said.action)}]"
        data = {"action": said.action, **({} if said.data is None else {"payload": said.data})}
        return self._journal.note("ui.action", data, actor=fold.identity, text=words)

    def _note_dashboard(self, dashboard: list[UiControl]) -> None:
        shown = controls.parse_reported_controls(dashboard)
        if shown != self.session.reported:
            self._journal.note("ui.reported", {"controls": shown}, actor=self.session.identity)

    def _note_reply(self, turn: GraphTurn, made: Mapping[str, Any], host: TurnHost) -> None:
        """The reply, whole and once. An output node that streams nothing is heard all the same."""
        reply = made.get("output")
        if not isinstance(reply, str) or not reply:
            return
        if not host.has_streamed:
            self.send({"type": "delta", "content": reply})
        data: dict[str, Any] = {"turn": turn.number, "graph": self.graph.name}
        if "thinker" not in made and turn.action is not None:
            data["local"] = True
        elif self.session.flags:
            data["answered"] = list(host.noticed_flags)
        self._journal.note("agent.spoke", data, cause=host.reply_step_id, text=_truncate_reply(reply))

    async def _end_failed_turn(self, reason: str, words: str, began: float) -> None:
        """`error`, then `done`: always, whatever the log says to it."""
        try:
            if self.session.open is not None:
                took = round((perf_counter() - began) * 1000, 3)
                data = {"reason": reason, "turn": self.session.turn, "duration_ms": took}
                self._journal.note("session.turn_ended", data, cause=self.session.open, text=words)
                await self._journal.flush_events()
        except Exception:  # noqa: BLE001 - the pen knows that it is broken; the next turn begins with what the log has
            pass
        finally:
            self.send({"type": "error", "message": words})
            self.send({"type": "done"})

    async def _run_after_reply(
        self, engine: Engine, turn: GraphTurn, made: Mapping[str, Any], host: TurnHost, earlier: asyncio.Task[None] | None
    ) -> None:
        """Memory and course, once what came after the turn before is done; what fails is on the log, and costs nobody a reply."""
        if earlier is not None and not earlier.done():
            await asyncio.wait([earlier])
        try:
            await engine.run_after_reply(turn, made, host)
        except Exception:  # noqa: BLE001 - a node's failure is on the log; a log that takes nothing is noticed by the next turn
            pass
        finally:
            with suppress(Exception):  # the next turn reads again what the log has
                await self._journal.flush_events()

    async def _restart_session(self, source: str, engine: Engine | None = None) -> None:
        """By another engine, or by the one that there is by then."""
        async with self._lock:
            await self._prepare_turn(wait=True)
            fold, engine = self.session, engine or self._engine
            data = {
                "source": source,
                "program": GRAPH_PROGRAM,
                "person": fold.identity,
                "channel": fold.channel,
                "graph": engine.graph.name,
            }
            fold.agent = engine.graph.agent
            self._journal.note("session.started", data, actor=fold.identity)
            await self._journal.flush_events()
            if engine is not self._engine:
                self._use_engine(engine)
            if source == "clear":
                self.send({"type": "controls", "controls": [], "state": {}})


class _UserInput:
    """What the user did."""

    def __init__(
        self,
        screen: list[UiControl],
        *,
        text: str = "",
        action: str | None = None,
        data: Any = None,
        dashboard: list[UiControl] | None = None,
    ) -> None:
        self.screen = screen
        """What was on the screen when it was said: it may change while it waits for its turn."""
        self.text, self.action, self.data, self.dashboard = text, action, data, dashboard


def _truncate_reply(reply: str) -> str:
    """As much as an event keeps of it, so that the screen is the same after a restart."""
    raw = reply.encode(errors="replace")
    return reply if len(raw) <= MAX_TEXT_BYTES else f"{raw[:MAX_TEXT_BYTES].decode(errors='ignore')}…"


def _check_json(action: str, data: Any) -> None:
    try:
        size = len(msgspec.json.encode((action, data)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:  # half a character, for one, which JSON can spell
        raise Invalid(f"an action and its data must be JSON: {error}") from error
    if size > MAX_DATA_BYTES:
        raise Invalid(f"an action's data has at most {MAX_DATA_BYTES:,} bytes of JSON, not {size:,}")


def _describe_error_for_user(error: BaseException) -> str:
    """What the user may know: what we raise on purpose says what to do; of anything else only where it happened."""
    inner = error.__cause__ if isinstance(error, NodeError) else error
    where = f"{error.role}: " if isinstance(error, NodeError) else ""
    if isinstance(inner, FleetloreError):
        return Redactor().redact_value(f"{where}{inner}")[0]
    return f"{where}something went wrong ({type(inner).__name__}); say it again, or look into the trace"


async def _run_watcher(node: Node, session: Session) -> None:
    """A node beside the turns that fails is told of, and missed, no more."""
    try:
        await node.watch(session)
    except Exception as error:  # noqa: BLE001 - it is anybody's code
        session.note("node.failed", {"node": node.role, "graph": session.graph.name, "error": describe_error(error)})
