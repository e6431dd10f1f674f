"""Find claims of success in the text of an answer, a commit message, a pull request or a task report.

A claim is a sentence or list item that says, as a fact, that something is the case now: "All 42 tests pass, and I pushed"
holds two. Plans, conditions, questions, negations, quotes, code, instructions, descriptions of code and earlier states are
no claims. The word tables below are the rules; a sentence is cut into tokens once, and every rule looks at the tokens.
"""

import re
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.claim_sentences import PULL_URL, SHA, Sentence, is_path, may_claim, split_sentences
from fleetlore.views.outcomes.claim_words import (
    ALL_TRIGGERS,
    ALL_WORDS,
    BREAKS,
    BUILT_FOLLOWERS,
    CAUSE_WORDS,
    CHANGED_TRIGGERS,
    CHECK_ADJECTIVES,
    CHECK_HEADS,
    CHECK_MARKS,
    CHECK_OBJECTS,
    CHECK_TRIGGERS,
    DETERMINERS,
    DONE_TRIGGERS,
    EARLIER_WORDS,
    EXCEPT_WORDS,
    FAILURE_WORDS,
    FIXED_TRIGGERS,
    FUSED_VERBS,
    GENERAL_HEADS,
    GONE_WORDS,
    HARD_CONDITIONS,
    HOOK_WORDS,
    IMPERATIVES,
    ISSUE_WORDS,
    LIGHT_WORDS,
    LINKING_WORDS,
    NEW_PART,
    NO_PART,
    NONE_WORDS,
    NOT_WORDS,
    NOUN_FOLLOWERS,
    OBJECT_STARTS,
    OK_WORDS,
    OTHER_SUBJECTS,
    PARTIAL_WORDS,
    PULL_TRIGGERS,
    REPORTED_WORDS,
    RESULT_WORDS,
    SOFT_CONDITIONS,
    STOP_WORDS,
    TEST_FOLLOWERS,
    TEST_HEADS,
    TEST_TOOLS,
    TRANSITIVE,
    UNREAL_WORDS,
    VERB_FOLLOWERS,
)
from fleetlore.views.outcomes.facts import CheckKind

ClaimKind = Literal["tests_pass", "build_or_lint_ok", "committed", "pushed", "pr_opened", "fixed", "done", "file_state", "other"]
ClaimPlace = Literal["answer", "commit", "pull_request", "task"]

LONGEST_TEXT = 24_000
MOST_CLAIMS = 60


class ClaimText(Struct, frozen=True):
    """A claim as it is written, and what it is about."""

    text: str
    kind: ClaimKind
    # "all", "every", "the full suite".
    everything: bool = False
    # The named part of the tests ("unit", "explain-related"), in lower case; empty if none is named.
    part: tuple[str, ...] = ()
    # "42 tests": 42.
    count: int | None = None
    # For build_or_lint_ok: which checks; empty for "all checks pass".
    checks: tuple[CheckKind, ...] = ()
    # Names of tools in the claim, such as "mypy".
    tools: tuple[str, ...] = ()
    # "All checks pass", "all clean": no check is named.
    general: bool = False
    sha: str = ""
    number: str = ""
    paths: tuple[str, ...] = ()
    # "except two flaky ones": the claim admits failures.
    qualified: bool = False
    # Mentions a commit or pull request without saying that it was made now.
    reference: bool = False
    # "is already pushed": says nothing about this session.
    earlier: bool = False
    # The agent says that it did it ("I pushed", "Committed as …"), not that it is so.
    own_act: bool = False


def extract_claims(text: str, where: ClaimPlace = "answer") -> tuple[ClaimText, ...]:
    """Factual claims of success in `text`, in order; at most `MOST_CLAIMS`. Never raises."""
    if not text:
        return ()
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT // 2] + "\n\n" + text[-LONGEST_TEXT // 2 :]
    found: dict[tuple[str, str], ClaimText] = {}
    bare = lead = ""

    def is_wanted(block: str) -> bool:
        return bool(bare or lead) or may_claim(block) or block[:4].lower() in ("veri", "vali", "test")

    for sentence in split_sentences(text, is_wanted):
        claims = _read_claims(sentence, where) or _verified_claims(sentence, lead)
        lead = _find_lead(sentence, lead)
        if bare and not claims:
            claims = [ClaimText(text=f"{bare} {sentence.shown}", kind="done")]
        # "Done." says nothing without the sentence after it.
        is_bare = len(sentence.tokens) <= 3 and any(claim.kind == "done" for claim in claims)
        bare = sentence.shown if is_bare else ""
        if not is_bare:
            found.update({(claim.kind, claim.text): claim for claim in claims})
        if len(found) >= MOST_CLAIMS:
            break
    if bare:
        found["done", bare] = ClaimText(text=bare, kind="done")
    return tuple(found.values())[:MOST_CLAIMS]


def _read_claims(sentence: Sentence, where: ClaimPlace) -> list[ClaimText]:
    present = set(sentence.tokens)
    is_possible = not present.isdisjoint(ALL_TRIGGERS) or _has_commit_id(present)
    return _find_claims(sentence, present, where) if is_possible else []


