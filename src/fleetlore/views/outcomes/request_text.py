"""What a person asked for, in few words: an order, a question, or what the request is about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fleetlore.views.outcomes.result_words import (
    list_content_words,
)
from fleetlore.views.outcomes.words import (
    cut_words,
    drop_courtesy,
    first_sentence,
    is_examination,
    is_order,
    short_request,
)

if TYPE_CHECKING:
    pass


MOST_TOPIC = 16
LEAST_ORDER = 3
MOST_ORDER = 18
"""Words of a request that is told instead of a detail of its result."""
LEAST_TOPIC = 4
LEAST_ABOUT = 3
"""A text with fewer content words does not say what it is about."""
ENOUGH_SHARED = 2
"""A report with so many words of the topic, and half of them, tells it."""
LEAST_SHORT = 5
MOST_OF_SHORT = 14
"""Words of the result of one request of several."""
MOST_ASKED = 24
_topic_end = re.compile(r" [-–—] |[;:] |, (?:and|but|so|then|because|since) |\. ")

no_request = re.compile(r"(?i)(?:yes|no|ok|okay|sure|continue|go on|thanks?|great|[@/])(?:\b|$)|[@/\[<{]")

_asks_why = re.compile(r"(?i)(?:why|how|what|where|when|who|which|is|are|was|were|does|do|did|has|have|should|any)\b")

_no_asking = re.compile(r"(?i)(?:tell|explain|show|help) (?:me|us|to me)?\b ?")


def asks_about(text: str) -> bool:
    """Whether a request asks a question: it is no topic of a change."""
    return _asks_why.match(_no_asking.sub("", drop_courtesy(first_sentence(text)))) is not None


task_label = re.compile(r"(?i)^(?:task|issue|story|ticket)\b[^:—]{0,30}[:—-]\s*(?:#?\d+\s*[—:-]\s*)?")

_pause = re.compile(r"[,.?!;](?= )")

_late_clause = re.compile(r" (?:\(|(?:and|but|so|to|in order|for|from|with|which|that|because|since|when|if|as|by|using|via|like|along)\b)")


def name_short(asked: str, *, is_quoted: bool) -> str:
    """A request in few words: an order, a question, or (if `is_quoted`) what else the person said, in quotes. Empty if it is not clear."""
    sentence = drop_courtesy(task_label.sub("", drop_markup(name_links(first_sentence(asked))))).strip(" .:;,@")
    is_clear = is_order(asked) or is_examination(asked) or asks_about(asked)
    words = sentence.split()
    if len(words) > MOST_OF_SHORT:
        start = " ".join(words[: MOST_OF_SHORT + 1])
        ends = [found.start() for found in (_late_clause if is_clear else _pause).finditer(start)]
        end = max((end for end in ends if len(start[:end].split()) >= LEAST_SHORT), default=0)
        sentence = start[:end].rstrip(" ,;:") if end or is_clear else f"{' '.join(words[:MOST_OF_SHORT]).rstrip(' ,;:')}…"
    if (
        "://" in sentence
        or sentence.startswith("/")
        or no_request.match(sentence)
        or _points_back.match(sentence)
        or sentence.count('"') % 2
    ):
        return ""
    if len(list_content_words(sentence)) < ENOUGH_SHARED or not (is_clear or is_quoted):
        return ""
    sentence = sentence.rstrip("?") if is_order(asked) else sentence
    return sentence[:1].upper() + sentence[1:] if is_clear else f'"{sentence.replace(chr(34), chr(39))}"'


_points_back = re.compile(
    r"(?i)(?!(?:ensure|verify|confirm|show|say|note|state|require) that)"
    r"\w+ (?:(?:up|out|off|down|back) )?(?:that|this|it|them|these|those|one|same)\b"
)
"""An order whose object was named before: "Limit that to one branch"."""


def name_order(asked: str) -> str:
    """A request for work as a title; empty if it is none or does not say what it is about."""
    order = task_label.sub("", short_request(name_links(asked), MOST_ASKED).rstrip(".")) if not is_examination(asked) else ""
    is_clear = not order.endswith("…") and "://" not in order and len(list_content_words(order)) >= ENOUGH_SHARED
    is_clear = is_clear and _points_back.match(order) is None and sum(word.isalpha() for word in order.split()) >= LEAST_ORDER
    return order if is_clear else ""


def drop_markup(text: str) -> str:
    """The text on one line without the marks of code and emphasis."""
    return " ".join(text.replace("`", "").replace("*", "").split())


_linked = re.compile(
    r"(?i)(?:\bthis )?(?:\b(?:pr|pull request|merge request|issue|ticket)\b:? *)?\(?https?://[^\s/]{1,100}/[^\s]{1,200}?/"
    r"(?P<kind>pull|merge_requests|issues)/(?P<number>\d{1,9})[^\s,;)]{0,200}\)?"
)


def name_links(text: str) -> str:
    """The text with the names of pull requests and issues instead of their addresses."""

    def name(found: re.Match[str]) -> str:
        return f"{'issue' if found['kind'].lower() == 'issues' else 'pull request'} #{found['number']}"

    first = _linked.match(text)
    rest = text[first.end() :].lstrip(" :,-") if first is not None else ""
    if first is not None and len(rest.split()) >= LEAST_TOPIC:
        return f"{_linked.sub(name, rest).rstrip('. ')} ({name(first)})"
    return _linked.sub(name, text)


ADDRESS = re.compile(r"\(?https?://\S+\)?")


def name_topic(text: str) -> str:
    """What a request is about, in a few words; nothing if they would not say it."""
    sentence = name_links(task_label.sub("", drop_courtesy(first_sentence(text))))
    sentence = ADDRESS.sub("", sentence).strip(" .?!:,;\"'-–—")
    if _points_back.match(sentence):
        return ""
    clause = _topic_end.split(sentence, maxsplit=1)[0]
    short = cut_words(clause if len(clause.split()) >= LEAST_TOPIC else sentence, MOST_TOPIC)
    return short[:1].upper() + short[1:] if len(list_content_words(short)) >= LEAST_ABOUT - 1 else ""
