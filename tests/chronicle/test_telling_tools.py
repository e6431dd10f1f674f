"""Tools in a story: what they were used for is told, not their names; a call and its outcome are one thing."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore.chronicle.live import LiveTeller
from fleetlore.chronicle.narrate import Narrator, Telling
from fleetlore.chronicle.phrasing import say, without_echo
from fleetlore.chronicle.story import Detail, Sentence
from fleetlore.dialects.commands.flags import flags_in
from fleetlore.events.envelope import Event

START = datetime(2026, 11, 15, 9, tzinfo=UTC)


class Session:
    """One agent at work."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(self, kind: str, *, text: str | None = None, **data: Any) -> str:
        id = f"e{len(self.events)}"
        at = START + timedelta(seconds=len(self.events))
        self.events.append(Event(id=id, at=at, kind=kind, agent="ada", run="s1", text=text, data=data))
        return id

    def use(self, deed: str, subject: str | None = None, *, failed: bool = False) -> tuple[str, str]:
        call = f"c{len(self.events)}"
        called = self.tell("tool.called", tool="Bash", call_id=call, deed=deed, input={"command": f"{deed} {subject}"}, text="Bash: x")
        kind = "tool.failed" if failed else "tool.returned"
        return called, self.tell(kind, tool="Bash", call_id=call, deed=deed, subject=subject, text="Bash: x")

    def told(self, detail: Detail) -> tuple[list[Sentence], list[str]]:
        narrator = Narrator(Telling(detail=detail))
        sentences = [sentence for chapter in narrator.chapters(self.events) for sentence in chapter.sentences]
        narrator.close()
        return sentences, [arc.kind for arc in narrator.arcs]


def test_a_story_tells_what_was_done_and_not_which_tool_was_called() -> None:
    ada = Session()
    ada.use("edit", "parser.py")
    ada.use("commit", "Mend the parser")
    sentences, _ = ada.told("story")
    assert ["parser.py" in sentences[0].text, "Mend the parser" in sentences[1].text] == [True, True]
    assert not any("Bash" in sentence.text for sentence in sentences)


NO_VERIFY = "git commit --no-verify -m 'Mend the parser'"


def run_command(ada: Session, command: str, deed: str, subject: str, *, kind: str = "tool.returned", is_old: bool, **data: Any) -> None:
    """A call and its outcome; as 0.1 recorded them, only the call has the command."""
    flags = {} if is_old else {"flags": flags_in(command)}
    called = ada.tell("tool.called", tool="Bash", call_id="c", deed=deed, input={"command": command}, text="Bash: Do it", **flags)
    ada.tell(kind, tool="Bash", call_id="c", deed=deed, subject=subject, text="Bash: Do it", **flags, **data)
    ada.events[-1] = replace(ada.events[-1], cause=called)


@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("detail", ["headline", "story", "full"])
@pytest.mark.parametrize("kind", ["tool.returned", "tool.failed", "tool.denied"])
def test_a_commit_that_skips_its_checks_says_so(kind: str, detail: Detail, is_old: bool) -> None:
    ada = Session()
    run_command(ada, NO_VERIFY, "commit", "Mend the parser", kind=kind, is_old=is_old, error="red", reason="no")
    sentences, _ = ada.told(detail)
    assert "(--no-verify)" in sentences[-1].text
    if "Mend the parser" in sentences[-1].text:
        assert re.search("Mend the parser”? \\(--no-verify\\)", sentences[-1].text)


@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize(
    ("command", "deed"),
    [("rm -rf build", "run"), ("sudo apt-get install jq", "install"), ("curl -k https://x", "look"), ("chmod 777 a", "run")],
)
def test_a_command_that_is_otherwise_not_told_is_told_with_such_flags(command: str, deed: str, is_old: bool) -> None:
    ada = Session()
    ada.use(deed, "something else")
    run_command(ada, command, deed, "Do it", is_old=is_old)
    [sentence], _ = ada.told("story")
    assert "Do it" in sentence.text
    assert any(flag in sentence.text for flag in flags_in(command))


