"""The sentence in which an agent says what came of a request.

It is told only if a reader understands it alone: a whole sentence of prose, not an item of a list, a heading, a lead-in, a
question or an announcement, and one that has words of the request. Otherwise nothing is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import islice

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.words import cut_sentences, cut_words, is_lead_in, is_weak, list_sentences

LEAST_WORDS = 4
MOST_WORDS = 32
LONGEST_REPORT = 220
"""Characters: some languages have no spaces between words."""
MOST_SENTENCES = 25
"""Sentences of an answer in which a report of a change is looked for."""
MOST_OF_ANSWER = 3
"""Sentences at the beginning of an answer that may answer a question."""
LEAST_SHARED = 2
"""Words of the request in a report about it."""

_split_name = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_word = re.compile(r"[^\W_]{2,}")
_suffix = re.compile(r"(?:ings?|ures?|ions?|ed|es|s|ly)$")
_COMMON = make_word_set(
    """about after again also and any are because been before being both but can code could does done file files find fix for from get
    has have here how into its just let like look make more need new not now off only our out over please run see should some such
    take than that the their them then there these they this use want was way we were what when where which why will with would you
    your commit implement implementation plan change changes check work issue make sure me my if in is it of on or so to up"""
)
LEAST_STEM = 3
LONGEST_STEM = 7


def list_content_words(text: str) -> frozenset[str]:
    """The stems of the words that say what a text is about."""
    words = {word for form in (text, _split_name.sub(" ", text)) for word in _word.findall(form.lower())} - _COMMON
    return frozenset((_suffix.sub("", word) if len(word) > LEAST_STEM + 2 else word)[:LONGEST_STEM] for word in words)


_CHANGED = (
    r"(?:added|adjusted|applied|built|bumped|cached|changed|cleaned up|closed|configured|consolidated|converted|copied|corrected|created"
    r"|deleted|deployed|disabled|documented|enabled|expanded|exposed|extended|extracted|fixed|implemented|improved|installed"
    r"|introduced|merged|migrated|moved|opened|pinned|posted|published|rebased|rebuilt|redesigned|reduced|refactored|released|removed"
    r"|renamed|replaced|resolved|restored|restructured|reverted|rewritten|rewrote|simplified|split|switched|translated|unified|updated"
    r"|upgraded|wired|wrapped|written|wrote)"
)
_change = re.compile(
    rf"(?:(?:i|we)(?:['’]ve| have)? (?:now |also |just |successfully )?|successfully )?{_CHANGED}\b (?!(?:it|them|this|that|these|to)\b)"
    rf"|(?:(?!\b(?:when|if|which)\b).){{3,100}}? (?:is|are|was|were|has been|have been|now|is now|are now)"
    rf"(?: now| all| also| \w+ly)* {_CHANGED}\b"
    r"|.{3,100}? (?:now|no longer) (?!pass|clean|green|complete|ready|running|working)[a-z]+|.{8,160}(?<! for)(?<! right) now$",
    re.IGNORECASE,
)
"""Says that something changed: "Added a test for tabs", "The cart is cached per customer now", "The page no longer flickers"."""
_first_person = re.compile(r"(?i)^(?:i|we)(?:['’]ve| have)? (?:now |also |just |successfully )?(?=\w+(?:ed|lt|te|de|ew|it)\b)")
_no_change = re.compile(
    r"(?i)\b(?:should|would|could|will|might|may|can|must|let me|i['’]ll|going to|want|needs? to|still|not yet|but not|except|previously"
    r"|(?:do|does|did|is|was|ca|wo|could)n['’]t|unable|failed|fails|both|as requested|as you)\b"
    r"|\b(?:tests?|lint|linter|checks?|suite|types?|build|ci)\b.{0,40}\b(?:pass\w*|clean|green|succe\w+|ok)\b"
    r"|\b(?:committed|pushed|branch|worktree|working tree|pull request|pr #?\d+|status|task|todo)\b"
)
"""Not what was changed: a plan, a wish, a failure, the result of a check, how work was delivered."""
_LEANING = make_word_set(
    """this that these those it its it's they them he she both same also and but so or then however otherwise instead without with since
    because as after before once when whenever if unless while let let's let’s here here's here’s there there's there’s note next first
    second third finally previously currently should shall would could want you your you're option step line change phase part i i'll
    i'm i’ll i’m we'll to for in on at from by which what how why who where one two three another other see try run use open please
    thanks sorry ok okay great good perfect done got looking checking starting waiting launched running e.g"""
)
"""First words of sentences that cannot be understood without the one before, or that say nothing of a result."""
_VAGUE = make_word_set(
    """fix change changes problem issue bug key only rest other first second following question answer test tests user file line solution
    reason plan result output error latter former two three these"""
)
"""The same after "the" and "all"."""
is_reply = re.compile(r"(?i)(?:yes|no|not (?:yet|quite|really|directly|currently)|correct|exactly)\b")
_conclusion = re.compile(
    r"^\W{0,6}(?P<label>verdict|conclusion|root cause|tl;?dr|bottom line|short answer|recommendation|answer|结论|結論)"
    r"\*{0,2} ?[:：]\*{0,2}\s+"
    r"(?P<text>\S[^\n]{10,600})",
    re.IGNORECASE | re.MULTILINE,
)
_says_done = re.compile(
    r"(?i)(?:the |all )?(?:\w+ ){0,2}(?:implementation|work|task|plan|review|analysis|fix)\w* (?:is|are) (?:now )?"
    r"(?:complete|done|finished)"
)
_address = re.compile(r"(?: (?:from|at|in|to|on|see|via|here))?:? \(?https?://[^\s)]+\)?")
_emphasis = re.compile(r"\*\*|`|__")


_unfinished = re.compile(r"(?i) (?:a|an|the|and|or|of|than|that)$")


def is_whole(sentence: str) -> bool:
    """Whether a sentence can stand alone: neither cut, nor open at its end, nor leaning on another one."""
    words = len(sentence.split())
    if not sentence or words > MOST_WORDS or len(sentence) > LONGEST_REPORT or (words < LEAST_WORDS and sentence.isascii()):
        return False
    is_balanced = sentence.count('"') % 2 == 0 and sentence.count("(") == sentence.count(")")
    is_open = sentence.endswith(("?", ":", "…", ",", ";", "-", "？", "："))
    return is_balanced and not (is_open or _unfinished.search(sentence) or is_lead_in(sentence) or is_weak(sentence))


def leans_on_another(sentence: str) -> bool:
    """Whether a sentence needs the one before it: it begins with "This", "When" or "The fix", or with a number or a sign."""
    first, _, rest = sentence.lower().partition(" ")
    second, third = (*rest.split(maxsplit=2), "", "")[:2]
    if not (first[:1].isalpha() or first[:1] in "`\"'/.@#(["):
        return True
    is_vague = second.strip(",.:;") in _VAGUE | _LEANING and third not in ("of", "in", "to", "for", "from")
    return first.strip(",.:;") in _LEANING or (first in ("the", "all", "now") and is_vague)


def find_change(text: str, about: Collection[str], *, least: int = LEAST_SHARED, most: int = MOST_SENTENCES) -> str:
    """The sentence of an answer that says what was changed for a request with the content words `about`; empty if there is none.

    It has at least so many words of the request, and is one of the first sentences of the answer.
    """
    found, shared = "", min(least, len(about)) - 1
    for sentence in islice(list_sentences(text), most):
        plain = _shorten(_clean(sentence))
        if not _change.match(plain) or leans_on_another(plain) or _no_change.search(plain) or not is_whole(plain):
            continue
        words = len(list_content_words(plain).intersection(about))
        if words > shared:
            found, shared = plain, words
    return found


def _shorten(sentence: str) -> str:
    """A long sentence without its last clauses, if what is left does not say less than the truth."""
    for most in (MOST_WORDS, MOST_WORDS * 3 // 4, MOST_WORDS // 2):
        short = cut_words(sentence, most)
        if len(short) <= LONGEST_REPORT:
            return short if short == sentence or _beside.match(sentence[len(short) :]) else sentence
    return sentence


_beside = re.compile(
    r"(?i),? ?(?:[—–;(]|-- |- |(?:with|so|which|including|using|via|such as)\b)(?! ?(?:but|except|however|although|not)\b)"
)
"""Begins the end of a sentence that can be left out."""


def find_answer(text: str, about: Collection[str]) -> str:
    """The sentence that answers a question or a request to look at something; empty if none of the first ones does."""
    if labelled := _conclusion.search(text):
        said = _clean(next(cut_sentences(_emphasis.sub("", labelled["text"])), ""))
        if is_whole(said):
            return f"{labelled['label'][:1].upper()}{labelled['label'][1:].lower()}: {said}"
    for sentence in islice(list_sentences(text), MOST_OF_ANSWER):
        plain = _shorten(_clean(sentence))
        is_about = not leans_on_another(plain) and not list_content_words(plain).isdisjoint(about) and not _says_done.match(plain)
        if is_whole(plain) and (is_about or is_reply.match(plain)):
            return plain
    return ""


def _clean(sentence: str) -> str:
    """The sentence without addresses, the agent's "I have" and the mark at its end."""
    plain = _first_person.sub("", _address.sub("", sentence).strip(), count=1).rstrip(".!。！ ")
    return plain[:1].upper() + plain[1:] if plain.partition(" ")[0].isalpha() else plain