def _find_claims(sentence: Sentence, present: set[str], where: ClaimPlace) -> list[ClaimText]:
    tokens = sentence.tokens
    first = next((t for t in tokens if t not in ("✅", "✓", "✔", "☑", "-", ":", "(", ",")), "")
    if "?" in tokens or first in HARD_CONDITIONS or tokens[:2] in (["that", "way"], ["this", "way"]):
        return []
    # "Verify: `go vet` clean": a label, no instruction.
    start = 2 if first in ("verify", "verification") and tokens[1:2] == [":"] else 0
    if first in SOFT_CONDITIONS and "," in tokens:
        start = tokens.index(",") + 1
    # "Review comments — both were fixed": a label, no instruction.
    has_label = any(t in ("—", "–", "-", ":") for t in tokens[1:6])
    second = tokens[tokens.index(first) + 1] if first and tokens.index(first) + 1 < len(tokens) else ""
    if first in IMPERATIVES and not has_label and second not in NOUN_FOLLOWERS and not SHA.match(second):
        return []
    found = [] if present.isdisjoint(CHECK_TRIGGERS) else _check_claims(sentence, start)
    if where in ("commit", "pull_request"):
        # "Pushed" and "added" in a commit message describe the change, not the session.
        return found
    for word, kind in _ACTS:
        if word in present or (kind == "pushed" and not present.isdisjoint(("force-pushed", "re-pushed"))):
            found += _act_claims(sentence, start, word, kind)
    if (
        not present.isdisjoint(("push", "commit", "commits"))
        and (low := _find_push(tokens, start)) is not None
        and _is_fact(tokens, start, low, low + 1)
    ):
        found.append(ClaimText(text=sentence.shown, kind="pushed"))
    if tokens[:2] == ["commit", ":"] and tokens[2:3] in (["CODE"], ["QUOTE"]):
        found.append(ClaimText(text=sentence.shown, kind="committed", own_act=True))
    has_commit = not present.isdisjoint(("commit", "commits")) or _has_commit_id(present)
    if has_commit and not any(claim.kind == "committed" for claim in found):
        found += _commit_references(sentence, start)
    if not present.isdisjoint(PULL_TRIGGERS):
        found += _pull_claims(sentence, start)
    found += _work_claims(sentence, start, found, present)
    return found


_VERIFIED = make_word_set("verified validated verification validation tested")
_VERIFIED_WITH = make_word_set("with : by using via")


def _find_lead(sentence: Sentence, lead: str) -> str:
    """ "Verified with:", as long as commands follow it as items of a list."""
    tokens = sentence.tokens
    if tokens[-1:] == [":"] and len(tokens) < 5 and tokens[0] in _VERIFIED:
        return sentence.shown
    return lead if len(tokens) == 1 and (tokens[0] == "CODE" or tokens[0].startswith("RUN_")) else ""


def _verified_claims(sentence: Sentence, lead: str) -> list[ClaimText]:
    """ "Verified with `npm test` and `npm run lint`", also as a list: that these commands passed."""
    tokens = sentence.tokens
    place = 1 if tokens[:1] in (["i"], ["we"], ["also"]) else 0
    is_said = len(tokens) > place + 2 and tokens[place] in _VERIFIED and tokens[place + 1] in _VERIFIED_WITH
    if not (is_said or (lead and len(tokens) == 1)) or not NOT_WORDS.isdisjoint(tokens):
        return []
    text = sentence.shown if is_said else f"{lead} {sentence.shown}"
    kinds = tuple(dict.fromkeys(token[4:].lower() for token in tokens if token in ("RUN_LINT", "RUN_TYPES", "RUN_BUILD")))
    found = [ClaimText(text=text, kind="tests_pass", qualified=True)] if "RUN_TESTS" in tokens else []
    if kinds:
        found.append(ClaimText(text=text, kind="build_or_lint_ok", checks=kinds, qualified=True))  # type: ignore[arg-type]
    return found


def _has_commit_id(tokens: set[str]) -> bool:
    return any(len(token) > 6 and token[0] in "0123456789abcdef" and SHA.match(token) for token in tokens)


def _check_claims(sentence: Sentence, start: int) -> list[ClaimText]:
    """Claims that tests, linters, type checkers or builds are fine."""
    tokens, found = sentence.tokens, dict[str, ClaimText]()
    index = since = start
    while index < len(tokens):
        if tokens[index] not in CHECK_TRIGGERS:
            index += 1
            continue
        heads, low, high = _statement_at(tokens, index)
        if not heads or not _is_fact(tokens, start, low, high):
            index += 1
            continue
        for place, name in heads:
            if name == "general" and _says_some_of(tokens[max(start, place - 3) : place]):
                continue
            claim = _check_claim(sentence, place, name, (since, low, high), is_listed=len(heads) > 1)
            since = place + 1
            old = found.get(claim.kind)
            found[claim.kind] = claim if old is None else _merge_claims(old, claim)
            if name == "general" and claim.kind == "tests_pass":
                found.setdefault("build_or_lint_ok", _replace_kind(claim, "build_or_lint_ok"))
        index = since = high + 1
    if "tests_pass" not in found:
        count = _bare_count(tokens, start)
        if count is None:
            count = _no_failures(tokens, start)
        if count is not None:
            found["tests_pass"] = ClaimText(text=sentence.shown, kind="tests_pass", count=count or None)
    return list(found.values())


def _says_some_of(before: list[str]) -> bool:
    """ "2 of 5" checks."""
    return len(before) == 3 and before[1] == "of" and before[0].isdecimal() and before[2].isdecimal() and before[0] != before[2]


