"""A whole server on a free port of the loopback, with a log and a home of its own, and one way to ask it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import msgspec

from fleetlore import clock, connect
from fleetlore import settings as config
from fleetlore.graph.settings import GraphSettings
from fleetlore.log import recorder
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.server.context import AppContext
from fleetlore.server.open_context import open_context
from fleetlore.server.security.limits import RequestLimits
from fleetlore.server.serve import bind_socket, browser_url, serve_in_thread
from tests.patience import PATIENCE
from tests.server.asgi import Answer

HOST = "127.0.0.1"


class Served:
    """A server that runs. Give `get` and `post` a path and what goes behind its question mark."""

    def __init__(self, app_context: AppContext, token: str, url: str, *, steering: str | None = None) -> None:
        self.context, self.token, self.url, self.steering = app_context, token, url, steering
        """The address ends with a slash. On a sealed log `token` may not steer; `steering` may, where the operator key was given."""

    @property
    def log(self) -> BlockingRecorder:
        return self.context.log

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own."""
        connection = HTTPConnection(HOST, self.port, timeout=3 * PATIENCE)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            assert len(headers) == len(response.getheaders()), "a header stands there twice"
            return Answer(response.status, headers, response.read())
        finally:
            connection.close()

    @property
    def bearer(self) -> dict[str, str]:
        """The header with the token of the person who opened the server."""
        return {"authorization": f"Bearer {self.token}"}

    def get(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, signed_in: bool = True, **query: Any
    ) -> Answer:
        """Ask for something, with our own token unless not signed in; a list repeats a parameter, `from_` stands for `from`."""
        given = {name.rstrip("_"): value for name, value in query.items() if value is not None}
        sent = (self.bearer if signed_in else {}) | dict(headers or {})
        return self.ask(method, f"{path}?{urlencode(given, doseq=True)}" if given else path, headers=sent)

    def view(self, name: str, **query: Any) -> Any:
        """What `/api/NAME` answers; it has to be an answer."""
        answer = self.get(f"/api/{name}", **query)
        assert answer.status == 200, (name, query, answer.body[:500])
        assert answer.headers["content-type"] == "application/json"
        return answer.json

    def post(self, path: str, body: Any, *, token: str | None = "", headers: Mapping[str, str] | None = None) -> Answer:
        """Send JSON, with the token of the person who opened the server, another one, or none."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        given = {"content-type": "application/json"} | ({} if token is None else {"authorization": f"Bearer {token or self.token}"})
        return self.ask("POST", path, raw, given | dict(headers or {}))


@contextmanager
def serve(
    folder: Path,
    url: str | None = None,
    *,
    host: str = HOST,
    limits: RequestLimits | None = None,
    operator: OperatorKey | None = None,
    graph: GraphSettings | None = None,
    now: clock.Clock = clock.now,
) -> Iterator[Served]:
    """Serve the log of a folder, or that of an address, as long as the block lasts. What is kept beside it is kept in the folder, too."""
    address = url or f"sqlite:{folder}/fleet.db"
    generous = limits or RequestLimits(rate=1e6, burst=10**6)
    with homely(folder), patch.object(recorder, "WAIT_SECONDS", 0.1):  # so that it ends at once
        settings = config.load_settings(log=address, environ={}, folder=str(folder))
        talking = None if graph is None else lambda: graph
        with (
            connect(address, now=now).blocking() as log,
            bind_socket(host, 0) as opened,
            open_context(log, settings, host=host, limits=generous, operator=operator, graph=talking, now=now) as rooms,
            serve_in_thread(rooms.context, opened),
        ):
            yield Served(rooms.context, rooms.token, browser_url(opened, host), steering=rooms.admin_token)


@contextmanager
def homely(folder: Path) -> Iterator[None]:
    """A home directory in a folder: no test touches that of the user."""
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
    with patch.dict(os.environ, home | {"XDG_CONFIG_HOME": str(folder / "config")}):
        yield
