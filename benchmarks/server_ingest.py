"""Events received over HTTP, compared with the log's own bulk append; part of `benchmarks.server`.

Each lane gets its bodies ready-made. A span counts when its event has arrived on a stream, so request, storage and delivery are all in the
time; a line of NDJSON counts when it is stored and its position is returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks import ours, samples
from benchmarks.measure import Lane, Row, race, rate_row
from fleetlore.events import codec

if TYPE_CHECKING:
    from benchmarks.server import Clients, Served

NDJSON_TO_BULK = 0.4
SPANS_TO_BULK = 0.15


@dataclass(frozen=True)
class Plan:
    rounds: int = 15
    seconds: float = 40.0
    events: int = 10_000


THOROUGH = Plan()
QUICK = Plan(rounds=5, seconds=10.0, events=4_000)

IDLE_SECONDS = 2.0
"""A connection that was idle for longer is opened again."""


class IngestClient:
    """One connection to a server, kept open."""

    def __init__(self, served: Served, clients: Clients) -> None:
        self._served, self._clients = served, clients
        self._line = HTTPConnection("127.0.0.1", served.port)
        self._number = count(1)
        self._used = 0.0

    def lines(self, size: int) -> Sequence[bytes]:
        return [codec.encode_event(event) for event in self._served.take(size)]

    def post_lines(self, lines: Sequence[bytes]) -> None:
        answer = self._post("/api/events", "application/x-ndjson", b"\n".join(lines))
        assert answer.count(b'"') >= 2 * len(lines), answer[:300]

    def spans(self, size: int) -> Sequence[Any]:
        """Calls of models and of tools, as an instrumented agent exports them; as many messages as there are spans."""
        return [_span(next(self._number)) for _ in range(size)]

    def post_spans(self, spans: Sequence[Any]) -> None:
        request = ExportTraceServiceRequest()
        request.resource_spans.add().scope_spans.add().spans.extend(spans)
        self._post("/v1/traces", "application/x-protobuf", request.SerializeToString())
        self._clients.ask("await", "doors", len(spans))

    def _post(self, path: str, kind: str, body: bytes) -> bytes:
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self._served.token}"}
        if monotonic() - self._used > IDLE_SECONDS:  # the server has closed it, or will while we write
            self._line.close()
        self._line.request("POST", path, body, headers)
        answer = self._line.getresponse()
        said = answer.read()
        self._used = monotonic()
        assert answer.status == 200, said[:500]
        return said

    def close(self) -> None:
        self._line.close()


def _span(number: int) -> Any:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    now = time_ns()
    span = Span(
        trace_id=(number // 50 + 1).to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        name="chat",
        start_time_unix_nano=now - 1_000_000,
        end_time_unix_nano=now,
    )
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.agent.name": samples.agent(number),
        "gen_ai.response.id": f"msg_{number:012x}",
        "gen_ai.usage.input_tokens": 1200 + number % 100,
        "gen_ai.usage.output_tokens": 80 + number % 50,
    }
    for key, value in attributes.items():
        pair = span.attributes.add(key=key)
        if isinstance(value, int):
            pair.value.int_value = value
        else:
            pair.value.string_value = value
    return span


def rows(folder: Path, plan: Plan) -> Iterator[Row]:
    from benchmarks.server import Clients, Served

    place = folder / "doors"
    place.mkdir()
    with ExitStack() as stack:
        clients = stack.enter_context(Clients())
        served = stack.enter_context(Served("ours", place))
        bulk, client = ours.Blocking(ours.url_of(place / "bulk.db")), IngestClient(served, clients)
        stack.callback(bulk.close)
        stack.callback(client.close)
        lanes = [Lane("bulk", bulk.take, bulk.bulk, plan.events), Lane("ndjson", client.lines, client.post_lines, plan.events)]
        for lane in lanes:
            lane.rate()
        result = race("NDJSON", lanes, rounds=plan.rounds, seconds=plan.seconds)
        yield rate_row(result, "NDJSON over HTTP / the log's own bulk append", "ndjson", "bulk", NDJSON_TO_BULK)
        clients.ask("token", served.port, served.token)
        clients.ask("open", "doors", served.port, 1)
        lanes = [lanes[0], Lane("spans", client.spans, client.post_spans, plan.events)]
        for lane in lanes:
            lane.rate()
        result = race("OTLP", lanes, rounds=plan.rounds, seconds=plan.seconds)
        yield rate_row(result, "OTLP spans to visible / the log's own bulk append", "spans", "bulk", SPANS_TO_BULK)
