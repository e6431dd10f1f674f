"""The story in full detail: every event is covered exactly once, in the order of time.

One sentence per event; the next events of the same thread that say the same share its sentence. A paragraph is an hour.
Paragraphs are made one at a time, so memory does not depend on the length of the period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, tzinfo

from msgspec import Struct, field

from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.story.paragraphs import Detail, StoryParagraph, StorySentence
from fleetlore.story.voices import Voice
from fleetlore.views.event_text import event_stamp
from fleetlore.views.outcomes.facts import Source
from fleetlore.views.threads import goal_and_run_keys, thread_key

MOST_SENTENCES = 1000
"""Sentences of a paragraph: a busy hour has several."""
MOST_MERGED = 1000
"""Events that share a sentence."""
MOST_BOUND = 20_000
"""Goals and runs whose task is remembered."""

STORY_HIDES = frozenset(("pulse", "rest", "thought"))
"""Beats that a live story leaves out, except the kinds in `WAITING_KINDS`."""
HEADLINE_SHOWS = frozenset(("deliver", "setback", "recovery", "release", "feat", "propose", "judgement"))
"""Beats that live headlines show."""
WAITING_KINDS = frozenset(("session.waiting", "session.turn_ended", "driver.escalate"))


class _OpenSentence(Struct):
    """A sentence that more events may share."""

    key: str
    text: str
    at: datetime
    last: datetime
    thread: str
    evidence: list[Source] = field(default_factory=list)


class EventSentences:
    """Turns events, in the order of time, into sentences. Keep one for a text: a voice uses its phrases in turn."""

    def __init__(self, voice: Voice | None, name_of: Callable[[str], str], zone: tzinfo) -> None:
        self._plain = EventDescriber(name_of=name_of, zone=zone)
        self._voiced = None if voice is None or voice.name == "plain" else EventDescriber(voice=voice, name_of=name_of, zone=zone)
        self._zone = zone
        self._open: dict[str, _OpenSentence] = {}
        self._bound: dict[str, str] = {}

    def add(self, event: Event) -> _OpenSentence | None:
        """The sentence that the event begins; `None` if it shares the newest one of its thread."""
        thread = self._find_thread(event)
        key = f"{event.kind} {self._plain.describe(event)}"
        at, source = event_stamp(event)[0], Source(event.id or "", event.id or "")
        current = self._open.get(thread)
        if current is not None and current.key == key and len(current.evidence) < MOST_MERGED:
            current.last = at
            current.evidence.append(source)
            return None
        text = key.partition(" ")[2] if self._voiced is None else self._voiced.describe(event)
        begun = self._open[thread] = _OpenSentence(key, text, at, at, thread, [source])
        return begun

    def close(self, thread: str) -> None:
        """No later event shares the newest sentence of a thread."""
        self._open.pop(thread, None)

    def close_all(self) -> None:
        """No later event shares a sentence of the events so far."""
        self._open.clear()

    def finish(self, sentence: _OpenSentence) -> StorySentence:
        """The sentence with the number of events that share it."""
        text, count = sentence.text, len(sentence.evidence)
        if count > 1:
            until = f"{sentence.last.astimezone(self._zone):%H:%M}"
            first = f"{sentence.at.astimezone(self._zone):%H:%M}"
            text = f"{text.rstrip('.')} ({count:,} times{'' if until == first else f' until {until}'})."
        return StorySentence(text=text, evidence=sentence.evidence, at=sentence.at, thread=sentence.thread)

    def _find_thread(self, event: Event) -> str:
        if event.task is not None:
            for owner in goal_and_run_keys(event):
                if len(self._bound) >= MOST_BOUND:
                    self._bound.clear()
                self._bound[owner] = f"task:{event.task}"
        return thread_key(event, self._bound)


def write_events(
    events: Iterable[Event], *, zone: tzinfo, voice: Voice | None = None, name_of: Callable[[str], str] = str
) -> Iterator[StoryParagraph]:
    """A paragraph per hour with a sentence for every event. The events come in the order of time."""
    writer = EventSentences(voice, name_of, zone)
    hour, open_sentences = "", list[_OpenSentence]()
    for event in events:
        local = event_stamp(event)[0].astimezone(zone)
        if (own := f"{local:%A} {local:%Y-%m-%d %H}:00") != hour or len(open_sentences) >= MOST_SENTENCES:
            if open_sentences:
                yield _finish_paragraph(hour, open_sentences, writer)
            hour, open_sentences = own, []
            writer.close_all()
        if (begun := writer.add(event)) is not None:
            open_sentences.append(begun)
    if open_sentences:
        yield _finish_paragraph(hour, open_sentences, writer)


def _finish_paragraph(title: str, sentences: list[_OpenSentence], writer: EventSentences) -> StoryParagraph:
    last = max(one.last for one in sentences)
    return StoryParagraph(title=title, started=sentences[0].at, ended=last, sentences=[writer.finish(one) for one in sentences])


# --- live


class LiveStory:
    """Sentences as events arrive. An event that may repeat waits until another one of its thread comes, or until `flush`."""

    def __init__(self, detail: Detail, voice: Voice | None, name_of: Callable[[str], str], zone: tzinfo) -> None:
        self._detail, self._writer = detail, EventSentences(voice, name_of, zone)
        self._waiting: dict[str, _OpenSentence] = {}

    def add(self, event: Event) -> Iterator[StorySentence]:
        """One more event, in the order of the log; what can be shown now."""
        if not is_shown(event, self._detail):
            return
        begun = self._writer.add(event)
        if begun is None:
            return
        if (earlier := self._waiting.pop(begun.thread, None)) is not None:
            yield self._writer.finish(earlier)
        if find_beat(event) in STORY_HIDES:
            self._waiting[begun.thread] = begun
        else:
            yield self._writer.finish(begun)
            self._writer.close(begun.thread)

    def flush(self) -> Iterator[StorySentence]:
        """Everything that waits: nothing happened for a while."""
        for sentence in self._waiting.values():
            yield self._writer.finish(sentence)
        self._waiting.clear()
        self._writer.close_all()


def is_shown(event: Event, detail: Detail) -> bool:
    """Whether a live story shows the event."""
    if detail == "full" or event.kind in WAITING_KINDS:
        return True
    beat = find_beat(event)
    return beat in HEADLINE_SHOWS if detail == "headline" else beat not in STORY_HIDES