def _statement_at(tokens: list[str], index: int) -> tuple[list[tuple[int, str]], int, int]:
    """The subjects of a statement whose first subject is at `index`, and its first and last token; no subjects if there is none."""
    head = _head_at(tokens, index)
    if head is None:
        return [], 0, 0
    heads = [(index, head)]
    end = _result_after(tokens, index, heads)
    if end is None:
        heads = heads[:1]
        end = _result_before(tokens, index, head)
    if end is None:
        return [], 0, 0
    if head == "general" and len(heads) > 1:
        # "Verification: lint and types passed" is about the checks that it names.
        heads = heads[1:]
    return heads, min(index, end), max(heads[-1][0], end)


def _no_failures(tokens: list[str], start: int) -> int | None:
    """ "0 failures across 120 tests": 120; 0 if tests are named without a number."""
    for place in range(start, len(tokens) - 1):
        if tokens[place] in NONE_WORDS and tokens[place + 1] in ("failures", "failed") and _is_fact(tokens, start, place, place + 1):
            named = [i for i, token in enumerate(tokens) if token in TEST_HEADS or token in ("examples", "scenarios")]
            if named:
                number = tokens[named[-1] - 1] if named[-1] else ""
                return int(number) if number.isdecimal() and len(number) < 8 else 0
    return None


def _head_at(tokens: list[str], index: int) -> str | None:
    """What the token is about as the subject of a check: "tests", a kind of check, "general", or None."""
    token = tokens[index]
    following = tokens[index + 1] if index + 1 < len(tokens) else ""
    if token in TEST_HEADS:
        if token in ("test", "spec") and following not in TEST_FOLLOWERS:
            return None
        return "tests"
    if token in ("RUN_TESTS", "TEST_FILE") or (token in TEST_TOOLS and following in (":", "—", "–", "→")):
        return "tests"
    if token.startswith("RUN_"):
        return "general" if token == "RUN_CHECKS" else token[4:].lower()
    if token in CHECK_HEADS:
        return CHECK_HEADS[token]
    if token in ("type", "compiler", "syntax") and following in ISSUE_WORDS:
        return "types" if token == "type" else "build"
    if token == "ci":
        return "ci"
    if token in GENERAL_HEADS:
        is_other_word = (token in ("all", "both") and following not in OK_WORDS and following != "now") or (
            token == "checks" and following in CHECK_OBJECTS
        )
        return None if is_other_word else "general"
    return None


def _result_after(tokens: list[str], head: int, heads: list[tuple[int, str]]) -> int | None:
    """The place of the word that says that the check at `head` is fine; further subjects on the way are added to `heads`."""
    if _is_fused(tokens, head):
        return head
    unknown = depth = 0
    for place in range(head + 1, min(head + 18, len(tokens))):
        token = tokens[place]
        if token in RESULT_WORDS:
            if token in CHECK_MARKS and not _MADE_WORDS.isdisjoint(tokens[head + 1 : place]):
                return None  # "tests added ✅"
            return _result_at(tokens, place, head)
        if heads[0][1] == "tests" and _is_whole(token) and not "".join(tokens[place + 1 : place + 2]).isalpha():
            return place
        if token in ("works", "working") and heads[0][1] == "build" and not unknown:
            return place if _may_end(tokens, place) else None
        if token in STOP_WORDS or unknown > 5 or _is_part(token) or (token == "checks" and tokens[place + 1 : place + 2] == ["that"]):
            return None
        if token in "()":
            depth = max(0, depth + (1 if token == "(" else -1))
        elif depth:
            # "Pre-commit hooks (tests, lint, typecheck) all passed."
            if tokens[head] in HOOK_WORDS and (name := _head_at(tokens, place)) is not None and name != "general":
                heads.append((place, name))
        elif (name := _head_at(tokens, place)) is not None:
            heads += [(place, name)] if name != "general" else []
            if _is_fused(tokens, place):
                return place
        elif token not in LINKING_WORDS and not token.isdecimal():
            unknown += 1
    return None


def _result_at(tokens: list[str], place: int, head: int) -> int | None:
    """Where the result at `place` ends: "passes", "no errors", "issues are fixed"; None if it is none."""
    token = tokens[place]
    following = tokens[place + 1] if place + 1 < len(tokens) else ""
    if (token == "happy" and following.startswith(("path", "case"))) or (token == "success" and following.isalpha()):
        return None
    if token in OK_WORDS:
        return None if token in TRANSITIVE and not _may_end(tokens, place) else _whole_count(tokens, place)
    if token in NONE_WORDS:
        if token == "0" and tokens[place - 1] in ("exits", "exit", "exited", "code", "status", "returns", "returned"):
            return place
        return _find_in(tokens, place + 1, 3, ISSUE_WORDS)
    return None if tokens[head] in TEST_HEADS else _find_in(tokens, place + 1, 4, GONE_WORDS)


def _is_fused(tokens: list[str], place: int) -> bool:
    token, following = tokens[place], tokens[place + 1] if place + 1 < len(tokens) else ""
    if token not in FUSED_VERBS:
        return False
    if token == "builds" and tokens[max(0, place - 1)] in _BUILD_NOUNS:
        return False
    if token == "built":
        return following in BUILT_FOLLOWERS  # "what was built", "built on top of it": made, not compiled
    return _may_end(tokens, place) and (token == "lint-clean" or following in VERB_FOLLOWERS or not following.isalpha())


def _find_in(tokens: list[str], start: int, size: int, wanted: frozenset[str]) -> int | None:
    return next((place for place in range(start, min(start + size, len(tokens))) if tokens[place] in wanted), None)


