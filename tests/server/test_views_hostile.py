"""Whatever is stored, and whatever is asked about it: every view answers, and says no where it has to; nothing is ever our own fault."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fleetlore import Event, connect
from fleetlore import settings as config
from fleetlore.operations import table
from fleetlore.operations.request import load_operation
from fleetlore.server.app import make_app
from fleetlore.server.health import Meta
from fleetlore.server.open_context import open_context
from tests.server import asgi
from tests.server.serving import homely, serve
from tests.strategies import events, texts

ENDS_OF_TIME = ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-14:00")
OPERATIONS = [each for each in table.OPERATIONS if each.method == "GET" and "{" not in each.path and each.personal != "always"]
PATHS = [each.path for each in OPERATIONS if "as_of" in load_operation(each).request.__struct_fields__ and each.path != "/api/search"]
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    *((path, {}) for path in PATHS),
    ("/api/costs", {"by": "day,model", "tz": "Pacific/Kiritimati"}),
    ("/api/costs", {"by": "agent", "tz": "Pacific/Midway"}),
    ("/api/story", {"detail": "full", "tz": "Pacific/Kiritimati"}),
    ("/api/story", {"detail": "headline", "tz": "Pacific/Midway"}),
    ("/api/timeline", {"width": 60}),
    ("/api/events", {"order": "oldest"}),
    ("/api/search", {"q": "a"}),
    ("/api/meta", {}),
]
ANSWERS: dict[str, Any] = {each.path: load_operation(each).response for each in OPERATIONS} | {"/api/meta": Meta}


class Inside:
    """A house without a network before it."""

    def __init__(self, app: Any, token: str, runner: asyncio.Runner) -> None:
        self._app, self._token, self._runner = app, token, runner

    def ask(self, path: str, query: dict[str, Any]) -> asgi.Answer:
        address = f"{path}?{urlencode(query, doseq=True)}" if query else path
        return self._runner.run(asgi.ask(self._app, "GET", address, [("host", "localhost"), ("authorization", f"Bearer {self._token}")]))

    def view(self, path: str, query: dict[str, Any]) -> Any:
        answer = self.ask(path, query)
        assert answer.status == 200, (path, query, answer.body)
        return msgspec.json.decode(answer.body, type=ANSWERS[path])


@contextmanager
def inside(folder: Path, stored: list[Event]) -> Iterator[tuple[Inside, list[Event]]]:
    settings = config.load_settings(log="memory:", environ={}, folder="/")
    with homely(folder), connect("memory:").blocking() as log, asyncio.Runner() as runner:
        log.append(stored)
        with open_context(log, settings, host="127.0.0.1") as rooms:
            rooms.context.view_cache.start()
            try:
                yield Inside(make_app(rooms.context), rooms.token, runner), list(log.read())
            finally:
                log.close()  # which ends its followers at once
                rooms.context.close()


def end_of_time(at: datetime) -> list[Event]:
    return [
        Event(kind=kind, actor="a", agent="a", task="t", at=at.replace(tzinfo=UTC)) for kind in ("fleet.dispatch", "model.replied", "x.y")
    ]


@settings(max_examples=settings().max_examples // 3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(end_of_time(datetime.min), ENDS_OF_TIME[0], ENDS_OF_TIME[2])  # noqa: DTZ901 - it is given one
@example(end_of_time(datetime.max), ENDS_OF_TIME[1], ENDS_OF_TIME[3])  # noqa: DTZ901
@given(
    st.lists(events(), min_size=1, max_size=6, unique_by=lambda event: event.id),
    st.sampled_from(ENDS_OF_TIME),
    st.sampled_from(ENDS_OF_TIME),
)
def test_any_stored_event_is_shown_by_every_view(tmp_path: Path, stored: list[Event], first: str, second: str) -> None:
    with inside(tmp_path, stored) as (app_context, known):
        for path, query in QUESTIONS:
            app_context.view(path, query)
        for path in PATHS:
            for as_of in (first, known[0].position, known[-1].position):
                app_context.view(path, {"as_of": as_of})
        for query in ({"from": first}, {"to": first}, {"from": str(known[0].at)}):
            app_context.view("/api/timeline", query)
        app_context.view("/api/costs", {"since": first, "until": second})
        app_context.view("/api/events", {"since": first})
        for path in ("/api/story", "/api/brief"):
            assert app_context.ask(path, {"since": first, "until": second}).status in (200, 422)
        assert len(app_context.view("/api/events", {}).events) == len(known)
        story = app_context.view("/api/story", {"detail": "full"}).story
        cited = {source.event for paragraph in story.paragraphs for sentence in paragraph.sentences for source in sentence.evidence}
        ids = [event.id for event in known]
        assert cited <= set(ids)
        shown = app_context.view("/api/evidence", {"id": ids[:50]})
        assert len(shown.items) + shown.hidden <= len(ids[:50])
        assert shown.missing == []


PARAMETERS = ("as_of", "scope", "kind", "id", "after", "before", "since", "until", "from", "to", "limit", "order", "by", "tz", "q", "agent")


@settings(max_examples=3 * settings().max_examples // 5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(ANSWERS)),
    st.dictionaries(st.sampled_from(PARAMETERS) | texts(8), texts(30) | st.from_regex(r"[0-9+-]{1,20}", fullmatch=True), max_size=3),
)
def test_any_question_is_answered_or_refused_with_a_reason(one_context: Inside, path: str, query: dict[str, str]) -> None:
    answer = one_context.ask(path, query)
    assert answer.status in ((200, 404, 422) if {"agent", "scope"} & query.keys() else (200, 422))  # 404: nobody has that name
    if answer.status == 200:
        msgspec.json.decode(answer.body, type=ANSWERS[path])
    else:
        assert answer.detail


@pytest.fixture(scope="module")
def one_context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with inside(tmp_path_factory.mktemp("house"), [Event(kind="fleet.commit", agent="ada", actor="ada", text="one")]) as (app_context, _):
        yield app_context


def test_hostile_words_come_back_as_they_were_stored_and_are_never_a_page(tmp_path: Path) -> None:
    words = "<script>alert(1)</script> <img src=x onerror=alert(1)> \u202e"
    with serve(tmp_path) as served:
        served.log.append([Event(kind="fleet.commit", agent=words[:25], actor="x", text=words)])
        for name in ("fleet", "story", "threads", "arcs", "timeline", "events"):
            answer = served.get(f"/api/{name}")
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert served.view("fleet")["agents"][0]["doing"] == words
