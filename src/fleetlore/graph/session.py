"""One user's conversation with one agent: takes turns one after the other and records them in the log.

A turn belongs to the session, not to the caller: if the caller goes away, the turn continues until `close`. The nodes after the reply
(memory, mode) run while the user reads. The next message waits for them, so that it sees the complete memory; a pressed button does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

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
CLOSE_SECONDS = 5.0
"""How long a closing session waits for the nodes after the reply."""
CLOSED_MESSAGE = "the session was closed in the middle of the turn"
STOPPED_MESSAGE = "the turn was stopped"
_Result = TypeVar("_Result")


class GraphTurnResult(NamedTuple):
    """The number of the turn, and the error shown to the user, if any."""

    turn: int
    error: str | None


class SessionContext:
    """What all sessions of a log share: models, settings, graphs."""

    def __init__(
        self,
        *,
        models: Mapping[str, Model],
        settings: GraphSettings,
        get_engine: Callable[[str], Engine],
        reload_engine: Callable[[str], Engine],
        reload_journal: Callable[[str], Awaitable[SessionJournal]],
    ) -> None:
        self.models, self.settings = models, settings
        self.get_engine, self.reload_engine, self.reload_journal = get_engine, reload_engine, reload_journal


class Session:
    """A conversation. Turns run one at a time; each ends with `done`, a failed one with `error` and `done`."""

    def __init__(self, journal: SessionJournal, context: SessionContext) -> None:
        self.id = journal.session.id
        self._journal, self._context = journal, context
        self._sinks: list[Sink] = []
        self._lock = asyncio.Lock()
        self._running_turns: set[asyncio.Task[Any]] = set()
        self._watcher_tasks: list[asyncio.Task[None]] = []
        self._after_reply_task: asyncio.Task[None] | None = None
        self._after_reply_tasks: set[asyncio.Task[None]] = set()
        """Unfinished work after replies: each task waits for the previous one; `_after_reply_task` is the newest."""
        self._is_closed = False
        self._current_turn: asyncio.Task[Any] | None = None
        self._stop_message: str | None = None
        """Why the current turn is being stopped."""
        self._use_engine(context.get_engine(journal.session.graph))

    def _use_engine(self, engine: Engine) -> None:
        for task in self._watcher_tasks:
            task.cancel()
        self._engine, self._tools = engine, Toolbox(engine.graph, self._context.settings)
        watchers = [node for node in engine.nodes.values() if has_watcher(node)]
        self._watcher_tasks = [self._journal.spawn(_run_watcher(node, self)) for node in watchers]

    @property
    def graph(self) -> Graph:
        """The current graph."""
        return self._engine.graph

    @property
    def session(self) -> Conversation:
        """The state of the conversation, built from its events."""
        return self._journal.session

    @property
    def is_closed(self) -> bool:
        """Whether the session accepts no more turns."""
        return self._is_closed

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and no sink is attached."""
        return not self._running_turns and not self._sinks and (self._after_reply_task is None or self._after_reply_task.done())

    def attach_sink(self, sink: Sink) -> None:
        """Send all messages from now on to this sink."""
        self._sinks.append(sink)

    def detach_sink(self, sink: Sink) -> None:
        """Send no more messages to this sink."""
        self._sinks = [each for each in self._sinks if each is not sink]

    def send(self, message: SinkMessage) -> None:
        """Send a message to every sink."""
        for sink in self._sinks:
            try:
                sink.send(message)
            except Exception:  # noqa: BLE001 - a broken sink is detached; the turn continues
                self.detach_sink(sink)

    async def handle_text(self, text: str, dashboard: list[UiControl] | None = None) -> GraphTurnResult:
        """Take a turn for a message; `dashboard` is what the browser shows. Errors of nodes are in the result, not raised."""
        stripped = text.encode(errors="replace").decode().strip()
        if not stripped:
            raise Invalid("nothing was said; send some words")
        if (size := len(stripped.encode())) > MAX_TEXT_BYTES:
            raise Invalid(f"a message has at most {MAX_TEXT_BYTES:,} bytes, not {size:,}; split it")
        return await self._run_shielded(self._take_turn(_UserInput(self.session.controls, text=stripped, dashboard=dashboard)))

    async def handle_action(self, action: str, data: Any = None, dashboard: list[UiControl] | None = None) -> GraphTurnResult:
        """Take a turn for a pressed control."""
        if not action or len(action) > MAX_ACTION_LENGTH:
            raise Invalid(f"an action has 1 to {MAX_ACTION_LENGTH} characters; give it such a name")
        _check_json(action, data)
        return await self._run_shielded(self._take_turn(_UserInput(self.session.controls, action=action, data=data, dashboard=dashboard)))

    def stop_turn(self, message: str = STOPPED_MESSAGE) -> bool:
        """Stop the running turn, if there is one; it ends with `error` and `done`, and the session goes on."""
        if self._current_turn is None or self._stop_message is not None:
            return False
        self._stop_message = message
        self._current_turn.cancel()
        return True

    async def report_dashboard(self, dashboard: list[UiControl]) -> None:
        """Record what the browser shows, if it changed, and let the nodes compare it with what it should show."""
        self._check_open()
        self._note_dashboard(dashboard)
        for node in self._engine.nodes.values():
            node.on_dashboard_reported(self)

    async def switch_graph(self, graph: str) -> None:
        """Continue with another graph, after the running turn; history and state stay. Raises `Invalid` for an unknown name."""
        engine = self._context.reload_engine(graph)
        await self._run_shielded(self._restart_session("switch", engine))

    async def clear_conversation(self) -> None:
        """Forget history, controls, state, machines and memory; the log keeps the past."""
        await self._run_shielded(self._restart_session("clear"))

    async def close(self) -> None:
        """Stop the running turn and the background nodes. The session can be opened again."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in (*self._running_turns, *self._watcher_tasks):
            task.cancel()
        await asyncio.gather(*self._running_turns, *self._watcher_tasks, return_exceptions=True)
        if after_reply := list(self._after_reply_tasks):
            await self._journal.wait_at_most(asyncio.wait(after_reply), CLOSE_SECONDS)
            for task in after_reply:
                task.cancel()
            await asyncio.gather(*after_reply, return_exceptions=True)
        with suppress(Exception):  # the turn has ended for its caller; nobody is left to report to
            await self._journal.flush()

    async def wait_until_settled(self) -> None:
        """Wait until the work after the last reply is finished and stored."""
        if self._after_reply_task is not None:
            await asyncio.wait([self._after_reply_task])
        await self._journal.flush()

    def build_screen(self) -> Screen:
        """The screen as the page shows it."""
        conversation = self.session
        memory, mode = conversation.kept.get("memorizer"), conversation.kept.get("director")
        return Screen(
            session=self.id,
            graph=self.graph.name,
            turn=conversation.turn,
            busy=conversation.open is not None,
            history=list(conversation.history),
            controls=list(conversation.controls),
            state=dict(conversation.state),
            machines=dict(conversation.machines),
            memory=memory if isinstance(memory, dict) else {},
            mode=mode if isinstance(mode, dict) else {},
        )

    # --- The context of nodes that run in the background (`WatcherContext`)

    @property
    def has_page(self) -> bool:
        """Whether a page is connected that reports what it shows."""
        return any(getattr(sink, "reports_screen", False) for sink in self._sinks)

    def seconds_since_activity(self) -> float:
        """Seconds since the user last did something."""
        active_at = self.session.active_at
        return 0.0 if active_at is None else max(0.0, (self._journal.now() - active_at).total_seconds())

    async def sleep(self, seconds: float) -> None:
        """Sleep on the session's clock."""
        await self._journal.sleep(seconds)

    def note(self, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Record an event without waiting."""
        return self._journal.note(kind, data, **envelope)

    # --- Turns

    async def _run_shielded(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run in a task of the session, so that cancelling the caller does not cancel the turn."""
        if self._is_closed:
            coroutine.close()
        self._check_open()
        task = self._journal.spawn(coroutine)
        self._running_turns.add(task)
        task.add_done_callback(self._running_turns.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # the turn was cancelled, not the caller
                self._check_open()
            raise

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the session was closed; open it again")

    async def _take_turn(self, user_input: _UserInput) -> GraphTurnResult:
        async with self._lock:
            started_at = self._journal.ticks()
            self._current_turn, self._stop_message = asyncio.current_task(), None
            limit = self._context.settings.turn_seconds
            timer = self._journal.spawn(self._stop_after(limit)) if limit > 0 else None
            try:
                await self._prepare_turn(wait=user_input.action is None)
                host, outputs, turn = await self._run_turn(user_input, started_at)
            except asyncio.CancelledError:
                message = CLOSED_MESSAGE if self._is_closed else self._stop_message
                await self._end_failed_turn("interrupted", message or CLOSED_MESSAGE, started_at)
                if message is None or self._is_closed or self._current_turn is None:
                    raise
                self._current_turn.uncancel()
                return GraphTurnResult(self.session.turn, message)
            except Exception as error:  # noqa: BLE001 - the user gets the error, and the next turn works
                await self._end_failed_turn("error", message := _describe_error_for_user(error), started_at)
                return GraphTurnResult(self.session.turn, message)
            finally:
                self._current_turn = None
                if timer is not None:
                    timer.cancel()
            self.send({"type": "done"})
            if self._engine.has_after_reply:
                self._after_reply_task = self._journal.spawn(
                    self._run_after_reply(self._engine, turn, outputs, host, self._after_reply_task)
                )
                self._after_reply_tasks.add(self._after_reply_task)
                self._after_reply_task.add_done_callback(self._after_reply_tasks.discard)
            return GraphTurnResult(turn.number, None)

    async def _stop_after(self, seconds: float) -> None:
        await self._journal.sleep(seconds)
        self.stop_turn(f"the turn took longer than {seconds:g} s and was stopped")

    async def _prepare_turn(self, *, wait: bool) -> None:
        if wait and self._after_reply_task is not None:
            await asyncio.wait([self._after_reply_task])
        if self._journal.storage_error is not None:  # an applied event was not stored: read the session again
            self._journal = await self._context.reload_journal(self.id)

    async def _run_turn(self, user_input: _UserInput, started_at: float) -> tuple[TurnHost, dict[str, Any], GraphTurn]:
        seconds_away = self.seconds_since_activity()
        conversation = self.session
        # A report about an earlier screen is stale.
        dashboard = user_input.dashboard if user_input.screen is conversation.controls else None
        cause = self._note_user_input(user_input, dashboard)
        turn = GraphTurn(
            number=conversation.turn,
            identity=conversation.identity or "",
            channel=conversation.channel,
            text=user_input.text,
            action=user_input.action,
            data=user_input.data,
            dashboard=None if dashboard is None else tuple(conversation.reported or ()),
            away=seconds_away,
        )
        host = TurnHost(self._engine, self._journal, self._tools, self._context.models, self.send, turn.number, cause)
        outputs = await self._engine.run(turn, host)
        self._note_reply(turn, outputs, host)
        duration_ms = round((self._journal.ticks() - started_at) * 1000, 3)
        self._journal.note("session.turn_ended", {"reason": "done", "turn": turn.number, "duration_ms": duration_ms}, cause=cause)
        await self._journal.flush()
        return host, outputs, turn

    def _note_user_input(self, user_input: _UserInput, dashboard: list[UiControl] | None) -> str:
        """Record the input; returns the event's id."""
        if dashboard is not None:
            self._note_dashboard(dashboard)
        conversation = self.session
        if user_input.action is None:
            return self._journal.note(
                "prompt.submitted", {"prompt": user_input.text}, actor=conversation.identity, text=user_input.text[:300]
            )
        control = next((each for each in conversation.controls if each.get("action") == user_input.action), {})
        text = f"[pressed {control.get('label', user_input.action)}]"
        data = {"action": user_input.action, **({} if user_input.data is None else {"payload": user_input.data})}
        return self._journal.note("ui.action", data, actor=conversation.identity, text=text)

    def _note_dashboard(self, dashboard: list[UiControl]) -> None:
        shown = controls.parse_reported_controls(dashboard)
        if shown != self.session.reported:
            self._journal.note("ui.reported", {"controls": shown}, actor=self.session.identity)

    def _note_reply(self, turn: GraphTurn, outputs: Mapping[str, Any], host: TurnHost) -> None:
        """Record the complete reply. If the output node did not stream it, send it now."""
        reply = outputs.get("output")
        if not isinstance(reply, str) or not reply:
            return
        if not host.has_streamed:
            self.send({"type": "delta", "content": reply})
        data: dict[str, Any] = {"turn": turn.number, "graph": self.graph.name}
        if "thinker" not in outputs and turn.action is not None:
            data["local"] = True
        elif self.session.flags:
            data["answered"] = list(host.noticed_flags)
        self._journal.note("agent.spoke", data, cause=host.reply_step_id, text=_truncate_reply(reply))

    async def _end_failed_turn(self, reason: str, message: str, started_at: float) -> None:
        """Record the end of the turn; `error` and `done` are sent even if that fails."""
        try:
            if self.session.open is not None:
                duration_ms = round((self._journal.ticks() - started_at) * 1000, 3)
                data = {"reason": reason, "turn": self.session.turn, "duration_ms": duration_ms}
                self._journal.note("session.turn_ended", data, cause=self.session.open, text=message)
                await self._journal.flush()
        except Exception:  # noqa: BLE001 - the journal keeps the error; the next turn reads the log again
            pass
        finally:
            self.send({"type": "error", "message": message})
            self.send({"type": "done"})

    async def _run_after_reply(
        self, engine: Engine, turn: GraphTurn, outputs: Mapping[str, Any], host: TurnHost, earlier: asyncio.Task[None] | None
    ) -> None:
        """Run the edges after the reply, once those of the previous turn are finished. Errors are only recorded."""
        if earlier is not None and not earlier.done():
            await asyncio.wait([earlier])
        try:
            await engine.run_after_reply(turn, outputs, host)
        except Exception:  # noqa: BLE001 - a failed node is in the log; the next turn notices a failed log
            pass
        finally:
            with suppress(Exception):  # the next turn reads the log again
                await self._journal.flush()

    async def _restart_session(self, source: str, engine: Engine | None = None) -> None:
        """Start over: `source` is `switch` (with another engine) or `clear` (without history)."""
        async with self._lock:
            await self._prepare_turn(wait=True)
            conversation, engine = self.session, engine or self._engine
            data = {
                "source": source,
                "program": GRAPH_PROGRAM,
                "person": conversation.identity,
                "channel": conversation.channel,
                "graph": engine.graph.name,
            }
            conversation.agent = engine.graph.agent
            self._journal.note("session.started", data, actor=conversation.identity)
            await self._journal.flush()
            if engine is not self._engine:
                self._use_engine(engine)
            if source == "clear":
                self.send({"type": "controls", "controls": [], "state": {}})


class _UserInput:
    """A message or a pressed button, waiting for its turn."""

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
        """The controls at the time of the input; they may change while it waits."""
        self.text, self.action, self.data, self.dashboard = text, action, data, dashboard


def _truncate_reply(reply: str) -> str:
    """As much as an event stores, so that the screen is the same after a restart."""
    raw = reply.encode(errors="replace")
    return reply if len(raw) <= MAX_TEXT_BYTES else f"{raw[:MAX_TEXT_BYTES].decode(errors='ignore')}…"


def _check_json(action: str, data: Any) -> None:
    try:
        size = len(msgspec.json.encode((action, data)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:  # for example a lone surrogate
        raise Invalid(f"an action and its data must be JSON: {error}") from error
    if size > MAX_DATA_BYTES:
        raise Invalid(f"an action's data has at most {MAX_DATA_BYTES:,} bytes of JSON, not {size:,}")


def _describe_error_for_user(error: BaseException) -> str:
    """Our own errors say what to do; of others the user only learns the node and the type."""
    inner = error.__cause__ if isinstance(error, NodeError) else error
    prefix = f"{error.role}: " if isinstance(error, NodeError) else ""
    if isinstance(inner, FleetloreError):
        return Redactor().redact_value(f"{prefix}{inner}")[0]
    return f"{prefix}internal error ({type(inner).__name__}); try again, or look at the trace"


async def _run_watcher(node: Node, session: Session) -> None:
    """Run a background node; a failure is recorded, and the session continues without it."""
    try:
        await node.watch(session)
    except Exception as error:  # noqa: BLE001 - third-party code may raise anything
        session.note("node.failed", {"node": node.role, "graph": session.graph.name, "error": describe_error(error)})
