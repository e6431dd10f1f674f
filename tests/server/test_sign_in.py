"""A browser signs in by a one-time link and stays signed in by its cookie."""

from __future__ import annotations

from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest

from fleetlore import Event
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import make_seal
from fleetlore.log.tokens import TOKEN_SCOPES, TokenScope
from fleetlore.server.problems import Problem
from fleetlore.server.security.local_token import find_server, publish_url
from fleetlore.server.security.sign_in import LINK_SECONDS, MAX_LINKS, MAX_TRIES, OneTimeLinks
from tests.server.mcp_talk import token_for
from tests.server.serving import Served, homely, serve


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as running:
        running.log.append([Event(kind="fleet.commit", actor="ada", agent="ada", text="Fixed the parser")])
        yield running


def make_link(served: Served, scope: TokenScope | None = None, **options: Any) -> str:
    answer = served.post("/api/links", {} if scope is None else {"scope": scope}, **options)
    assert answer.status == 200, answer.body
    path: str = answer.json["path"]
    return path


def sign_in(served: Served, scope: TokenScope | None = None) -> dict[str, str]:
    """The header of a browser that has opened a link."""
    [cookie] = SimpleCookie(served.get(make_link(served, scope), signed_in=False).headers["set-cookie"]).values()
    return {"cookie": f"{cookie.key}={cookie.value}"}


def test_a_link_gives_a_strict_cookie_for_ninety_days_and_leads_to_the_page(served: Served) -> None:
    answer = served.get(f"{make_link(served)}&to=/sessions", signed_in=False, headers={"sec-fetch-site": "none"})
    [cookie] = SimpleCookie(answer.headers["set-cookie"]).values()
    assert (cookie["max-age"], cookie["path"], cookie["httponly"], cookie["samesite"]) == (str(90 * 86_400), "/", True, "strict")
    assert 'content="0;url=/sessions"' in answer.body.decode()
    assert (answer.headers["cache-control"], answer.headers["referrer-policy"]) == ("no-store", "no-referrer")


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "javascript:alert(1)", '/"><script>', "/\\evil.example", ""])
def test_a_link_leads_nowhere_else(served: Served, to: str) -> None:
    body = served.get("/open", signed_in=False, code=make_link(served).partition("=")[2], to=to).body.decode()
    assert 'content="0;url=/"' in body
    assert "evil" not in body
    assert "<script" not in body


def test_with_the_cookie_pages_read_and_without_it_nothing_is_shown(served: Served) -> None:
    for path in ("/api/events", "/api/fleet", "/api/meta", "/api/brief", "/api/sessions", "/metrics", "/api/stream"):
        assert served.get(path, signed_in=False).status == 401, path
    cookie = sign_in(served, "read")
    assert served.get("/api/events", signed_in=False, headers=cookie).json["events"][0]["text"] == "Fixed the parser"
    assert served.get("/api/meta", signed_in=False, headers=cookie).json["scopes_of_token"] == ["read"]
    assert served.post("/api/events", {"kind": "fleet.commit", "actor": "ada"}, token=None, headers=cookie).status == 403
    assert served.post("/api/events", {"kind": "fleet.commit", "actor": "ada"}, token=None, headers=sign_in(served)).status == 200


def test_a_link_works_once(served: Served) -> None:
    link = make_link(served)
    assert "set-cookie" in served.get(link, signed_in=False).headers
    again = served.get(link, signed_in=False)
    assert (again.status, "set-cookie" in again.headers) == (403, False)
    assert "lore open" in again.body.decode()


def test_a_link_expires_and_only_so_many_are_kept() -> None:
    now = 0.0
    links = OneTimeLinks(ticks=lambda: now)
    codes = [links.create_path("read").partition("=")[2] for _ in range(MAX_LINKS + 1)]
    assert links.redeem(codes[0], "127.0.0.1") is None
    assert links.redeem(codes[-1], "127.0.0.1") == "read"
    now = float(LINK_SECONDS)
    assert links.redeem(codes[1], "127.0.0.1") is None