def _is_part(token: str) -> bool:
    """ "11/12": not all."""
    number, _, of = token.partition("/")
    return number.isdecimal() and of.isdecimal() and number != of


def _is_whole(token: str) -> bool:
    """ "12/12": all."""
    number, _, of = token.partition("/")
    return number.isdecimal() and number == of and number.strip("0") != ""


def _result_before(tokens: list[str], head: int, name: str) -> int | None:
    """ "No lint errors", "passes all tests", "a clean build", "0 type errors", "fixed all lint issues"."""
    before = tokens[max(0, head - 5) : head]
    following = tokens[head + 1 : head + 3]
    if before[-5:-4] + before[-3:-2] == ["no", "or"] and before[-4] in ISSUE_WORDS and before[-2] in ISSUE_WORDS and before[-1] == "from":
        return head - 5  # "no errors or warnings from clippy"
    if (before[-2:-1] and before[-2] in NONE_WORDS and before[-1] in ISSUE_WORDS) or (
        before[-3:-2] and before[-3] in NONE_WORDS and before[-2] in ISSUE_WORDS and before[-1] in ("from", "in", "by")
    ):
        # "No failing tests", "no errors from mypy".
        return head - 2
    if before[-1:] and before[-1] in CHECK_MARKS and following[:1] in ([], [","], ["and"], ["("], [")"]):
        return head - 1
    if any(word in ISSUE_WORDS for word in following):
        issue = head + 1 + next(i for i, word in enumerate(following) if word in ISSUE_WORDS)
        near = tokens[max(0, head - 2) : head]
        if any(word in NONE_WORDS for word in near):
            return issue
        if name != "tests" and any(word in ("fixed", "resolved", "cleared", "addressed") for word in before) and "all" in before:
            return issue
        return None
    for back, word in enumerate(reversed(before), start=1):
        if word in ("passes", "passed", "pass", "passing") and name != "ci":
            return head - back
        if word in ("clean", "successful", "green") and back <= 2 and name in ("build", "lint", "types", "tests"):
            return head - back
        if word not in LIGHT_WORDS and word not in NO_PART and not word.isdecimal() and _head_at(tokens, head - back) is None:
            return None
    return None


def _may_end(tokens: list[str], place: int) -> bool:
    """Whether the verb at `place` has no object."""
    following = tokens[place + 1] if place + 1 < len(tokens) else ""
    return following not in OBJECT_STARTS and not (following == "through" or following == "QUOTE")


def _whole_count(tokens: list[str], place: int) -> int | None:
    """`place`, unless the runner's summary goes on with failures: "41 passed, 1 failed"."""
    for i in range(place + 1, min(place + 6, len(tokens))):
        is_failure = tokens[i] in ("failed", "failures", "failure", "failing", "errors", "errored", "error")
        if is_failure and tokens[i - 1].isdecimal() and int(tokens[i - 1][:9]) > 0:
            return None
    return place


def _bare_count(tokens: list[str], start: int) -> int | None:
    """ "42 passed, 0 failed", "42/42 passing": the number of tests."""
    for place in range(start + 1, len(tokens)):
        if tokens[place] in ("passed", "passing", "pass", "green"):
            number, _, of = tokens[place - 1].partition("/")
            if number.isdecimal() and len(number) < 8 and (not of or of == number) and _whole_count(tokens, place) is not None:
                if place - 2 >= start and tokens[place - 2] == "/" and tokens[place - 3 : place - 2] != [number]:
                    continue
                if _is_fact(tokens, start, place - 1, place):
                    return int(number)
    return None


def _is_fact(tokens: list[str], start: int, low: int, high: int) -> bool:
    """Whether the words around a match state it as a fact of now, said by the agent itself."""
    left = start
    for place in range(low - 1, start - 1, -1):
        if tokens[place] in BREAKS or (tokens[place] == "," and tokens[place + 1] in ("and", "so", "all", "no")):
            left = place + 1
            break
    before, inside = tokens[left:low], tokens[low : high + 1]
    if any(word in UNREAL_WORDS or word in REPORTED_WORDS or word in EARLIER_WORDS for word in before):
        return False
    if any(word in ("check", "checks", "checking") and next_ in CHECK_OBJECTS for word, next_ in pairwise(before)):
        return False
    if any(word in CAUSE_WORDS for word in before[-4:]) or any(word in PARTIAL_WORDS for word in before[-5:]):
        return False
    return not _is_negated(before, inside) and not _is_condition(before, inside) and _goes_on_as_fact(tokens[high + 1 : high + 9])


def _is_negated(before: list[str], inside: list[str]) -> bool:
    if "and" in before:
        # "The failing tests are fixed and the whole suite passes": a negation before "and" is over if a verb came after it.
        last = len(before) - 1 - before[::-1].index("and")
        if any(word in GONE_WORDS or word in ("is", "are", "was", "were") for word in before[:last]):
            before = before[last + 1 :]
    if any(word in NOT_WORDS and word not in NONE_WORDS for word in before):
        return True
    has_issue = any(word in ISSUE_WORDS for word in inside)
    if not has_issue and any(word in NONE_WORDS for word in before[-3:]):
        return True
    return any(word in NOT_WORDS and word not in NONE_WORDS and word not in ISSUE_WORDS for word in inside)


