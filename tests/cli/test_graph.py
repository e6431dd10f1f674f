"""`lore graph`: graphs listed, checked and drawn, a conversation in the terminal, scenarios played."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Lore

LOG = ("--log", "sqlite:graph.db")
BROKEN = """
name = "broken"
[nodes]
input = "input_v1"
output = "nobody_v1"
[[edges]]
from = "user"
to = "inptu"
"""
NODE = """
from fleetlore.graph.model import Edge, Graph
from fleetlore.graph.registry import node


@node("shout_v1")
async def shout(step):
    return step.inputs["command"].text.upper()


GRAPH = Graph(
    name="loud",
    nodes={"input": "input_v1", "shout": "shout_v1", "output": "output_v1"},
    edges=(
        Edge(source="user", target="input", carries="message"),
        Edge(source="input", target="shout", carries="command"),
        Edge(source="shout", target="output", carries="words"),
    ),
)
"""
SCENARIO = """# Small
## Steps
### 1. Ask
- send: make me a counter
- expect_actions: length == {count}
"""


def test_the_graphs_are_listed_and_checked(lore: Lore) -> None:
    names = [line.replace("*", " ").split()[0] for line in lore("graph", "list", code=0).lines]
    assert names == ["eight", "reflex", "seven"]
    listed = lore("graph", "list", "--json", code=0).json["graphs"]
    assert [each["name"] for each in listed if each["default"]] == ["seven"]
    assert lore("graph", "check", code=0).lines[-1] == "seven: valid. 7 nodes, 26 edges"


def test_everything_that_is_wrong_with_a_graph_is_said(lore: Lore) -> None:
    (lore.folder / "broken.toml").write_text(BROKEN)
    shown = lore("graph", "check", "./broken.toml", code=1)
    assert "no implementation is called 'nobody_v1'" in shown.err
    assert "leads to nowhere: there is no node inptu" in shown.err
    report = lore("graph", "check", "./broken.toml", "--json", code=1).json
    assert (report["ok"], len(report["problems"])) == (False, 2)


@pytest.mark.parametrize(("form", "beginning"), [("text", "seven: "), ("mermaid", "flowchart LR"), ("dot", 'digraph "seven" {')])
def test_a_graph_is_drawn(lore: Lore, form: str, beginning: str) -> None:
    assert lore("graph", "draw", "seven", "--form", form, code=0).lines[0].startswith(beginning)


def test_a_conversation_goes_on_where_it_ended(lore: Lore) -> None:
    first = lore("graph", "chat", "--session", "tea", *LOG, stdin=b"make me a counter\n/press count_up\n", code=0)
    assert "count = 1" in first.lines
    second = lore("graph", "chat", "--session", "tea", *LOG, stdin=b"/press count_up\n/quit\nnever said\n", code=0)
    assert "count = 2" in second.lines
    kinds = [event["kind"] for event in lore("events", "--scope", "run:tea", "--json", "--last", "500", *LOG, code=0).ndjson]
    assert kinds.count("session.turn_ended") == 3
    assert kinds.count("prompt.submitted") == 1


def test_a_conversation_can_be_read_by_programs(lore: Lore) -> None:
    messages = lore("graph", "chat", "--json", *LOG, stdin=b"hello\n/screen\n", code=0).ndjson
    types = {message.get("type") for message in messages}
    assert {"hud", "delta", "done"} <= types
    assert any(message.get("graph") == "seven" for message in messages)


def test_what_goes_wrong_in_a_conversation_does_not_end_it(lore: Lore) -> None:
    shown = lore("graph", "chat", *LOG, stdin=b"fail\n/dance\n/switch nine\nhello\n", code=0)
    assert "lore: thinker: this script fails on request" in shown.err
    assert "unknown command: /dance" in shown.err
    assert "no graph is called 'nine'" in shown.err
    assert "Good to see you." in shown.out


def test_a_node_of_one_s_own_needs_no_change_of_ours(lore: Lore) -> None:
    (lore.folder / "loud.py").write_text(NODE)
    assert "HELLO THERE" in lore("graph", "chat", "--graph", "./loud.py", *LOG, stdin=b"hello there\n", code=0).lines


def test_scenarios_hold_or_do_not(lore: Lore) -> None:
    Path(lore.folder / "good.md").write_text(SCENARIO.format(count=3))
    Path(lore.folder / "bad.md").write_text(SCENARIO.format(count=9))
    assert lore("graph", "test", "good.md", code=0).lines == ["good.md: Small: 1 passed"]
    shown = lore("graph", "test", "good.md", "bad.md", code=1)
    assert shown.lines[1:] == ["bad.md: Small: 1 of 1 failed", "  bad.md:5: 1. Ask: expect_actions: length == 9: it has 3"]
    assert [each["ok"] for each in lore("graph", "test", "good.md", "bad.md", "--json", code=1).ndjson] == [True, False]


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("list", "seven"), "takes no 'seven'"),
        (("chat", "seven"), "use --graph"),
        (("test",), "scenario files are missing"),
        (("draw", "--session", "x"), "--session is for `lore graph chat`"),
        (("list", "--mind", "x"), "--mind is for `lore graph chat` and `lore graph test`"),
        (("test", "none.md"), "cannot be read"),
        (("draw", "nine"), "no graph is called 'nine'"),
    ],
)
def test_a_wrong_command_line_says_what_to_do(lore: Lore, argv: tuple[str, ...], reason: str) -> None:
    shown = lore("graph", *argv)
    assert shown.code != 0
    assert reason in shown.err


def test_the_nodes_that_a_graph_can_be_made_of_are_reported_with_where_they_come_from(lore: Lore) -> None:
    rows = lore("graph", "nodes", "--json", code=0).json["nodes"]
    ours = {row["name"]: row["about"] for row in rows if row["from"].startswith("fleetlore.graph.nodes.")}
    assert {"input_v1", "thinker_v1", "output_v1"} < set(ours)
    assert all(ours.values())
    lines = lore("graph", "nodes", code=0).lines
    assert [line.split()[0] for line in lines] == [row["name"] for row in rows]


def test_a_drawing_is_there_for_programs(lore: Lore) -> None:
    drawn = lore("graph", "draw", "seven", "--json", code=0).json
    assert (drawn["graph"], drawn["form"]) == ("seven", "text")
    assert drawn["drawing"].splitlines() == lore("graph", "draw", "seven", code=0).lines


def test_an_empty_line_says_nothing_and_a_conversation_can_be_begun_anew(lore: Lore) -> None:
    said = lore(
        "graph", "chat", "--session", "tea", "--mind", "scripted:", "--json", *LOG, stdin=b"make me a counter\n\n/clear\n/screen\n", code=0
    )
    assert "count_up" in said.out
    again = lore("graph", "chat", "--session", "tea", *LOG, stdin=b"/press count_up\n")
    assert "count_up" not in again.out


def test_an_unreadable_default_graph_keeps_its_star(lore: Lore) -> None:
    lore.write("fleetlore.toml", '[graph]\ndefault = "mine"\nfolder = "graphs"\n')
    (lore.folder / "graphs").mkdir()
    (lore.folder / "graphs" / "mine.toml").write_text(BROKEN.replace("[", "[[", 1))
    assert [line.split()[:2] for line in lore("graph", "list", code=0).lines if "cannot be read" in line] == [["*", "mine"]]
