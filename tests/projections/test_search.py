"""Finding by words: the index and the plain reading find the same, whatever is asked and whatever became of the log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore import Event, connect
from fleetlore.errors import InvalidScope
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import search
from fleetlore.projections import store as store_module
from fleetlore.projections.search import SearchFilter, find_matches, indexed_text, make_excerpt, parse_terms
from fleetlore.projections.store import ProjectionStore
from tests.projections.test_runner import counting
from tests.strategies import events, texts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ProjectionStore]:
    with ProjectionStore(str(tmp_path / "cache" / "store.db")) as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(f"sqlite:{tmp_path / 'fleet.db'}?sync=off").blocking() as opened:
        yield opened


def append_lines(log: BlockingRecorder, *lines: str, **fields: Any) -> None:
    log.append([Event(**({"kind": "fleet.commit", "actor": "ada", "text": line} | fields)) for line in lines])


def found(log: BlockingRecorder, store: ProjectionStore, text: str, **options: Any) -> list[str | None]:
    """The texts that are found, which are the same with a store and without."""
    with_store = search.find_events(log, text, store=store, **options)
    assert with_store == search.find_events(log, text, **options)
    return [event.text for event in with_store]


def indexed(store: ProjectionStore) -> int:
    return store.run_read(lambda connection: int(connection.execute("SELECT count(*) FROM docs").get), 0)


# --- what is found


def test_every_word_must_be_there_and_the_newest_come_first(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, "the parser is fixed", "the lexer is fixed", "is the parser broken?")
    assert found(log, store, "parser") == ["is the parser broken?", "the parser is fixed"]
    assert found(log, store, "fixed parser") == ["the parser is fixed"]
    assert found(log, store, "parser, FIXED!") == ["the parser is fixed"]
    assert found(log, store, "parser mended") == []
    assert found(log, store, "the", limit=2) == ["is the parser broken?", "the lexer is fixed"]


def test_the_last_word_may_go_on_and_no_other(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, "parsers parse")
    assert found(log, store, "pars") == ["parsers parse"]
    assert found(log, store, "parse pars") == ["parsers parse"]
    assert found(log, store, "pars parse") == []
    assert found(log, store, '"pars"') == []


def test_words_in_quotes_stand_together(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, "rate limit reached", "the limit of the rate")
    assert found(log, store, '"rate limit"') == ["rate limit reached"]
    assert found(log, store, 'reached "rate limit"') == ["rate limit reached"]
    assert found(log, store, "rate-limit") == ["rate limit reached"]
    assert found(log, store, '"rate limit') == ["the limit of the rate", "rate limit reached"]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("Çeşme köyü", "cesme koyu"),
        ("Überprüfung", "uberpruf"),
        ("cafe\u0301 au lait", "café"),
        ("смена ВАХТЫ", "Смена вахты"),
        ("ΛΟΓΟΣ και", "λογοσ ΚΑΙ"),
        ("修复解析器", "修复"),
        ("fix src/fleetlore/cli/find.py:12", "cli/find.py"),
        ("pr_open", "open"),
    ],
)
def test_capitals_accents_and_signs_do_not_matter(log: BlockingRecorder, store: ProjectionStore, line: str, asked: str) -> None:
    append_lines(log, "something else", line)
    assert found(log, store, asked) == [line]
    assert find_matches(line, parse_terms(asked))


def test_names_kinds_and_payloads_are_searched_too(log: BlockingRecorder, store: ProjectionStore) -> None:
    fields: dict[str, Any] = {
        name: f"the{name}" for name in ("actor", "agent", "parent", "child", "task", "mission", "goal", "run", "new_state")
    }
    data = {"tool": "Bash", "input": {"commands": ["make harbour", {"deep": "anchorage"}], "n": 7}}
    log.append([Event(kind="tool.called", text="a call", data=data, **fields)])
    for word in (*fields.values(), "tool.called", "bash", "harbour", "anchorage"):
        assert found(log, store, word) == ["a call"]
    assert found(log, store, "commands") == []


def test_only_so_much_of_an_event_is_indexed(log: BlockingRecorder, store: ProjectionStore) -> None:
    nest: Any = "bottom"
    for _ in range(200):
        nest = [nest]
    append_lines(log, "near", data={"long": "word " * 10, "nest": nest})
    assert found(log, store, "bottom") == ["near"]
    event = Event(kind="x.y", text="near", data={"a": ["x" * 10_000] * 30, "z": "far"})
    assert len(indexed_text(event)) == search.MAX_INDEXED_CHARS


def test_scope_kind_and_time_choose(log: BlockingRecorder, store: ProjectionStore) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    append_lines(log, "needle 1", agent="ada", task="t 1", at=start)
    append_lines(log, "needle 2", agent="adam", task="t 1", kind="fleet.push", at=start + timedelta(hours=1))
    append_lines(log, "needle 3", parent="ada", kind="town.task_assigned", at=start + timedelta(hours=2))
    assert found(log, store, "needle", wanted=SearchFilter("agent:ada")) == ["needle 3", "needle 1"]
    assert found(log, store, "needle", wanted=SearchFilter("task:t 1")) == ["needle 2", "needle 1"]
    assert found(log, store, "needle", wanted=SearchFilter("task:t")) == []
    assert found(log, store, "needle", wanted=SearchFilter(kinds=("fleet.*",))) == ["needle 2", "needle 1"]
    assert found(log, store, "needle", wanted=SearchFilter(kinds=("fleet.push", "town.task_assigned"))) == ["needle 3", "needle 2"]
    assert found(log, store, "needle", wanted=SearchFilter(since=start + timedelta(hours=1))) == ["needle 3", "needle 2"]
    with pytest.raises(InvalidScope):
        search.find_events(log, "needle", wanted=SearchFilter("nonsense"), store=store)


def test_thoughts_are_found(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, "a private needle", visibility="private")
    assert found(log, store, "needle") == ["a private needle"]


# --- hostile questions


@pytest.mark.parametrize(
    "asked",
    [
        '"',
        '""',
        '"""',
        "'",
        "*",
        "a*",
        "NEAR(a b)",
        "a AND",
        "OR",
        "NOT a",
        "text:a",
        "^a",
        "{text}:a",
        "a + b",
        "(",
        ")",
        "-",
        "a\0b",
        "\ud800",
        "'; DROP TABLE docs; --",
        "",
        " ",
        '" "',
        "a " * 5000,
        '"' * 999,
        "x" * 100_000,
    ],
)
def test_no_question_is_an_error(log: BlockingRecorder, store: ProjectionStore, asked: str) -> None:
    append_lines(log, "a needle")
    found(log, store, asked)
    find_matches("a needle", parse_terms(asked))
    assert found(log, store, "needle") == ["a needle"]