def test_a_test_run_that_leaves_tests_out_is_not_lost_in_a_stretch_of_work() -> None:
    ada = Session()
    ada.use("edit", "parser.py")
    run_command(ada, "pytest -q --deselect tests/a.py::b", "test", "pytest: 12 passed", is_old=False)
    ada.use("test", "pytest: 13 passed")
    ada.use("edit", "lexer.py")
    sentences, _ = ada.told("story")
    [stretch] = sentences
    assert stretch.text.endswith(" (--deselect tests/a.py::b).")
    assert len(stretch.evidence) == 4


def test_of_a_few_test_runs_each_has_its_own_flags() -> None:
    ada = Session()
    run_command(ada, "pytest -q --deselect tests/a.py::b", "test", "pytest: 12 passed", is_old=False)
    ada.use("test", "pytest: 13 passed")
    sentences, _ = ada.told("story")
    assert ["pytest: 12 passed (--deselect tests/a.py::b)" in sentences[0].text, "--deselect" in sentences[1].text] == [True, False]


def test_the_same_command_with_and_without_such_flags_is_told_apart() -> None:
    ada = Session()
    for command in ("git commit -m 'Mend it'", NO_VERIFY, NO_VERIFY):
        run_command(ada, command, "commit", "Mend it", kind="tool.failed", is_old=True, error="red")
    sentences, _ = ada.told("story")
    assert ["--no-verify" in sentence.text for sentence in sentences] == [False, True]
    assert [len(sentence.evidence) for sentence in sentences] == [1, 2]


def test_a_live_telling_shows_such_flags_too() -> None:
    ada = Session()
    run_command(ada, "rm -rf build", "run", "Clean up", is_old=True)
    run_command(ada, NO_VERIFY, "commit", "Mend the parser", is_old=True)
    teller = LiveTeller(Telling())
    told = [sentence.text for event in ada.events for sentence in teller.add(event)] + [sentence.text for sentence in teller.flush()]
    assert ["(rm -rf)" in told[0], "(--no-verify)" in told[1]] == [True, True]


def test_tests_that_pass_again_close_the_struggle() -> None:
    ada = Session()
    ada.use("test", "pytest: 2 failed", failed=True)
    ada.use("edit", "parser.py")
    ada.use("test", "pytest: 12 passed")
    sentences, arcs = ada.told("story")
    assert [sentence.beat for sentence in sentences] == ["setback", "progress", "recovery"]
    assert arcs == ["struggle_and_recovery"]


def test_unlike_deeds_are_not_told_together_and_like_ones_quote_what_they_were_about() -> None:
    ada = Session()
    for name in ("a.py", "b.py", "c.py", "d.py", "e.py"):
        ada.use("edit", name)
    ada.use("commit", "One")
    edits, commit = ada.told("story")[0]
    assert "“a.py”, “b.py”, “c.py” and two more" in edits.text
    assert len(edits.evidence) == 5
    assert "One" in commit.text


def test_a_full_telling_cites_every_event_once_and_never_two_kinds_in_one_sentence() -> None:
    ada = Session()
    ada.use("commit", "One")
    for _ in range(4):
        ada.use("look", "a.py")
    ada.tell("tool.called", tool="Bash", call_id="open", deed="push")
    ada.tell("tool.returned", tool="Bash", call_id="unheard", deed="run", subject="x")
    sentences, _ = ada.told("full")
    assert Counter(id for sentence in sentences for id in sentence.evidence) == Counter(event.id for event in ada.events)
    kinds = {event.id: event.kind for event in ada.events}
    assert all(len({kinds[id] for id in sentence.evidence}) == 1 for sentence in sentences)


def test_a_loop_is_told_in_a_story() -> None:
    ada = Session()
    for _ in range(4):
        ada.use("look", "a.py")
    [sentence] = ada.told("story")[0]
    assert sentence.beat == "setback"


def test_a_text_does_not_say_what_its_sentence_has_said() -> None:
    assert without_echo("{agent} looked the work over and approved: {text}", "Approved: the jitter is tested") == "the jitter is tested"
    assert without_echo("{agent} committed “{text}”", "Fix: the parser") == "Fix: the parser"
    assert without_echo("{agent} said this: {text}", "https://example.org") == "https://example.org"
    event = Event(id="e", kind="session.started", agent="ada", text="web", data={"project": "web", "branch": "main"})
    assert say(event).count("web") == 1
