"""Prometheus metrics of one server, shown by `/metrics` (`health.py`)."""

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
    from fleetlore.server.security.limits import RequestLimits
    from fleetlore.server.view_cache import ViewCache

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class ServerMetrics:
    """The metrics of one server."""

    def __init__(self, feed: Feed, view_cache: ViewCache, limits: RequestLimits) -> None:
        self._registry = CollectorRegistry()
        self._stored = Counter("fleetlore_events_taken", "Events that came in, by door", ["door"], registry=self._registry)
        self._refused = Counter("fleetlore_events_refused", "Events that were refused, by door", ["door"], registry=self._registry)
        self._requests = Histogram(
            "fleetlore_request_seconds",
            "Time to the whole answer, streams left out",
            ["route", "method", "status"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_StateCollector(feed, view_cache, limits))

    def count_events(self, endpoint: str, *, events: int = 0, refused: int = 0) -> None:
        """Count events that an endpoint stored and refused."""
        self._stored.labels(endpoint).inc(events)
        self._refused.labels(endpoint).inc(refused)

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Record the time that a request took."""
        self._requests.labels(route, method, str(status)).observe(seconds)

    def render(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _StateCollector(Collector):
    """Values that other objects keep, collected when `/metrics` is read."""

    def __init__(self, feed: Feed, view_cache: ViewCache, limits: RequestLimits) -> None:
        self._feed, self._view_cache, self._limits = feed, view_cache, limits

    def collect(self) -> Iterator[Metric]:
        """The current values."""
        yield GaugeMetricFamily("fleetlore_streams", "Clients that watch the feed", value=self._feed.clients)
        yield CounterMetricFamily("fleetlore_deliveries", "Events that were handed to clients of the feed", value=self._feed.delivered)
        yield CounterMetricFamily(
            "fleetlore_streams_let_go", "Clients that were too slow, and were let go", value=self._feed.dropped_clients
        )
        yield GaugeMetricFamily("fleetlore_requests_open", "Requests at work", value=self._limits.open_requests)
        live_views = self._view_cache.live_views
        yield GaugeMetricFamily("fleetlore_events_folded", "Events of the log that the views know", value=live_views.folded_count)
        yield GaugeMetricFamily(
            "fleetlore_views_caught_up", "1 once the views have reached the log's head", value=int(live_views.caught_up)
        )
        yield from self._count_agents()

    def _count_agents(self) -> Iterator[Metric]:
        from fleetlore.operations import fleet

        metric = GaugeMetricFamily("fleetlore_agents", "Agents, by how they stand", labels=["standing"])
        # Without the log, the other metrics are still wanted: that is when people look at them.
        with suppress(LogError), self._view_cache.snapshot(None, ("fleet",)) as snapshot:
            for standing, count in fleet.count_by_standing(snapshot).items():
                metric.add_metric([standing], count)
        yield metric
