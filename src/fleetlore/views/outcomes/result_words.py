"""The sentence of an answer that says what came of a request: what was changed, or what was found.

A change has a subject and a verb of change ("The cart is cached per customer now", "Added a test for tabs"). Test counts,
measurements, progress notes, questions, lead-ins and cut sentences are passed over. Of several sentences the one that has the
most words of the request is taken, prose before lists.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.words import LONGEST_LOOK, cut_words, is_lead_in, is_open, is_weak, list_sentences

_CHANGED = (
    r"(?:added|adjusted|applied|bumped|built|cached|changed|cleaned up|closed|configured|consolidated|converted|copied|corrected|created"
    r"|deleted|deployed|disabled|documented|enabled|expanded|exposed|extended|extracted|fixed|forwarded|implemented|improved|installed"
    r"|introduced|logged|made (?=the )|marked|merged"
    r"|migrated|moved|opened|pinned|posted|published|pushed|rebased|rebuilt|recreated|redesigned|reduced|refactored"
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
    rf".{{3,100}}?\b(?:is|are|was|were|has been|have been|now)(?: now| all| also| been| being| \w+ly)* {_CHANGED}\b"
    r"|.{3,100}?\b(?:now|no longer) (?!(?:pass|clean|green|complete|ready|running)\w*)[a-z]+"
    r"|.{3,80} (?:is|are|works?) [^.]{3,60} now\b|.{8,120}(?<! for) now$"
    r"|(?:add|remov|sett|chang|replac|switch|mov|updat|us)ing .{3,80}? (?:disables|enables|ensures|keeps|makes|prevents|removes|stops)\b.*"
    r"|.{8,100} [—–-] (?:complete|done|implemented|fixed)\b"
    r"|.{3,80}? (?:is|are) (?:now )?(?:installed|running (?:at|on|with)|live|deployed)\b"
    r"|.{8,80}? (?:is|are) (?:now |all |both |still |up and )*running(?: fine)?$"
    rf"|[\w`./@-]{{3,60}}(?: [\w`./@-]{{2,40}}){{0,3}} {_CHANGED} (?:at|in|to|with|for|from|as|by|on|into)\b",
    re.IGNORECASE,
)
_unnamed = re.compile(
    r"\bas (?:you )?(?:requested|asked|expected|wanted|described)\b"
    r"|\ball (?:\d+ |of the )?(?:\w+ )?(?:issues|items|findings|tasks|points|comments|problems)\b"
    r"|\b(?:status update|both files|all (?:three|four|five) (?:updates|files|changes))\b"
    r"|\bthis (?:guidance|change|fix|approach|logic|issue|problem|pattern|rule)\b",
    re.IGNORECASE,
)
_no_object = re.compile(r"\w+ (?:(?:to|it|them|this|these|now)\b(?! \w+s\b)|\()", re.IGNORECASE)
_no_result = re.compile(
    r"(?:(?:fetch|read|check|look|see|try|view|verify|inspect|search|proceed|continue|go) "
    r"|(?:ground|work|mov|continu|start|launch|runn|spawn|wait|kick|proceed|fetch|read|check|look)ing|this"
    r"|that|it|its|they|these|those|you|your|done|if|when|here|there|good|great|perfect"
    r"|got it|let|next|one|step|note|which|what|why|how|to"
    r"|without|since|because|after|before|once|as|yes|no|but|so|and|or|previously|currently|suggested|with|status|story status|task #?\d+"
    r"|i['’]m|i (?:see|think|found|understand|need|will|can|could|did)|line \d|all (?:\d+ )?(?:\w+ )?(?:tests?|checks?|tasks?|todos?)"
    r"|the (?:reason|issue|problem|cause|bug|error|failure|fix|question|key|only|old|previous|current|user|reviewer|plan|answer"
    r"|tests?(?! (?:harness|helper|data|repo|runner))|changes?|file|edit)s?)\b"
    r"|.{0,120}\b(?:should|would|could|will|might|may|let me|i['’]ll|want|needs? to|still|tests? (?:now )?pass\w*|not yet|don['’]t|can['’]t"
    r"|failed|wasn['’]t|already)\b"
    r"|.{0,60}\bwhen\b|\W*\d|[^a-zA-Z`\"'/.]",
    re.IGNORECASE,
)
_check_only = re.compile(
    r"\b(?:tests?|lint(?:er|ing)?|checks?|suite|clippy|types?|build|compil\w+)\b.{0,40}\b(?:pass\w*|clean|green|succe\w+)\b", re.IGNORECASE
)
_file_label = re.compile(r"^(?:\w+ )?[\w./@-]{1,80}\.[a-zA-Z]\w{0,4}(?::\d+(?:-\d+)?)?(?: \([^)]{1,40}\))?\s*(?:[—–]|:(?!\d)|->|→| - )\s*")
_label = re.compile(
    r"^(?:[Dd]one ?[-–—.:!] +|(?:the )?(?:fix|solution|changes?|result|update|what changed|change \w{1,4}) ?[:—–-] +"
    r"|(?:[A-Z][a-z]+ ){0,2}[A-Za-z]+: (?=[A-Z](?!ow\b)))"
)
_condition = re.compile(r"^(?:(?:when|if|since|because) [^,]{3,160}, (?=\S)|now,? (?=the |`|[A-Z])|[✅🎉✓]\s*)", re.IGNORECASE)
_progress = re.compile(
    r"(?:i['’]?(?:ve|m| have| am)? (?:finished|done|now|going|about)|i(?:['’]m| am) \w+ing"
    r"|(?:launch|start|runn|spawn|wait|kick|proceed|continu|read|check|look|creat|updat|writ|fetch)ing\b.*\bnow$"
    r"|let me|now |next|got it|good[,.]|ok)\b",
    re.IGNORECASE,
)
LEAST_WORDS = 4
LEAST_OPEN = 6
"""Words of a sentence that may end with a colon."""
LONGEST_TITLE = 14
LONGEST_REPORT = 180
"""Characters: some languages have no spaces between words."""


class Report(NamedTuple):
    """A sentence about what came of a request. `others` is how many more items of its list are of this kind."""

    text: str
    score: int
    others: int = 0
    is_item: bool = False
    """It is an item of a list."""


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
MOST_SHARED = 4
MOST_OF_PAIR = 28
"""Words of a list of two changes that is told whole."""


def list_content_words(text: str) -> frozenset[str]:
    """The stems of the words that say what a text is about."""
    words = {word for form in (text, _split_name.sub(" ", text)) for word in _word.findall(form.lower())} - _COMMON
    return frozenset((_suffix.sub("", word) if len(word) > LEAST_STEM + 2 else word)[:LONGEST_STEM] for word in words)


def find_change(text: str, most: int, wanted: Collection[str] = ()) -> Report | None:
    """The sentence that says what was changed, in at most so many words. `wanted` are the content words of the request."""
    found: Report | None = None
    for is_item in (False, True):
        sentences = [*list_sentences(text, items=is_item), *(() if is_item else _join_leads(text))]
        changes = dict.fromkeys(change for sentence in sentences if (change := read_change(sentence, most)))
        if is_item and _are_late_details(changes, text):
            break
        if is_item and len(changes) == 2 and len(" ".join(changes).split()) <= MOST_OF_PAIR:
            first, second = changes
            changes = {f"{first}; {second[:1].lower() if begins_plainly(second) else second[:1]}{second[1:]}": None}
        for change in changes:
            words = list_content_words(change)
            shared = min(len(words.intersection(wanted)), MOST_SHARED)
            if is_item and wanted and not shared:
                continue  # a detail of a list
            score = 2 * shared + (0 if is_item else 2)
            if _names_state.match(change) and not shared:
                continue
            if ("test" in words and "test" not in wanted) or _names_state.match(change):
                score -= 3
            if found is None or score > found.score:
                found = Report(change, score, len(changes) - 1 if is_item else 0, is_item)
    return found


_names_state = re.compile(
    r"(?i)(?:(?:the|your|main|local|dev|working|web) ){0,3}"
    r"(?:server|service|process|app|daemon|container|checkout|worktree|tree|branch)s? (?:has|have|is|are|was)\b"
)
"""Says in which state something is, not what was changed."""
_top_item = re.compile(r"^(?:[-*•]|\d{1,2}[.)]) ([^\n]{1,400})", re.MULTILINE)
LONG_LIST = 3
ENOUGH_TO_FIND = 20


def _are_late_details(changes: Collection[str], text: str) -> bool:
    """Whether the changes that can be read are the smaller part of a list and not its first item: the main thing is another."""
    items = _top_item.findall(text[:LONGEST_LOOK])
    first = re.sub(r"[*_`]", "", items[0]).casefold() if items else ""
    is_small = len(items) >= LONG_LIST and len(changes) * 2 < len(items)
    return is_small and not any(re.sub(r"[*_`]", "", change)[:ENOUGH_TO_FIND].casefold() in first for change in changes)


_lead = re.compile(
    r"^([^\n:]{12,120}\b(?:now|will) \w+):\n+[ \t]*(?:[-*•]|1[.)])[ \t]+(?:\*\*)?([^\n*:—–]{4,120}?)(?=\*\*|[:—–\n]| - |$)", re.MULTILINE
)


def _join_leads(text: str) -> Iterator[str]:
    """Sentences that end with a verb and a list ("The page now shows:"), each with the first item of its list."""
    for found in _lead.finditer(text[:LONGEST_LOOK]):
        start = found[1].rpartition(". ")[2]
        yield f"{start} {found[2][:1].lower()}{found[2][1:].strip()}"


_vague = re.compile(
    r"(?:(?:one (?:thing|note|caveat|question)|based on my|caveat|heads[- ]up|all finished"
    r"|(?:the |main |working )*(?:checkout|worktree|tree) is clean|(?:i|we)(?:['’]ve)? \w+ (?:it|them|this|these|that)"
    r"|this|that|it|its|they|these|those|here|which|ok|okay|let|next|note|if you|you|your|want|would|should|shall|could|see|try|to"
    r"|\w+ing (?:it|this)"
    r"|spawned|launched|started|running|the (?:fix|solution|change) is|please|thanks|sorry|open|run|option|step|e\.g|for example"
    r"|i (?:see|think|understand|will|can|need|now|should|was|used))\b"
    r"|(?:yes|no)\b.{0,12}$|waiting\b|all (?:\d+ )?\w* ?(?:tasks|agents)\b|\W*$)",
    re.IGNORECASE,
)
_conclusion = re.compile(r"(?i)結論|结论|\b(?:verdict|conclusion|root cause|overall|tl;?dr)\b")
_verdict = re.compile(
    r"(?i)\b(?:main (?:risk|issue|finding|problem)|the (?:problem|cause|issue|reason|risk) (?:is|was)"
    r"|no (?:[\w-]+,? ){0,5}(?:secrets?|issues?|problems?|findings?|vulnerabilit\w+|violations?|defects?|regressions?|bugs|blockers)"
    r"|no hardcoded \w+|found \d+|\d+ (?:issues?|findings?|problems?)|is safe"
    r"|looks? (?:good|safe|clean)|there(?:['’]s| is) no way|not possible|works?\b|already"
    r"|approved?|pass(?:es|ing)\b|fail(?:s|ed|ing|ures?)\b)"
)
_fragment = re.compile(
    r"(?=[\w.-]*\d)[\w.-]++:|(?:[\w.]+-[\w.-]+,? ){2}|\[\w{1,2}\]"
    r"|\d(?!.*\b(?:is|are|was|were|has|have|found|remain\w*|fail\w*|pass\w*|need\w*|match\w*|points?|(?<!-)issues?|findings?|problems?)\b)",
    re.IGNORECASE,
)
"""An item of a list that is no sentence: "t-12: merged", "4 steps instead of 3"."""
_no_subject = re.compile(
    r"(?i)(?:use|add|preserve|verifie|passe|keep|make|handle|support|provide|return|allow|ensure|avoid|include|contain|show|call|read|write"
    r"|create|remove|check|set|get|run|explain|document)s (?!(?:is|are|was|were)\b)"
)
"""An item of a list whose subject stands above it: "Uses the issuer only to …"."""
_sign = re.compile(r"^[^\w\s\"'`(\[<./~$@#&-]{1,3}\s+")
"""A picture before a sentence."""
_answer_label = re.compile(r"(?i)(?:here(?:['’]s| is) )?(?:the |my )?(?:short|quick|direct|honest|simple)? ?answer(?: is)?:? +(?=\S)")
_yes_or_no = re.compile(r"(?i)(?:yes|no|not (?:yet|quite|really|directly))\b[^\w\s]*\s(?>.*?\w{3}).*\s\w")
_one_word_label = re.compile(r"[A-Z][a-z]+: ")
LEAST_SHARED = 2
"""Words of the request in an item of a list that answers it."""
MOST_LOOKED_AT = 12
"""Sentences at the beginning of an answer in which its finding is looked for."""
MOST_AT_END = 3
"""The same, at its end."""
_nothing_found = re.compile(
    r"(?i)(?:(?:overall|so|conclusion|verdict|result)[,:]? )?(?:there (?:are|is|were) )?"
    r"(?:no\b.{0,120}\b(?:found|introduced|present|identified|detected|findings?|defects?|vulnerabilit\w+|issues?|problems?|concerns?"
    r")\b|nothing (?:to report|found)\b)(?!.{0,120}\bwill\b)"
)
"""The verdict of a review that has no findings."""


def says_nothing_found(sentence: str) -> bool:
    """Whether a sentence is the verdict of a review without findings."""
    return _nothing_found.match(sentence) is not None


def ends_without_findings(text: str) -> bool:
    """Whether an answer closes with the verdict that nothing was found."""
    return any(says_nothing_found(sentence) for sentence in [*list_sentences(text)][-MOST_AT_END:])


def find_finding(text: str, most: int, wanted: Collection[str] = ()) -> Report | None:
    """The sentence that says what was found out, in at most so many words."""
    found: Report | None = None
    for is_item in (False, True):
        sentences = list(enumerate(list_sentences(text, items=is_item)))
        for place, sentence in [*sentences[:MOST_LOOKED_AT], *(sentences[MOST_LOOKED_AT:][-MOST_AT_END:] if not is_item else ())]:
            plain = _answer_label.sub("", _sign.sub("", sentence.strip()), count=1).rstrip(".!。！ ")
            if plain.endswith(":") and len(plain.split()) >= LEAST_OPEN and not is_open(plain):
                plain = plain.rstrip(" :")
            if _fragment.match(plain) or (is_item and _no_subject.match(plain)):
                continue
            if _vague.match(plain) or not is_statement(plain) or (_one_word_label.match(plain) and not _conclusion.match(plain)):
                continue
            short = _cut(plain, most)
            if plain[len(short) :].startswith(", but "):
                continue  # what follows is the point
            if short.endswith("…") or short.count('"') % 2 or len(short) > LONGEST_REPORT:
                continue
            shared = len(list_content_words(short).intersection(wanted))
            if is_item and wanted and shared < LEAST_SHARED and not _conclusion.search(short):
                continue  # a detail of a list
            is_conclusion = _conclusion.search(short) or (not is_item and (_yes_or_no.match(short) or says_nothing_found(short)))
            weight = 9 if is_conclusion else 3 if _verdict.search(short) else 0
            score = 2 * min(shared, MOST_SHARED) + weight + (0 if is_item else 3) + max(0, 2 - place)
            if found is None or score > found.score:
                found = Report(short[:1].upper() + short[1:] if short.partition(" ")[0].isalpha() else short, score)
    return found


_point = re.compile(r"^(?:#{2,4} {1,3})?(?:\*\*)?(?P<number>\d{1,2})[.)] {1,3}(?P<text>[^\n]{8,600})", re.MULTILINE)
_changed_item = re.compile(rf"(?i).{{0,40}}?(?:[-–—:]|\))\s*{_CHANGED}\b|{_CHANGED}\b")
"""An item of a list of changes, not of a review: "Diagram - Added an overview"."""
_place = re.compile(r"^(?:\*\*)?\[[^\]\n]{1,200}\]\([^)\n]{1,300}\):? *|^`?[\w./-]{1,120}\.\w{1,5}(?::\d+(?:-\d+)?)?`?:? +(?=[a-z`])")
_marked_point = re.compile(
    r"^#{1,4} [^\n]{0,40}\b(?:[Ff]indings?|[Ii]ssues|[Bb]ugs|[Cc]orrectness|[Pp]roblems)\b[^\n]{0,40}\n+"
    r"(?:#{2,5} (?!\d)[^\w\n`-]{0,6}|[-*] (?=\*\*))(?P<text>[^\n]{8,600})",
    re.MULTILINE,
)
"""The first finding below a heading such as "Bugs": a heading of its own, or an item that begins in bold."""
_severity = re.compile(r"^\W*(?:\(?(?:critical|high|medium|low|minor|major|blocker|nit|P[0-3])(?:/\w+)?\)?[:.]?\W+)?", re.IGNORECASE)
LEAST_POINTS = 2


def find_points(text: str, most: int) -> str:
    """`3 review points, the first: …` of a review that numbers its findings, or its first marked one; empty for any other text."""
    text = text[:LONGEST_LOOK]
    points = list(_point.finditer(text))
    numbers = [int(found["number"]) for found in points]
    is_counted = all(after in (before + 1, 1) for before, after in pairwise([0, *numbers]))  # each section may count anew
    marked = list(_marked_point.finditer(text))
    if marked and (not points or marked[0].start() < points[0].start()):
        lead, first = "First review point", marked[0]["text"]
    elif len(points) >= LEAST_POINTS and is_counted:
        lead, first = f"{len(points)} review points, the first", points[0]["text"]
    else:
        return ""
    if _changed_item.match(first.replace("*", "")):
        return ""
    plain = next(list_sentences(_place.sub("", first.replace("**", "").replace("`", ""))), "").strip().rstrip(".!")
    short = _cut(_severity.sub("", plain), most)
    return "" if len(short.split()) < LEAST_WORDS or short.endswith(("?", ":")) else f"{lead}: {short}"


_address = re.compile(r"(?: (?:from|at|in|to|on|see|via))? \(?https?://[^\s)]+?\)?([:.,;!]?)(?=\s|$)")


def read_change(sentence: str, most: int) -> str:
    """The sentence as a result, such as "Added a test for tabs"; empty if it reports no change or cannot be understood alone."""
    plain = _condition.sub("", _file_label.sub("", _label.sub("", _address.sub(r"\1", sentence), count=1)), count=1).strip().rstrip(".! ")
    if plain.endswith(":") and len(plain.split()) >= LEAST_OPEN:
        plain = _leading_end.sub("", plain)
        if _open_end.search(plain) or is_open(f"{plain}:"):
            return ""  # the list below says what
    if (
        plain.endswith(("?", ":", "…", ",", "？"))
        or is_lead_in(plain)
        or is_weak(plain)
        or _check_only.search(plain)
        or _unnamed.search(plain)
    ):
        return ""
    active = _active.fullmatch(plain)
    if active is not None:
        is_order = active["change"] == plain and _same_as_order.match(plain) is not None
        plain = active["change"]
        if _no_object.match(plain) or is_order or _delivery_only.match(plain):
            return ""
    elif _no_result.match(plain) or not _passive.match(plain) or _points_elsewhere.search(plain):
        return ""
    plain = _left_over.sub("", plain)
    short = _cut(plain[:1].upper() + plain[1:] if plain.split(" ", 1)[0].isalpha() else plain, most).rstrip(" —–-")
    is_whole = len(short.split()) >= LEAST_WORDS and len(short) <= LONGEST_REPORT and not short.endswith("…") and short.count('"') % 2 == 0
    return short if is_whole else ""


_left_over = re.compile(r" (?:under|in|at|to|on|from|via|see|with|as)$", re.IGNORECASE)
"""Before an address that was left out."""
_leading_end = re.compile(r",? ?(?:(?:that|which) \w+|(?:to|and) \w+|with [\w ]{0,30}for|with|such as|including|namely|for|by \w+ing)?:$")
_open_end = re.compile(r"\bnow (?:(?:the|all|both|these|those) )?\w+$", re.IGNORECASE)
_same_as_order = re.compile(r"(?:set up|split)\b", re.IGNORECASE)
"""Verbs whose past is also their imperative: only "I set up …" is a report."""
_delivery_only = re.compile(
    r"set up (?:the|your|a) .{0,40}\bworkspace\b|(?:pushed|committed|merged|opened|rebased)\b(?:(?! (?:adds|fix|that|which)).){0,40}"
    r"\b(?:origin|main|master|branch|remote|successfully|upstream|pr|pull request)\b",
    re.IGNORECASE,
)
"""Says how work was delivered, not what it is."""

_points_elsewhere = re.compile(r"(?i)\b(?:pr|pull request|branch|main|head)\b.{0,20}\bpoints? (?:to|at)\b")
_plain_start = re.compile(rf"(?:{_CHANGED}|adds|fixes|the|a|an|all|both|its?|modal|tests?)\b", re.IGNORECASE)


def begins_plainly(text: str) -> bool:
    """Whether a sentence begins with a word that has a small letter in the middle of a text."""
    return _plain_start.match(text) is not None and (len(text) < 2 or text[1] == " " or text[1].islower())


_cut_mark = re.compile(r"[\d:—–-]")


def is_statement(sentence: str) -> bool:
    """Whether the sentence of an answer says something by itself."""
    words = len(sentence.split())
    if words < LEAST_WORDS and sentence.isascii():
        return False
    if 1 < words < LEAST_OPEN and not sentence.isascii() and not _cut_mark.search(sentence):
        return False  # in another script than ours its lead-ins are not known
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


_parenthesis = re.compile(r" \([^()]{4,200}\)")


def _cut(text: str, most: int) -> str:
    """The text in at most so many words: without its parentheses if it is longer, then cut where a clause ends."""
    if len(text.split()) > most:
        text = _parenthesis.sub("", text)
    short = cut_words(text, most)
    return (short.rpartition("(")[0] if short.count("(") > short.count(")") else short).rstrip(" ,;:")
