"""A program that acts as tinytown does on its event streams: its writes one by one with its caps, and its forgiving reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import redis

from fleetlore.dialects.tinytown import TYPES

CAPS = {"agent": 100, "mission": 500}


class Tinytown:
    """One town, as tinytown 0.10 keeps it."""

    def __init__(self, port: int, town: str = "default") -> None:
        self._redis = redis.Redis(port=port)
        self._events = f"tt:{town}:events"

    def emit(self, event_type: str, message: str, *, agent: str | None = None, mission: str | None = None) -> str:
        """Write an event to the town's, the agent's and the mission's stream; answers the JSON."""
        ids = {"agent_id": agent, "mission_id": mission}
        record = {"event_type": event_type, **{key: value for key, value in ids.items() if value}, "message": message}
        data = json.dumps(record | {"timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f123Z")}, separators=(",", ":"))
        targets = [(self._events, 1000)]
        targets += [(f"{self._events}:{kind}:{id}", CAPS[kind]) for kind, id in (("agent", agent), ("mission", mission)) if id]
        for stream, cap in targets:
            self._redis.xadd(stream, {"event_type": event_type, "data": data}, maxlen=cap, approximate=True)
        return data

    def read(self, kind: str = "", id: str = "") -> list[dict[str, Any]]:
        """What tinytown's reader makes of a stream: entries that it does not understand are passed over."""
        stream = f"{self._events}:{kind}:{id}" if kind else self._events
        records = []
        entries: list[Any] = self._redis.xrange(stream) or []
        for _, fields in entries:
            try:
                record = json.loads(fields[b"data"])
            except (KeyError, ValueError):
                continue
            if record.get("event_type") in TYPES and {"message", "timestamp"} <= record.keys():
                records.append(record)
        return records

    def close(self) -> None:
        self._redis.close()
