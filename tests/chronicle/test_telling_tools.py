"""Tools in a story: what they were used for is told, not their names; a call and its outcome are one thing."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from fleetlore.chronicle.narrate import Narrator, Telling
from fleetlore.chronicle.phrasing import say, without_echo
from fleetlore.chronicle.story import Detail, Sentence
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
