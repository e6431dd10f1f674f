"""Cut Markdown into sentences that can hold a claim, and sentences into tokens.

Code blocks, quotes, questions, open check boxes and sections about the future are left out. A token is a lower-case word or
a mark; code, quoted text and addresses are one token each that says what they are (CODE, QUOTE, RUN_TESTS, PULL_URL …).
"""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from fleetlore.views.outcomes.claim_words import CHECK_HEADS, RUNNERS, TEST_HEADS, TRIGGER_PARTS, TRIGGER_STEMS
from fleetlore.views.outcomes.words import cut_sentences

LONGEST_SENTENCE = 700

_LIST_MARK = re.compile(r"^\s*(?:[-*+•‣◦]|\d{1,3}[.)])\s+(\[[ xX]\]\s+)?")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+")
_TABLE_RULE = re.compile(r"^[\s|:+-]+$")
_CODE = re.compile(r"``?([^`\n]{1,300})``?")
_LINK = re.compile(r"!?\[([^\]\n]{0,300})\]\(([^()\s]{0,500})\)")
_EMPHASIS = re.compile(r"\*{1,3}|__|~~|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)")
_QUOTED = re.compile(r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|(?<!\w)'[^'\n]{2,200}'(?!\w)|«[^»\n]{1,300}»")
_WAS_RED = re.compile(r"\b(?:previously|formerly|originally|once)[ -](?:failing|broken|red|skipped)\b", re.IGNORECASE)
_CAN_CONFIRM = re.compile(r"\bI can (?:now )?confirm\b")
_TYPE_CHECK = re.compile(r"\b[Tt]ype[ -]?check(?:s|ing|er|ers)?\b")
# "go vet: clean", "npm test passes": a command at the beginning that is not marked as code, and what is said of it.
_PLAIN_COMMAND = re.compile(
    r"(?:[✅✓✔☑🟢] ?)?((\.?[a-z][\w./-]{1,20})(?: (?!passe[sd]\b|is\b|are\b|now\b|clean\b)[\w./:=@-]{1,40}){1,6})"
    r"(?= ?(?:[:→—–✅✓✔]|- |passe[sd]\b|succe|is (?:clean|green)|clean\b|now passes))"
)
_BROKEN_BEFORE = re.compile(
    r"\b(?:failing|failed|broken|flaky)(?= (?:tests?|specs?|suites?|builds?) (?:(?:all|both|also) )?now (?:pass|succe|build))"
)
_CHECK_OF = re.compile(r"\b([Ff]ormat(?:ting)?|[Ll]int(?:ing)?|[Ss]tyle|[Bb]uild) checks?(?= \w)")
# A block with a title in capitals is a report for a program that asked for it: "RESULT:\n  success: true".
_REPORT = re.compile(r"^```(?:ya?ml|te?xt|markdown|md)?\n([A-Z][A-Z0-9_ ]{3,40}:[ \t]*\n[^`]{40,8000})^```$", re.MULTILINE)
_PLACEHOLDER = re.compile("\x00(\\d{1,4})\x00")
_URL = re.compile(r"https?://[^\s<>()\[\]\"']{3,400}")
_QUOTE_MARK = "\x01"
_SUBJECTS = TEST_HEADS | frozenset(CHECK_HEADS)
_TOKEN = re.compile(r"\x00\d{1,4}\x00|\x01|#\d{1,7}|[\w✅✓✔☑🟢❌✗✘][\w'’./:@-]*[\w']|[\w✅✓✔☑🟢❌✗✘]|[;,:()?!/&+=|·•→—–-]")
_THOUSANDS = re.compile(r"(?<![\w#.,])\d{1,3}(?:,\d{3}){1,2}(?![\d,])")
SHA = re.compile(r"^(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}$")
PULL_URL = re.compile(r"/(?:pull|pulls|merge_requests|pull-requests|pullrequest)/(\d{1,7})")
_PATH = re.compile(r"[\w.@~+/-]{2,250}")
_ENDING = re.compile(r"[a-z][a-z0-9]{0,4}|gradle|graphql|svelte|properties|config")
_DOTFILE = re.compile(r"\.(?:\w*ignore|\w+rc|env(?:\.\w+)?|gitattributes|gitmodules|editorconfig|tool-versions)")
# Sections whose items are no claims.
_OTHER_SECTION = re.compile(
    r"next steps?|to-?dos?\b|remaining|follow[- ]?ups?|\bplan\b|how to|\busage\b|known issues|not (?:done|included|run|tested)|optional"
    r"|recommend|suggest|previous|problem|root cause"
    r"|what (?:you|(?:the |\w+ )?agent|it|users?|they|(?!i\b|we\b)[a-z]+ (?:did|does|will|can|should|could))\b"
    r"|you can|you'll|you should|you need|to (?:test|verify|run|try|use|reproduce)"
    r"|i will|i'll|i can|could|would|should|proposal|options?\b|questions?\b|acceptance|criteria|requirements?"
    r"|still (?:open|to do|missing)|risks?\b|limitations?|out of scope|deferred|blocked|blockers?|pending|future"
    r"|before\b|steps? to|instructions|approach|failing|failed",
    re.IGNORECASE,
)
# Which check a command in backticks is, by its words.
_COMMAND_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "types",
        re.compile(
            r"\b(?:mypy|pyright|tsc|typecheck|type-check|typing|dialyzer|check-types|types)\b"
            r"|^(?:npx |bunx )?(?:cargo|deno|gleam|astro|svelte)[ -](?:\+\w+ )?check\b"
        ),
    ),
    (
        "lint",
        re.compile(
            r"lint|\b(?:ruff|clippy|rubocop|flake8|black|prettier|fmt|format|biome|credo|vet|checkstyle|spotless\w*"
            r"|ktlint\w*|detekt|staticcheck|shellcheck|stylelint|rustfmt|analy[sz]e)\b|^(?:terraform|tofu|sam) validate\b"
            r"|manage\.py check\b"
        ),
    ),
    (
        "tests",
        re.compile(r"\b(?:tests?|pytest|jest|vitest|mocha|rspec|ctest|phpunit|playwright|cypress|spec|bats|ava|tap)\b|test[:_-]|gotestsum"),
    ),
    ("build", re.compile(r"\b(?:build|compile\w*|assemble|bundle|xcodebuild|package)\b")),
    ("checks", re.compile(r"\b(?:check|checks|ci|verify|validate|pre-?commit|tox|nox)\b")),
)


