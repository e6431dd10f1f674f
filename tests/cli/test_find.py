"""`lore find`: in a pipe, on a terminal, as JSON."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleetlore import Event, connect
from fleetlore.cli.find import DEFAULT_LAST
from fleetlore.operations import context
from tests.cli.running import Lore
from tests.cli.test_terminal import NASTY, is_harmless

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def recorded(lore: Lore) -> Lore:
    lore("emit", "fleet.commit", "--agent", "ada", "--text", "the parser is fixed", "--at", "2026-11-15T20:00Z")
    lore("emit", "fleet.push", "--agent", "bob", "--text", "the parser is pushed", "--at", "2026-11-15T21:00Z")
    lore(
        "emit", "tool.called", "--agent", "ada", "--data", '{"tool":"Bash","input":{"command":"make harbour"}}', "--at", "2026-11-16T09:00Z"
    )
    return lore


def texts(lore: Lore, *argv: str, code: int = 0) -> list[str]:
    return [event.get("text") for event in lore("find", "--json", *argv, code=code).ndjson]


def test_the_newest_comes_first(recorded: Lore) -> None:
    assert recorded("find", "parser", "--utc", code=0).lines == [
        "2026-11-15T21:00:00+00:00  bob             fleet.push            -  the parser is pushed",
        "2026-11-15T20:00:00+00:00  ada             fleet.commit          -  the parser is fixed",
    ]


def test_several_words_may_be_given_and_phrases(recorded: Lore) -> None:
    assert texts(recorded, "fixed", "parser") == ["the parser is fixed"]
    assert texts(recorded, '"parser is"', "push") == ["the parser is pushed"]
    assert texts(recorded, '"is parser"', code=1) == []


def test_json_is_what_events_prints(recorded: Lore) -> None:
    assert recorded("find", "pushed", "--json", code=0).raw == recorded("events", "--kind", "fleet.push", "--json").raw


def test_where_to_look_is_chosen_as_for_events(recorded: Lore) -> None:
    assert texts(recorded, "parser", "--scope", "agent:ada") == ["the parser is fixed"]
    assert texts(recorded, "parser", "--kind", "fleet.push") == ["the parser is pushed"]
    assert texts(recorded, "parser", "--since", "2026-11-15T20:30Z") == ["the parser is pushed"]
    assert texts(recorded, "parser", "--last", "1") == ["the parser is pushed"]


def test_nothing_found_is_exit_code_1_as_with_grep(recorded: Lore) -> None:
    result = recorded("find", "xyzzy", code=1)
    assert (result.out, result.err) == ("", "")
    assert "nothing found" in recorded.on_terminal("find", "xyzzy").out


@pytest.mark.parametrize("argv", [[], [""], [" ", " "], ["x", "--last", "0"], ["x", "--scope", "nonsense"], ["x", "--since", "whenever"]])
def test_a_wrong_question_is_a_usage_error(recorded: Lore, argv: list[str]) -> None:
    assert recorded("find", *argv, code=2).err.startswith("lore")


def test_a_log_that_is_not_there_is_an_error(lore: Lore) -> None:
    assert "there is no log yet" in lore("find", "x", code=1).err


def test_what_the_line_does_not_show_is_shown_beside_it(recorded: Lore) -> None:
    [line] = recorded("find", "harbour", "--utc").lines
    assert line.startswith("2026-11-16T09:00:00+00:00  ada             tool.called           -  tool=Bash (")
    assert line.endswith("make harbour)")


def test_thoughts_are_found_and_marked(recorded: Lore) -> None:
    recorded("emit", "agent.thought", "--agent", "ada", "--text", "a doubt", "--visibility", "private")
    assert recorded("find", "doubt").lines[0].endswith("[private] a doubt")
    assert recorded("find", "doubt", "--json").json["visibility"] == "private"
    assert recorded("find", "doubt", "--json").json["text"] == "a doubt"


def test_a_terminal_shows_what_was_found_and_says_if_there_is_more(recorded: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = recorded.on_terminal("find", "PARSER", "--utc").out
    assert shown.count("\x1b[7mparser\x1b[27m") == 2
    assert COLOURS.sub("", shown).splitlines() == [
        "── Sunday 15 November 2026",
        "21:00:00  bob             fleet.push            the parser is pushed",
        "20:00:00  ada             fleet.commit          the parser is fixed",
    ]
    assert "the newest 1 are shown" in recorded.on_terminal("find", "parser", "--last", "1").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in recorded.on_terminal("find", "parser").out


def test_hostile_words_leave_harmless(lore: Lore) -> None:
    with connect("sqlite:fleet.db").blocking() as log:
        log.append([Event(kind="fleet.commit", agent="ada", text=f"needle {NASTY}", data={"more": f"{NASTY} thread {NASTY}"})])
    for word in ("needle", "thread"):
        for line in lore("find", word, "--log", "sqlite:fleet.db", code=0).lines:
            assert is_harmless(line)
        shown = COLOURS.sub("", lore.on_terminal("find", word, "--log", "sqlite:fleet.db").out)
        assert all(is_harmless(line) for line in shown.split("\n"))


def test_without_a_cache_the_same_is_found(recorded: Lore, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "SAVE_AFTER", 0)  # a short log is searched without an index
    with_cache = recorded("find", "the pars", code=0)
    assert list(cache.glob("fleetlore/*.db"))
    for file in cache.glob("fleetlore/*"):
        file.unlink()
    (cache / "fleetlore").rmdir()
    (cache / "fleetlore").write_text("a file where the folder should be")
    assert recorded("find", "the pars", code=0) == with_cache


def test_a_log_in_memory_has_nothing_to_find(lore: Lore, cache: Path) -> None:
    assert lore("find", "x", "--log", "memory:", code=1).out == ""
    assert not cache.exists()


def test_no_more_than_usual_are_shown(lore: Lore) -> None:
    lines = "\n".join(f'{{"kind":"fleet.commit","actor":"ada","text":"needle {n}"}}' for n in range(DEFAULT_LAST + 5))
    lore("emit", "-", stdin=lines.encode(), code=0)
    assert texts(lore, "needle") == [f"needle {n}" for n in range(DEFAULT_LAST + 4, 4, -1)]
    assert len(texts(lore, "needle", "--last", "100")) == DEFAULT_LAST + 5


def test_status_keeps_what_it_has_folded_of_a_long_log(lore: Lore, cache: Path) -> None:
    with connect("sqlite:fleet.db?sync=off").blocking() as log:
        log.append([Event(kind="fleet.commit", agent="ada", text="parsing")])
        assert lore("status", "--log", "sqlite:fleet.db", "--json", code=0).json["events"] == 1
        assert not cache.exists()
        log.append_all(Event(kind="fleet.commit", agent=f"agent{n % 7}", text="parsing") for n in range(1500))
        for more in (0, 1, 1):
            log.append([Event(kind="session.ended", agent="ada")] * more)
            page = lore("status", "--log", "sqlite:fleet.db", "--json", code=0).json
            assert (page["events"], page["position"]) == (log.info().events, log.head())
            assert len(page["agents"]) == 8
    assert list(cache.glob("fleetlore/*.db"))
