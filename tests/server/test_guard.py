"""The guard: what is meant for another host, comes from another page, or is of a kind that is not read here, does not come in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from fleetlore.errors import ConfigError, Invalid
from fleetlore.server.security import guard, hosts
from fleetlore.server.security.guard import DECLARED, HEADERS, Guard
from tests.server.asgi import Answer, ask, denied, knock, request, say, served

OWN = "localhost:7077"
REACHED = b"reached"


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    """What must be reached only by those who may."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        return
    await PlainTextResponse(REACHED.decode())(scope, receive, send)


GUARD = Guard(inside, allow_hosts=["Fleet.example.org"])


async def get(path: str = "/", *, host: str | None = OWN, app: Any = GUARD, method: str = "GET", **headers: str) -> Answer:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return await ask(app, method, path, named if host is None else [("host", host), *named])


# --- Host


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:7077", "LocalHost:7077", "127.0.0.1", "127.0.0.1:1", "127.8.9.10:65535", "192.168.1.20:7077", "[::1]"),
        *("[::1]:7077", "[0:0:0:0:0:0:0:1]:7077", "[::FFFF:127.0.0.1]:7077", "[fe80::1]", "fleet.example.org", "FLEET.EXAMPLE.ORG:443"),
    ],
)
async def test_our_own_names_and_any_address_pass(host: str) -> None:
    assert (await get(host=host)).body == REACHED


@pytest.mark.parametrize(
    "host",
    [
        *("evil.com", "evil.com:7077", "127.0.0.1.evil.com", "localhost.evil.com:7077", "127.0.0.1.nip.io", "localhost.", "127.0.0.1."),
        *("town.localhost", "fleet.example.org.evil.com", "fleet.example.org.", "xfleet.example.org", "127.1", "2130706433", "0x7f.0.0.1"),
        *("0177.0.0.1", "127.0.0.1.1", "256.0.0.1", "xn--lcalhost-0qf", "localhost-", "_"),
    ],
)
async def test_a_name_that_is_not_ours_is_misdirected_and_given_what_to_do(host: str) -> None:
    answer = await get(host=host)
    assert answer.status == 421
    assert "--allow-host" in answer.detail


@pytest.mark.parametrize(
    "host",
    [
        *(None, "", " ", "localhost:7077@evil", "localhost:7077@evil.com", "evil.com@localhost", "localhost:", "localhost:port", ":7077"),
        *("localhost:65536", "localhost:-1", "localhost:7077:1", "localhost/", "localhost#x", "localhost?x", "http://localhost"),
        *("localhost evil", "localhost,evil.com", "%6cocalhost", "localhost%00", "localhost\x00", "localhost\t", "localh\xf6st", "\xb2"),
        *("[::1", "::1", "[::1]x", "[::1]:", "[]", "[127.0.0.1]", "[localhost]", "[::1%25lo]", "[fe80::1%lo]", "[:::1]", "[1::2::3]"),
        *("[v1.x]", "*", "localhost:\xd9\xa7", "a" * 254, "x" * 60_000, "localhost:" + "0" * 6 + "80"),
    ],
)
async def test_what_is_no_host_is_a_bad_request(host: str | None) -> None:
    assert (await get(host=host)).status == 400


async def test_two_hosts_are_a_bad_request() -> None:
    answer = await ask(GUARD, headers=[("host", OWN), ("host", "evil.com")])
    assert answer.status == 400
    assert (await ask(GUARD, headers=[("host", OWN), ("Host", OWN)])).status == 400


@pytest.mark.parametrize("header", ["x_forwarded_host", "forwarded", "x_host", "x_original_host"])
async def test_no_other_header_speaks_for_the_host(header: str) -> None:
    assert (await get(host="evil.com", **{header: OWN})).status == 421
    assert (await get(host=OWN, **{header: "evil.com"})).status == 200


