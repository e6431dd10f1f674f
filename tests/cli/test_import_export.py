"""`lore import` and `lore export`: other fleets' files in and out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fleetlore import Event, connect
from fleetlore.dialects.registry import NAMES
from tests.cli.running import Lore, nexus
from tests.contract.conftest import SHARED, address

GOLDEN = Path(__file__).parents[1] / "dialects" / "golden"


def stored(lore: Lore, *argv: str) -> list[dict[str, object]]:
    events: list[dict[str, object]] = lore("events", "--all", "--json", *argv).ndjson
    return events


def test_a_file_goes_in_and_comes_out_as_it_was(lore: Lore) -> None:
    content = "".join(nexus(detail=f"no. {n}", at=1_700_000_000 + n) + "\n" for n in range(1203))
    result = lore("import", "nexus", lore.write("a.jsonl", content), code=0)
    assert result.err == "imported 1,203 · already there 0 · rejected 0\n"
    assert lore("export", "nexus", code=0).out == content


@pytest.mark.parametrize("dialect", NAMES)
def test_importing_twice_changes_nothing(lore: Lore, dialect: str) -> None:
    path = str(GOLDEN / f"{dialect}.jsonl")
    first = lore("import", dialect, path, "--json", code=0).json
    before = stored(lore)
    again = lore("import", dialect, path, "--json", code=0).json
    assert again["recorded"] == 0
    assert again["already_there"] == first["recorded"] + first["already_there"]
    assert stored(lore) == before


def test_each_event_knows_its_file_and_line(lore: Lore) -> None:
    lore("import", "nexus", lore.write("deep/down/a.jsonl", f"\n{nexus()}\n"), code=0)
    [event] = stored(lore)
    assert event["origin"] == {"dialect": "nexus", "source": "a.jsonl", "n": 2}


def test_files_are_merged_by_time_whatever_their_order(lore: Lore) -> None:
    a = lore.write("a.jsonl", "\n".join(nexus(agent="a", at=at, detail=str(at)) for at in (10, 30, 50, 50)))
    b = lore.write("b.jsonl", "\n".join(nexus(agent="b", at=at, detail=str(at)) for at in (20, 5, 40, 50)))
    lore("import", "nexus", a, b, "--log", "sqlite:1.db", code=0)
    lore("import", "nexus", b, a, "--log", "sqlite:2.db", code=0)
    merged = stored(lore, "--log", "sqlite:1.db")
    assert [(event["agent"], event["text"]) for event in merged] == [
        ("a", "10"), ("b", "20"), ("b", "5"), ("a", "30"), ("b", "40"), ("a", "50"), ("a", "50"), ("b", "50"),
    ]  # fmt: skip
    assert stored(lore, "--log", "sqlite:2.db") == merged


def test_malformed_lines_are_kept_as_rejections_and_the_rest_goes_in(lore: Lore) -> None:
    lines = [
        nexus().encode(),
        b"{bad",
        b"null",
        b"[]",
        b'{"kind":"commit"}',
        b"\xff\xfe",
        b'{"kind":"nope","agent":"a"}',
        nexus(detail="y").encode(),
    ]
    path = lore.write("a.jsonl", b"\n".join(lines))
    result = lore("import", "nexus", path, "--json", code=3)
    counts = result.json
    assert counts["recorded"] + counts["already_there"] + counts["rejected"] + counts["forgotten"] == len(lines)
    rejected = [event for event in stored(lore) if event["kind"] == "log.rejected"]
    assert len(rejected) == counts["rejected"] >= 5
    for event in rejected:
        data = event["data"]
        assert isinstance(data, dict)
        assert data["sample"] == lines[data["n"] - 1].decode(errors="replace")
        assert data["source"] == "a.jsonl"
        assert data["dialect"] == "nexus"
        assert f"lore: a.jsonl, line {data['n']}: {data['reason']}" in result.err
        assert str(event["at"]).startswith("2023-11-14")  # its neighbour's time
    before = stored(lore)
    assert lore("import", "nexus", path, code=3).err.endswith(f"imported 0 · already there 2 · rejected {counts['rejected']}\n")
    assert stored(lore) == before


def test_standard_input_is_a_file_like_any_other(lore: Lore) -> None:
    path = lore.write("a.jsonl", nexus())
    with open(path, "rb") as file:
        process = lore.start("import", "nexus", "-", stdin=file)
        assert process.wait() == 0
    [event] = stored(lore)
    assert event["origin"] == {"dialect": "nexus", "source": "stdin", "n": 1}
    assert lore("import", "nexus", "-", "-", code=2).err.startswith("lore: standard input")


def test_a_file_that_cannot_be_read_is_reported_before_anything_is_stored(lore: Lore) -> None:
    good = lore.write("a.jsonl", nexus())
    result = lore("import", "nexus", good, "missing.jsonl", code=1)
    assert result.err == "lore: missing.jsonl: there is no such file or folder; check the path\n"
    assert lore("import", "nexus", good, str(lore.folder), code=1).err.endswith("this is a folder; name a file\n")
    lore("emit", "fleet.idle")
    assert len(stored(lore)) == 1


def test_what_was_erased_for_good_is_not_taken_again(lore: Lore) -> None:
    path = lore.write("a.jsonl", f"{nexus(detail='keep')}\n{nexus(detail='forget')}\n")
    lore("import", "nexus", path, "--log", "sqlite:a.db")
    [_, unwanted] = stored(lore, "--log", "sqlite:a.db")
    with connect("sqlite:a.db").blocking() as log:
        log.erase([str(unwanted["id"])], "asked to")
    result = lore("import", "nexus", path, "--log", "sqlite:a.db", "--json", code=0)
    assert result.json == {"recorded": 0, "already_there": 1, "folded": 0, "rejected": 0, "forgotten": 1}
    assert "erased earlier and left out 1" in result.err


def test_the_users_own_patterns_are_redacted(lore: Lore) -> None:
    lore.write("fleetlore.toml", "[redact]\npatterns = ['EMP-[0-9]+']\n")
    lore("import", "nexus", lore.write("a.jsonl", nexus(detail="by EMP-123") + "\nEMP-456\n"), code=3)
    assert "EMP-" not in lore("events", "--json").out


def test_an_export_counts_what_it_cannot_say(lore: Lore) -> None:
    for kind in ("fleet.commit", "town.heartbeat", "town.heartbeat", "deploy.started"):
        lore("emit", kind, "--agent", "ada")
    result = lore("export", "nexus", code=0)
    assert [json.loads(line)["kind"] for line in result.lines] == ["commit"]
    assert result.err == "left out 3 events that nexus cannot say: 2 town.*, 1 deploy.*\n"


def test_an_export_leaves_out_lines_that_an_import_refuses(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetlore.cli.export.LONGEST_LINE", 2000)
    for text in ("short", "long " * 1000):
        lore("emit", "fleet.commit", "--agent", "ada", "--text", text, code=0)
    lore("emit", "town.heartbeat", "--agent", "ada", code=0)
    result = lore("export", "nexus", code=0)
    assert len(result.lines) == 1
    assert "left out 1 event that nexus cannot say: 1 town.*" in result.err
    assert "left out 1 event whose lines are over" in result.err


def test_an_export_takes_scope_kind_and_time(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--at", "3d")
    lore("emit", "fleet.commit", "--agent", "ada")
    lore("emit", "fleet.push", "--agent", "ada")
    lore("emit", "fleet.commit", "--agent", "bob")
    result = lore("export", "nexus", "--scope", "agent:ada", "--kind", "fleet.commit", "--since", "1d", code=0)
    assert len(result.lines) == 1
    assert result.err == ""


def test_an_export_to_a_file_is_there_whole_or_not_at_all(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada")
    lore.write("out.jsonl", "old")
    assert lore("export", "nexus", "--out", "out.jsonl", code=0).out == ""
    assert (lore.folder / "out.jsonl").read_text() == lore("export", "nexus").out
    assert lore("export", "nexus", "--out", "no/such/out.jsonl", code=1).err.startswith("lore: no/such/out.jsonl")
    lore("export", "nexus", "--out", ".", code=2)
    assert not [name for name in os.listdir() if name.endswith(".part")]


def test_the_town_of_the_export_is_that_of_the_settings(lore: Lore) -> None:
    with connect("sqlite:a.db", town="harbour").blocking() as log:
        log.append([Event(kind="town.heartbeat", agent="ada")])
    assert "harbour" in lore("export", "cloudevents", "--log", "sqlite:a.db", "--town", "harbour", code=0).out


def test_an_import_shows_its_progress_on_a_terminal_only(lore: Lore) -> None:
    path = lore.write("a.jsonl", "".join(nexus(detail=f"no. {n}") + "\n" for n in range(600)))
    shown = lore.on_terminal("import", "nexus", path).out
    assert "importing" in shown
    assert "imported 600" in shown
    assert lore("import", "nexus", path, code=0).err == "imported 0 · already there 600 · rejected 0\n"


@pytest.mark.parametrize("backend", SHARED)
def test_long_texts_go_out_whole_and_come_in_whole(lore: Lore, backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = address(backend, request, tmp_path)
    text = "All work and no play. " * 2000
    event = {"kind": "tool.returned", "actor": "ada", "data": {"tool": "Bash", "output": text}}
    lore("emit", "-", "--log", url, stdin=json.dumps(event).encode(), code=0)
    path = lore.write("out.jsonl", lore("export", "cloudevents", "--log", url, code=0).out)
    assert text in json.dumps(json.loads(Path(path).read_text()))
    lore("import", "cloudevents", path, "--log", "sqlite:copy.db", code=0)
    [copied] = lore("events", "--json", "--whole", "--log", "sqlite:copy.db", code=0).ndjson
    assert copied["data"]["output"] == text