def _is_condition(before: list[str], inside: list[str]) -> bool:
    # "After all tests pass, …" is a condition; "after `npm ci` all tests pass" is none.
    if "after" in before[-4:] and all(word in DETERMINERS or word.isdecimal() for word in before[before.index("after") + 1 :]):
        return True
    # "The tests were passing on main" is about another time.
    return "passing" in inside and ("was" in inside or "were" in inside)


def _goes_on_as_fact(right: list[str]) -> bool:
    """Whether what follows a match does not make it a condition or an earlier state."""
    for place, word in enumerate(right):
        following = right[place + 1] if place + 1 < len(right) else ""
        if word in (";", "—", "–", "."):
            return True
        if word in ("if", "unless", "until", "once", "previously", "originally", "initially", "yet", "?"):
            return False
        if place < 3 and word in ("required", "needed", "necessary", "mandatory", "expected"):
            return False
        if word == "before" and following in ("the", "my", "this", ""):
            return False
        if word == "when" and following not in ("run", "i", "running"):
            return False
    return True


def _check_claim(sentence: Sentence, place: int, name: str, span: tuple[int, int, int], *, is_listed: bool = False) -> ClaimText:
    """The claim about the subject at `place`; `span` is where its own words can begin, the match's first and last token."""
    tokens, (since, low, high) = sentence.tokens, span
    around = tokens[max(since, low - 6) : max(low, place)]
    for cut in range(len(around) - 1, -1, -1):
        if around[cut] in BREAKS or (around[cut] == "," and name != "tests"):
            around = around[cut + 1 :]
            break
    everything = name in ("general", "ci") or any(word in ALL_WORDS for word in around)
    # "Tests all pass"; but in "tests, lint and types all pass" it means the items of the list.
    everything = everything or ("all" in tokens[place : high + 1] and not is_listed)
    parenthesis = _parenthesis_after(tokens, place)
    part: list[str] = []
    if name == "tests":
        part = _named_part(sentence, place, parenthesis)
    elif name == "ci":
        part = ["ci"]
    counts = [int(w) for w in (*around, *tokens[low : high + 1], *parenthesis) if w.isdecimal() and len(w) < 8 and w != "0"]
    counts += [int(w.partition("/")[0]) for w in (*around, *tokens[low : high + 1]) if re.fullmatch(r"(\d{1,7})/\1", w)]
    is_check = name in ("lint", "types", "build")
    if name == "general" and any(_is_word(word) and word not in NO_PART and word not in CHECK_ADJECTIVES for word in around[-2:]):
        # "All syntax checks pass" is not about tests.
        is_check = True
    tool = tokens[place] if is_check and tokens[place] not in ("lint", "types", "build") and not tokens[place].isupper() else ""
    return ClaimText(
        text=sentence.shown,
        kind="build_or_lint_ok" if is_check else "tests_pass",
        everything=everything,
        part=tuple(part),
        count=counts[-1] if counts and name == "tests" else None,
        checks=(name,) if is_check and name != "general" else (),  # type: ignore[arg-type]
        tools=(tool,) if tool else (),
        general=name == "general",
        qualified=any(word in EXCEPT_WORDS for word in tokens[high + 1 : high + 12]) or _admits_failure(tokens[:low]),
    )


def _admits_failure(before: list[str]) -> bool:
    """ "`npm test` still times out, but the new suites pass": whether the words before "but" report a failure."""
    if "but" not in before:
        return False
    said = before[: len(before) - 1 - before[::-1].index("but")]
    return any(word in FAILURE_WORDS for word in said)


def _named_part(sentence: Sentence, place: int, parenthesis: list[str]) -> list[str]:
    """The part of the tests that the subject at `place` names: "unit", "explain-related", the file in "tests in `api.py` pass".

    ["new"] stands for tests of this turn that are not named otherwise.
    """
    tokens = sentence.tokens
    part = _read_adjectives(sentence, place)
    if tokens[place] == "TEST_FILE":
        part.append(_base_name(sentence.code_at.get(place, "")))
    following = tokens[place + 1 : place + 4]
    if following[:1] and following[0] in ("in", "for", "of", "under"):
        named = place + (3 if following[1:2] == ["the"] else 2)
        if named in sentence.code_at:
            part.append(_base_name(sentence.code_at[named]))
        elif named < len(tokens) and _is_word(tokens[named]) and tokens[named] not in NO_PART:
            part.append(tokens[named])
    part += [word for word in parenthesis if word not in NO_PART and word not in OK_WORDS and _is_word(word)][:4]
    before = tokens[max(0, place - 4) : place]
    if not part and "existing" not in before and any(word in NEW_PART or word == "wrote" for word in before):
        return ["new"]
    return [word for word in part if word]


def _read_adjectives(sentence: Sentence, place: int) -> list[str]:
    """The words right before a subject that name a part of it."""
    tokens, part = sentence.tokens, list[str]()
    for at in range(place - 1, max(-1, place - 8), -1):
        word = tokens[at]
        is_joint = word in ("and", "&", "/", ",") and bool(part) and at > 0 and tokens[at - 1] not in NO_PART
        if is_joint or word in NEW_PART:
            continue
        if word == "CODE":
            part.append(_base_name(sentence.code_at.get(at, "")))
        elif word in NO_PART or word in ISSUE_WORDS or not _is_word(word):
            break
        else:
            part.append(word)
    return part[:4]


def _base_name(code: str) -> str:
    return code.strip().rstrip("/").rsplit("/", 1)[-1].lower()[:80]


