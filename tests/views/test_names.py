"""Names under which agents are shown: where they come from, who wins, and that the order of arrival changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from fleetlore.events.envelope import Event
from fleetlore.views import names
from fleetlore.views.names import (
    MAX_PROMPT_CHARS,
    AgentNames,
    all_display_names,
    all_short_names,
    display_name,
    short_name,
    truncate_to_first_words,
)
from fleetlore.views.thread_names import AS_THEY_ARE, make_naming
from tests.strategies import events, json_values

NOON = datetime(2026, 11, 14, 12, tzinfo=UTC)
ONE, TWO = "claude-code/11111111", "claude-code/22222222"


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def started(agent: str = ONE, minutes: int = 0, **data: Any) -> Event:
    return Event(kind="session.started", at=at(minutes), agent=agent, run=agent, data={"project": "app", "branch": "main"} | data)


def prompt(words: str, agent: str = ONE, minutes: int = 1) -> Event:
    return Event(kind="prompt.submitted", at=at(minutes), agent=agent, run=agent, text=words)


def named(agent: str = ONE, minutes: int = 5, **data: Any) -> Event:
    return Event(kind="agent.named", at=at(minutes), agent=agent, data=data)


def launched(child: str, minutes: int = 2, text: str | None = None, **data: Any) -> Event:
    return Event(kind="agent.launched", at=at(minutes), agent=ONE, child=child, text=text, data=data)


def folded(history: Iterable[Event]) -> AgentNames:
    state = names.initial()
    for event in history:
        state = names.apply(state, event)
    return state


def test_a_session_is_called_by_its_folder_branch_and_first_prompt() -> None:
    state = folded([prompt("And now the tests", minutes=9), started(), prompt("Fix the parser")])
    assert (display_name(state, ONE), short_name(state, ONE)) == ("app@main: Fix the parser", "app")


def test_what_a_program_puts_before_a_request_is_no_name() -> None:
    """Codex in an editor sends the open files first; the text of the event is what the person asked."""
    whole = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix the parser"
    asked = Event(kind="prompt.submitted", at=at(1), agent=ONE, run=ONE, text="Fix the parser", data={"prompt": whole})
    assert display_name(folded([started(), asked]), ONE) == "app@main: Fix the parser"
    longer = Event(kind="prompt.submitted", at=at(1), agent=ONE, run=ONE, text="Hello.", data={"prompt": "Hello.\nFix the parser, please"})
    assert display_name(folded([started(), longer]), ONE) == "app@main: Hello. Fix the parser, please"


def test_a_title_says_it_better_than_the_prompt_and_the_newest_best() -> None:
    state = folded([started(title="First"), prompt("Fix it"), named(title="Third", minutes=9), named(title="Second")])
    assert display_name(state, ONE) == "app@main: Third"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"branch": None}, "app: Fix it"),
        ({"project": "/home/mira/src/web/"}, "web@main: Fix it"),
        ({"project": "C:\\src\\web"}, "web@main: Fix it"),
        ({"project": None}, ONE),
        ({"project": 7, "branch": []}, ONE),
    ],
)
def test_what_is_not_known_is_left_out(data: dict[str, Any], name: str) -> None:
    assert display_name(folded([started(**data), prompt("Fix it")]), ONE) == name


def test_an_agent_of_which_nothing_is_known_goes_by_its_own_name() -> None:
    state = folded([Event(kind="fleet.commit", at=NOON, agent="ada")])
    assert [display_name(state, "ada"), short_name(state, "ada"), display_name(state, "nobody: at all")] == ["ada", "ada", "nobody: at all"]


def test_a_helper_is_called_by_its_role_and_errand() -> None:
    history = [
        launched("a1b2c3d", role="Explore", prompt="Find all callers\nof parse()"),
        launched("a2b3c4d", text="Look around"),
        launched("a3b4c5d", role="Plan"),
    ]
    state = folded(history)
    helpers = ("a1b2c3d", "a2b3c4d", "a3b4c5d")
    assert [display_name(state, name) for name in helpers] == [
        "Explore: Find all callers of parse()",
        "helper: Look around",
        "Plan",
    ]
    assert [short_name(state, name) for name in helpers] == ["Explore", "helper", "Plan"]


def test_what_a_person_says_wins_until_it_is_taken_away() -> None:
    history = [started(), prompt("Fix it"), named(name="boss: of all", minutes=6), named(title="Later title", minutes=9)]
    assert (display_name(folded(history), ONE), short_name(folded(history), ONE)) == ("boss: of all", "boss: of all")
    assert display_name(folded([*history, named(name="chief", minutes=7)]), ONE) == "chief"
    assert display_name(folded([*history, named(name="chief", minutes=3)]), ONE) == "boss: of all", "an older name came late"
    assert display_name(folded([*history, named(name="", minutes=7)]), ONE) == "app@main: Later title"


def test_equal_names_are_numbered_by_who_appeared_first() -> None:
    state = folded([started(TWO, 5), prompt("Fix it", TWO, 6), started(ONE, 1), prompt("Fix it", ONE, 8), started("codex/33333333", 9)])
    assert [display_name(state, name) for name in (ONE, TWO, "codex/33333333")] == ["app@main: Fix it", "app@main: Fix it (2)", "app@main"]
    assert [short_name(state, name) for name in (ONE, TWO, "codex/33333333")] == ["app", "app (2)", "app (3)"]


def test_no_two_are_alike_even_if_somebody_is_called_by_a_number() -> None:
    state = folded([named("a", 1, name="x"), named("b", 2, name="x (2)"), named("c", 3, name="x"), named("d", 4, name="x")])
    assert [display_name(state, name) for name in "abcd"] == ["x", "x (2)", "x (3)", "x (4)"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one two three four five six", "one two three four five six"),
        ("one two three four five six seven", "one two three four five six …"),
        ("  Fix\tthe\r\n\x1b[31mparser\x00\u202e ", "Fix the [31mparser"),
        ("x" * 100, "x" * (MAX_PROMPT_CHARS - 1) + "…"),
        ("\n\n", ""),
    ],
)
def test_only_the_first_words_of_a_prompt_are_taken_on_one_line(text: str, words: str) -> None:
    assert truncate_to_first_words(text) == words


def odd_event() -> st.SearchStrategy[Event]:
    kinds = st.sampled_from(["session.started", "agent.named", "prompt.submitted", "agent.launched"])
    data = st.dictionaries(st.sampled_from(["project", "branch", "title", "name", "role", "prompt"]), json_values() | st.text(), max_size=5)
    return st.builds(lambda event, kind, data: msgspec.structs.replace(event, kind=kind, data=data), events(), kinds, data)


@settings(max_examples=60, deadline=None)
@for_all(st.lists(events() | odd_event(), max_size=6), st.randoms(use_true_random=False))
def test_no_event_breaks_it_and_the_order_of_arrival_changes_nothing(history: list[Event], random: Any) -> None:
    state = folded(history)
    shuffled = list(history)
    random.shuffle(shuffled)
    assert (all_display_names(folded(shuffled)), all_short_names(folded(shuffled))) == (all_display_names(state), all_short_names(state))
    again = msgspec.json.decode(msgspec.json.encode(state), type=AgentNames)
    assert all_display_names(again) == all_display_names(state)
    assert len(set(all_display_names(state).values())) == len(state.agents)
    assert all(name == agent or name.isprintable() for agent, name in all_display_names(state).items())


ACTS = st.one_of(
    st.builds(
        started,
        st.sampled_from([ONE, TWO]),
        st.integers(0, 3),
        project=st.sampled_from(["app", "web"]),
        title=st.sampled_from([None, "T", "U"]),
    ),
    st.builds(prompt, st.sampled_from(["Fix it", "Test it"]), st.sampled_from([ONE, TWO]), st.integers(0, 3)),
    st.builds(
        named,
        st.sampled_from([ONE, TWO, "h"]),
        st.integers(0, 3),
        name=st.sampled_from(["x", "y", "", None]),
        title=st.sampled_from([None, "V"]),
    ),
    st.builds(
        launched, st.just("h"), st.integers(0, 3), role=st.sampled_from(["Plan", "Explore", None]), prompt=st.sampled_from(["Go", None])
    ),
)


@settings(max_examples=150, deadline=None)
@for_all(st.lists(ACTS, max_size=10), st.randoms(use_true_random=False))
def test_agents_are_called_the_same_however_their_events_arrive(history: list[Event], random: Any) -> None:
    shuffled = list(history)
    random.shuffle(shuffled)
    assert all_display_names(folded(shuffled)) == all_display_names(folded(history))
    assert all_short_names(folded(shuffled)) == all_short_names(folded(history))


def test_a_name_that_somebody_chose_stays_as_it_is() -> None:
    """Only names that were drawn by lot are replaced by what people know a session by."""
    assert [display_name(folded([started(name, 1), prompt("Fix it", name, 2)]), name) for name in ("ada", "facade", "bot-7")] == [
        "ada",
        "facade",
        "bot-7",
    ]


def test_the_newest_sessions_and_goals_are_known_however_many_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_NAMED", 20)
    monkeypatch.setattr(names, "MAX_AGENTS", 20)
    monkeypatch.setattr(names, "PRUNED_EVERY", 5)
    sessions = [Event(kind="session.started", at=at(n), agent=ONE, run=f"r{n}") for n in range(100)]
    goals = [Event(kind="driver.goal_started", at=at(n), agent=ONE, goal=f"g{n}", text=f"Mend part {n}") for n in range(100)]
    state = folded([*sessions, *goals])
    assert (len(state.runs), len(state.goals)) == (20, 20)
    assert names.agents_by_session(state)["r99"] == ONE
    assert names.all_goal_names(state)["g99"] == "Mend part 99"


def test_the_most_recently_active_agents_keep_their_names_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    agents = [f"claude-code/{number:08x}" for number in range(60)]
    history = [event for number, agent in enumerate(agents) for event in (started(agent, number), prompt("Fix it", agent, number))]
    history.insert(2, named(agents[0], 1, name="Ada"))
    history += [prompt("And this", agents[30], 70)]
    whole = folded(history)
    monkeypatch.setattr(names, "MAX_AGENTS", 20)
    monkeypatch.setattr(names, "PRUNED_EVERY", 5)
    state = folded(history)
    assert agents[-1] in state.agents
    assert agents[5] not in state.agents
    assert len(state.agents) <= 20 + 5 + 1
    assert len(msgspec.json.encode(state)) < len(msgspec.json.encode(whole)) / 2
    assert display_name(state, agents[0]) == "Ada", "a person named it"
    assert display_name(state, agents[-1]) == display_name(whole, agents[-1]) == "app@main: Fix it (59)"
    assert short_name(state, agents[-1]) == short_name(whole, agents[-1])
    assert display_name(state, agents[5]) == agents[5], "as in the log"


@pytest.mark.parametrize(
    ("event", "is_renamed"),
    [
        (started(), True),
        (started("ada"), False),
        (Event(kind="agent.named", at=NOON, agent="ada", data={"name": "Ada"}), True),
        (Event(kind="agent.named", at=NOON, agent="ada", data={"name": "ada"}), False),
        (Event(kind="agent.launched", at=NOON, agent="ada", child="bo", data={"role": "scout"}), False),
        (Event(kind="agent.launched", at=NOON, agent="ada", child="a17c0de", data={"role": "scout"}), True),
        (Event(kind="driver.goal_started", at=NOON, agent="ada", goal="g1", text="Mend it"), True),
        (Event(kind="driver.goal_started", at=NOON, goal="g1", text="Mend it"), True),
        (Event(kind="driver.goal_started", at=NOON, agent="ada", goal="g1"), False),
    ],
)
def test_whether_an_event_has_somebody_called_otherwise(event: Event, is_renamed: bool) -> None:
    known = names.apply(names.initial(), event)
    assert (make_naming(known) != AS_THEY_ARE) == is_renamed