class Sentence(Struct):
    """One sentence or list item: as shown, and as lower-case tokens with code and quotes replaced by their class."""

    shown: str
    tokens: list[str]
    codes: list[str]
    is_item: bool = False
    # Paths named in the heading or the lead-in above.
    paths: tuple[str, ...] = ()
    # For each token that replaces code: the code.
    code_at: dict[int, str] = field(default_factory=dict)


_LETTERS = re.compile("[a-z]+")
_HEXADECIMAL = re.compile("[0-9a-f]{7}")


def may_claim(block: str) -> bool:
    """Whether a paragraph has a word that a claim needs: a cheap test that spares most of them the exact one."""
    text = block.lower()
    if any(stem in text for stem in TRIGGER_STEMS) or not TRIGGER_PARTS.isdisjoint(_LETTERS.findall(text)):
        return True
    return _HEXADECIMAL.search(text) is not None


def split_sentences(text: str, is_wanted: Callable[[str], bool] = may_claim) -> Iterator[Sentence]:
    """The sentences that can hold a claim: no code blocks, quotes, questions, open check boxes or sections about the future.

    Paragraphs that are not wanted are left out.
    """
    paths: tuple[str, ...] = ()
    for kind, block in _current_blocks(text):
        is_lead = _may_name_files(kind, block)
        if not is_lead and not is_wanted(block):
            continue
        whole = _prepare_block(block)
        if is_lead:
            paths = tuple(code for code in whole[1] if is_path(code))[:5]
        for sentence in _cut_sentences(*whole):
            sentence.is_item = kind in ("item", "checked") or sentence.shown[:1] in "✅✓✔"
            sentence.paths = paths
            if sentence.tokens and sentence.tokens[-1] != "?":
                yield sentence


