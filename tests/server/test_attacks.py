"""Further attempts to read or write without the right to, against a running server: none succeeds, and no answer has words of the log."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlore import Event
from fleetlore.log.tokens import TOKEN_SCOPES
from tests.server.mcp_talk import token_for
from tests.server.serving import Served, serve
from tests.server.test_sign_in import make_link, sign_in

WORD = "quetzal"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as running:
        running.log.append([Event(kind="fleet.commit", actor="ada", agent="ada", text=f"Fixed the {WORD}")])
        yield running


def refused(served: Served, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> int:
    answer = served.ask(method, path, body, headers or {})
    assert WORD.encode() not in answer.body
    assert answer.status >= 400 or b"<html" in answer.body.lower() or answer.status in (204, 307, 308), (answer.status, answer.body[:200])
    return answer.status


PATHS = {
    "two slashes": "//api/events",
    "dots": "/api/x/../events",
    "encoded letters": "/%61pi/events",
    "encoded slash": "/api%2Fevents",
    "capitals": "/API/events",
    "slash at the end": "/api/events/",
    "parameter of a path": "/api/events;a=1",
    "byte zero": "/api/events%00",
    "backslash": "/api\\events",
    "whole address": "http://127.0.0.1/api/events",
    "as a page": "/api/events.html",
    "below the assets": "/assets/../api/events",
    "encoded dots": "/assets/%2e%2e/%2e%2e/api/events",
}


@pytest.mark.parametrize("name", PATHS)
def test_no_spelling_of_a_path_reads_without_a_token(served: Served, name: str) -> None:
    refused(served, "GET", PATHS[name])


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "PROPFIND", "GETX"])
def test_no_other_method_reads_without_a_token(served: Served, method: str) -> None:
    refused(served, method, "/api/events")


def test_a_token_counts_only_where_it_belongs(served: Served) -> None:
    token, basic = served.token, base64.b64encode(f":{served.token}".encode()).decode()
    for path in (f"/api/events?token={token}", f"/api/events?access_token={token}", f"/api/events?authorization=Bearer%20{token}"):
        assert refused(served, "GET", path) == 401
    for headers in ({"authorization": f"Basic {basic}"}, {"x-api-key": token}, {"authorization": token}, {"cookie": f"token={token}"}):
        assert refused(served, "GET", "/api/events", headers) == 401


@pytest.mark.parametrize("header", ["x-http-method-override", "x-http-method", "x-method-override"])
def test_a_reader_cannot_write_by_naming_another_method(served: Served, header: str) -> None:
    reader = {"authorization": f"Bearer {token_for(served, 'eve', 'read')}", header: "POST", "content-type": "application/json"}
    before = served.log.head()
    served.ask("GET", "/api/events", b'{"kind":"fleet.idle","actor":"eve"}', reader)
    assert served.log.head() == before


@pytest.mark.parametrize("scope", [scope for scope in TOKEN_SCOPES if scope in ("read", "approve")])
def test_a_small_scope_writes_nowhere(served: Served, scope: str) -> None:
    headers = {"authorization": f"Bearer {token_for(served, 'eve', scope)}", "content-type": "application/json"}  # type: ignore[arg-type]
    before = served.log.head()
    for path in ("/api/events", "/hooks/claude-code", "/v1/traces", "/api/town/messages", "/api/town/tasks", "/api/goals/stop"):
        assert served.ask("POST", path, b"{}", headers).status in (400, 403, 404, 405, 415, 422), path
    assert served.log.head() == before


def test_a_link_that_two_open_at_once_signs_in_one(served: Served) -> None:
    link, cookies, start = make_link(served), list[str](), threading.Barrier(8)

    def open_link() -> None:
        start.wait()
        cookies.append(served.get(link, signed_in=False).headers.get("set-cookie", ""))

    threads = [threading.Thread(target=open_link) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cookies) == 8
    assert sum(1 for cookie in cookies if cookie) == 1


def test_a_cookie_opens_nothing_after_signing_out_and_none_that_was_changed_does(served: Served) -> None:
    headers = sign_in(served)
    assert served.ask("GET", "/api/fleet", None, headers).status == 200
    name, _, value = headers["cookie"].partition("=")
    for other in (value[:-1], value[:-1] + ("a" if value[-1] != "a" else "b"), value.lower(), "", f"{value} {value}", "../" + value):
        assert refused(served, "GET", "/api/fleet", {"cookie": f"{name}={other}"}) == 401


@pytest.mark.parametrize("header", ["if-none-match", "if-modified-since", "range", "accept-encoding", "expect", "upgrade"])
def test_no_header_of_caches_and_transfers_reads_without_a_token(served: Served, header: str) -> None:
    value = {"if-none-match": "*", "range": "bytes=0-99", "upgrade": "websocket", "expect": "x"}.get(header, "gzip")
    assert refused(served, "GET", "/api/events", {header: value}) != 304


FORWARDED = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-server", "x-client-ip", "x-cluster-client-ip")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost.", "127.0.0.1.", "[::1]", "0x7f.1", "2130706433"])
def test_a_proxy_that_says_loopback_reads_nothing(served: Served, host: str) -> None:
    for header in FORWARDED:
        assert refused(served, "GET", "/api/events", {"host": f"{host}:{served.port}", header: "127.0.0.1"}) in (400, 401, 421)


RAW = {
    "old protocol without a host": "GET /api/events HTTP/1.0\r\n\r\n",
    "two hosts": "GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.test\r\n\r\n",
    "two lengths": "POST /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n"
    "GET /api/events HTTP/1.1\r\n\r\n",
    "length and chunks": "POST /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 4\r\n"
    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "header on two lines": "GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization:\r\n Bearer x\r\n\r\n",
    "line ends without return": "GET /api/events HTTP/1.1\nHost: 127.0.0.1:{port}\n\n",
    "space before the colon": "GET /api/events HTTP/1.1\r\nHost : 127.0.0.1:{port}\r\n\r\n",
    "protocol of the future": "GET /api/events HTTP/9.9\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "no protocol": "GET /api/events\r\n\r\n",
    "connect": "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
}


@pytest.mark.parametrize("name", RAW)
def test_no_form_of_a_request_reads_without_a_token(served: Served, name: str) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(RAW[name].format(port=served.port).encode())
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    assert WORD.encode() not in received
    assert b" 200 " not in received.split(b"\r\n")[0]


COOKIES = {
    "two of one name, ours last": "{name}=lore_{x}; {name}={value}x",
    "another path": "{name}={value}x; $Path=/",
    "quoted": '{name}="{value}x"',
    "escaped": "{name}=%6core_{x}",
    "name in capitals": "{upper}={value}",
    "name of another log": "{name}2={value}",
    "prefix of hosts": "__Host-{name}={value}",
}


@pytest.mark.parametrize("name", COOKIES)
def test_a_tossed_cookie_opens_nothing(served: Served, name: str) -> None:
    key, _, value = sign_in(served)["cookie"].partition("=")
    cookie = COOKIES[name].format(name=key, upper=key.upper(), value=value, x="a" * 43)
    assert refused(served, "GET", "/api/fleet", {"cookie": cookie}) == 401


@pytest.mark.parametrize(
    "header", ["referer", "x-original-url", "x-rewrite-url", "via", "x-token", "proxy-authorization", "sec-websocket-protocol"]
)
def test_a_token_in_another_header_opens_nothing(served: Served, header: str) -> None:
    for value in (f"Bearer {served.token}", f"http://127.0.0.1:{served.port}/api/events?token={served.token}", served.token):
        assert refused(served, "GET", "/api/events", {header: value}) == 401


TRAVERSALS = ("..%2f", "..%5c", "%2e%2e%2f", "..%252f", "%c0%ae%c0%ae/", "..;/", "....//", "%00../", "..%ef%bc%8f")


@pytest.mark.parametrize("step", TRAVERSALS)
@pytest.mark.parametrize("base", ["/assets/", "/goals/", "/"])
def test_no_path_leads_to_a_file_of_this_machine(served: Served, base: str, step: str) -> None:
    for target in ("etc/passwd", "server/app.py", "pyproject.toml"):
        answer = served.ask("GET", base + step * 12 + target, None, served.bearer)
        assert b"root:" not in answer.body
        assert b"[project]" not in answer.body
        assert b"Starlette(" not in answer.body


@pytest.mark.parametrize(
    "to", ["/%0d%0aSet-Cookie:%20a=b", "//evil.test", "/\\evil.test", "javascript:alert(1)", "/x%22%3E%3Cscript%3E", "/%E2%80%A8x"]
)
def test_a_link_injects_no_header_and_leads_to_no_other_place(served: Served, to: str) -> None:
    answer = served.ask("GET", f"{make_link(served)}&to={to}")
    assert answer.headers.get("set-cookie", "").count("=b") == 0
    assert b"evil.test" not in answer.body
    assert b"<script" not in answer.body
    assert b"javascript:" not in answer.body


@pytest.mark.parametrize(
    "origin", ["null", "http://127.0.0.1.evil.test", "http://localhost@evil.test", "file://", "http://127.0.0.1:{port}.evil.test"]
)
def test_a_socket_of_another_origin_is_refused_with_a_token_too(served: Served, origin: str) -> None:
    headers = served.bearer | {
        "origin": origin.format(port=served.port), "upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": "13",
        "sec-websocket-key": base64.b64encode(b"0" * 16).decode(),
    }  # fmt: skip
    assert refused(served, "GET", "/ws", headers) == 403
