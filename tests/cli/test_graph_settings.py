"""What agents talk with: `[graph]` of one's own settings file, and the flags of `lore up`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from fleetlore import settings
from fleetlore.cli.graph.settings import add_options, merge_graph_settings
from fleetlore.errors import Invalid
from tests.cli.running import Lore

OWN = "../home/.config/fleetlore/fleetlore.toml"
SAID = """
[graph]
default = "reflex"
folder = "graphs"
proxy_header = "X-Remote-User"
[graph.minds]
default = "openai:small"
strong = "anthropic:large"
[graph.databases]
shop = "sqlite:shop.db"
crm = "postgresql://reader:hunter2@db.house/crm"
"""


def flags(*argv: str) -> Namespace:
    parser = ArgumentParser()
    add_options(parser)
    return parser.parse_args(argv)


def test_the_file_says_what_agents_talk_with_and_paths_are_relative_to_it(lore: Lore) -> None:
    folder = Path(lore.write(OWN, SAID)).resolve().parent
    recorded = merge_graph_settings(settings.load_settings(folder=str(lore.folder)), flags())
    assert (recorded.default, recorded.folder, recorded.proxy_header) == ("reflex", str(folder / "graphs"), "X-Remote-User")
    assert recorded.minds == {"default": "openai:small", "strong": "anthropic:large"}
    assert recorded.databases == {"shop": f"sqlite:{folder}/shop.db", "crm": "postgresql://reader:hunter2@db.house/crm"}


def test_flags_win_over_the_file_one_by_one(lore: Lore) -> None:
    lore.write(OWN, SAID)
    args = flags("--graph", "seven", "--mind", "openai:m?base_url=http://127.0.0.1:1/v1", "--mind", "quick=scripted:")
    recorded = merge_graph_settings(settings.load_settings(folder=str(lore.folder)), args)
    assert recorded.default == "seven"
    assert recorded.minds == {"default": "openai:m?base_url=http://127.0.0.1:1/v1", "strong": "anthropic:large", "quick": "scripted:"}


def test_without_either_the_script_answers(lore: Lore) -> None:
    recorded = merge_graph_settings(settings.load_settings(folder=str(lore.folder)), flags())
    assert (recorded.default, dict(recorded.minds), dict(recorded.databases)) == ("seven", {}, {})


@pytest.mark.parametrize("given", [["parrot:polly"], ["strong=parrot:polly"], ["openai:"], ["quick=scripted:", "quick=scripted:"]])
def test_a_mind_that_cannot_be_is_refused_before_anything_is_served(lore: Lore, given: list[str]) -> None:
    argv = [word for mind in given for word in ("--mind", mind)]
    with pytest.raises(Invalid):
        merge_graph_settings(settings.load_settings(folder=str(lore.folder)), flags(*argv))
    assert "lore: " in lore("up", "--port", "0", *argv, code=2).err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[graph]\nmind = 'x'", "unknown setting: graph.mind"),
        ("[graph]\ndefault = 7", "graph.default: a string is needed"),
        ("[graph]\nminds = 'x'", "graph.minds: names with their addresses are needed"),
        ("[graph.databases]\nshop = 1", "graph.databases: names with their addresses are needed"),
    ],
)
def test_a_wrong_setting_is_named(lore: Lore, content: str, reason: str) -> None:
    lore.write(OWN, content)
    assert reason in lore("config", code=1).err


def test_it_is_shown_without_passwords(lore: Lore) -> None:
    lore.write(OWN, SAID)
    recorded = lore("config", "--json", code=0)
    assert recorded.json["graph"]["value"]["databases"]["crm"] == "postgresql://[redacted]@db.house/crm"
    assert "hunter2" not in recorded.out + lore("config", code=0).out
