"""Notices what nobody says: that the user went quiet and came back, and that the browser does not show what it should. Changes only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from fleetlore.graph.node import Node, as_node
from fleetlore.graph.sink import SinkMessage
from fleetlore.graph.step import Step, WatcherContext
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_audit import compare_controls
from fleetlore.views.conversation_state import Conversation


class _AuditContext(Protocol):
    @property
    def session(self) -> Conversation: ...

    @property
    def note(self) -> Callable[..., str]: ...

    def send(self, message: SinkMessage) -> None: ...


class SensorNode(Node):
    """The agent's feeling for time and for the screen."""

    options: ClassVar[Mapping[str, Any]] = {"tick_seconds": 5.0, "idle_seconds": 300.0}

    async def run(self, step: Step) -> dict[str, Any]:
        """At the beginning of a turn: is the user back, and does the screen hold?"""
        if step.turn.away >= float(step.options["idle_seconds"]):
            step.note("sensor.returned", {"away_ms": round(step.turn.away * 1000)})
            step.send_hud_event("returned")
        if "screen" in step.state:
            audit_screen(step)
        return dict(step.session.flags)

    def told(self, made: Any) -> Any:
        """What was noticed and is not answered yet."""
        return {"flags": sorted(made)}

    def on_dashboard_reported(self, watching: WatcherContext) -> None:
        """The browser told what it shows."""
        audit_screen(watching)

    async def watch(self, watching: WatcherContext) -> None:
        """Tells once that the user has gone quiet."""
        tick, patience = float(self.configured_options["tick_seconds"]), float(self.configured_options["idle_seconds"])
        while True:
            await watching.sleep(tick)
            quiet = watching.seconds_since_activity()
            if quiet >= patience and not watching.session.idle and watching.session.turn:
                watching.note("sensor.idle", {"idle_ms": round(quiet * 1000)})
                watching.send({"type": "hud", "node": self.role, "event": "idle"})

    def context(self, session: Conversation) -> str:
        """What the reply should take notice of."""
        lines = []
        if (returned := session.flags.get("returned")) is not None:
            lines.append(
                f"The user is back after {_describe_absence(returned.get('away_ms'))} away. Say so briefly, and what is on the screen."
            )
        if (amiss := session.flags.get("mismatch")) is not None:
            told = f"missing {_describe_controls(amiss.get('missing'))}; unexpected {_describe_controls(amiss.get('unexpected'))}"
            lines.append(f"The browser does not show what it should: {told}. See whether controls must be given again.")
        return "## Noticed\n" + "\n".join(text_safety.quote_record(line, 800) for line in lines) if lines else ""


def audit_screen(teller: _AuditContext) -> None:
    """Compare what is believed with what the browser said. At first the controls are sent again; if that does not help, it is told."""
    session = teller.session
    if session.reported is None or session.audited is False:
        return
    differs = compare_controls(session.controls, session.reported)
    if differs is None:
        return
    again = session.audited is None
    teller.note("audit.mismatch", {"missing": list(differs.missing), "unexpected": list(differs.unexpected), "retried": again})
    teller.send({"type": "hud", "node": "sensor", "event": "audit", "audit": "mismatch"})
    if again:
        teller.send({"type": "controls", "controls": session.controls, "state": session.state})


def _describe_absence(away_ms: Any) -> str:
    minutes = round(away_ms / 60_000) if isinstance(away_ms, int | float) else 0
    return f"{minutes} minutes" if minutes > 1 else "a while"


def _describe_controls(controls: Any) -> str:
    names = [str(each.get("label") or each.get("text") or each.get("columns")) for each in controls or () if isinstance(each, dict)]
    return ", ".join(names) or "nothing"


NODE = as_node(SensorNode)