def _current_blocks(text: str) -> Iterator[tuple[str, str]]:
    """The blocks that are about what is, not about what is to be done or was before."""
    skipped_section = skipped_list = False
    for kind, block in _split_blocks(text):
        if kind == "heading":
            skipped_section = bool(_OTHER_SECTION.search(block)) and "✅" not in block
            skipped_list = False
        elif kind == "open" or (kind == "item" and (skipped_list or skipped_section)):
            continue
        elif kind == "text":
            lead = block.rstrip().endswith((":", ":**", "：")) and len(block) < 200
            skipped_list = lead and bool(_OTHER_SECTION.search(block.rsplit(". ", 1)[-1]))
            if lead and len(block) < 60 and (block.startswith("**") or block.startswith("__")):
                skipped_section = skipped_list
        if not skipped_section or kind == "checked":
            yield kind, block


def _may_name_files(kind: str, block: str) -> bool:
    """Whether a block is a heading or a lead-in, whose files the items below it are about."""
    return kind == "heading" or (kind == "text" and len(block) < 200 and block.lstrip().startswith(("**", "`")))


class _Block:
    """The paragraph or list item that is being read."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.kind = "text"

    def take(self) -> Iterator[tuple[str, str]]:
        if self.lines:
            yield self.kind, " ".join(self.lines)
        self.lines, self.kind = [], "text"

    def begin_item(self, box: str, line: str) -> None:
        """Begin a list item; the text of an open check box is left out."""
        self.kind = {"[x]": "checked", "[ ]": "open"}.get(box, "item")
        self.lines = [line]

    def add(self, line: str) -> None:
        self.lines.append(line)


def _split_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs ("text"), "heading"s, list "item"s, check boxes ("checked", "open") and table rows (as "item"); no code blocks."""
    fence = ""
    block = _Block()
    if "```" in text:
        text = _REPORT.sub(r"\1", text)
    for line in text.splitlines():
        bare = line.strip()
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
        elif not bare or bare.startswith((">", "<!--", "```", "~~~")):
            yield from block.take()
            fence = bare[:3] if bare.startswith(("```", "~~~")) else ""
        elif _HEADING.match(line) or bare[0] == "|":
            yield from block.take()
            if bare[0] == "#":
                yield "heading", bare.lstrip("# ")
            elif not _TABLE_RULE.match(bare):
                yield "item", " : ".join(cell.strip() for cell in bare.strip("|").split("|"))
        elif mark := _LIST_MARK.match(line):
            yield from block.take()
            block.begin_item((mark.group(1) or "").strip().lower(), line[mark.end() :].strip())
        else:
            if bare[0] in "✅✓✔❌⚠" or (bare.startswith("**") and block.kind == "text"):
                yield from block.take()
            block.add(bare)
    yield from block.take()


def _prepare_block(block: str) -> tuple[str, list[str]]:
    """The block without Markdown; code spans and addresses are replaced by placeholders and returned."""
    codes: list[str] = []

    def keep(found: re.Match[str]) -> str:
        if len(codes) >= 999:
            return " "
        if found.lastindex:
            codes.append(found.group(1))
            # A sentence may end inside of the code; `go test ./...` is no end.
            is_end = found.group(1).endswith((".", "!")) and " " in found.group(1) and not found.group(1).endswith("...")
            return f"\x00{len(codes) - 1}\x00" + ("." if is_end else "")
        codes.append(found.group(0).rstrip(".,;:!?"))
        return f"\x00{len(codes) - 1}\x00" + found.group(0)[len(codes[-1]) :]

    block = block[:8000].replace("\x00", "").replace(_QUOTE_MARK, "")
    if "`" in block:
        block = _CODE.sub(keep, block)
    if "](" in block:
        block = _LINK.sub(lambda m: f"{m.group(1)} {m.group(2)}" if PULL_URL.search(m.group(2)) else m.group(1), block)
    if "://" in block:
        block = _URL.sub(keep, block)
    if "*" in block or "_" in block or "~" in block:
        block = _EMPHASIS.sub("", block)
    if (found := _PLAIN_COMMAND.match(block)) and found.group(2) in RUNNERS and len(codes) < 999:
        codes.append(found.group(1))
        block = f"{block[: found.start(1)]}\x00{len(codes) - 1}\x00{block[found.end(1) :]}"
    return block, codes


