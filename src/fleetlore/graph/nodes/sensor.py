"""Sensor node: notices that the user goes idle or returns, and that the browser does not show what it should."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from fleetlore.graph.node import Node, as_node
from fleetlore.graph.sink import SinkMessage
from fleetlore.graph.step import Step, WatcherContext
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_audit import compare_controls
from fleetlore.views.conversation_state import Conversation, UiControl


class _AuditContext(Protocol):
    @property
    def session(self) -> Conversation: ...

    @property
    def note(self) -> Callable[..., str]: ...

    def send(self, message: SinkMessage) -> None: ...


class SensorNode(Node):
    """Watches the user's activity and the browser's screen."""

    options: ClassVar[Mapping[str, Any]] = {"tick_seconds": 5.0, "idle_seconds": 300.0, "silent_ticks": 3}

    async def run(self, step: Step) -> dict[str, Any]:
        """At the start of a turn: record a return and audit the screen; outputs the open flags."""
        if step.turn.away >= float(step.options["idle_seconds"]):
            step.note("sensor.returned", {"away_ms": round(step.turn.away * 1000)})
            step.send_hud_event("returned")
        if "screen" in step.state:
            audit_screen(step)
        return dict(step.session.flags)

    def to_record(self, output: Any) -> Any:
        """The open flags."""
        return {"flags": sorted(output)}

    def on_dashboard_reported(self, context: WatcherContext) -> None:
        """Audit the screen against the report."""
        audit_screen(context)

    async def watch(self, context: WatcherContext) -> None:
        """Every tick: record once that the user has gone idle, and compare the screen with what the browser reports."""
        tick, idle_limit = float(self.configured_options["tick_seconds"]), float(self.configured_options["idle_seconds"])
        screens = _ScreenWatch(int(self.configured_options["silent_ticks"]))
        while True:
            await context.sleep(tick)
            screens.on_tick(context)
            idle_seconds = context.seconds_since_activity()
            if idle_seconds >= idle_limit and not context.session.idle and context.session.turn:
                context.note("sensor.idle", {"idle_ms": round(idle_seconds * 1000)})
                context.send({"type": "hud", "node": self.role, "event": "idle"})

    def context(self, session: Conversation) -> str:
        """What the reply should mention."""
        lines = []
        if (returned := session.flags.get("returned")) is not None:
            lines.append(
                f"The user is back after {_describe_absence(returned.get('away_ms'))}. Mention it briefly, and what is on the screen."
            )
        mismatch = session.flags.get("mismatch")
        if mismatch is not None and mismatch.get("silent"):
            lines.append(
                "The browser has not confirmed that it shows the screen; the user may see nothing. Say so, and describe it in words."
            )
        elif mismatch is not None:
            differences = (
                f"missing {_describe_controls(mismatch.get('missing'))}; unexpected {_describe_controls(mismatch.get('unexpected'))}"
            )
            lines.append(f"The browser shows something else than expected: {differences}. Check whether controls must be sent again.")
        return "## Noticed\n" + "\n".join(text_safety.quote_record(line, 800) for line in lines) if lines else ""


class _ScreenWatch:
    """Compares server and browser from tick to tick. A difference counts once it has lasted a whole tick."""

    def __init__(self, silent_ticks: int) -> None:
        self._silent_ticks, self._controls, self._report = silent_ticks, list[UiControl](), None
        self._quiet_count = 0
        self._was_different = False

    def on_tick(self, context: WatcherContext) -> None:
        session = context.session
        if session.controls is not self._controls:
            self._controls, self._quiet_count, self._was_different = session.controls, 0, False
        if session.reported is None:
            self._notice_silence(context)
            return
        is_different = compare_controls(session.controls, session.reported) is not None
        if is_different and self._was_different:
            audit_screen(context)
            is_different = False
        self._was_different = is_different

    def _notice_silence(self, context: WatcherContext) -> None:
        """A page that is connected and never says what it shows has failed to load or to draw."""
        session = context.session
        if not context.has_page or not session.controls or session.audited is False:
            self._quiet_count = 0
            return
        self._quiet_count += 1
        if self._quiet_count < self._silent_ticks:
            return
        self._quiet_count, is_first = 0, session.audited is None
        context.note("audit.mismatch", {"missing": list(session.controls), "unexpected": [], "retried": is_first, "silent": True})
        context.send({"type": "hud", "node": "sensor", "event": "audit", "audit": "silent"})
        if is_first:
            context.send({"type": "controls", "controls": session.controls, "state": session.state})


def audit_screen(context: _AuditContext) -> None:
    """Compare the controls with the browser's report. The first mismatch sends the controls again, the next ones are only recorded."""
    session = context.session
    if session.reported is None or session.audited is False:
        return
    difference = compare_controls(session.controls, session.reported)
    if difference is None:
        return
    is_first = session.audited is None
    context.note("audit.mismatch", {"missing": list(difference.missing), "unexpected": list(difference.unexpected), "retried": is_first})
    context.send({"type": "hud", "node": "sensor", "event": "audit", "audit": "mismatch"})
    if is_first:
        context.send({"type": "controls", "controls": session.controls, "state": session.state})


def _describe_absence(away_ms: Any) -> str:
    minutes = round(away_ms / 60_000) if isinstance(away_ms, int | float) else 0
    return f"{minutes} minutes" if minutes > 1 else "a while"


def _describe_controls(controls: Any) -> str:
    names = [str(each.get("label") or each.get("text") or each.get("columns")) for each in controls or () if isinstance(each, dict)]
    return ", ".join(names) or "nothing"


NODE = as_node(SensorNode)