@pytest.mark.parametrize("path", ["*", "http://localhost:7077/api/events", "", "api/events"])
async def test_what_is_no_path_is_a_bad_request(path: str) -> None:
    assert (await get(path, method="OPTIONS")).status == 400


def test_a_rebound_name_and_its_like_are_refused_by_a_real_server_too() -> None:
    with served(GUARD) as port:
        assert say(port, request("GET", "/", {"Host": f"localhost:{port}"}))[0] == 200
        assert say(port, request("GET", "/api/fleet", {"Host": f"rebound.evil.com:{port}"}))[0] == 421
        assert say(port, request("GET", f"http://evil.com:{port}/", {"Host": "localhost"}))[0] == 400
        assert say(port, b"GET / HTTP/1.0\r\n\r\n")[0] == 400
        assert say(port, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")[0] == 400
        assert say(port, b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\nConnection: close\r\n\r\n")[0] == 400
        assert say(port, b"GET / HTTP/1.1\r\nHost: localhost:7077@evil\r\nConnection: close\r\n\r\n")[0] == 400


# --- Origin


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:7077", "localhost:7077"),
        ("http://localhost:7077", "LOCALHOST:7077"),
        ("http://127.0.0.1:7077", "127.0.0.1:7077"),
        ("http://[::1]:7077", "[0:0::1]:7077"),
        ("http://localhost", "localhost"),
        ("http://localhost", "localhost:80"),
        ("http://fleet.example.org", "fleet.example.org"),
        ("https://fleet.example.org", "fleet.example.org"),  # a proxy has put TLS before it
        ("https://fleet.example.org:8443", "fleet.example.org:8443"),
    ],
)
async def test_our_own_origin_passes(origin: str, host: str) -> None:
    assert (await get("/api/fleet", host=host, origin=origin)).body == REACHED


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "NULL", "http://evil.com", "http://localhost", "http://localhost:3000", "https://localhost:7077", "http://127.0.0.1:7077"),
        *("http://localhost:7077/", "http://localhost:7077 http://evil.com", "http://localhost:7077@evil.com", "http://evil@localhost:7077"),
        *("http://localhost.:7077", "//localhost:7077", "localhost:7077", "file://", "chrome-extension://abcdef", "http://localhost:7077\x00"),
        *("ws://localhost:7077", "http://town.localhost:7077", "http://[::1]:7077", "http://localhost:07077x", "*"),
    ],
)  # fmt: skip
async def test_any_other_origin_is_refused(origin: str, method: str) -> None:
    answer = await get("/api/events", method=method, origin=origin, content_type="application/json")
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers


async def test_an_origin_on_a_name_with_tls_is_still_of_that_name() -> None:
    assert (await get("/", host="fleet.example.org", origin="https://evil.com")).status == 403
    assert (await get("/", host="fleet.example.org", origin="https://localhost")).status == 403
    assert (await get("/", host="127.0.0.1", origin="https://127.0.0.1")).status == 403


async def test_two_origins_are_refused() -> None:
    own = ("origin", f"http://{OWN}")
    assert (await ask(GUARD, headers=[("host", OWN), own, own])).status == 403


async def test_behind_tls_the_origin_has_tls_too() -> None:
    headers = [("host", "localhost:7077"), ("origin", "https://localhost:7077")]
    assert (await ask(GUARD, headers=headers, scheme="https")).status == 200
    assert (await ask(GUARD, headers=[headers[0], ("origin", "http://localhost:7077")], scheme="https")).status == 403


# --- Sec-Fetch-Site

NAVIGATION = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}


