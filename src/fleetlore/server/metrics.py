"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from fleetlore.errors import LogError

if TYPE_CHECKING:
    from fleetlore.server.live.feed import Feed
    from fleetlore.server.security.limits import Limits
    from fleetlore.server.view_cache import Desk

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Meters:
    """One server's counts."""

    def __init__(self, feed: Feed, desk: Desk, limits: Limits) -> None:
        self._registry = CollectorRegistry()
        self._taken = Counter("fleetlore_events_taken", "Events that came in, by door", ["door"], registry=self._registry)
        self._refused = Counter("fleetlore_events_refused", "Events that were refused, by door", ["door"], registry=self._registry)
        self._answered = Histogram(
            "fleetlore_request_seconds",
            "Time to the whole answer, streams left out",
            ["route", "method", "status"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._registry.register(_Standing(feed, desk, limits))

    def taken(self, door: str, *, events: int = 0, refused: int = 0) -> None:
        """Something came in by a door."""
        self._taken.labels(door).inc(events)
        self._refused.labels(door).inc(refused)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._answered.labels(route, method, str(status)).observe(seconds)

    def page(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)


class _Standing(Collector):
    """What is counted elsewhere, asked when somebody looks."""

    def __init__(self, feed: Feed, desk: Desk, limits: Limits) -> None:
        self._feed, self._desk, self._limits = feed, desk, limits

    def collect(self) -> Iterator[Metric]:
        """The numbers as they are now."""
        yield GaugeMetricFamily("fleetlore_streams", "Clients that watch the feed", value=self._feed.clients)
        yield CounterMetricFamily("fleetlore_deliveries", "Events that were handed to clients of the feed", value=self._feed.delivered)
        yield CounterMetricFamily("fleetlore_streams_let_go", "Clients that were too slow, and were let go", value=self._feed.let_go)
        yield GaugeMetricFamily("fleetlore_requests_open", "Requests at work", value=self._limits.open_requests)
        warm = self._desk.warm
        yield GaugeMetricFamily("fleetlore_events_folded", "Events of the log that the views know", value=warm.folded_count)
        yield GaugeMetricFamily("fleetlore_views_caught_up", "1 once the views have reached the log's head", value=int(warm.caught_up))
        yield from self._agents()

    def _agents(self) -> Iterator[Metric]:
        from fleetlore.server.answers import fleet

        metric = GaugeMetricFamily("fleetlore_agents", "Agents, by how they stand", labels=["standing"])
        with suppress(LogError), self._desk.looking(None, fleet.NEEDS) as look:  # a log that is gone is when people look at meters
            for standing, count in fleet.counts(look).items():
                metric.add_metric([standing], count)
        yield metric
