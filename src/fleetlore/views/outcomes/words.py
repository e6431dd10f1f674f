"""Short texts of an outcome record: what was asked, what was answered, the headline and the outcome in one sentence.

A prompt or an answer is quoted by its first sentence with content. Lead-ins ("Implement the following plan:", "Here's a
summary:", "Perfect!"), code fences, rules and tables are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from fleetlore.dialects.commands.shell import make_word_set

LONGEST_LOOK = 6000
"""Characters of a text that are looked at."""
LONGEST_SENTENCE = 240

_markers = re.compile(r"^(?:[#>*+\-•✓✅☑🎉]+[ \t]+|\d{1,3}[.)][ \t]+|\[[ xX]\][ \t]+)+")
_emphasis = re.compile(r"\*\*|`|(?<!\w)__(?=\S)(?!\w+__)|(?<!\w)(?<=\S)__(?!\w)")
_link = re.compile(r"\[([^\]\n]{1,200})\]\([^)\n]{1,500}\)")
_space = re.compile(r"\s+")
_sentence_end = re.compile(r"(?<=[.!?…])[\"')\]”]{0,3}\s+(?=[^\sa-z])|(?<=[。！？])(?=\S)|\n+")
_abbreviation = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|no|fig|incl|resp|Dr|Mr|Ms|St)\.$")
_rule = re.compile(r"^[\s\-=_*~|:+]+$|^\[\[ ## \w{1,40} ## \]\]$|^@\[\w{1,20}\]:$")
"""A line that only separates, or that names the role or the field that follows."""
_tag = re.compile(r"^</?[a-zA-Z][\w-]{0,40}[^>\n]{0,200}>")
_command = re.compile(r"^/[\w:-]{1,80}$")

_named_command = re.compile(r"/[\w:]+(?:-\w+)+(?:\s|$)")
"""A slash command whose name says what it is for: `/create-architecture`."""

_EXCLAMATION = re.compile(
    r"(?:perfect|great|excellent|good|done|all done|ok|okay|sure|yes|yep|no|right|alright|got it|understood|thanks|thank you|hi|hello|hey"
    r"|success|fixed|good catch|good question|great question|good point|good news|makes sense|you'?re (?:absolutely )?right|of course"
    r"|certainly|absolutely|awesome|nice|wonderful|fantastic|there we go|that'?s it|everything is done|task complete[d]?|please|all set)"
    r"\s*[.!,:;]*",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"(?:"
    r"(?:okay|ok|great|perfect|good|now|so|alright|right|sure|yes|hi|hello)?[,!. ]*"
    r"(?:"
    r"(?:here(?:'s| is| are)|below (?:is|are)|this is|these are|the following)\b"
    r"|(?:now )?(?:let me|i'?ll|i will|i'?m going to|let's)\b"
    r"|(?:now )?i (?:now )?have (?:a |all |enough|the |everything|what)"
    r"|i['’]?ve (?:now )?(?:read|reviewed|looked|gathered|got|finished)\b"
    r"|(?:please )?(?:implement|execute|follow|carry out|address|apply|do|fix|read|review|consider|see|use|check)"
    r" (?:on )?(?:the |this |these |my )?(?:following|below|attached)\b"
    r"|(?:the )?(?:summary|plan|overview|context|background|changes|what (?:changed|i did|was done)|details|results?|tl;?dr|done|task|goal"
    r"|objective|problem|issue|request|introduction|description|findings|analysis|review|code review|status|answer|conclusion)\b\W*$"
    r"))",
    re.IGNORECASE,
)


_CHECK_WORDS = (
    r"(?:unit |integration |all |the |of the |new |existing )*"
    r"(?:tests?|lint(?:er|ing)?|checks?|build|suite|types?|formatting|ci|everything|it)"
)
_EMPTY_CLAIM = re.compile(
    r"(?:(?:great|perfect|done|good|excellent)[,!. ]*)?(?:"
    rf"{_CHECK_WORDS}(?:(?:,| and|, and| with) {_CHECK_WORDS})* (?:(?:is|are|now|all|still|has|have) ){{0,3}}"
    r"(?:pass(?:es|ed|ing)?|clean|green|ok|fixed|done|good|complete|works?|succeed(?:s|ed)?)"
    rf"(?:(?:,| and|, and)? {_CHECK_WORDS} (?:(?:is|are|now|also) ){{0,2}}(?:pass(?:es|ed|ing)?|clean|green|ok|good))?"
    r"(?: (?:now|cleanly|successfully|as expected|too|again|locally))*"
    r"|all (?:lint |test |type |the |build )?(?:issues|errors|problems|warnings|failures) (?:are |have been |is )?(?:fixed|resolved)"
    rf"(?:,? and {_CHECK_WORDS} pass)?"
    r"|all (?:clean|green|good|fixed|set)|pushed|committed|(?:the )?(?:implementation|changes?|task|work|fix|plan) (?:is|are|works|looks) ?"
    r"(?:now )?(?:complete|completed|done|ready|as expected|good)?|implementation complete"
    r"|(?:the )?(?:\w+ )?(?:status|story|task|issue|ticket|todo)s?(?: #?[\w.-]{1,12})? (?:is |was |has been |are )?(?:now )?"
    r"(?:updated|set|marked|moved|changed) (?:to|as) [^.!?]{1,30}"
    r"|(?:committed|created|pushed|status|branch|commit): [^.!?]{0,80}"
    r"|(?:the |main |working )*(?:checkout|worktree|tree|branch|repo(?:sitory)?) is (?:now )?(?:clean|up[- ]to[- ]date)[^.!?]{0,60}"
    r"|i found (?:the|an?) (?:issue|problem|bug|cause|root cause)"
    r"|i'?ve (?:now )?(?:reviewed|read|looked at|analy[sz]ed|checked|explored) [^.!?]{0,60}"
    r")[.!]*",
    re.IGNORECASE,
)
"""A sentence that says only that checks pass or that something is done, not what."""
_ROLE = re.compile(r"you(?:['’]re| are| work| have access| will be)\b|your (?:role|job|name|task) is\b", re.IGNORECASE)
"""The beginning of instructions for an agent: who it is, not what it is to do."""
_system_block = re.compile(
    r"<(system[_-]instructions?|system[_-]reminder|environment_context|user_instructions)\b[^>]{0,200}>.*?(?:</\1>|\Z)", re.DOTALL
)
"""What a program adds to a prompt."""
_ASKS = re.compile(
    r"(?:(?:so|and|but|then|now|ok|okay),? )?(?:(?:can|could|would|will) (?:you|we)\b|please\b"
    r"|i(?:['’]d| would)? (?:want|need|like) you to\b)",
    re.IGNORECASE,
)
_SHOULD = re.compile(r"\b(?:should be|needs? to be|must be|has to be|have to be) (?!ok\b|fine\b|good\b)\w+ed\b", re.IGNORECASE)
"""Asks for something without a verb of asking: "The others should be addressed"."""
LONGEST_CHAT = 600
"""Characters of a prompt that is not a document."""
_request_heading = re.compile(r"^## My request for [^\n:]{1,40}:", re.MULTILINE)
"""Comes after the context that an editor adds to a prompt."""
_assignment = re.compile(r'\{"type":"task_assignment".{0,200}?"subject":"([^"\\]{4,300})"')
"""A task that another agent assigns."""
LEAST_REQUEST = 4
"""Words of a request or a sentence that says something by itself."""
LEAST_WHOLE = 3
"""Words of a prompt that can be a request by itself: "Fix the build"."""
LEAST_CLAUSE = 5
LEAST_WORDS = 6
"""A sentence that ends with a colon counts as content if it has so many words."""


def first_sentence(text: str, *, is_answer: bool = False, limit: int = LONGEST_SENTENCE) -> str:
    """The first sentence with content, on one line without markup; the best of the others if there is none. May be empty.

    In an answer, headings and sentences such as "All tests pass." are passed over: they do not say what was done.
    """
    return _find_first_sentence(text[:LONGEST_LOOK], is_answer, limit)


@lru_cache(maxsize=128)  # a record asks several times for the same text
def _find_first_sentence(text: str, is_answer: bool, limit: int) -> str:
    if is_answer:
        return _find_answer_sentence(text, limit)
    fallback = ""
    if _named_command.fullmatch(text.strip()):
        return text.strip()
    if assigned := _assignment.search(text[:800]):
        text = assigned[1]
    text = _request_heading.split(_system_block.sub("\n", text))[-1]
    for line in _prose_lines(text):
        for sentence in cut_sentences(line):
            if is_lead_in(sentence) or _ROLE.match(sentence):
                fallback = fallback or sentence
            else:
                asks = "" if len(text) > LONGEST_CHAT else _find_asking(text, sentence)
                return shorten_text(_close_sentence(asks or sentence), limit)
    return shorten_text(_close_sentence(fallback), limit)


def _find_answer_sentence(text: str, limit: int) -> str:
    """The first sentence of prose that says something; else an item of a list, else what leads over to it or says only "done"."""
    fallback, weak, announcing = "", "", ""
    for is_item in (False, True):
        for sentence in list_sentences(text, items=is_item):
            if is_lead_in(sentence):
                fallback = fallback or sentence
            elif is_weak(sentence) or is_open(sentence) or sentence.endswith(("?", "？")):
                weak = weak or sentence
            elif sentence.endswith((":", "：")):
                announcing = announcing or sentence
            else:
                return shorten_text(sentence, limit)
        if announcing and _has_verb.search(announcing) and not _leads_to_list.search(announcing):
            break
    found = announcing or weak or fallback or next((sentence for line in _prose_lines(text) for sentence in cut_sentences(line)), "")
    return shorten_text(_close_sentence(found), limit)


_leads_to_list = re.compile(r"(?i)^(?:now,? )?(?:when|if|to)\b|\b(?:following|follows|below|here|options?|summary|steps|ways)\b")
"""In a sentence that ends with a colon: it says nothing without its list."""
_has_verb = re.compile(r"(?i)\b(?:is|are|was|were|has|have|had|now|does|did|can|\w{3,}ed)\b")


def _find_asking(text: str, first: str) -> str:
    """The sentence of a short prompt that asks for something, if its first one only tells what the person saw."""
    if _ASKS.match(first) or first.endswith("?") or _is_order(drop_courtesy(first)):
        return ""
    sentences = (sentence for line in _prose_lines(text) for sentence in cut_sentences(line))
    others = [sentence for sentence in sentences if not is_lead_in(sentence)]
    asked = next((sentence for sentence in others if _ASKS.match(sentence)), "")
    return asked or next((sentence for sentence in others[1:] if _SHOULD.search(sentence)), "")


_POLITE = re.compile(
    r"(?:(?:please|ok|okay|so|now|then|hey|hi|hello|great|thanks|plan:|task:|goal:|title:|also|and|maybe|just|quickly|completely)[,:]?\s+"
    r"|(?:can|could|would|will) (?:you|we) (?:please |also |now |quickly )?|"
    r"you (?=(?:harden|build|write|implement|fix|add|create|clean|run|review|remove|update|audit|test|verify)\b)"
    r"|(?:let'?s|let us|we need to|we should|we want to|you should"
    r"|i need you to|i want you to|i'?d like (?:you )?to|i would like (?:you )?to|i want to|need to|help me(?: to)?)\s+)",
    re.IGNORECASE,
)
_WORK_VERBS = make_word_set(
    """add address adjust allow apply automate build bump bring cache change clean clear close commit complete configure consolidate
    convert copy correct cover create cut debug decouple delete deploy deprecate disable document draft drop enable ensure expose extend
    extract finish fix format generate guard handle hide implement improve increase install integrate introduce limit link load log
    make merge migrate mock modify move open optimise optimize parse patch persist pin polish port prevent print publish push put
    rebase reduce refactor register reimplement release remove rename render replace reply resolve respond restore restructure return
    revert harden reword rework rewrite round run save send separate set ship show simplify skip sort speed split stop store strip support
    swap switch sync test throw tidy translate trim turn tweak unify update upgrade use validate wire wrap write"""
)
_EXAMINES = re.compile(
    r"(?:check|review|audit|investigate|analy[sz]e|inspect|verify|scan|find (?:why|where|how|if|whether|out|the (?:cause|reason))"
    r"|fetch where|why\b|look (?:at|into|over)|have a look|go over|debug|examine|explain|compare|count|test (?:if|whether|using)"
    r"|do an? (?:analysis|audit|review))"
    r"(?!\w)",
    re.IGNORECASE,
)
_review_command = re.compile(r"/(?:[\w-]{1,40}:)?(?=(?:security-)?review\b)(?:security-)?")
_NEED = re.compile(r"(?:we |i )?(?:need|want) an? ", re.IGNORECASE)
_CLAUSE_BREAK = re.compile(r" [-–—] |; |: (?=[A-Z])")
_CLAUSE_END = re.compile(r" (?:[-–—]|--) |[;:](?= )|\.(?= )|, (?:and|but|so|because|which|where|then) | \(|, ")
_last_of_row = re.compile(r"\b(?:and|or) \S+$")
"""Before a comma, one of two adjectives: "a shadow and dynamic, soft spots"."""
_dangling = re.compile(r",? (?:so that |so |and )?(?:when|if|while|once|because|since|unless)\b[^,;:.]*$")
"""The beginning of a clause whose end is cut off."""
_ITEM = re.compile(r"^\s*(?:[-*+•|>]|\d{1,3}[.)]|#{1,6}\s|\*\*[^*\n]{1,80}\*\*\s*$)")


def is_order(text: str) -> bool:
    """Whether a request asks for work, not for an answer."""
    return _is_order(drop_courtesy(first_sentence(text)))


_reply = re.compile(
    r"(?:(?:y|yes|yep|yeah|no|nope|ok|okay|sure|great|perfect|thanks|thank you|continue|proceed|resume|go on|go ahead|done|next|retry"
    r"|please|it is fine|that is fine|works for me|looks good|all good)(?:[\s,.!:;-]+|$))+",
    re.IGNORECASE,
)
_choice = re.compile(
    r"(?:\d+|[a-z])(?:[\s,.):-]+(?!\d).{0,20})?$|\d+(?:[,:)]| but| and| -) "
    r"|(?:i )?(?:do ?n['’]?t|have) .{0,12}(?:nothing|anything) to (?:add|say)|nothing to add|[\[{<]",
    re.IGNORECASE,
)


def is_whole_request(text: str) -> bool:
    """Whether a prompt can be understood alone: not a choice, a yes, a notice of a program, or two words."""
    rest = _reply.sub("", text.strip()[:LONGEST_CHAT], count=1)
    if _named_command.match(rest):
        return True
    return len(rest.split()) >= LEAST_WHOLE and _choice.match(rest) is None


def is_examination(text: str) -> bool:
    """Whether a request asks to find something out."""
    return _EXAMINES.match(_review_command.sub("", drop_courtesy(first_sentence(text)))) is not None


def _is_order(sentence: str) -> bool:
    return sentence.partition(" ")[0].lower() in _WORK_VERBS or _NEED.match(sentence) is not None


def drop_courtesy(sentence: str) -> str:
    """The sentence without "please", "can you" and the like in front."""
    for _ in range(4):
        if not (found := _POLITE.match(sentence)):
            break
        sentence = sentence[found.end() :]
    return sentence


def short_request(text: str, most: int) -> str:
    """A request for work as a headline of at most so many words, such as "Round the total to cents"; empty for anything else."""
    sentence = drop_courtesy(first_sentence(text))
    if not _is_order(sentence) or len(sentence.split()) < LEAST_REQUEST:
        return ""
    clause = _CLAUSE_BREAK.split(sentence, maxsplit=1)[0]
    short = cut_words((clause if len(clause.split()) >= LEAST_REQUEST else sentence).rstrip("?.! "), most)
    return short[:1].upper() + short[1:]


_one_line_code = re.compile(r"(?<=[a-z]):\n+```\w{0,20}\n([^\n]{3,160})\n```(?:\n|$)")


def list_sentences(text: str, *, items: bool = False) -> Iterator[str]:
    """The sentences of a text without code, tables and headings: those of its prose, or of its lists."""
    text = _one_line_code.sub(r" \1\n", _unfold_json(text[:LONGEST_LOOK]))
    wanted = "\n".join(line if _is_kept(line, items) else "" for line in text.splitlines())
    for line in _prose_lines(wanted, headings=False, fenced=False):
        yield from cut_sentences(line)


_json_string = re.compile(r'("(?:[^"\\]|\\.)*")\s*(:?)')


def _unfold_json(text: str) -> str:
    """The texts in a JSON document, each on a line: an agent that answers a program. Any other text as it is."""
    start = text.lstrip().removeprefix("```json").lstrip()
    if not start.startswith(('{"', "{\n", '["', "[{")):
        return text
    found: list[str] = []
    for part, is_key in _json_string.findall(start):
        try:
            found += [] if is_key else [msgspec.json.decode(part, type=str)]
        except (msgspec.DecodeError, UnicodeError):
            continue
    return "\n".join(each for each in found if len(each.split()) >= LEAST_REQUEST)


def _is_kept(line: str, items: bool) -> bool:
    return line.lstrip().startswith(("```", "~~~")) or (_ITEM.match(line) is not None) == items


def cut_words(sentence: str, most: int) -> str:
    """The sentence, cut to at most so many words, if possible where a clause ends."""
    words = sentence.split()
    if len(words) <= most:
        return sentence
    start = " ".join(words[:most])
    ends = [found.start() for found in _CLAUSE_END.finditer(start) if found[0] != ", " or not _last_of_row.search(start[: found.start()])]
    whole = next((start[:end] for end in reversed(ends) if len(start[:end].split()) >= LEAST_CLAUSE), "")
    if len((closed := _dangling.sub("", whole)).split()) >= LEAST_CLAUSE:
        whole = closed
    return (whole or f"{start}…").rstrip(" ,;:—–-")


def _close_sentence(sentence: str) -> str:
    """The sentence without a colon, and without a tail such as ", you'll see:" that leads over to a list."""
    if not sentence.endswith(":"):
        return sentence
    start, comma, tail = sentence.rpartition(",")
    bare = start if comma and len(tail.split()) <= 3 else sentence
    return bare.rstrip(" :") + ("…" if is_open(bare) else "")


def is_weak(sentence: str) -> bool:
    """Whether a sentence says only that something is done, or is a bare name such as a path."""
    is_name = " " not in sentence.strip() and (sentence.isascii() or len(sentence) < LEAST_WORDS)
    return is_name or _EMPTY_CLAIM.fullmatch(sentence[:200]) is not None


_open_end = re.compile(
    r"\b(?:at|in|to|with|by|as|is|are|was|were|for|of|from|the|an?|like|using|via|on|following|follows):$", re.IGNORECASE
)


def is_open(sentence: str) -> bool:
    """Whether a sentence needs the list or the code that follows it."""
    return _open_end.search(sentence) is not None


_unfinished = re.compile(
    r"(?i)[\s,](?:and|or|but|so|because|if|when|that|which|where|how|to|the|an?|of|with|for|from|in|on|at|by|as|is|are|was|have|has|like|it|i"
    r"|we|they)$"
)


def is_unfinished(text: str) -> bool:
    """Whether the last word of a text cannot be its end."""
    return _unfinished.search(text) is not None


def is_lead_in(sentence: str) -> bool:
    """Whether a sentence only announces or exclaims."""
    if _EXCLAMATION.fullmatch(sentence):
        return True
    if not any(character.isalnum() for character in sentence):
        return True
    if _LEAD_IN.match(sentence) is not None and len(sentence) < 160:
        return True
    return sentence.endswith(":") and len(sentence.split()) < LEAST_WORDS


def shorten_text(text: str, limit: int = LONGEST_SENTENCE) -> str:
    """The text on one line, cut at a word."""
    line = _space.sub(" ", text).strip()
    if len(line) <= limit:
        return line
    start = line[: limit - 1]
    return (start.rpartition(" ")[0] if " " in start[limit // 2 :] else start).rstrip(",;:. ") + "…"


_announces = re.compile(
    r"(?:(?:now|next|first|then|ok(?:ay)?|good|great|perfect)[,!.]? )?(?:let me (?:now |also |first |quickly |just )?(?!know\b)\w"
    r"|(?:i'?ll|i will|i'?m going to|let'?s) (?:now |also |first |quickly |just |start by |begin by )?"
    r"(?:run|check|fix|updat|look|read|start|creat|add|verif|test|writ|search|implement|try|review|examin|find|explor|investigat|mak|us)\w*\b)",
    re.IGNORECASE,
)


def is_announcement(text: str) -> bool:
    """Whether a text ends by saying what the agent does next: it was cut off before it did so."""
    last = ""
    for line in _prose_lines(text[-1500:]):
        for sentence in cut_sentences(line):
            last = sentence
    return _announces.match(last) is not None and not last.endswith("?")


def last_question(text: str) -> str:
    """What an answer asks the person at its end: a question in any language, or a request to decide; empty if nothing."""
    lines = list(_prose_lines(text[-3000:]))
    if not lines:
        return ""
    for line in reversed(lines[-12:]):
        sentences = list(cut_sentences(line))
        for place, sentence in reversed(list(enumerate(sentences))):
            if sentence.endswith(("?", "？")) and _is_for_person(sentence):
                is_rest = place > 0 and sentence.startswith("Or ") and sentences[place - 1].endswith("?")
                return shorten_text(f"{sentences[place - 1]} {sentence}" if is_rest else sentence, 400)
        if sentences and _decide.search(sentences[-1]) and not _polite_end.search(sentences[-1][:1000]):
            return shorten_text(sentences[-1], 400)
        if not _is_option(line):
            return ""
    return ""


_asks_person = re.compile(
    r"\b(?:you|your|i|we|me|should|shall|ready|which|what|how|any|or|proceed|ok(?:ay)?|want|prefer|does|is|are)\b", re.IGNORECASE
)
_english = re.compile(r"\b(?:the|to|of|and|this|that|it|with|for|in|on|be|do)\b", re.IGNORECASE)
_polite_end = re.compile(
    r"\banything else\b|\bany (?:other|more|further) (?:questions|changes|help)\b"
    r"|\blet me know (?:what you think\b|(?:if|what|when|how|whether) .{0,60}\b(?:next|like|need|want|further)\b[^?]*$)",
    re.IGNORECASE,
)
"""A question that only closes an answer."""
_decide = re.compile(
    r"\b(?:let me know (?:which|what|whether|how you|when you)|please (?:approve|confirm|choose|decide|grant|tell me|let me know which)"
    r"|whenever you say|when(?:ever)? you give the go|(?:awaiting|waiting for) your|tell me (?:which|whether)"
    r"|i need your (?:approval|permission|decision|confirmation))\b",
    re.IGNORECASE,
)
_option = re.compile(r"(?:[A-Z0-9][.)]|Option\b)")


def _is_for_person(sentence: str) -> bool:
    if _polite_end.search(sentence[:1000]):
        return False
    return _asks_person.search(sentence[:1000]) is not None or not _english.search(sentence[:1000])


def _is_option(line: str) -> bool:
    """Whether a line may follow a question: an option of a list."""
    return (len(line) < 300 and line[:1].isupper() is False) or bool(re.match(r"(?:[A-Z0-9][.)]|Option\b)", line))


def _prose_lines(text: str, *, headings: bool = True, fenced: bool = True) -> Iterator[str]:
    """Lines of prose without markup; the inside of code fences (and headings, if not wanted) only if the text has nothing else."""
    others: list[str] = []
    is_code, found = False, False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(("```", "~~~")):
            is_code = not is_code
            continue
        if not line or _rule.match(line) or line.startswith(("|", "::")) or _command.match(line):
            continue
        plain = _strip_markup(line)
        if not plain:
            continue
        if is_code or (not headings and _is_heading(line)):
            others.append(plain)
            continue
        found = True
        yield plain
    if not found and fenced:
        yield from others[:20]


def _is_heading(line: str) -> bool:
    """Whether a line is a heading: marked as one, or all of it bold."""
    return line.startswith("#") or (line.startswith("**") and line.rstrip(":").endswith("**") and line.count("**") == 2)


def _strip_markup(line: str) -> str:
    if line.startswith("<"):
        line = _tag.sub("", line)
    line = _markers.sub("", line)
    if "](" in line:
        line = _link.sub(r"\1", line)
    if "*" in line or "`" in line or "__" in line:
        line = _emphasis.sub("", line)
    return " ".join(line.split())


def cut_sentences(text: str) -> Iterator[str]:
    """The sentences of a plain text: they end at a full stop or the like before a capital, a number or a sign, or at a line's end."""
    start = 0
    for found in _sentence_end.finditer(text):
        if _abbreviation.search(text[max(start, found.start() - 12) : found.start()]):
            continue
        if sentence := text[start : found.end()].strip():
            yield sentence
        start = found.end()
    if rest := text[start:].strip():
        yield rest