def _is_word(word: str) -> bool:
    return len(word) > 1 and (word[0].isalpha() or word == "CODE") and word not in ("QUOTE", "CODE", "URL", "PULL_URL")


def _parenthesis_after(tokens: list[str], place: int) -> list[str]:
    """The words in parentheses right after a subject or its verb: "tests pass (unit and integration)"."""
    for index in range(place + 1, min(place + 4, len(tokens))):
        if tokens[index] == "(":
            inside = tokens[index + 1 : index + 14]
            return inside[: inside.index(")")] if ")" in inside else inside
    return []


def _merge_claims(old: ClaimText, new: ClaimText) -> ClaimText:
    """One claim of two in the same sentence: "lint and types are clean"."""
    return ClaimText(
        text=old.text,
        kind=old.kind,
        everything=old.everything or new.everything,
        part=old.part or new.part,
        count=old.count if old.count is not None else new.count,
        checks=tuple(dict.fromkeys((*old.checks, *new.checks))),
        tools=tuple(dict.fromkeys((*old.tools, *new.tools))),
        general=old.general and new.general,
        qualified=old.qualified or new.qualified,
    )


def _replace_kind(claim: ClaimText, kind: ClaimKind) -> ClaimText:
    return ClaimText(text=claim.text, kind=kind, everything=claim.everything, general=True, qualified=claim.qualified)


# --- Commits, pushes, pull requests ----------------------------------------------------------------------------------

_ACT_BEFORE = make_word_set(
    "i we i've we've have has been was were is are now and also then all everything successfully , : - – — ( just both it already"
    " finally done force is: → + & ✅ ✓ ✔ got changes change fix fixes commit commits branch work code update updates files file"
    " it's they're that's which"
)
_ACT_AFTER = make_word_set(
    ", . ; : ! ( ) and to as in on at with — – - the all both my these this it them successfully cleanly up for"
    " everything changes your our from straight directly → only locally here now again as-is a one two three"
)
_NOT_PUSHED = make_word_set("onto into down out off over aside forward further against stack queue array button boundaries limits")


_ACTS: tuple[tuple[str, ClaimKind], ...] = (("committed", "committed"), ("amended", "committed"), ("pushed", "pushed"))


def _act_claims(sentence: Sentence, start: int, word: str, kind: ClaimKind) -> list[ClaimText]:
    """Claims with "committed", "amended" or "pushed"."""
    tokens = sentence.tokens
    for place in range(start, len(tokens)):
        token = tokens[place]
        if token != word and not token.endswith(f"-{word}"):
            continue
        before = tokens[place - 1] if place > start else ""
        after = tokens[place + 1] if place + 1 < len(tokens) else ""
        fits_before = not before or before in _ACT_BEFORE
        if before == "," and kind == "committed" and after.isalpha() and after not in _ACT_AFTER and after.islower():
            continue  # "one canonical, committed copy"
        fits_after = not after or after in _ACT_AFTER or bool(SHA.match(after)) or after in ("CODE", "QUOTE", "PULL_URL", "GIT")
        if not fits_before and (not fits_after or before in ("the", "a", "an", "any", "be", "being", "not", "get", "gets", "to")):
            continue
        if kind == "pushed" and (after in _NOT_PUSHED or any(t in _NOT_PUSHED for t in tokens[place + 1 : place + 6])):
            continue
        if not _is_act(tokens, start, place):
            continue
        return [
            ClaimText(
                text=sentence.shown,
                kind=kind,
                everything=any(t in ALL_WORDS for t in tokens[max(0, place - 6) : place + 4]),
                sha=next((t for t in tokens if SHA.match(t)), ""),
                number=_pull_number(sentence),
                earlier="already" in tokens[max(0, place - 4) : place],
                own_act=before in ("", "i", "we", "i've", "we've", "and", "then", "also", ",", ":", "—", "–", "-", "(", "successfully"),
            )
        ]
    return []


def _is_act(tokens: list[str], start: int, place: int) -> bool:
    """Whether the participle at `place` states what was done in this session."""
    left = start
    for index in range(place - 1, start - 1, -1):
        if tokens[index] in BREAKS - {"(", ")"} or (tokens[index] == "(" and index == place - 1):
            left = index + 1
            break
    before = tokens[left:place]
    if before[-1:] == ["and"] and before[0] in CHANGED_TRIGGERS:
        before = []  # "Moved the todo to done/ and committed."
    if any(w in UNREAL_WORDS or w in NOT_WORDS or w in REPORTED_WORDS or w in EARLIER_WORDS for w in before[-12:]):
        return False
    if any(w in OTHER_SUBJECTS for w in before[-5:]) and "i" not in before[-2:] and "i've" not in before[-2:]:
        return False
    right = tokens[place + 1 : place + 8]
    passive_now = any(w in ("is", "are", "gets", "get") for w in before[-2:])
    if passive_now and any(w in ("when", "automatically", "every", "each", "by", "via", "whenever", "during", "GIT") for w in right):
        return False
    return not any(w in ("yet", "?", "if", "unless", "once", "when") for w in right)


def _find_push(tokens: list[str], start: int) -> int | None:
    """ "The push succeeded", "the push went through"."""
    for place in range(start, len(tokens) - 1):
        if tokens[place] in ("commit", "commits") and _ON_REMOTE.match(" ".join(tokens[place + 1 : place + 6])):
            return place
        if tokens[place] == "push" and (
            tokens[place + 1] in ("succeeded", "complete", "completed", "successful") or tokens[place + 1 : place + 3] in _SUCCEEDED
        ):
            return place
    return None


