"""Describes single events, one sentence each, with the phrases of a voice (a named set of phrase templates).

    describer = EventDescriber(name_of=lambda agent: names.get(agent, agent))
    for event in events:
        print(describer.describe(event))

The phrases are in `words/events/*.toml`, by event kind. The same events in the same order always give the same text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, tzinfo

from fleetlore.events.envelope import Event
from fleetlore.story.event_values import EventValues
from fleetlore.story.phrases import end_sentence, parse_phrase
from fleetlore.story.vocabulary import installed_phrases
from fleetlore.story.voices import Voice, load_voice

UNKNOWN_KIND = "Event {kind}[ by {agent}][ on {task}][: {text:quote}]."


class EventDescriber:
    """Writes one sentence per event. If a voice has several phrases for a kind, they alternate, so use one describer for a whole text."""

    def __init__(self, *, voice: Voice | None = None, name_of: Callable[[str], str] = str, zone: tzinfo = UTC) -> None:
        """`name_of` gives the display name of an agent; `zone` is the time zone of times inside sentences."""
        plain = load_voice("plain")
        self._voices = (plain,) if voice is None or voice == plain else (voice, plain)
        self._name_of, self._zone = name_of, zone
        self._uses: Counter[str] = Counter()

    def describe(self, event: Event) -> str:
        """One line of plain text that ends with a period. Never empty, never raises; text of private events is not shown."""
        values = EventValues(event, self._name_of, self._zone)
        for key, templates in self._find_phrases(event.kind, values):
            used = self._uses[key]
            for offset in range(len(templates)):
                text, is_complete = parse_phrase(templates[(used + offset) % len(templates)]).fill(values.get)
                if is_complete and text.strip():
                    self._uses[key] = used + offset + 1
                    return _finish_sentence(text)
        return _finish_sentence(parse_phrase(UNKNOWN_KIND).fill(values.get)[0])

    def _find_phrases(self, kind: str, values: EventValues) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Candidate phrases, best first: from the voice, the plain voice, installed packages.

        A voice may have variants of a kind by the value of a field, as in `driver.acceptance/pass`; they precede the kind itself.
        """
        for voice in self._voices:
            keys = [*self._find_variants(voice, kind, values), kind]
            for key in keys:
                if key in voice.phrases:
                    yield f"{voice.name}:{key}", voice.phrases[key]
        if kind not in self._voices[-1].phrases:
            for number, group in enumerate(installed_phrases().get(kind, ())):
                yield f"installed:{kind}:{number}", group

    def _find_variants(self, voice: Voice, kind: str, values: EventValues) -> Iterator[str]:
        fields = voice.variants.get(kind) or self._voices[-1].variants.get(kind, ())
        return (f"{kind}/{values.find_variant(field)}" for field in fields)


def _finish_sentence(text: str) -> str:
    """Normalise spaces and add the period. Our own subject "a person" is capitalised at the start; names of agents stay as they are."""
    sentence = end_sentence(" ".join(text.split()))
    return f"A{sentence[1:]}" if sentence.startswith("a person") else sentence