@pytest.mark.parametrize("site", ["same-origin", "none"])
@pytest.mark.parametrize("path", ["/", "/api/fleet", "/metrics"])
async def test_our_own_pages_and_the_address_bar_pass(site: str, path: str) -> None:
    assert (await get(path, sec_fetch_site=site)).body == REACHED


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "Same-Origin", "none, none", "same-origin;x", "elsewhere"])
@pytest.mark.parametrize("path", ["/", "/fleet", "/api/fleet", "/hooks/github", "/v1/traces", "/metrics", "/ws", "/assets/app.js", "/api"])
async def test_pages_of_other_sites_get_nothing(site: str, path: str) -> None:
    assert (await get(path, sec_fetch_site=site)).status == 403
    assert (await get(path, sec_fetch_site=site, sec_fetch_mode="no-cors", sec_fetch_dest="image")).status == 403
    assert (await get(path, sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="iframe")).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_link_elsewhere_leads_to_our_pages_and_to_nothing_else(site: str) -> None:
    for page in ("/", "/fleet", "/story?as_of=2026-11-16T05:00Z", "/agent-graph"):
        assert (await get(page, sec_fetch_site=site, **NAVIGATION)).body == REACHED
        assert (await get(page, method="POST", sec_fetch_site=site, **NAVIGATION)).status == 403
    for path in (
        "/api/events",
        "/api",
        "/hooks/github",
        "/v1/logs",
        "/metrics",
        "/healthz",
        "/openapi.json",
        "/ws",
        "/api%2fevents",
        "/../api",
    ):
        assert (await get(path, sec_fetch_site=site, **NAVIGATION)).status == 403


async def test_two_values_are_refused() -> None:
    headers = [("host", OWN), ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")]
    assert (await ask(GUARD, headers=headers)).status == 403


# --- WebSocket

EXTENSIONS: dict[str, Any] = {"websocket.http.response": {}}


@pytest.mark.parametrize("headers", [[("host", OWN)], [("host", OWN), ("origin", f"http://{OWN}")]])
async def test_a_websocket_of_ours_or_of_a_program_is_accepted(headers: list[tuple[str, str]]) -> None:
    assert [message["type"] for message in await knock(GUARD, headers=headers)] == ["websocket.accept"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("host", OWN), ("origin", "http://evil.com")], 403),
        ([("host", OWN), ("origin", "null")], 403),
        ([("host", OWN), ("origin", f"ws://{OWN}")], 403),
        ([("host", OWN), ("sec-fetch-site", "cross-site")], 403),
        ([("host", OWN), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")], 403),
        ([("host", "evil.com"), ("origin", "http://evil.com")], 421),
        ([], 400),
    ],
)
async def test_a_websocket_of_another_page_is_refused(headers: list[tuple[str, str]], status: int) -> None:
    answer = denied(await knock(GUARD, headers=headers, extensions=EXTENSIONS))
    assert (answer.status, answer.detail != "") == (status, True)
    assert answer.headers["x-content-type-options"] == "nosniff"
    [closed] = await knock(GUARD, headers=headers)  # where the server cannot answer with more
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)


def test_a_foreign_websocket_gets_a_problem_from_a_real_server() -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x" * 22 + "=="}
    with served(GUARD) as port:
        status, received = say(port, request("GET", "/ws", upgrade | {"Host": f"127.0.0.1:{port}", "Origin": "http://evil.com"}))
    assert status == 403
    assert b"application/problem+json" in received


# --- content types


@pytest.mark.parametrize(("path", "prefix"), [("/api/events", "/api/events"), ("/hooks/codex", "/hooks"), ("/v1/logs", "/v1")])
async def test_declared_types_pass_in_any_case_and_with_parameters(path: str, prefix: str) -> None:
    for name in DECLARED[prefix] or ():
        for said in (name, name.upper(), f"{name}; charset=utf-8", f" {name} ;x"):
            assert (await get(path, method="POST", content_type=said)).body == REACHED


