"""Publishes driver events of goals, or spans of runs, elsewhere: the `[[sink]]` tables of the settings (docs/goals.md#sinks).

A sink reads the log behind its own cursor, so it misses nothing: what could not be published waits in the log, in order. It publishes
at least once; after a crash the events since the last commit are published again, with the same ids. One process at a time
publishes to a sink, by a lease. Nothing here stops a goal.
"""

from __future__ import annotations

import fcntl
import hmac
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from itertools import islice
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import msgspec

from fleetlore import __version__
from fleetlore.dialects import nexo
from fleetlore.dialects.otlp import run_spans
from fleetlore.errors import FleetloreError, LogError
from fleetlore.kernel.lease import is_dead, make_holder_name
from fleetlore.log.base import Lease, Position
from fleetlore.log.coordination import Coordination
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.settings import SINK_TARGETS, SettingsTable, mask_url

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event

DRIVER_KINDS = tuple(nexo.KIND_PREFIX + kind for kind in nexo.SUBJECT_BY_KIND)
BEGINNING = "0"
"""The cursor of a sink on an empty log."""
MOST_AT_ONCE = 100
LEASE_SECONDS, POLL_SECONDS = 30.0, 0.25
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
CLOSE_SECONDS = 5.0
"""How long the end of a goal waits for its last events to be published."""
SEND_SECONDS = 10.0
_SPAN_PATH = "/v1/traces"


class SinkRecord(NamedTuple):
    """One driver event or span as it is published."""

    position: Position
    id: str
    subject: str
    payload: bytes


Send = Callable[[Sequence[SinkRecord]], Iterator[SinkRecord]]
"""Publishes records in order and yields those that arrived; raises `LogError` or `OSError`."""


class ConfiguredSink(NamedTuple):
    """A place that gets driver events or spans."""

    name: str
    target: str
    """For people, without secrets."""
    send: Send
    gets_spans: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the events that it gets, or that become spans."""
        return run_spans.SPAN_KINDS if self.gets_spans else DRIVER_KINDS

    @property
    def cursor(self) -> str:
        """Name of its cursor and its lease."""
        return f"sink:{self.name}"


def make_sink(table: SettingsTable) -> ConfiguredSink:
    """The sink of a `[[sink]]` table."""
    values: Mapping[str, str] = table.values
    kind = next(key for key in SINK_TARGETS if key in values)
    senders: Mapping[str, Callable[[Mapping[str, str]], Send]] = {
        "nats": _nats_sender,
        "webhook": _webhook_sender,
        "jsonl": _file_sender,
        "otlp": _span_sender,
    }
    target = values[kind] if kind == "jsonl" else mask_url(values[kind])
    return ConfiguredSink(values["name"], f"{kind} {target}", senders[kind](values), gets_spans=kind == "otlp")


# --- Targets


def _nats_sender(values: Mapping[str, str]) -> Send:
    prefix = values.get("prefix", nexo.SUBJECT_PREFIX).rstrip(".")

    def send(records: Sequence[SinkRecord]) -> Iterator[SinkRecord]:
        from fleetlore.log.nats.publisher import OutgoingMessage, publish_messages

        messages = [OutgoingMessage(nexo.replace_prefix(record.subject, prefix), record.payload, record.id) for record in records]
        publish_messages(values["nats"], messages, timeout=SEND_SECONDS)
        yield from records

    return send


class _NoRedirect(HTTPRedirectHandler):
    """The events are for the address in the settings."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _webhook_sender(values: Mapping[str, str]) -> Send:
    post = _make_poster(values["webhook"], "the webhook")

    def send(records: Sequence[SinkRecord]) -> Iterator[SinkRecord]:
        for record in records:
            headers = {"X-Fleetlore-Event": record.id, "X-Fleetlore-Subject": record.subject}
            if "secret" in values:
                headers["X-Fleetlore-Signature"] = f"sha256={hmac.digest(values['secret'].encode(), record.payload, 'sha256').hex()}"
            post(record.payload, headers)
            yield record

    return send


def _span_sender(values: Mapping[str, str]) -> Send:
    url = values["otlp"].rstrip("/")
    post = _make_poster(url if url.endswith(_SPAN_PATH) else url + _SPAN_PATH, "the OpenTelemetry endpoint")
    headers = {"Authorization": f"Bearer {values['secret']}"} if "secret" in values else {}

    def send(records: Sequence[SinkRecord]) -> Iterator[SinkRecord]:
        spans = [msgspec.Raw(record.payload) for record in records]
        post(run_spans.encode_request(spans, version=__version__), headers)
        yield from records

    return send