def test_the_engines_own_words_are_words(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, "this and that", "this or that", "this not that", "near(by)")
    assert found(log, store, "this AND that") == ["this and that"]
    assert found(log, store, "this OR that") == ["this or that"]
    assert found(log, store, "NOT that") == ["this not that"]
    assert found(log, store, "NEAR(by") == ["near(by)"]


@settings(max_examples=60, deadline=None)
@given(st.lists(events(), min_size=1, max_size=12), st.lists(st.text(max_size=30), max_size=5))
def test_any_question_to_any_log_is_answered_alike_with_a_store_and_without(batch: list[Event], questions: list[str]) -> None:
    with TemporaryDirectory() as folder, connect("memory:").blocking() as log, ProjectionStore(f"{folder}/store.db") as store:
        log.append(batch)
        own = [indexed_text(event).split(None, 3)[:2] for event in batch]
        for asked in (*questions, *(" ".join(words) for words in own)):
            found(log, store, asked)
        assert indexed(store) == len(list(log.read()))


@given(texts(), st.text(max_size=20))
def test_what_is_emphasised_is_in_order_and_apart(text: str, asked: str) -> None:
    end = 0
    for start, stop in find_matches(text, parse_terms(asked)):
        assert end <= start < stop <= len(text)
        end = stop


def test_emphasis_marks_the_words_that_were_meant() -> None:
    def marked(text: str, asked: str) -> list[str]:
        return [text[start:end] for start, end in find_matches(text, parse_terms(asked))]

    assert marked("Parsers parse; the Parser.", "the pars") == ["Pars", "pars", "the", "Pars"]
    assert marked("rate limit, limit rate", '"rate limit"') == ["rate limit"]
    assert marked("Überprüfung überall", "uber") == ["Über", "über"]
    assert marked("anything", "---") == []


