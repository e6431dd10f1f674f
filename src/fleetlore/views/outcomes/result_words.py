"""The sentence of an answer that says what was changed.

It has a subject and a verb of change ("The cart is cached per customer now", "Added a test for tabs"). Test counts, measurements,
progress notes, questions, lead-ins and cut sentences are passed over.
"""

from __future__ import annotations

import re

from fleetlore.views.outcomes.words import cut_words, is_lead_in, is_weak, list_sentences

_CHANGED = (
    r"(?:added|adjusted|applied|bumped|built|cached|changed|cleaned up|closed|configured|consolidated|converted|copied|corrected|created"
    r"|deleted|deployed|disabled|documented|enabled|expanded|exposed|extended|extracted|fixed|forwarded|implemented|improved|installed"
    r"|introduced|marked|merged|migrated|moved|opened|pinned|posted|published|pushed|rebased|rebuilt|recreated|redesigned|reduced|refactored"
    r"|registered|released|removed|renamed|replaced|resolved|restored|restructured|reverted|reworded|rewrote|rewritten|set up|simplified"
    r"|split|stopped|switched|translated|unified|uninstalled|unloaded|updated|upgraded|widened|wired|wrapped|written|wrote)"
)
_active = re.compile(
    r"(?:(?:i|we)(?:['’]ve| have)? (?:also |now |just |successfully )?|(?:successfully|also) "
    r"|(?:the|this) (?:fix|change|patch|update|commit) (?=\w+s\b)|[\w /-]{1,40} [-—–] (?=\w+ed\b))?"
    rf"(?P<change>(?:{_CHANGED}|(?<=(?:.fix|ange|atch|date|mmit) )(?:adds|changes|fixes|makes|moves|removes|replaces|splits|uses))\b.*)",
    re.IGNORECASE,
)
_passive = re.compile(
    rf".{{3,100}}?\b(?:is|are|was|were|has been|have been|now)(?: now| all| also| successfully| been| fully| being)* {_CHANGED}\b"
    r"|.{3,100}?\b(?:now|no longer) (?!(?:pass|clean|green|complete|ready|running)\w*)[a-z]+"
    r"|.{3,80} (?:is|are|works?) [^.]{3,60} now\b|.{8,120} now$"
    r"|.{8,100} [—–-] (?:complete|done|implemented|fixed)\b",
    re.IGNORECASE,
)
_no_result = re.compile(
    r"(?:this|that|it|its|they|these|those|you|your|if|when|here|there|good|great|perfect|got it|let|next|one|step|note|which|what|why|how"
    r"|without|since|because|after|before|once|as|yes|no|but|so|and|or|previously|currently|suggested|with|status|story status|task #?\d+"
    r"|i (?:see|think|found|understand|need|will|can|could|did)|all (?:\d+ )?(?:\w+ )?(?:tests?|checks?|tasks?|todos?)"
    r"|the (?:reason|issue|problem|cause|bug|error|failure|fix|question|key|only|old|previous|current|user|reviewer|plan|answer|tests?"
    r"|changes?|file|edit)s?)\b"
    r"|.{0,120}\b(?:should|would|could|will|might|may|let me|i['’]ll|want|needs? to|still|tests? (?:now )?pass\w*|not yet|don['’]t|can['’]t"
    r"|failed|wasn['’]t|already)\b"
    r"|.{0,60}\bwhen\b|\W*\d|[^a-zA-Z`\"'/.]",
    re.IGNORECASE,
)
_check_only = re.compile(
    r"\b(?:tests?|lint(?:er|ing)?|checks?|suite|clippy|types?|build|compil\w+)\b.{0,40}\b(?:pass\w*|clean|green|succe\w+)\b", re.IGNORECASE
)
_file_label = re.compile(r"^(?:\w+ )?[\w./@-]{1,80}\.[a-zA-Z]\w{0,4}(?::\d+(?:-\d+)?)?(?: \([^)]{1,40}\))?\s*(?:[:—–]|->|→| - )\s*")
_condition = re.compile(r"^(?:(?:when|if|since|because) [^,]{3,160}, (?=\S)|now,? (?=the |`|[A-Z])|[✅🎉✓]\s*)", re.IGNORECASE)
_progress = re.compile(
    r"(?:i['’]?(?:ve|m| have| am)? (?:finished|done|now|going|looking|reading|checking|about)"
    r"|let me|now |next|got it|good[,.]|ok|yes|no)\b",
    re.IGNORECASE,
)
LEAST_WORDS = 4
LEAST_OPEN = 6
"""Words of a sentence that may end with a colon."""
LONGEST_TITLE = 14


def find_change(text: str, most: int) -> str:
    """The first sentence that says what was changed, in at most so many words: of the prose, else of the lists. May be empty."""
    for items in (False, True):
        for sentence in list_sentences(text, items=items):
            if found := read_change(sentence, most):
                return found
    return ""


def read_change(sentence: str, most: int) -> str:
    """The sentence as a result, such as "Added a test for tabs"; empty if it reports no change or cannot be understood alone."""
    plain = _condition.sub("", _file_label.sub("", sentence), count=1).strip().rstrip(".! ")
    if plain.endswith(":") and len(plain.split()) >= LEAST_OPEN:
        plain = re.sub(r",? ?(?:with|such as|namely)?:$", "", plain)
    if plain.endswith(("?", ":", "…", ",", "？")) or is_lead_in(plain) or is_weak(plain) or _check_only.search(plain):
        return ""
    active = _active.fullmatch(plain)
    if active is not None:
        plain = active["change"]
    elif _no_result.match(plain) or not _passive.match(plain):
        return ""
    short = _drop_open_bracket(cut_words(plain[:1].upper() + plain[1:], most)).rstrip(" ,;:")
    is_whole = len(short.split()) >= LEAST_WORDS and not short.endswith("…") and short.count('"') % 2 == 0
    return short if is_whole else ""


def is_statement(sentence: str) -> bool:
    """Whether the sentence of an answer says something by itself."""
    if len(sentence.split()) < LEAST_WORDS and sentence.isascii():
        return False
    if sentence.endswith(("?", ":", "…", " at", "？")) or _check_only.search(sentence):
        return False
    return not (is_lead_in(sentence) or is_weak(sentence) or _progress.match(sentence))


_slug = re.compile(r"[\w./-]+")
_spoken = re.compile(r"\b(?:i|i['’]?m|i['’]?d|you|we|please|me|my|can|lets?|plz|hi|hey)\b", re.IGNORECASE)


def is_title(text: str) -> bool:
    """Whether a text is a title, not a prompt: a few words without an address, a question or the word "I"."""
    if not 3 <= len(text.split()) <= LONGEST_TITLE or text.rstrip().endswith(("?", "…", ":")):
        return False
    return "://" not in text and not _slug.fullmatch(text) and not _spoken.search(text)


def _drop_open_bracket(text: str) -> str:
    """Without a parenthesis that was cut off."""
    return text.rpartition("(")[0] if text.count("(") > text.count(")") else text
