"""What a person asked for, in few of their own words."""

from __future__ import annotations

import re

from fleetlore.views.outcomes.reports import list_content_words
from fleetlore.views.outcomes.words import cut_words, drop_courtesy, first_sentence, is_examination, is_order

MOST_WORDS = 20
LEAST_ABOUT = 2
"""A text with fewer content words does not say what it is about."""
LEAST_BESIDE_LINK = 4

no_request = re.compile(r"(?i)(?:yes|no|ok|okay|sure|continue|go on|thanks?|great|[@/])(?:\b|$)|[@/\[<{]")
"""A prompt that is only a reply, a command or something that a program wrote."""
_asks = re.compile(r"(?i)(?:why|how|what|where|when|who|which|is|are|was|were|does|do|did|has|have|should|any)\b")
_tell = re.compile(r"(?i)(?:tell|explain|show|help) (?:me|us|to me)?\b ?")
_task_label = re.compile(r"(?i)^(?:task|issue|story|ticket)\b[^:—]{0,30}[:—-]\s*(?:#?\d+\s*[—:-]\s*)?")
_command = re.compile(r"^/[\w:.-]+\s+(?=\S)")
_parenthesis = re.compile(r" \([^()]{1,200}\)")
_begins_with_clause = re.compile(r"(?i)(?:when|if|while|since|because|as|after|before|for|in|on|at|with|we|i|there)\b")
_address = re.compile(r"(?: (?:from|at|in|to|on|see|via|here))?:? ?\(?https?://\S+\)?")
_points_back = re.compile(
    r"(?i)(?!(?:ensure|verify|confirm|show|say|note|state|require) that)"
    r"\w+ (?:(?:up|out|off|down|back) )?(?:that|this|it|them|these|those|one|same)\b(?:[.!?,]|$| (?:up|again|now|too|please|for me))"
)
"""An order whose object was named before: "Fix that"."""
_linked = re.compile(
    r"(?i)(?:\bthis )?(?:\b(?:pr|pull request|merge request|issue|ticket)\b:? *)?\(?https?://[^\s/]{1,100}/[^\s]{1,200}?/"
    r"(?P<kind>pull|merge_requests|issues)/(?P<number>\d{1,9})[^\s,;)]{0,200}\)?"
)


def name_request(text: str, most: int = MOST_WORDS) -> str:
    """A request in at most so many words; empty if it does not say what it is about."""
    sentence = _task_label.sub("", _command.sub("", drop_markup(name_links(first_sentence(text)))))
    sentence = _address.sub("", drop_courtesy(sentence)).strip(" .:;,@")
    if no_request.match(sentence) and not sentence.startswith("/"):
        return ""
    about = [word for word in list_content_words(sentence) if word.isalpha()]
    if _points_back.match(sentence) or len(about) < LEAST_ABOUT:
        return ""
    if len(sentence.split()) > most:
        sentence = _parenthesis.sub("", sentence)
    if _begins_with_clause.match(sentence) and len(words := sentence.split()) > most:
        short = f"{' '.join(words[:most]).rstrip(' ,;:(')}…"  # its first clause does not say what was asked
    else:
        short = cut_words(sentence, most)
    return capitalise_text(short.rstrip("?") if is_order(text) else short)


def quote_text(text: str) -> str:
    """The text in double quotes."""
    return f'"{text.replace(chr(34), chr(39))}"'


def capitalise_text(text: str) -> str:
    """The text as a sentence begins: a plain word gets a capital, a name such as `ssh-agent` stays."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].rstrip(".,:;").isalpha() else text


def is_statement(text: str) -> bool:
    """Whether a prompt neither orders nor asks, such as "The total has three digits"."""
    return not (is_order(text) or is_examination(text) or asks_question(text))


_leans = re.compile(r"(?i)(?:\w+ ){1,3}(?:that|it|this|them|these|those)\b")


def is_clear(text: str) -> bool:
    """Whether a request orders or asks, and names its object in its first words: not "Build that action"."""
    return not is_statement(text) and _leans.match(drop_courtesy(first_sentence(text))) is None


def asks_question(text: str) -> bool:
    """Whether a request is a question, not an order."""
    return _asks.match(_tell.sub("", drop_courtesy(first_sentence(text)))) is not None


def drop_markup(text: str) -> str:
    """The text on one line without the marks of code and emphasis."""
    return " ".join(text.replace("`", "").replace("*", "").split())


def name_links(text: str) -> str:
    """The text with the names of pull requests and issues instead of their addresses."""

    def name(found: re.Match[str]) -> str:
        return f"{'issue' if found['kind'].lower() == 'issues' else 'pull request'} #{found['number']}"

    first = _linked.match(text)
    rest = text[first.end() :].lstrip(" :,-") if first is not None else ""
    if first is not None and len(rest.split()) >= LEAST_BESIDE_LINK:
        return f"{_linked.sub(name, rest).rstrip('. ')} ({name(first)})"
    return _linked.sub(name, text)