def test_an_excerpt_shows_what_the_line_does_not() -> None:
    event = Event(kind="tool.called", text="a call", data={"input": f"{'x ' * 100}harbour{' y' * 100}"})
    shown = make_excerpt(event, parse_terms("harbour"))
    assert "harbour" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert make_excerpt(event, parse_terms("nothing")) == ""


# --- keeping up with the log


def test_only_what_is_new_is_read(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, *(f"line {n}" for n in range(300)))
    counted = counting(log)
    assert search.find_events(counted, "nothing", store=store) == []
    assert counted.read_events == 300
    append_lines(log, "one more needle")
    assert len(search.find_events(counted, "needle", store=store)) == 1
    assert counted.read_events == 300 + 1 + 1 + 1  # to know the log again, the new one, and the one that was found


def test_progress_is_reported(log: BlockingRecorder, store: ProjectionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "CHUNK", 4)
    append_lines(log, *(f"line {n}" for n in range(10)))
    for kept in (store, None):
        recorded: list[tuple[int, int]] = []
        search.find_events(log, "nothing", store=kept, progress=lambda done, total, recorded=recorded: recorded.append((done, total)))  # type: ignore[misc]
        assert recorded == [(4, 10), (8, 10), (10, 10)]


def test_on_every_backend_erased_and_trimmed_events_are_not_found(url: str, store: ProjectionStore) -> None:
    with connect(url).blocking() as log:
        append_lines(log, *(f"needle {n}" for n in range(8)))
        assert len(found(log, store, "needle")) == 8
        recorded = list(log.read())
        log.erase([recorded[5].id or "", recorded[7].id or ""], "a slip")
        assert found(log, store, "needle") == [f"needle {n}" for n in (6, 4, 3, 2, 1, 0)]
        assert recorded[3].position is not None
        log.trim(recorded[3].position)
        assert found(log, store, "needle") == ["needle 6", "needle 4", "needle 3"]
        assert indexed(store) == len(list(log.read()))
        append_lines(log, "needle 9")
        assert found(log, store, "needle") == ["needle 9", "needle 6", "needle 4", "needle 3"]
        assert len(found(log, store, "forgotten for good")) == 1


def test_an_event_that_is_erased_before_it_was_ever_indexed_is_not_found(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, "needle 1", "needle 2")
    log.erase([next(log.read()).id or ""], "a slip")
    assert found(log, store, "needle") == ["needle 2"]


def test_nonsense_in_the_fact_of_an_erasure_does_no_harm(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, "needle")
    for hashes in (["zz", "ff", "é" * 64], [], ["0" * 64]):
        log.append([Event(kind="log.forgotten", actor="x", data={"count": 1, "reason": "r", "id_hashes": hashes})])
        assert found(log, store, "needle") == ["needle"]


def test_many_events_that_do_not_match_stand_between(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, "needle old")
    for _ in range(6):
        append_lines(log, *("hay " * 3 for _ in range(500)))
    append_lines(log, "needle new")
    assert found(log, store, "needle") == ["needle new", "needle old"]
    assert found(log, store, "needle", limit=1) == ["needle new"]


def test_a_store_that_fails_halfway_is_done_without(log: BlockingRecorder, store: ProjectionStore) -> None:
    append_lines(log, "needle")
    assert found(log, store, "needle") == ["needle"]
    store.run_write(lambda connection: connection.execute("DROP TABLE docs"), None)
    assert found(log, store, "needle") == ["needle"]
    assert found(log, store, "needle") == ["needle"]
    store.close()
    assert found(log, store, "needle") == ["needle"]


def test_who_indexes_is_reported_when_another_holds_the_store(
    log: BlockingRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "TIMEOUT", 0.05)
    append_lines(log, "needle")
    with ProjectionStore(str(tmp_path / "held.db")) as held:
        assert held.newest_checkpoint("any", 1) is None  # the file is there
        other = apsw.Connection(held.path)
        other.execute("BEGIN IMMEDIATE")
        assert not search.update_index(log, held)
        other.execute("ROLLBACK")
        other.close()
        assert search.update_index(log, held)
        assert indexed(held) == 1
