"""A hostile page in the same browser: it reads nothing here, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import Page, Playwright, expect

from tests.browser.conftest import Visits, launch
from tests.browser.control_room import ControlRoom, action

pytestmark = pytest.mark.slow

PAGE = b"<!doctype html><meta charset=utf-8><title>A hostile page</title><body></body>"
ATTACK = """async (target) => {
    const event = JSON.stringify({ kind: 'fleet.commit', agent: 'mallory', text: 'I was here' });
    const seen = [];
    const tell = (what) => (text) => { if (text) seen.push(`${what}: ${text}`); };
    const attempt = (what, options) => fetch(target + what, options).then((answer) => answer.text()).then(tell(what), () => undefined);
    const paths = ['/api/events', '/api/fleet', '/api/meta', '/', '/openapi.json', '/metrics', '/api/stream'];
    for (const path of paths) for (const mode of ['cors', 'no-cors']) for (const credentials of ['omit', 'include'])
        await Promise.race([attempt(path, { mode, credentials }), new Promise((done) => setTimeout(done, 1000))]);
    for (const type of ['text/plain', 'application/json', 'application/x-www-form-urlencoded', 'application/x-ndjson'])
        for (const mode of ['cors', 'no-cors'])
            for (const path of ['/api/events', '/hooks/claude-code', '/hooks/heartbeat', '/hooks/github', '/v1/logs'])
                await attempt(path, { method: 'POST', mode, body: event, headers: { 'Content-Type': type } });
    navigator.sendBeacon(`${target}/api/events`, new Blob([event], { type: 'text/plain' }));
    const form = (enctype) => new Promise((done) => {
        const frame = Object.assign(document.createElement('iframe'), { name: `f${Math.random()}` });
        document.body.append(frame);
        const made = document.createElement('form');
        Object.assign(made, { method: 'post', action: `${target}/api/events`, enctype, target: frame.name });
        made.append(Object.assign(document.createElement('input'), { name: event.slice(0, -1) + ',"x":"', value: '"}' }));
        document.body.append(made);
        frame.onload = () => {
            try { tell('form')(frame.contentDocument?.body?.textContent); } catch { /* it cannot be read: good */ }
            done();
        };
        made.submit();
    });
    for (const enctype of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) await form(enctype);
    await new Promise((done) => {
        const source = new EventSource(`${target}/api/stream?after=0`);
        source.onmessage = (message) => tell('EventSource')(message.data);
        source.onopen = () => tell('EventSource')('open');
        source.onerror = () => { source.close(); done(); };
    });
    await new Promise((done) => {
        const socket = new WebSocket(`${target.replace('http', 'ws')}/ws`);
        socket.onopen = () => tell('WebSocket')('open');
        socket.onmessage = (message) => tell('WebSocket')(message.data);
        socket.onclose = done;
    });
    const load = (tag, path) => new Promise((done) => {
        const made = document.createElement(tag);
        made.onload = () => { tell(tag)(path); done(); };
        made.onerror = done;
        if (tag === 'link') Object.assign(made, { rel: 'stylesheet', href: target + path });
        else made.src = target + path;
        document.body.append(made);
    });
    for (const path of ['/api/events', '/api/fleet', '/openapi.json', '/metrics'])
        for (const tag of ['script', 'img', 'link']) await load(tag, path);
    const frame = document.createElement('iframe');
    frame.src = `${target}/fleet`;
    await new Promise((done) => { frame.onload = frame.onerror = done; document.body.append(frame); });
    try { tell('iframe')(frame.contentDocument?.body?.textContent); } catch { /* good */ }
    if (frame.contentWindow.length > 0) tell('iframe')('frames');
    return seen;
}"""

INJECT = """() => {
    window.refused = new Set();
    addEventListener('securitypolicyviolation', (event) => window.refused.add(event.effectiveDirective));
    document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.pwned = 1' }));
    const box = document.createElement('div');
    box.innerHTML = '<img src="data:," onerror="window.pwned = 2"><p style="position: fixed">x</p>';
    document.body.append(box);
    document.body.append(Object.assign(document.createElement('script'), { src: 'http://elsewhere.invalid/x.js' }));
    document.body.append(Object.assign(document.createElement('iframe'), { src: 'http://elsewhere.invalid/' }));
    fetch('http://elsewhere.invalid/').catch(() => undefined);
}"""
ASK = """() => Promise.all(['/api/events', '/api/fleet', '/api/stream', '/fleet'].map(
    (path) => fetch(path).then((answer) => answer.status)))"""
POST = """(token) => fetch('/api/events', { method: 'POST', body: '{}', headers: { Authorization: `Bearer ${token}` } })
    .then((answer) => answer.status)"""


@contextmanager
def hostile_site() -> Iterator[int]:
    """A site of somebody else, on a port of its own."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def visited(visit: Visits, room: ControlRoom, address: str) -> Page:
    """A browser that has the control room open, and then goes to a page elsewhere. Whatever that one is refused is no fault of ours."""
    page = visit(room, f"/now#token={room.token}")
    expect(page.locator("article.card")).to_have_count(1)
    visit.forgive(".")
    page.goto(address)
    return page


