"""A receiver of webhooks on loopback, and a town whose notices are awaited. As a program it is a notifier that dies at a seam:
`python -m tests.server.notifying LOG ADDRESS before|sent|recorded`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import Any, NamedTuple

from fleetlore import Event, connect
from fleetlore.log.base import Position
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.notifications.bodies import Message
from fleetlore.server.notifications.rules import Rule, Target, Webhook
from fleetlore.server.notifications.runner import Timing
from fleetlore.server.notifications.send import SendResult, deliver_message
from fleetlore.server.notifications.service import Notifier
from tests.patience import PATIENCE

QUICK = Timing(lease=30, again=0.01, beat=0.005, tick=0.02, check=0, commit=0, pause=0.001, growth=1, end=5)


class Request(NamedTuple):
    """What came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Answers by its path: `/200`, `/500`, `/hang`, `/close`, `/redirect`; `/flaky` fails twice, and then does not."""

    def __init__(self) -> None:
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self.let_go = Flag()
        """Ends what hangs."""
        self.arrived = Flag()
        self.tries = 0
        self.redirected_to = "http://elsewhere.invalid/secret"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{path}"

    def next(self) -> Request:
        return self.requests.get(timeout=PATIENCE)

    def all(self) -> list[Request]:
        """What came so far and was not taken."""
        return [self.requests.get() for _ in range(self.requests.qsize())]

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.tries += 1
                receiver.requests.put(Request(self.path, {key.lower(): value for key, value in self.headers.items()}, body))
                receiver.arrived.set()
                self._answer(self.path.strip("/").partition("?")[0])

            def do_GET(self) -> None:
                receiver.requests.put(Request(f"GET {self.path}", {}, b""))
                self.send_response(200)
                self.end_headers()

            def _answer(self, word: str) -> None:
                if word == "close":
                    return
                if word == "hang":
                    receiver.let_go.wait(PATIENCE)
                    return
                code = {"redirect": 302, "flaky": 500 if receiver.tries <= 2 else 200}.get(word) or int(word)
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", receiver.redirected_to)
                if code == 429:
                    self.send_header("Retry-After", "7")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class Town:
    """A log in a file, with rules that have begun."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.record(Event(kind="fleet.idle", agent="warden"))

    def open_log(self) -> BlockingRecorder:
        return connect(self.url).blocking()

    def open_shared(self) -> Coordination:
        return open_shared(self.url)

    def record(self, *events: Event) -> list[Position]:
        with self.open_log() as log:
            return log.append(events)

    def begin(self, *rules: Rule) -> None:
        """As if the rules had run up to now."""
        with self.open_log() as log, self.open_shared() as shared:
            for rule in rules:
                shared.commit_cursor(rule.cursor, log.head() or "")

    def notices(self, count: int) -> list[Event]:
        """The first so many notices on record, once they are there."""
        found: list[Event] = []
        with self.open_log() as log, closing(log.follow()) as events:
            for event in events:
                if event.kind == "notify.sent":
                    found.append(event)
                if len(found) == count:
                    break
        return found

    def recorded(self) -> list[Event]:
        with self.open_log() as log:
            return list(log.read(kinds=["notify.*"]))

    def cursor(self, rule: Rule) -> Position | None:
        with self.open_shared() as shared:
            return shared.load_cursor(rule.cursor)

    def notifier(self, *rules: Rule, **more: Any) -> Notifier:
        opened = more.pop("open_log", self.open_log), more.pop("open_shared", self.open_shared)
        return Notifier(*opened, rules, **{"timing": QUICK, "random_fraction": lambda: 0.5, **more})


@contextmanager
def running(*notifiers: Notifier) -> Iterator[list[Flag]]:
    """Notifiers at work in threads; gives what stops each."""
    stops = [Flag() for _ in notifiers]
    threads = [Thread(target=notifier.run, args=(stop,)) for notifier, stop in zip(notifiers, stops, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield stops
    finally:
        for stop in stops:
            stop.set()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def rule_for(address: str, *, name: str = "errors", by: Any = "kind", what: str = "fleet.error", **more: Any) -> Rule:
    return Rule(name=name, by=by, what=what, target=Webhook(address), **more)


def main(url: str, address: str, seam: str) -> None:
    """Notify, and die as `kill -9` does: before the first notice is sent, when it is, or when it is on record."""
    rule = rule_for(address, max_age=timedelta(days=1))
    town = Town.__new__(Town)
    town.url = url

    def send(target: Target, message: Message) -> SendResult:
        if seam == "before":
            os._exit(9)
        outcome = deliver_message(target, message)
        if seam == "sent":
            os._exit(9)
        return outcome

    class Dying(Coordination):
        def commit_cursor(self, name: str, position: Position) -> None:
            os._exit(9)

    opened = (lambda: disguised(town.open_shared(), Dying)) if seam == "recorded" else town.open_shared
    town.notifier(rule, open_shared=opened, send=send).run(Flag())


def disguised(shared: Coordination, kind: type[Coordination]) -> Coordination:
    """The same, with some verbs of another kind."""
    shared.__class__ = kind
    return shared


if __name__ == "__main__":
    main(*sys.argv[1:])