@pytest.mark.parametrize("path", ["/api/events", "/hooks/claude-code", "/hooks/heartbeat", "/v1/traces"])
@pytest.mark.parametrize(
    "said",
    [
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/plain;application/json", "*/*"),
        *("text/plain, application/json", "application/jsonx", "application", "application/json, text/plain", "text/html", "\xff"),
        ";application/json",
    ],
)
async def test_what_a_form_can_send_and_all_else_is_an_unsupported_type(path: str, said: str) -> None:
    answer = await get(path, method="POST", content_type=said)
    assert answer.status == 415
    assert "application/json" in answer.detail
    assert "application/json" in answer.json["accepted"]
    assert "application/json" in answer.headers["accept-post"]


async def test_a_post_must_say_its_type_once() -> None:
    assert (await get("/api/events", method="POST")).status == 415
    json = ("content-type", "application/json")
    assert (await ask(GUARD, "POST", "/api/events", [("host", OWN), json, json])).status == 415


@pytest.mark.parametrize("path", [path for path, types in DECLARED.items() if types and "application/json" in types])
@pytest.mark.parametrize("charset", ["latin-1", "utf-16", '"utf-7"', "x" * 400])
async def test_another_charset_than_utf_8_is_refused_everywhere(path: str, charset: str) -> None:
    assert (await get(path, method="POST", content_type=f"application/json; charset={charset}")).status == 415
    for same in ("utf-8", "UTF8", '"utf-8"', "us-ascii"):
        assert (await get(path, method="POST", content_type=f"application/json; charset={same}")).body == REACHED


async def test_cloudevents_in_binary_mode_say_the_type_of_their_data() -> None:
    assert (await get("/api/events", method="POST", ce_specversion="1.0", content_type="text/xml")).body == REACHED
    assert (await get("/api/events", method="POST", ce_specversion="1.0")).body == REACHED


async def test_where_nothing_can_be_posted_the_routes_say_so() -> None:
    assert (await get("/api/fleet", method="POST")).body == REACHED
    assert (await get("/api/eventsx", method="POST")).body == REACHED
    assert (await get("/api/events/x/texts/y", method="POST")).body == REACHED


def test_only_forges_whose_deliveries_are_signed_may_send_what_a_form_can() -> None:
    simple = {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}
    found = {path: simple & set(types) for path, types in DECLARED.items() if types and simple & set(types)}
    assert found == {f"/hooks/{forge}": {"application/x-www-form-urlencoded"} for forge in ("github", "gitea", "forgejo")}


async def test_a_form_goes_to_a_forges_door_from_a_forge_and_not_from_a_page() -> None:
    form = {"content_type": "application/x-www-form-urlencoded"}
    assert (await get("/hooks/github", method="POST", **form)).body == REACHED
    assert (await get("/hooks/github", method="POST", origin="http://evil.com", **form)).status == 403
    assert (await get("/hooks/github", method="POST", sec_fetch_site="cross-site", **NAVIGATION, **form)).status == 403
    assert (await get("/hooks/github", method="POST", content_type="text/plain")).status == 415


async def route(request: Request) -> Response:
    return JSONResponse({})


def test_a_route_that_takes_what_is_not_declared_is_found() -> None:
    routes = [
        Route("/api/events", route, methods=["GET", "POST"]),
        Route("/api/fleet", route),
        Route("/hooks/{forge}", route, methods=["POST"]),
        Route("/api/steer", route, methods=["POST"]),
        Mount("/inner", routes=[Route("/door", route, methods=["POST"])]),
    ]
    assert guard.undeclared_routes(routes) == ["/api/steer", "/inner/door"]
    assert guard.undeclared_routes(routes, {"/api": ("application/json",), "/hooks": (), "/inner/door": ()}) == []


# --- headers


async def broken(request: Request) -> Response:
    raise RuntimeError("on purpose")


def test_every_answer_bears_the_headers_that_keep_a_page_to_itself() -> None:
    wanted = {f"{name}: {value}".lower() for name, value in HEADERS.items()}
    cases = {("localhost", "/"): 200, ("localhost", "/missing"): 404, ("localhost", "/broken"): 500, ("evil.com", "/"): 421, ("", "/"): 400}
    with served(Guard(Starlette(routes=[Route("/", route), Route("/broken", broken)]))) as port:
        for (host, path), expected in cases.items():
            status, received = say(port, request("GET", path, {"Host": host}))
            assert status == expected
            assert wanted <= set(received.partition(b"\r\n\r\n")[0].decode().lower().split("\r\n"))


async def test_what_an_answer_says_itself_stands() -> None:
    async def cached(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("x", headers={"Cache-Control": "public, max-age=31536000, immutable"})(scope, receive, send)

    answer = await get("/assets/app-1234.js", app=Guard(cached))
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_policy_lets_a_page_load_from_here_only_and_run_no_inline_script() -> None:
    policy = dict(part.strip().split(" ", 1) for part in guard.CONTENT_SECURITY_POLICY.split(";"))
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
    assert (policy["frame-ancestors"], policy["base-uri"], policy["form-action"]) == ("'none'", "'none'", "'none'")
    assert "unsafe" not in guard.CONTENT_SECURITY_POLICY
    assert "*" not in guard.CONTENT_SECURITY_POLICY


async def test_what_is_no_request_goes_through_untouched() -> None:
    seen: list[str] = []

    async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def nothing(*args: Any) -> Any:
        return None

    await Guard(lifespan)({"type": "lifespan"}, nothing, nothing)
    assert seen == ["lifespan"]


# --- anything at all

NAMES = ("host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "content-type", "ce-specversion", "Host", "x-else")
WORDS = (
    *("localhost", "http://localhost", "evil.com", "null", "same-origin", "cross-site", "navigate", "document", "application/json"),
    *("[::1]", "[", "http://[", "http://[::1]:99999", ":", "://", ";", "\xff"),
)
VALUES = st.one_of(
    st.sampled_from(WORDS), st.text(st.characters(max_codepoint=255), max_size=40), st.from_regex(r"(https?://)?[\[\]:.a-f0-9%@]{0,30}")
)
METHODS = st.sampled_from(["GET", "POST", "OPTIONS", "PUT", "BREW", ""])


def _latin(value: str) -> bool:
    return all(ord(character) < 256 for character in value)


@given(METHODS, st.text(max_size=30), st.lists(st.tuples(st.sampled_from(NAMES), VALUES.filter(_latin)), max_size=8))
async def test_no_headers_make_it_fail(method: str, path: str, headers: list[tuple[str, str]]) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        hosts_said = [value for name, value in headers if name.lower() == "host"]
        assert len(hosts_said) == 1
        parsed = hosts.parse_host(hosts_said[0])
        assert parsed is not None
        assert parsed.is_address or parsed.name == "localhost"
        assert "cross-site" not in [value for name, value in headers if name == "sec-fetch-site"] or scope["method"] == "GET"
        assert not [value for name, value in headers if name == "origin" and (value == "null" or "evil" in value)]
        await inside(scope, receive, send)

    path = path.replace("?", "")
    assert (await ask(Guard(app), method, path, headers)).status in (200, 400, 403, 415, 421)


# --- names and addresses


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "LOCALHOST", "::1", "[::1]", "::ffff:127.0.0.1"])
def test_loopback_is_free_to_listen_on(host: str) -> None:
    assert hosts.is_loopback(host)
    hosts.check_address(host, has_tokens=False)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "192.168.1.20", "fleet.example.org", "localhost.evil.com", "127.0.0.1.evil.com", "::ffff:10.0.0.1", "*"]
)
def test_anywhere_else_it_does_not_start_without_a_token(host: str) -> None:
    assert not hosts.is_loopback(host)
    with pytest.raises(ConfigError, match="lore token create --scope read"):
        hosts.check_address(host, has_tokens=False)
    hosts.check_address(host, has_tokens=True)


@pytest.mark.parametrize(
    "name",
    ["", "http://fleet.example.org", "fleet.example.org:7077", "fleet.example.org.", "*", "*.example.org", "a b", "fl\xf6t.org", "-x"],
)
def test_a_name_to_allow_must_be_one(name: str) -> None:
    with pytest.raises(Invalid, match="--allow-host"):
        Guard(inside, allow_hosts=[name])