@pytest.mark.parametrize(("name", "target"), [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("127.0.0.1", "localhost")])
def test_a_page_of_another_origin_reads_nothing_and_changes_nothing(room: ControlRoom, visit: Visits, name: str, target: str) -> None:
    room.record(action("ada", "A secret of ours"))
    before = room.stored()
    with hostile_site() as port:
        page = visited(visit, room, f"http://{name}:{port}/")
        assert page.evaluate(ATTACK, f"http://{target}:{room.port}") == []
    assert room.stored() == before


def test_a_rebound_name_gets_no_page_and_no_answer(room: ControlRoom, playwright: Playwright) -> None:
    room.record(action("ada", "A secret of ours"))
    before = room.stored()
    with launch(playwright, "--host-resolver-rules=MAP evil.test 127.0.0.1") as browser:
        page = browser.new_page()
        for path in ("/", "/now", "/api/events", "/assets/"):
            answer = page.goto(f"http://evil.test:{room.port}{path}")
            assert answer is not None
            assert answer.status == 421
            assert "secret" not in page.content()
        # The page that it was given has the origin of the name: all it asks is of the same origin, as the browser sees it.
        assert page.evaluate(ASK) == [421, 421, 421, 421]
        assert page.evaluate(POST, room.token) == 421
    assert room.stored() == before


def test_the_page_says_what_may_run_and_nothing_else_does(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    page = visit(room, "/now")
    visit.witness.forgive("Content Security Policy", "csp$", "elsewhere.invalid")
    expect(page.locator("article.card")).to_have_count(1)
    policy = page.request.get(f"{room.url}/now").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    page.evaluate(INJECT)
    refused = ["connect-src", "frame-src", "script-src-attr", "script-src-elem", "style-src-attr"]
    page.wait_for_function("(all) => all.every((one) => window.refused.has(one))", arg=refused)
    page.wait_for_function("document.images[0].complete")
    assert page.evaluate("window.pwned ?? null") is None


def test_no_page_may_put_the_control_room_into_a_frame(room: ControlRoom, visit: Visits) -> None:
    room.record(action("ada", "Fix the login"))
    with hostile_site() as port:
        page = visited(visit, room, f"http://127.0.0.1:{port}/")
        page.evaluate(
            "(address) => document.body.append(Object.assign(document.createElement('iframe'), { src: address }))", f"{room.url}/now"
        )
        frame = page.frame_locator("iframe")
        page.wait_for_function(
            "document.querySelector('iframe').contentDocument === null"
        )  # it holds a page of another origin: the browser's own
        assert frame.locator("article.card, .shell").count() == 0