_ON_REMOTE = re.compile(r"(?:is|are) (?:now |both |all )?on (?:the )?(?:pr|mr|pull request|remote|origin)\b")
_SUCCEEDED = (["went", "through"], ["was", "successful"], ["is", "done"], ["was", "accepted"])
_FIX_VERBS = make_word_set(
    "fixed added done addressed implemented landed resolved introduced shipped included applied updated removed merged"
)
_MADE_WORDS = CHANGED_TRIGGERS | make_word_set("written implemented reviewed planned defined covered stubs stub tbd")
# "Builds" after these is a noun, or about what a script does.
_BUILD_NOUNS = make_word_set(
    """production optimized release debug nightly ci docker static incremental previous old slow faster script workflow pipeline job step
    action target dev preview"""
)
_COMMIT_MADE = re.compile(
    r"\b(?:created|made|added|landed)\s+(?:(?:a|an|the|one|two|three|four|five|six|\d{1,3}|new|single|separate|follow-?up|local|atomic"
    r"|focused|final|clean|another|commit) ){0,4}commits?\b|\bcommits? (?:succeeded|created|made|went through|(?:was )?successful|is in)\b"
)


def _commit_references(sentence: Sentence, start: int) -> list[ClaimText]:
    """A commit that is named: "Commit: 4f2a91c", "fixed in 4f2a91c", "created two commits"."""
    tokens = sentence.tokens
    line = " ".join(tokens[start:])
    sha_at = next((i for i in range(start, len(tokens)) if SHA.match(tokens[i])), None)
    made = _COMMIT_MADE.search(line) if "commit" in line else None
    if made and "pull" not in made.group() and _is_fact(tokens, start, start + line[: made.start()].count(" "), len(tokens) - 1):
        before = line[: made.start()].split()[-5:]
        if not any(w in OTHER_SUBJECTS for w in before):
            sha = tokens[sha_at] if sha_at is not None else ""
            return [ClaimText(text=sentence.shown, kind="committed", sha=sha, own_act=True)]
    if sha_at is None:
        return []
    before = [t for t in tokens[max(start, sha_at - 3) : sha_at] if t not in ("(", ":", "-", "—", "–")]
    if not _is_fact(tokens, start, sha_at, sha_at):
        return []
    fits = (
        sha_at == start
        or any(t in ("commit", "commits", "in", "as", "sha", "hash", "head", "via", "with", "from") for t in before)
        or any(t in _FIX_VERBS for t in tokens[max(start, sha_at - 8) : sha_at])
    )
    return [ClaimText(text=sentence.shown, kind="committed", sha=tokens[sha_at], reference=True)] if fits else []


_PULL_NOUN = r"(?:prs?|pull requests?|mrs?|merge requests?)"
_PULL_MADE = re.compile(
    r"\b(?:opened|created|submitted|raised|filed|published|made|put up|posted|re-?opened)\s+"
    rf"(?:(?!comment)[\w'#-]+ ){{0,4}}?{_PULL_NOUN}\b"
    r"(?! (?:comments?|reviews?|descriptions?|titles?|body|template|feedback|checks?|labels?|list))"
)
_PULL_IS = re.compile(
    rf"\b{_PULL_NOUN}(?: (?:! )?#?\d+| PULL_URL)?(?: \( [^)]{{0,80}} \))? "
    r"(?:(?:is|are|has been|have been|was|were|now|successfully|all|both) ){0,3}"
    r"(?:created|opened|open|up|submitted|raised|filed|live|published)\b"
)
_PULL_LABEL = re.compile(
    rf"\b{_PULL_NOUN}(?: #\d+)?(?: (?:url|link|here|is(?: at| ready)?|ready|for review))*(?: #\d+)? ?[:—–-]? ?(?:#\d+ )?(?:PULL_URL|$)"
    r"|^(?:view|see|find|it's|available|here|link)(?: it| it's| is| up| here| at)* ?:? PULL_URL$"
)


# "PR #12 — fix the parser (https://…/pull/12)"
_PULL_TITLE = re.compile(rf"{_PULL_NOUN} #\d+ [:—–-] .{{1,200}}PULL_URL")


def _pull_claims(sentence: Sentence, start: int) -> list[ClaimText]:
    tokens = sentence.tokens
    line = " ".join(tokens[start:])
    for pattern in (_PULL_MADE, _PULL_IS):
        found = pattern.search(line)
        if found is None:
            continue
        low = start + line[: found.start()].count(" ")
        if _is_fact(tokens, start, low, low) and not any(w in OTHER_SUBJECTS or w in NOT_WORDS for w in tokens[max(start, low - 5) : low]):
            own = pattern is _PULL_MADE and (low == start or tokens[low - 1] in ("i", "i've", "and", "then", "also", ",", "have", "—", ":"))
            return [
                ClaimText(
                    text=sentence.shown,
                    kind="pr_opened",
                    number=_pull_number(sentence),
                    own_act=own,
                    reference=pattern is _PULL_IS and any(w in line for w in (" open ", " up ", " live ")) and "already" in line,
                    earlier="already" in tokens,
                )
            ]
    is_label = len(tokens) <= 3 or _PULL_LABEL.search(line) or _PULL_TITLE.match(line)
    if "PULL_URL" in tokens and is_label and "pushed" not in tokens:
        return [ClaimText(text=sentence.shown, kind="pr_opened", number=_pull_number(sentence), reference=True)]
    return []


