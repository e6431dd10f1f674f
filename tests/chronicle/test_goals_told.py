"""Goals as a person would tell them: by the real driver, with an agent that goes by a script."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from string import Formatter
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fleetlore import connect
from fleetlore.chronicle import goal_words
from fleetlore.chronicle.formats.markdown import Markdown
from fleetlore.chronicle.formats.text import Text
from fleetlore.chronicle.naming import naming_of
from fleetlore.chronicle.narrate import Narrator, Telling
from fleetlore.chronicle.overview import Overview
from fleetlore.chronicle.phrases_pursuit import MANY, PHRASES
from fleetlore.chronicle.phrasing import say
from fleetlore.chronicle.story import Detail, Sentence
from fleetlore.chronicle.teller import Format, Tale, arcs_of, tell
from fleetlore.chronicle.telling_deeds import key_of
from fleetlore.events.catalog import beat_of, known_kinds
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Permissions
from fleetlore.goal import commands
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs.harness import Ended, Heard, Order, Watch
from fleetlore.views import fleet, names
from tests.chronicle.telling import in_order
from tests.chronicle.test_phrases_life import FORBIDDEN, PHRASES_FORBIDDEN, PRESENT, PRONOUNS
from tests.goal.scripted import GOAL, Clock, DriverSetup, done, goal, make_driver

Script = Callable[..., DriverSetup]
BOOKS = ("goal.checkpointed", "goal.session_bound", "work.lease_taken", "context.built", "driver.attempt_started", "goal.attempt_ended")


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


@pytest.fixture
def ids() -> Callable[[], str]:
    """The same in every run, and so are the words."""
    count = iter(range(1, 1_000_000))
    return lambda: f"01a1e397-0000-7000-8000-{next(count):012x}"


@pytest.fixture
def script(log: BlockingRecorder, ids: Callable[[], str]) -> Script:
    return partial(make_driver, log, new_id=ids)


async def pursue(led: DriverSetup, **options: Any) -> None:
    await led.driver.start(goal(**options))
    await led.driver.run_goal()


def failed(error: str, **more: Any) -> Ended:
    return Ended(how="failed", error=error, tokens=10, **more)


def naming(events: Sequence[Event]) -> Any:
    known = names.initial()
    for event in events:
        known = names.apply(known, event)
    return naming_of(known)


def sentences(log: BlockingRecorder, detail: Detail = "story", **options: Any) -> list[Sentence]:
    events = in_order(list(log.read()))
    telling = Telling(detail, naming=naming(events), **options)
    return [sentence for chapter in Narrator(telling).chapters(events) for sentence in chapter.sentences]


def story(log: BlockingRecorder, detail: Detail = "story", **options: Any) -> str:
    return " ".join(sentence.text for sentence in sentences(log, detail, **options))


def whole(events: Sequence[Event], form: Callable[..., Format] = Text) -> str:
    """As `lore tell` prints it."""
    overview, named = Overview(), naming(events)
    for event in events:
        overview.see(event)
    return "".join(tell(Tale(overview, in_order(events)), Telling(naming=named), form(detail="story", naming=named)))


def arcs(log: BlockingRecorder) -> list[tuple[str, str]]:
    return sorted((arc.kind, arc.state) for arc in arcs_of(in_order(list(log.read()))))


# --- how it reads


async def test_a_goal_that_needs_a_second_try(log: BlockingRecorder, script: Script) -> None:
    led = script([done("I think so."), done("Now it holds.")], met=[False, True])
    await pursue(led, progress_every=1)
    text = whole(list(log.read()))
    assert "\nMend the parser\n" in text
    assert GOAL not in text
    assert "“I think so”" in text
    assert "“make test” (exit 1 != 0)" in text
    assert "“Now it holds”" in text
    assert "two turns" in text
    assert "the goal “Mend the parser”" in text.rpartition("\n\n")[2], "the closing calls it by its name, too"
    assert len(sentences(log)) == 4, "begun, a turn, a turn, reached"
    assert text == whole(list(log.read())), "same events, same words"


@pytest.mark.parametrize(
    ("usd", "said"), [(0.42, "$0.42"), (1234.5, "$1,234.50"), (0.004, "less than a cent"), (0, ""), (True, ""), ("x", "")]
)
def test_what_a_goal_cost_is_told_where_it_is_known(usd: Any, said: str) -> None:
    outcome = {"outcome": {"kind": "done"}, "total_turns": 3, "elapsed": "12m 5s"}
    event = Event(id="e", kind="driver.goal_completed", agent="ada", data={"outcome": outcome, "fleetlore.usd": usd})
    text = say(event, key=key_of(event, "deliver"))
    assert "three turns" in text
    assert "12 min" in text
    assert said in text if said else not {"$", "cent"} & set(text.split())


async def test_a_goal_whose_turns_run_out(log: BlockingRecorder, script: Script) -> None:
    await pursue(script([done("I tried.")], met=[False]), budget={"max_turns": 2}, stuck_after=0)
    text = story(log)
    assert "limit on turns" in text
    assert "two turns" in text
    assert "budget_exhausted" not in text
    assert arcs(log) == [("budget_death", "closed"), ("struggle_and_recovery", "open")]


@pytest.mark.parametrize(
    ("options", "moves", "said"),
    [
        ({"max_usd": 0.5}, [done(usd=0.4)], "limit on money"),
        ({"budget": {"max_tokens": 1000}}, [done(tokens=600)], "1,200 tokens"),
        ({"budget": {"max_consecutive_errors": 2}}, [failed("fetch failed: ECONNRESET")], "limit on errors in a row"),
    ],
)
async def test_it_is_said_which_budget_ran_out(log: BlockingRecorder, script: Script, options: Any, moves: Any, said: str) -> None:
    await pursue(script(moves, met=[False], clock=Clock(step=30)), stuck_after=0, **options)
    assert said in story(log)


async def test_a_wait_for_a_limit_says_until_when_in_the_time_zone_of_the_telling(log: BlockingRecorder, script: Script) -> None:
    until = datetime(2026, 11, 16, 23, 30, tzinfo=UTC)
    await pursue(script([failed("rate limited", status=429), done()], clock=Clock(step=60)))
    waits = [event for event in log.read() if event.kind == "goal.waiting"]
    clock = datetime.fromisoformat(waits[0].data["until"])
    assert f"{clock:%H:%M}" in story(log)
    assert f"{clock.astimezone(ZoneInfo('Asia/Tokyo')):%H:%M}" in story(log, zone=ZoneInfo("Asia/Tokyo"))
    late = Event(id="w", kind="goal.waiting", agent="ada", goal=GOAL, at=clock, data={"why": "rate limit", "until": until.isoformat()})
    assert "23:30" in say(late, key=key_of(late, "rest"))
    assert "08:30 on 17 November" in say(late, key=key_of(late, "rest"), zone=ZoneInfo("Asia/Tokyo"))


async def test_many_turns_that_fail_alike_are_one_sentence(log: BlockingRecorder, script: Script) -> None:
    said = [f"Try {word}." for word in ("one", "two", "three", "four", "five", "six")]
    await pursue(script([done(words) for words in said], met=[False] * 5 + [True]), stuck_after=0)
    told = sentences(log)
    assert len(told) == 4
    assert "five turns" in told[1].text
    assert "“make test” (exit 1 != 0)" in told[1].text
    assert "“Try one”, “Try two”, “Try three” and two more" in told[1].text
    assert len(told[1].evidence) == 5
    assert arcs(log) == [("comeback", "closed"), ("struggle_and_recovery", "closed")]


async def test_a_crash_and_a_person_who_is_asked(
    log: BlockingRecorder, script: Script, ids: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dead(BaseException):
        """Nothing is written any more."""

    async def die(order: Order, watch: Watch) -> Ended:
        monkeypatch.setattr(led.driver.journal, "flush", dead)
        monkeypatch.setattr(led.driver.journal, "append", dead)
        raise Dead

    async def dead(*args: Any, **more: Any) -> None:
        raise Dead

    clock = Clock()

    async def answer(event: Event) -> None:
        standings.append(standing(log))
        if event.kind == "goal.permission_asked":
            log.append([commands.make_control_event(GOAL, "decide", by="eve", value="allow", of=event.id, now=clock, new_id=ids)])

    async def ask(order: Order, watch: Watch) -> Ended:
        await again.resources.tool_gate.permit("Bash", {"command": "make deploy"})
        return done("Deployed.")

    standings: list[str | None] = []
    led = script([die], clock=clock)
    await led.driver.start(goal())
    await led.driver.journal.flush()
    with pytest.raises(Dead):
        await led.driver.run_goal()
    again = script([ask], clock=clock, watch=answer, met=[False, True])
    await again.driver.run_goal()
    text = story(log)
    assert "the driver ended while the agent was at work; its changes are kept" in text
    assert re.search(r"\bperson\b[^.]*Bash|Bash[^.]*\bperson\b", text)
    assert re.search(r"eve (said yes|gave leave)|The (answer|word) of eve was yes|yes came from eve", text, re.IGNORECASE)
    assert "“Deployed”" in text
    assert arcs(log) == [("struggle_and_recovery", "closed")]
    assert "needs you" in standings
    assert "working" in standings[standings.index("needs you") :], "once answered, it works on"


async def test_a_goal_that_needs_a_person_says_what_for_and_once(log: BlockingRecorder, script: Script) -> None:
    await pursue(script([failed("Invalid API key · Please run /login")]))
    told = sentences(log)
    assert len(told) == 3
    assert "log in again" in told[1].text
    assert standing(log) == "needs you"


async def test_a_denied_tool_is_told_with_its_reason_and_an_allowed_one_is_not(log: BlockingRecorder, script: Script) -> None:
    async def ask(order: Order, watch: Watch) -> Ended:
        await led.resources.tool_gate.permit("Read", {"file_path": "a.py"})
        await led.resources.tool_gate.permit("Bash", {"command": "rm -rf /"})
        return done()

    led = script([ask])
    await pursue(led, permissions=Permissions(allow=("Read",), deny=("Bash",)))
    assert "the rule `Bash` denies it" in story(log)
    assert "Read" not in story(log)
    assert re.search(r"\bRead\b", story(log, "full"))


async def test_who_steers_a_goal_is_named(log: BlockingRecorder, script: Script, ids: Callable[[], str]) -> None:
    clock = Clock()

    def wish(action: str, **more: Any) -> Event:
        return commands.make_control_event(GOAL, action, by="eve", now=clock, new_id=ids, **more)

    async def watch(event: Event) -> None:
        if event.kind == "goal.waiting":
            standings.append(standing(log))
            log.append([wish("say", value="Mind the tests."), wish("resume")])

    async def first(order: Order, watch: Watch) -> Ended:
        log.append([wish("pause")])
        return done()

    async def second(order: Order, watch: Watch) -> Ended:
        log.append([wish("cancel", reason="not needed any more")])
        await asyncio.Event().wait()
        raise AssertionError

    standings: list[str | None] = []
    await pursue(script([first, second], met=[False], clock=clock, watch=watch))
    text = story(log)
    assert len(re.findall(r"\beve\b", text)) == 4
    assert "Mind the tests" in text
    assert "not needed any more" in text
    assert re.search(r"called off|told to let the goal go", text, re.IGNORECASE)
    assert standings == ["idle"], "nobody has to act where somebody wanted a pause"


async def test_a_story_tells_no_bookkeeping_and_a_full_one_tells_every_event(log: BlockingRecorder, script: Script) -> None:
    await pursue(script([done(), done()], met=[False, True]), progress_every=1)
    events = {event.id: event for event in log.read()}
    assert {events[id].kind for sentence in sentences(log) for id in sentence.evidence}.isdisjoint(BOOKS)
    cited = Counter(id for sentence in sentences(log, "full") for id in sentence.evidence)
    assert cited == Counter(events.keys())
    assert GOAL not in story(log, "full")
    assert "the goal of" not in story(log, "full").lower()


# --- arcs


async def test_a_goal_that_goes_well_at_once_has_no_arc_but_one_of_work_is_a_sprint(log: BlockingRecorder, script: Script) -> None:
    async def work(order: Order, watch: Watch) -> Ended:
        edit = Event(kind="tool.returned", agent="ada", data={"tool": "Edit", "deed": "edit", "subject": "parser.py"})
        await watch(Heard(events=[edit]))
        return done()

    await pursue(script([work]))
    assert arcs(log) == [("solo_sprint", "closed")]


async def test_what_was_cut_short_and_goes_on_is_a_struggle_and_its_end(log: BlockingRecorder, script: Script) -> None:
    await pursue(script([failed("rate limited", status=429), done()], clock=Clock(step=60)))
    assert arcs(log) == [("struggle_and_recovery", "closed")]


async def test_turns_that_only_go_on_are_a_grind(log: BlockingRecorder) -> None:
    result = {"outcome": {"kind": "continue", "reason": "more to do"}}
    turns = [Event(kind="driver.attempt_completed", goal=GOAL, agent="ada", actor="nexo", data={"result": result}) for _ in range(5)]
    assert [arc.kind for arc in arcs_of(turns)] == ["silent_grind"]


# --- names


def started(description: Any, *, goal: str = GOAL, minute: int = 0, **fields: Any) -> Event:
    at = datetime(2026, 11, 16, 9, minute, tzinfo=UTC)
    return Event(kind="driver.goal_started", actor="driver", goal=goal, at=at, data={"goal": {"description": description}}, **fields)


@pytest.mark.parametrize(
    ("description", "title"),
    [
        ("Mend the parser.", "Mend the parser"),
        ("\n\n  Mend the parser\nand then the lexer", "Mend the parser"),
        (
            "Mend the parser so that every file of the old format can be read and written",
            "Mend the parser so that every file of the old format can be…",
        ),
        ("x" * 100, "x" * 60 + "…"),
        ("a\x1b[31m\u202eb", "a [31m b"),
    ],
)
def test_a_goal_is_called_by_the_first_line_of_its_description(description: str, title: str) -> None:
    named = naming([started(description)])
    assert named.title(f"goal:{GOAL}") == title
    assert named.label(f"goal:{GOAL}") == f"the goal “{title}”"


@pytest.mark.parametrize("description", ["", " \n ", None, 7, ["x"]])
def test_a_goal_that_says_nothing_keeps_its_id(description: Any) -> None:
    assert naming([started(description)]).title(f"goal:{GOAL}") == f"goal {GOAL}"


def test_goals_of_one_name_are_numbered_by_their_time_not_by_their_order_in_the_log() -> None:
    events = [started("Mend", goal="g2", minute=2), started("Mend", goal="g1", minute=1), started("Else", goal="g1", minute=3)]
    named = naming(events)
    assert (named.title("goal:g1"), named.title("goal:g2")) == ("Mend", "Mend (2)")


def test_a_hostile_description_has_no_meaning_in_a_format() -> None:
    text = whole([started("# <b>now</b> [x](y) *go*", agent="ada", id="e1")], Markdown)
    assert "<b>" not in text
    assert not any(line.startswith("# <") for line in text.splitlines())
    assert "[x](y)" not in text


def standing(log: BlockingRecorder) -> str | None:
    state = fleet.initial()
    for event in log.read():
        state = fleet.apply(state, event)
    return state.agents["ada"].standing


async def test_status_shows_what_a_goal_is_about_not_who_holds_it(log: BlockingRecorder, script: Script) -> None:
    doing: list[str] = []

    async def look(order: Order, watch: Watch) -> Ended:
        state = fleet.initial()
        for event in log.read():
            state = fleet.apply(state, event)
        doing.append(state.agents["ada"].doing)
        return done()

    await pursue(script([look]))
    assert doing == ["Mend the parser"]


def test_a_message_to_a_goal_does_not_answer_its_question() -> None:
    state = fleet.initial()
    asked = Event(kind="goal.permission_asked", agent="ada", goal="g", data={"tool": "Bash"})
    for event in (
        asked,
        Event(kind="control.requested", actor="eve", goal="g", data={"action": "say"}),
        Event(kind="driver.decision", goal="g", agent="ada"),
    ):
        state = fleet.apply(state, event)
        assert state.agents["ada"].standing == "needs you"
    state = fleet.apply(state, Event(kind="driver.decision", goal="g", agent="ada", cause="q"))
    assert state.agents["ada"].standing == "working"


# --- the phrases


def fields_of(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


TEMPLATES = [(key, template) for key, groups in PHRASES.items() for group in groups for template in group]
TEMPLATES += [(key, template) for key, variants in MANY.items() for template in variants]
QUOTED = {"said", "trouble", "denied", "nap", "word", "raised", "reason"}


@pytest.mark.parametrize("key", PHRASES)
def test_every_key_has_groups_that_can_be_filled(key: str) -> None:
    kind = known_kinds()[key.partition("/")[0]]
    allowed = {"agent", "actor", *goal_words.FIELDS, *kind.__struct_fields__}
    needs = [fields_of(group[0]) for group in PHRASES[key]]
    for place, group in enumerate(PHRASES[key]):
        assert len(group) >= 5
        assert all(fields_of(template) == needs[place] <= allowed for template in group)
        assert not any(earlier <= needs[place] for earlier in needs[:place])
        assert Counter(" ".join(template.split()[:2]) for template in group).most_common(1)[0][1] <= 2


def test_every_template_is_a_plain_sentence() -> None:
    forbidden = frozenset(f"{FORBIDDEN} {PRONOUNS} {PRESENT}".split())
    for _, template in TEMPLATES:
        spoken = re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", template).lower())
        assert re.match(r"[A-Z“]|\{(agent|actor)\}", template), template
        assert template == " ".join(template.split()), template
        assert not template.endswith((".", "!", "?", "…", ",", ":", ";")), template
        assert len(spoken) <= 17, template
        assert not forbidden & set(spoken), (template, forbidden & set(spoken))
        assert not any(phrase in template.lower() for phrase in PHRASES_FORBIDDEN), template
        for name in fields_of(template) & QUOTED:
            assert f"“{{{name}}}”" in template or template.endswith(f": {{{name}}}"), template


def test_nothing_is_said_twice() -> None:
    assert [template for template, count in Counter(template for _, template in TEMPLATES).items() if count > 1] == []


ODD: tuple[Any, ...] = (
    None,
    5,
    "x",
    [],
    {},
    [None],
    {"kind": 5},
    {"outcome": {"kind": ["?"]}},
    [7, {"criterion_label": 3}],
    -1,
    True,
    1e400,
)
HELD = ("result", "outcome", "verdict", "decision", "usage", "axis", "why", "until", "value", "action", "fleetlore.usd", "memories_saved")
DEEPER = ("outcome", "choice", "failures", "turn_index", "harness_extras", "met", "elapsed", "wall_time")


@pytest.mark.parametrize("kind", sorted({key.partition("/")[0] for key in PHRASES}))
def test_whatever_an_event_holds_it_can_be_told(kind: str) -> None:
    for odd in ODD:
        for wrapped in (odd, dict.fromkeys(DEEPER, odd)):
            event = Event(id="e", kind=kind, agent="ada", goal=GOAL, data=dict.fromkeys(HELD, wrapped))
            assert "{" not in say(event, key=key_of(event, beat_of(event)))