def states_topic(said: str, topic: str) -> bool:
    """Whether a report says by itself what it is about: it has most words of the topic."""
    named = list_content_words(topic)
    return len(list_content_words(said) & named) * 3 >= len(named) * 2


_left_to_do = re.compile(
    r"(?i)\byou(?:['’]ll| will)? (?:still |now |then |first )?(?:need|have) to\b|\byou(?:['’]ll)? must\b"
    r"|^(?:please |then |now |next,? )?(?:restart|rebuild|re-?run|retest|redeploy|rotate|revoke|re-?authenticate|hard[- ]refresh|reload)\b"
    r"|^please (?:run|test|verify|check|set|add|review|confirm|merge|push|commit|approve)\b"
    r"|^(?:however,? |but |note:? )?i (?:have|did|could)(?: not|n['’]t) (?:yet |been |be |actually )*"
    r"(?:commit|push|test|run|verif|deploy|merg|publish|repl|post)\w*"
    r"|\bnothing (?:is|was|has been) (?:committed|pushed|deployed|published)\b"
    r"|\b(?:changes?|branch|commits?|work|fix|everything)(?: (?:is|are|was|were|has|have))?(?: not|n['’]t) (?:yet |been )*"
    r"(?:committed|pushed|tested|deployed|merged|verified)\b"
    r"|\b(?:still|remains?) (?:open|unanswered|unresolved|missing|untested|unverified|uncommitted|blocked|failing|fails?|needs?|to be)\b"
    r"|^(?:remaining|left to do|not done|still open|open|todo|follow-ups?|blocked|manual steps?)\b[^:\n]{0,40}: +\S"
)
"""In what an agent says at its end: something is left for the person, or was not done."""
MOST_OF_LEFT = 40


def find_left_to_do(text: str) -> str:
    """The last sentence of an answer that says what is left to do; empty if none does."""
    for is_item in (False, True):
        for sentence in reversed(list(list_sentences(text, items=is_item))):
            plain = sentence.strip().rstrip(".")
            is_told = _left_to_do.search(plain) is not None and LEAST_WORDS <= len(plain.split()) <= MOST_OF_LEFT
            if is_told and not plain.endswith(("?", "…")) and not is_lead_in(plain):
                return f"{plain[:-1]}…" if plain.endswith(":") else plain
    return ""


_slug = re.compile(r"[\w./-]+")
_spoken = re.compile(r"\b(?:i|i['’]?m|i['’]?d|you|we|please|me|my|can|lets?|plz|hi|hey)\b", re.IGNORECASE)
LONGEST_TITLE = 14


def is_title(text: str) -> bool:
    """Whether a text is a title, not a prompt: a few words without an address, a question or the word "I"."""
    if not 3 <= len(text.split()) <= LONGEST_TITLE or text.rstrip().endswith(("?", "…", ":")):
        return False
    return "://" not in text and not _slug.fullmatch(text) and not _spoken.search(text)
