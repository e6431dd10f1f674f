"""Graph files: parsed, validated with reasons, drawn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetlore.errors import Invalid
from fleetlore.graph import drawing, files
from fleetlore.graph.checks import InvalidGraph
from fleetlore.graph.engine import Engine
from fleetlore.graph.registry import REGISTRY
from tests.graph.talking import build_graph, make_tracing_nodes

TOML = """
description = "Says it."
[nodes]
input = "input_v1"
output = "output_v1"
[[edges]]
from = "user"
to = "input"
[[edges]]
from = "input"
to = "output"
carries = "command"
when = "short"
[conditions.short]
not = { longer = 3 }
"""
YAML = """
name: mine
nodes: {input: input_v1, output: output_v1}
edges:
  - {from: user, to: input}
  - {from: input, to: [output], carries: command}
"""
PYTHON = "GRAPH = {'name': 'mine', 'nodes': {'input': 'input_v1', 'output': 'output_v1'}, 'edges': [{'from': 'user', 'to': 'input'}]}"


@pytest.mark.parametrize("name", files.list_shipped_graphs())
def test_every_graph_that_comes_along_can_be_run(name: str) -> None:
    Engine(files.load_graph(name), REGISTRY)


def test_three_graphs_come_along() -> None:
    assert files.list_shipped_graphs() == ("eight", "reflex", "seven")
    assert len(files.load_graph("seven").nodes) == 7
    assert "thinker" not in files.load_graph("reflex").nodes


@pytest.mark.parametrize(("file", "text"), [("mine.toml", TOML), ("mine.yaml", YAML), ("mine.py", PYTHON)])
def test_toml_yaml_and_python_say_the_same(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text if file != "mine.toml" else f'name = "mine"\n{text}')
    graph = files.load_graph(str(tmp_path / file))
    assert (graph.name, dict(graph.nodes)) == ("mine", {"input": "input_v1", "output": "output_v1"})
    Engine(graph, REGISTRY)
    assert files.list_graphs(str(tmp_path))[-1] == "mine"
    assert files.find_graph("mine", folder=str(tmp_path)) is not None


def test_a_browser_can_name_graphs_but_no_files(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(f'name = "mine"\n{TOML}')
    assert files.find_graph(str(tmp_path / "mine.toml")) is None
    (tmp_path / "graphs").mkdir()
    assert files.find_graph("../mine", folder=str(tmp_path / "graphs")) is None
    with pytest.raises(Invalid, match="the folder of your graphs cannot be read"):
        files.find_graph("mine", folder=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nodes": {"input": "input_v1"}}, "the role output is missing"),
        ({"nodes": {"input": "input_v9", "output": "output_v1"}}, "no implementation is called 'input_v9'; choose from"),
        ({"edges": [{"from": "user", "to": "inptu"}]}, "leads to nowhere: there is no node inptu"),
        ({"edges": [{"from": "usr", "to": "input"}]}, "comes from nowhere: there is no node usr"),
        ({"edges": [{"from": "user", "to": "input", "when": "late"}]}, "no condition is called 'late'; known: local"),
        (
            {"edges": [{"from": "user", "to": "input"}, {"from": "input", "to": "output"}, {"from": "output", "to": "input"}]},
            "data goes in a circle: input → output → input",
        ),
        ({"edges": [{"from": "input", "to": "output"}]}, "input leads on, but never runs: no data edge leads to it"),
        ({"edges": [{"from": "user", "to": "input", "type": "context"}]}, "only data comes from the user"),
        ({"edges": [{"from": "input", "to": "output", "type": "state", "when": "local"}]}, "belong to data edges"),
        ({"edges": [{"from": "user", "to": "input"}, {"from": "user", "to": "input"}]}, "is there twice"),
        ({"edges": [{"from": "user", "to": "input", "type": "wish"}]}, "edges[0].type: 'wish' is none of data, context, state"),
        ({"edges": [{"from": "user", "to": "input", "carry": "x"}]}, "edges[0].carry: is not known here; did you mean carries?"),
        ({"edges": ["user > input"]}, "edges[0]: a table with from and to is needed"),
        ({"conditions": {"x": {"words": "data"}}}, "condition x: unknown word list 'data'"),
        ({"conditions": {"x": {}}}, "condition x: it must hold at least one key"),
        ({"options": {"output": {"loud": True}}}, "options.output.loud: output_v1 has no such option"),
        ({"minds": {"nobody": "quick"}}, "minds.nobody: unknown node"),
        ({"history_tokens": "many"}, "history_tokens: a whole number is needed, not text in quotes"),
        ({"colour": "red"}, "colour: is not known here; known: name, description, agent"),
        ({"agent": "two\nlines"}, "agent: the name must have"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], reason: str) -> None:
    data: dict[str, Any] = {
        "name": "mine",
        "nodes": {"input": "input_v1", "output": "output_v1"},
        "edges": [{"from": "user", "to": "input"}, {"from": "input", "to": "output", "carries": "command"}],
    }
    with pytest.raises(InvalidGraph) as caught:
        Engine(files.from_data(data | change, "mine.toml"), REGISTRY)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("mine.toml: ")


def test_errors_in_a_file_have_their_lines() -> None:
    text = 'name = "mine"\nhistory_tokens = "x"\n[nodes]\ninput = 1\n[[edges]]\nfrom = "user"\nto = "input"\nwhen = 3\n'
    with pytest.raises(InvalidGraph) as caught:
        files.from_text(text, "mine.toml")
    assert caught.value.problems == (
        "mine.toml:8: edges[0].when: text in quotes or a list is needed, not a whole number",
        "mine.toml:2: history_tokens: a whole number is needed, not text in quotes",
        "mine.toml:4: nodes.input: text in quotes is needed, not a whole number",
    )


def test_everything_that_is_wrong_is_said_at_once() -> None:
    registry, _ = make_tracing_nodes("input")
    with pytest.raises(InvalidGraph) as caught:
        Engine(build_graph("user > input", "input > nobody if late"), registry)
    assert len(caught.value.problems) == 3


def test_a_cycle_may_go_through_what_comes_after_and_through_context() -> None:
    registry, _ = make_tracing_nodes("input", "output", "memorizer")
    Engine(build_graph("user > input", "input > output", "output > memorizer after", "memorizer > input after"), registry)
    Engine(files.load_graph("seven"), REGISTRY)  # where the memorizer's words go to the input


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    for name, text, reason in (
        ("a.toml", "name = ", "not TOML"),
        ("a.yaml", "{", "not YAML"),
        ("b.yaml", "- 1", "a graph is a table"),
        ("a.py", "X = 1", "puts no graph into GRAPH"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(Invalid, match=reason):
            files.load_graph(str(tmp_path / name))
    with pytest.raises(Invalid, match="cannot be read"):
        files.load_graph(str(tmp_path / "none.toml"))
    with pytest.raises(Invalid, match="no graph is called 'svn'; choose from eight, reflex, seven"):
        files.load_graph("svn")


@pytest.mark.parametrize("form", drawing.FORMATS)
def test_a_drawing_has_every_node_and_every_edge(form: str) -> None:
    graph = files.load_graph("seven")
    lines = list(drawing.FORMATS[form](graph))
    assert all(any(f"{role}" in line and name in line for line in lines) for role, name in graph.nodes.items())
    arrows = {"text": ("──▶", "┄┄▷", "══▷"), "mermaid": ("-->", "-.->", "==>"), "dot": (" -> ",)}[form]
    assert sum(any(arrow in line for arrow in arrows) for line in lines) == len(graph.edges)
    assert any("if reflex" in line for line in lines)


def test_names_cannot_break_out_of_a_drawing() -> None:
    graph = files.from_data(
        {
            "name": 'x"]; evil',
            "nodes": {'in"put': "input_v1", "output": "output_v1"},
            "edges": [{"from": "user", "to": 'in"put', "carries": 'a"|b#'}],
        },
        "hostile",
    )
    assert '"in#quot;put<br/>input_v1"' in "\n".join(drawing.as_mermaid(graph))
    assert r'"in\"put"' in "\n".join(drawing.as_dot(graph))


def test_an_installed_package_offers_nodes_by_its_entry_point(tmp_path: Path) -> None:
    (tmp_path / "whispers.py").write_text(
        "from fleetlore.graph.registry import node\n\n@node('whisper_v1')\nasync def whisper(step):\n    return '…'\n"
    )
    info = tmp_path / "whispers-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: whispers\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[fleetlore.nodes]\nwhispers = whispers\n")
    (tmp_path / "mine.toml").write_text(f'name = "mine"\n{TOML}'.replace("output_v1", "whisper_v1"))
    # In a process of its own: what is registered stays.
    found = subprocess.run(
        [sys.executable, "-m", "fleetlore", "graph", "check", "mine.toml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, "mine.toml: valid. 2 nodes, 2 edges\n"), found.stderr


@pytest.mark.parametrize("code", ["1 / 0", "def", "raise SystemExit(3)"])
def test_a_file_of_code_that_fails_is_reported_like_any_other_that_is_wrong(tmp_path: Path, code: str) -> None:
    (tmp_path / "broken.py").write_text(code)
    with pytest.raises(Invalid, match="fails when it is run"):
        files.load_graph("broken", folder=str(tmp_path))