def _make_poster(url: str, name: str) -> Callable[[bytes, Mapping[str, str]], None]:
    """A function that posts JSON to a URL; `LogError`, without the URL, if it does not arrive."""
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
    is_here = host in ("localhost", "127.0.0.1", "[")
    opener = build_opener(_NoRedirect, *([ProxyHandler({})] if is_here else []))

    def post(payload: bytes, headers: Mapping[str, str]) -> None:
        try:
            request = Request(url, payload, {"Content-Type": "application/json", **headers})
            with opener.open(request, timeout=SEND_SECONDS) as response:
                response.read(65536)
        except HTTPError as error:
            with error:
                raise LogError(f"{name} answered {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise LogError(f"{name} cannot be reached: {getattr(reason, 'strerror', None) or type(reason).__name__}") from None

    return post


def _file_sender(values: Mapping[str, str]) -> Send:
    def send(records: Sequence[SinkRecord]) -> Iterator[SinkRecord]:
        os.makedirs(os.path.dirname(values["jsonl"]) or ".", exist_ok=True)
        handle = os.open(values["jsonl"], os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            end = os.fstat(handle).st_size
            is_torn = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
            raw = b"\n" * is_torn + b"".join(record.payload + b"\n" for record in records)
            if os.write(handle, raw) != len(raw):
                os.ftruncate(handle, end)
                raise LogError("there is no room for the events")
            os.fsync(handle)
        finally:
            os.close(handle)
        yield from records

    return send


# --- Delivery


class SinkDelivery:
    """Publishes what one sink has not got yet. Used by one thread."""

    def __init__(self, sink: ConfiguredSink, log: BlockingRecorder, shared: Coordination, town: str) -> None:
        self.sink, self._log, self._shared, self._town = sink, log, shared, town
        self._holder = make_holder_name()
        self.last_failure: str | None = None

    def prepare_cursor(self) -> None:
        """A new sink begins with the next event; it stays there, however long the target is down."""
        if self._shared.load_cursor(self.sink.cursor) is None:
            self._shared.commit_cursor(self.sink.cursor, self._log.head() or BEGINNING)

    def count_waiting(self) -> int:
        """How many events the sink has not got yet."""
        return sum(1 for _ in self._log.read(after=self._load_cursor(), kinds=self.sink.kinds))

    def deliver_events(self, limit: int = MOST_AT_ONCE) -> int | None:
        """Publish up to `limit` waiting events and return how many; `None` if another process does.

        Raises what the target or the log raises; what was published before that is committed.
        """
        lease = self._take_lease()
        if lease is None:
            return None
        try:
            head, cursor, count = self._log.head(), self._load_cursor(), 0
            records = list(islice(self._read_records(cursor), limit))
            try:
                for record in self.sink.send(records) if records else ():
                    cursor, count = record.position, count + 1
            finally:
                if count < len(records):
                    self._commit_cursor(cursor, count)
            # Behind the last record there may be other events, which need not be read again.
            self._commit_cursor(max(head or "", cursor or "") if len(records) < limit else cursor, count)
            return count
        finally:
            with suppress(LogError):
                self._shared.release(lease)

    def _take_lease(self) -> Lease | None:
        """The right to publish; that of a process which died here is taken over at once."""
        lease = self._shared.acquire(self.sink.cursor, self._holder, LEASE_SECONDS)
        held = self._shared.find_lease(self.sink.cursor) if lease is None else None
        if held is not None and is_dead(held.holder):
            abandoned = self._shared.acquire(self.sink.cursor, held.holder, LEASE_SECONDS)
            if abandoned is not None:
                self._shared.release(abandoned)
            lease = self._shared.acquire(self.sink.cursor, self._holder, LEASE_SECONDS)
        return lease

    def _commit_cursor(self, position: Position | None, count: int) -> None:
        if position and (count or position != self._shared.load_cursor(self.sink.cursor)):
            self._shared.commit_cursor(self.sink.cursor, position)

    def _load_cursor(self) -> Position | None:
        cursor = self._shared.load_cursor(self.sink.cursor)
        return None if cursor == BEGINNING else cursor

    def _read_records(self, cursor: Position | None) -> Iterator[SinkRecord]:
        for event in self._log.read(after=cursor, kinds=self.sink.kinds):
            payload = self._encode_span(event) if self.sink.gets_spans else nexo.DIALECT.encode(event, town=self._town)
            if payload is not None:
                subject = "" if self.sink.gets_spans else nexo.nats_subject(event)
                yield SinkRecord(event.position or "", event.id or "", subject, payload)

    def _encode_span(self, event: Event) -> bytes | None:
        span = run_spans.make_span(event, find_event=self._find_event, find_start=self._find_start, find_turn=self._find_turn)
        return None if span is None else msgspec.json.encode(span)

    def _find_event(self, id: str) -> Event | None:
        return next(iter(self._log.get([id])), None)

    def _find_start(self, goal: str) -> Event | None:
        return next(iter(self._log.read(f"goal:{goal}", kinds=("driver.goal_started",), limit=1)), None)

    def _find_turn(self, event: Event) -> Event | None:
        turns = self._log.read(f"goal:{event.goal}", kinds=("driver.attempt_started",), before=event.position, newest_first=True, limit=1)
        return next(iter(turns), None)

    def run(self, stop: Flag, ended: Callable[[], bool]) -> None:
        """Publish until `stop` is set and nothing waits, or until `ended`."""
        pause = FIRST_PAUSE
        while not ended():
            is_last = stop.is_set()
            try:
                count, self.last_failure, pause = self.deliver_events(), None, FIRST_PAUSE
            except (FleetloreError, OSError) as error:
                self.last_failure = str(error) or type(error).__name__
                if is_last or stop.wait(pause):
                    return  # the next run goes on here
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            if not count:
                if is_last and count is not None:
                    return
                stop.wait(POLL_SECONDS)


@contextmanager
def deliver_in_background(
    tables: Sequence[SettingsTable], log: BlockingRecorder, shared: Coordination, town: str
) -> Iterator[Sequence[SinkDelivery]]:
    """Publish to sinks during the block, and at its end what is left, for at most `CLOSE_SECONDS`. Never raises because of a sink."""
    deliveries = [SinkDelivery(make_sink(table), log, shared, town) for table in tables]
    for delivery in deliveries:
        delivery.prepare_cursor()
    stop, gone = Flag(), Flag()
    threads = [
        Thread(target=delivery.run, args=(stop, gone.is_set), name=f"fleetlore-{delivery.sink.cursor}", daemon=True)
        for delivery in deliveries
    ]
    for thread in threads:
        thread.start()
    try:
        yield deliveries
    finally:
        stop.set()
        for thread in threads:
            thread.join(CLOSE_SECONDS)
        gone.set()