def _cut_sentences(block: str, codes: list[str]) -> Iterator[Sentence]:
    for part in cut_sentences(block):
        yield _tokenise_sentence(part[:LONGEST_SENTENCE], codes)


def _normalise_sentence(part: str) -> str:
    """The sentence with quotes masked and a few phrases in one form."""
    matched = part.replace("’", "'")
    if '"' in matched or "'" in matched or "“" in matched or "«" in matched:
        matched = _QUOTED.sub(f" {_QUOTE_MARK} ", matched)
    if "check" in matched:
        matched = _CHECK_OF.sub(r"\1", _TYPE_CHECK.sub("type-check", matched))
    if "confirm" in matched:
        matched = _CAN_CONFIRM.sub("I confirmed", matched)
    if "ly" in matched or "once" in matched:
        matched = _WAS_RED.sub("affected", matched)
    if " now " in matched:
        matched = _BROKEN_BEFORE.sub("affected", matched)
    return matched


def join_thousands(text: str) -> str:
    """The text with numbers such as `1,234` written as `1234`."""
    return _THOUSANDS.sub(lambda found: found.group().replace(",", ""), text) if "," in text else text


def _tokenise_sentence(part: str, codes: list[str]) -> Sentence:
    shown, used = part, list[str]()
    if "\x00" in part:
        used = [codes[int(found.group(1))] for found in _PLACEHOLDER.finditer(part)]
        shown = _PLACEHOLDER.sub(lambda found: codes[int(found.group(1))], part)
    matched = _normalise_sentence(part)
    tokens: list[str] = []
    code_at: dict[int, str] = {}
    for word in _TOKEN.findall(join_thousands(matched.lower())):
        if word[0] == "\x00":
            code = codes[int(word[1:-1])]
            for number, command in enumerate(code.split(" && ")[:6]):
                tokens += ["and"] if number else []
                code_at[len(tokens)] = command
                tokens.append(_class_of_code(command))
        elif word == _QUOTE_MARK:
            tokens.append("QUOTE")
        elif "/" in word and len(parts := word.split("/")) < 5 and all(part in _SUBJECTS for part in parts):
            # "Tests/lint pass."
            tokens += [token for part in parts for token in (part, "/")][:-1]
        else:
            tokens.append(word)
    if matched.rstrip("\"')] ").endswith("?"):
        tokens.append("?")
    return Sentence(shown=" ".join(shown.split()), tokens=tokens, codes=used, code_at=code_at)


def _class_of_code(code: str) -> str:
    """A token for code: a commit, a pull request's address, a command that checks something, or just CODE."""
    bare = code.strip()
    if len(bare) <= 40 and SHA.match(bare):
        return bare
    if bare.startswith(("http://", "https://")):
        return "PULL_URL" if PULL_URL.search(bare) else "URL"
    words = bare.split()
    if words[:1] == ["git"]:
        return "GIT"
    if words[1:2] and words[1] in ("ci", "install", "i", "add", "sync", "fetch", "update", "upgrade"):
        return "CODE"
    if (words and (words[0] in RUNNERS or words[0].rpartition("/")[2] in RUNNERS)) or (len(words) == 1 and words[0] in CHECK_HEADS):
        for kind, pattern in _COMMAND_KINDS:
            if pattern.search(bare):
                return f"RUN_{kind.upper()}"
        return "CODE"
    if len(words) == 1 and "test" in bare.lower() and is_path(bare) and not bare.endswith((".txt", ".md", ".json", ".csv", ".log", ".png")):
        return "TEST_FILE"
    return "CODE"


def is_path(text: str) -> bool:
    """Whether text looks like the path of a file or folder."""
    if not _PATH.fullmatch(text):
        return False
    name, _, ending = text.rpartition(".")
    return "/" in text or bool(name and _ENDING.fullmatch(ending)) or _DOTFILE.fullmatch(text) is not None