def _pull_number(sentence: Sentence) -> str:
    for code in sentence.codes:
        if found := PULL_URL.search(code):
            return found.group(1)
    tokens = sentence.tokens
    for token, following in pairwise(tokens):
        # "Opened a PR for #12" names an issue.
        if token in ("pr", "prs", "mr", "mrs", "request", "requests", "opened", "created") and following.lstrip("#").isdecimal():
            return following.lstrip("#")
    return ""


# --- Fixed, done, changed --------------------------------------------------------------------------------------------

_DONE = re.compile(
    r"^(?:(?:✅|✓|✔|ok|okay|great|perfect|and|,|-|:|now|all|everything|that's|that is|it's|is|the task is|work is) ){0,8}"
    r"(?:done|finished|completed?|all set)(?=$| [,.!:;—–(-]| and | with )"
    r"|\b(?:implementation|task|work|migration|refactor(?:ing)?|feature|setup|changes?|update|everything|plan|phase \d+|step \d+|review"
    r"|issue|ticket|subtask|epic)(?: (?:is|are|has been|have been|was|were|now|all|fully)){0,4}"
    r" (?:complete|completed|done|finished|implemented|ready)\b"
    r"|\b(?:have|has) (?:now |all |both )?been (?:addressed|implemented|completed|finished|done|answered|posted|applied)\b"
    r"|^(?:i've |i have |i )?(?:successfully )?(?:implemented|completed|finished|posted|answered|marked|cleaned up|addressed)\b"
)
_FIXED = re.compile(
    r"(?<!\bto )(?<!\ba )(?<!\bthe )(?<!\bof )\b(?:fixed|resolved|corrected|repaired)\b"
    r"|\bno longer \w+|\b(?:now works?|works now|working now|works correctly|works as expected)\b|\bthe fix (?:is|adds|ensures|makes)\b"
)
_CHANGED = re.compile(
    r"^(?:(?:✅|✓|✔|i've|i have|i|also|and|done|then|additionally|we|finally|-|:|,|—) ){0,8}"
    r"(?:added|created|updated|removed|deleted|renamed|moved|changed|replaced|wrote|rewrote|refactored|extracted|converted|switched|bumped"
    r"|introduced|documented|registered|modified|reverted|restored|simplified|cleaned up|split|merged|dropped|wired|moved|made|set|enabled"
    r"|disabled|configured|installed|exported|generated|inlined|tightened|extended|reworked|migrated)\b"
    r"|\b(?:has|have) (?:now |all |both )?been"
    r" (?:added|created|updated|removed|deleted|renamed|moved|changed|replaced|reverted|restored|rewritten)\b"
    r"|(?:^|\w )now (?:uses?|includes?|returns?|has|have|supports?|accepts?|reads?|creates?|detects?|shows?|calls?|handles?"
    r"|initializes?|takes?)\b"
    r"|[:—–-] (?:added|created|updated|removed|renamed|moved|changed|replaced|extracted|rewrote|now)\b"
)


_WORK_RULES: tuple[tuple[ClaimKind, frozenset[str], re.Pattern[str]], ...] = (
    ("done", DONE_TRIGGERS, _DONE),
    ("fixed", FIXED_TRIGGERS, _FIXED),
    ("file_state", CHANGED_TRIGGERS, _CHANGED),
)


def _work_claims(sentence: Sentence, start: int, strong: list[ClaimText], present: set[str]) -> list[ClaimText]:
    """At most one claim that work is done, something is fixed, or a file has changed."""
    rules = [rule for rule in _WORK_RULES if not present.isdisjoint(rule[1])]
    tokens = sentence.tokens[start:] if rules else []
    if not tokens or len(tokens) > 80:
        return []
    line = " ".join(tokens)
    for kind, _, pattern in rules:
        found = pattern.search(line)
        if found is None or (strong and kind != "fixed"):
            continue
        low = start + line[: found.start()].strip().count(" ") + (1 if line[: found.start()].strip() else 0)
        before = sentence.tokens[max(start, low - 8) : low]
        inside = found.group().split()
        if any(w in UNREAL_WORDS or w in NOT_WORDS or w in OTHER_SUBJECTS or w in EARLIER_WORDS for w in (*before, *inside) if w != "no"):
            continue
        if kind == "fixed" and strong and any(c.kind == "build_or_lint_ok" for c in strong):
            continue
        if not _is_fact(sentence.tokens, start, low, low):
            continue
        paths = tuple(code for code in sentence.codes if is_path(code))[:5] or (sentence.paths if sentence.is_item else ())
        checks = _broken_checks(tokens) if kind == "fixed" else ()
        return [ClaimText(text=sentence.shown, kind=kind, paths=paths, checks=checks, everything="all" in present or "tests" in present)]
    return []


def _broken_checks(tokens: list[str]) -> tuple[CheckKind, ...]:
    """The checks that were broken and are said to be fixed: "fixed the failing tests", "the build error is resolved"."""
    if not any(token in ("failing", "failed", "failure", "failures", "broken", "error", "errors", "red") for token in tokens):
        return ()
    found: list[CheckKind] = []
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if token in TEST_HEADS and (token not in ("test", "spec") or following in TEST_FOLLOWERS or not following):
            found.append("tests")
        elif token in CHECK_HEADS and (following in ISSUE_WORDS or token in ("lint", "build")):
            found.append(CHECK_HEADS[token])
    return tuple(dict.fromkeys(found))