def test_guessing_links_is_slowed_down() -> None:
    links = OneTimeLinks(ticks=lambda: 0.0)
    good = links.create_path("read").partition("=")[2]
    for _ in range(MAX_TRIES):
        assert links.redeem("guess", "10.0.0.9") is None
    with pytest.raises(Problem, match="too many"):
        links.redeem("guess", "10.0.0.9")
    assert links.redeem(good, "10.0.0.9") == "read"


@pytest.mark.parametrize("held", TOKEN_SCOPES)
def test_a_link_gives_no_more_than_the_token_that_asks_for_it(served: Served, held: TokenScope) -> None:
    secret = token_for(served, "ada", held)
    for wanted in TOKEN_SCOPES:
        status = served.post("/api/links", {"scope": wanted}, token=secret).status
        assert status == (200 if TOKEN_SCOPES.index(wanted) <= TOKEN_SCOPES.index(held) else 403)
    assert served.post("/api/links", {}, token=None).status == 401


def test_signing_out_ends_the_cookie_and_leaves_other_tokens_alone(served: Served) -> None:
    cookie, other = sign_in(served), sign_in(served)
    gone = served.post("/api/sign-out", {}, token=None, headers=cookie)
    assert "Max-Age=0" in gone.headers["set-cookie"]
    assert served.get("/api/meta", signed_in=False, headers=cookie).status == 401
    assert served.get("/api/meta", signed_in=False, headers=other).status == 200
    served.post("/api/sign-out", {}, headers=other)  # with a bearer token: the header's token is not revoked
    assert served.get("/api/meta").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    ],
)
def test_another_page_cannot_use_the_cookie(served: Served, headers: dict[str, str]) -> None:
    cookie = sign_in(served)
    assert served.get("/api/events", signed_in=False, headers=cookie | headers).status == 403
    assert served.post("/api/events", {"kind": "fleet.commit", "actor": "eve"}, token=None, headers=cookie | headers).status == 403


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip", "host"])
def test_a_careless_proxy_leaks_nothing(served: Served, header: str) -> None:
    value = "127.0.0.1:7077" if header == "host" else "203.0.113.7"
    assert served.get("/api/search", signed_in=False, headers={header: value}, q="parser").status == 401


def test_on_a_sealed_log_a_browser_can_write_but_neither_approve_nor_control(tmp_path: Path) -> None:
    seal, operator = make_seal("correct horse battery", cost=2)
    with open_shared(f"sqlite:{tmp_path}/fleet.db") as shared:
        shared.set_seal(seal, None)
    with serve(tmp_path, operator=operator) as served:
        assert served.get("/api/meta", signed_in=False, headers=sign_in(served)).json["scopes_of_token"] == ["read", "write"]


def test_the_address_of_a_running_server_is_found_beside_its_token_and_gone_with_it(tmp_path: Path, served: Served) -> None:
    with homely(tmp_path):
        info = served.log.info()
        assert find_server(info) is None
        [file] = (tmp_path / "data" / "fleetlore").glob("up-*.token")
        with publish_url(str(file), served.url):
            assert find_server(info) == (served.url, served.token)
            assert file.with_suffix(".url").stat().st_mode & 0o077 == 0
        assert find_server(info) is None


def test_readyz_is_red_when_the_log_cannot_be_written(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert served.get("/readyz").json["ready"] is True
    file = served.log.info().details["path"]
    with open_shared(f"sqlite:{file}") as shared, pytest.MonkeyPatch.context() as patch:
        del shared
        patch.setattr(served.context.view_cache.coordination, "commit_cursor", _raise_full)
        served.context.write_checked_at = float("-inf")
        answer = served.get("/readyz")
    assert (answer.status, answer.json["ready"], "no room" in answer.json["detail"]) == (503, False, True)
    assert "no room" not in served.get("/readyz", signed_in=False).body.decode()


def _raise_full(*_: object) -> None:
    from fleetlore.errors import DiskFull

    raise DiskFull("there is no room left on the disk")
