"""`lore name`: who is meant, what it is called then, and how that is undone."""

from __future__ import annotations

import pytest

from tests.cli.running import Lore


@pytest.fixture
def fleet(lore: Lore) -> Lore:
    for agent in ("claude-code/11aa", "claude-code/11bb", "codex/22"):
        lore("emit", "session.started", "--agent", agent, "--run", agent, "--data", '{"project": "app"}', code=0)
    return lore


def shown(lore: Lore, agent: str) -> str:
    lore("emit", "model.replied", "--agent", agent, "--data", '{"model": "gpt-5", "input": 1, "output": 1}', code=0)
    names = {row["agent"]: row["name"] for row in lore("costs", "--by", "agent", "--json", code=0).json["by"]}
    return str(names[agent])


@pytest.mark.parametrize("agent", ["codex/22", "codex", "app (3)", "codex/2"])
def test_an_agent_is_named_by_its_name_a_beginning_or_as_it_is_shown(fleet: Lore, agent: str) -> None:
    assert fleet("name", agent, "release manager", code=0).out == "codex/22 is shown as release manager\n"
    assert shown(fleet, "codex/22") == "release manager"


def test_a_name_is_recorded_with_who_gave_it(fleet: Lore) -> None:
    fleet("name", "codex/22", "boss")
    [event] = fleet("events", "--kind", "agent.named", "--json").ndjson
    assert (event["actor"], event["agent"], event["data"]) == ("grace", "codex/22", {"name": "boss"})


def test_the_newest_name_counts_and_an_empty_one_takes_it_away(fleet: Lore) -> None:
    fleet("name", "codex/22", "boss")
    fleet("name", "boss", "chief", code=0)
    assert shown(fleet, "codex/22") == "chief"
    assert fleet("name", "chief", "", code=0).out == "codex/22 is shown as app (3)\n"
    assert shown(fleet, "codex/22") == "app (3)"


def test_a_beginning_that_several_share_is_an_error_that_lists_them(fleet: Lore) -> None:
    error = fleet("name", "claude-code/11", "boss", code=2).err
    assert "several agents are called 'claude-code/11', or begin with it" in error
    assert "claude-code/11aa (app), claude-code/11bb (app (2))" in error
    assert fleet("events", "--kind", "agent.named", "--json").lines == []


@pytest.mark.parametrize("agent", ["nobody", "", "1"])
def test_an_agent_that_is_not_there_is_an_error(fleet: Lore, agent: str) -> None:
    assert "no agent is called" in fleet("name", agent, "boss", code=2).err


def test_an_agent_without_a_session_goes_by_its_own_name_again(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada")
    assert lore("name", "ada", "countess", code=0).out == "ada is shown as countess\n"
    assert lore("name", "ada", "", code=0).out == "ada is shown by its own name\n"


def test_a_log_that_is_not_there_is_an_error(lore: Lore) -> None:
    assert "there is no log yet" in lore("name", "ada", "x", "--log", "sqlite:slip.db", code=1).err
