"""Finds claims of success in the text of an answer, a commit message, a pull request or a task report.

A claim is a sentence or list item that says, as a fact, that something is the case now: "All 42 tests pass, and I pushed"
holds two. Plans, conditions, questions, negations, quotes, code, instructions, descriptions of code and earlier states are
no claims. The word tables are the rules; a sentence is cut into tokens once, and every rule looks at the tokens.

Words used here: the *subject* of a claim about checks is "tests", "mypy" or the like, and its *part* names some of the
tests ("unit"). An *act* is committing or pushing. `position`, `low` and `high` are indices of tokens: of a word, and of the
first and last word of a match. `start` is the first token that counts; a condition before it is skipped.
"""

import re
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from fleetlore.views.outcomes.claim_sentences import PULL_URL, SHA, Sentence, is_path, split_sentences
from fleetlore.views.outcomes.claim_words import (
    ALL_WORDS,
    BREAKS,
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
    FIXED_TRIGGERS,
    FUSED_VERBS,
    GENERAL_HEADS,
    GONE_WORDS,
    HARD_CONDITIONS,
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
    TRANSITIVE,
    UNREAL_WORDS,
    words,
)
from fleetlore.views.outcomes.facts import CheckKind

ClaimKind = Literal["tests_pass", "build_or_lint_ok", "committed", "pushed", "pr_opened", "fixed", "done", "file_state", "other"]
ClaimPlace = Literal["answer", "commit", "pull_request", "task"]

MAX_TEXT_CHARS = 24_000
MAX_CLAIMS = 60


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
    """Factual claims of success in `text`, in order; at most `MAX_CLAIMS`. Never raises."""
    if not text:
        return ()
    if len(text) > MAX_TEXT_CHARS:
        text = text[: MAX_TEXT_CHARS // 2] + "\n\n" + text[-MAX_TEXT_CHARS // 2 :]
    found: dict[tuple[str, str], ClaimText] = {}
    short_done = ""
    for sentence in split_sentences(text):
        claims = _find_claims(sentence, where)
        if short_done and not claims:
            claims = [ClaimText(text=f"{short_done} {sentence.shown}", kind="done")]
        # A short "Done." is joined with the sentence after it.
        is_short_done = len(sentence.tokens) <= 3 and any(claim.kind == "done" for claim in claims)
        short_done = sentence.shown if is_short_done else ""
        if not is_short_done:
            found.update({(claim.kind, claim.text): claim for claim in claims})
        if len(found) >= MAX_CLAIMS:
            break
    if short_done:
        found["done", short_done] = ClaimText(text=short_done, kind="done")
    return tuple(found.values())[:MAX_CLAIMS]


def _find_claims(sentence: Sentence, where: ClaimPlace) -> list[ClaimText]:
    tokens = sentence.tokens
    first = next((t for t in tokens if t not in ("✅", "✓", "✔", "☑", "-", ":", "(", ",")), "")
    if "?" in tokens or first in HARD_CONDITIONS or tokens[:2] in (["that", "way"], ["this", "way"]):
        return []
    start = 0
    if first in SOFT_CONDITIONS and "," in tokens:
        start = tokens.index(",") + 1
    # "Review comments — both were fixed": a label, no instruction.
    has_label = any(t in ("—", "–", "-", ":") for t in tokens[1:6])
    second = tokens[tokens.index(first) + 1] if first and tokens.index(first) + 1 < len(tokens) else ""
    if first in IMPERATIVES and not has_label and second not in NOUN_FOLLOWERS and not SHA.match(second):
        return []
    present = set(tokens)
    found = [] if present.isdisjoint(CHECK_TRIGGERS) else _find_check_claims(sentence, start)
    if where in ("commit", "pull_request"):
        # "Pushed" and "added" in a commit message describe the change, not the session.
        return found
    for word, kind in _ACTS:
        if word in present or (kind == "pushed" and not present.isdisjoint(("force-pushed", "re-pushed"))):
            found += _find_act_claims(sentence, start, word, kind)
    if "push" in present and (low := _find_push(tokens, start)) is not None and _is_fact(tokens, start, low, low + 1):
        found.append(ClaimText(text=sentence.shown, kind="pushed"))
    has_commit = not present.isdisjoint(("commit", "commits")) or any(SHA.match(token) for token in present if len(token) > 6)
    if has_commit and not any(claim.kind == "committed" for claim in found):
        found += _find_commit_references(sentence, start)
    if not present.isdisjoint(PULL_TRIGGERS):
        found += _find_pull_claims(sentence, start)
    found += _find_work_claims(sentence, start, found, present)
    return found


def _find_check_claims(sentence: Sentence, start: int) -> list[ClaimText]:
    """Claims that tests, linters, type checkers or builds are fine."""
    tokens, found = sentence.tokens, dict[str, ClaimText]()
    index = since = start
    while index < len(tokens):
        if tokens[index] not in CHECK_TRIGGERS:
            index += 1
            continue
        subjects, low, high = _find_statement(tokens, index)
        if not subjects or not _is_fact(tokens, start, low, high):
            index += 1
            continue
        for position, name in subjects:
            claim = _make_check_claim(sentence, position, name, (since, low, high))
            since = position + 1
            old = found.get(claim.kind)
            found[claim.kind] = claim if old is None else _merge_claims(old, claim)
            if name == "general" and claim.kind == "tests_pass":
                found.setdefault("build_or_lint_ok", _replace_kind(claim, "build_or_lint_ok"))
        index = since = high + 1
    if "tests_pass" not in found:
        count = _count_passed_tests(tokens, start)
        if count is None:
            count = _count_tests_without_failures(tokens, start)
        if count is not None:
            found["tests_pass"] = ClaimText(text=sentence.shown, kind="tests_pass", count=count or None)
    return list(found.values())


def _find_statement(tokens: list[str], index: int) -> tuple[list[tuple[int, str]], int, int]:
    """The statement whose first subject is at `index`: its subjects, first and last token. No subjects if there is no statement."""
    subject = _find_subject(tokens, index)
    if subject is None:
        return [], 0, 0
    subjects = [(index, subject)]
    end = _find_result_after(tokens, index, subjects)
    if end is None:
        subjects = subjects[:1]
        end = _find_result_before(tokens, index, subject)
    if end is None:
        return [], 0, 0
    return subjects, min(index, end), max(subjects[-1][0], end)


def _count_tests_without_failures(tokens: list[str], start: int) -> int | None:
    """The number of tests in "0 failures across 120 tests"; 0 if tests are named without a number."""
    for position in range(start, len(tokens) - 1):
        if (
            tokens[position] in NONE_WORDS
            and tokens[position + 1] in ("failures", "failed")
            and _is_fact(tokens, start, position, position + 1)
        ):
            named = [i for i, token in enumerate(tokens) if token in TEST_HEADS or token in ("examples", "scenarios")]
            if named:
                number = tokens[named[-1] - 1] if named[-1] else ""
                return int(number) if number.isdecimal() and len(number) < 8 else 0
    return None


def _find_subject(tokens: list[str], index: int) -> str | None:
    """The check that the token names as a subject: "tests", a kind of check or "general"; None if it names none."""
    token = tokens[index]
    following = tokens[index + 1] if index + 1 < len(tokens) else ""
    if token in TEST_HEADS:
        if token in ("test", "spec") and following not in TEST_FOLLOWERS:
            return None
        return "tests"
    if token in ("RUN_TESTS", "TEST_FILE"):
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
        is_other_word = (token == "all" and following not in OK_WORDS) or (token == "checks" and following in CHECK_OBJECTS)
        return None if is_other_word else "general"
    return None


def _find_result_after(tokens: list[str], subject: int, subjects: list[tuple[int, str]]) -> int | None:
    """The position of the word that says that the check at `subject` passed; subjects in between are added to `subjects`."""
    if _is_subject_and_result(tokens, subject):
        return subject
    unknown = depth = 0
    for position in range(subject + 1, min(subject + 18, len(tokens))):
        token = tokens[position]
        if token in RESULT_WORDS:
            return _find_result_end(tokens, position, subject)
        if (
            token in STOP_WORDS
            or unknown > 5
            or _is_partial_count(token)
            or (token == "checks" and tokens[position + 1 : position + 2] == ["that"])
        ):
            return None
        if token in "()":
            depth = max(0, depth + (1 if token == "(" else -1))
        elif depth:
            continue
        elif (name := _find_subject(tokens, position)) is not None:
            subjects += [(position, name)] if name != "general" else []
            if _is_subject_and_result(tokens, position):
                return position
        elif token not in LINKING_WORDS and not token.isdecimal():
            unknown += 1
    return None


def _find_result_end(tokens: list[str], position: int, subject: int) -> int | None:
    """Where the result at `position` ends: "passes", "no errors", "issues are fixed"; None if it is no result."""
    token = tokens[position]
    if token in OK_WORDS:
        return None if token in TRANSITIVE and not _has_no_object(tokens, position) else _unless_failures_follow(tokens, position)
    if token in NONE_WORDS:
        return _find_in(tokens, position + 1, 3, ISSUE_WORDS)
    return None if tokens[subject] in TEST_HEADS else _find_in(tokens, position + 1, 4, GONE_WORDS)


def _is_subject_and_result(tokens: list[str], position: int) -> bool:
    """Whether one verb is both: "it compiles"."""
    return tokens[position] in FUSED_VERBS and _has_no_object(tokens, position)


def _find_in(tokens: list[str], start: int, size: int, wanted: frozenset[str]) -> int | None:
    return next((position for position in range(start, min(start + size, len(tokens))) if tokens[position] in wanted), None)


def _is_partial_count(token: str) -> bool:
    """Whether it is a count such as "11/12": not all passed."""
    number, _, of = token.partition("/")
    return number.isdecimal() and of.isdecimal() and number != of


def _find_result_before(tokens: list[str], subject: int, name: str) -> int | None:
    """The position of a result that comes before its subject: "no lint errors", "passes all tests", "a clean build"."""
    before = tokens[max(0, subject - 5) : subject]
    following = tokens[subject + 1 : subject + 3]
    if (before[-2:-1] and before[-2] in NONE_WORDS and before[-1] in ISSUE_WORDS) or (
        before[-3:-2] and before[-3] in NONE_WORDS and before[-2] in ISSUE_WORDS and before[-1] in ("from", "in", "by")
    ):
        # "No failing tests", "no errors from mypy".
        return subject - 2
    if before[-1:] and before[-1] in CHECK_MARKS and following[:1] in ([], [","], ["and"], ["("], [")"]):
        return subject - 1
    if any(word in ISSUE_WORDS for word in following):
        issue = subject + 1 + next(i for i, word in enumerate(following) if word in ISSUE_WORDS)
        near = tokens[max(0, subject - 2) : subject]
        if any(word in NONE_WORDS for word in near):
            return issue
        if name != "tests" and any(word in ("fixed", "resolved", "cleared", "addressed") for word in before) and "all" in before:
            return issue
        return None
    for back, word in enumerate(reversed(before), start=1):
        if word in ("passes", "passed", "pass", "passing") and name != "ci":
            return subject - back
        if word in ("clean", "successful", "green") and back <= 2 and name in ("build", "lint", "types", "tests"):
            return subject - back
        if word not in LIGHT_WORDS and word not in NO_PART and not word.isdecimal() and _find_subject(tokens, subject - back) is None:
            return None
    return None


def _has_no_object(tokens: list[str], position: int) -> bool:
    """Whether the verb at `position` has no object."""
    following = tokens[position + 1] if position + 1 < len(tokens) else ""
    return following not in OBJECT_STARTS and not (following == "through" or following == "QUOTE")


def _unless_failures_follow(tokens: list[str], position: int) -> int | None:
    """`position`; None if the summary continues with failures: "41 passed, 1 failed"."""
    for index in range(position + 1, min(position + 6, len(tokens))):
        is_failure = tokens[index] in ("failed", "failures", "failure", "failing", "errors", "errored", "error")
        if is_failure and tokens[index - 1].isdecimal() and int(tokens[index - 1][:9]) > 0:
            return None
    return position


def _count_passed_tests(tokens: list[str], start: int) -> int | None:
    """The number of tests in "42 passed, 0 failed" or "42/42 passing"."""
    for position in range(start + 1, len(tokens)):
        if tokens[position] in ("passed", "passing", "pass", "green"):
            number, _, of = tokens[position - 1].partition("/")
            if (
                number.isdecimal()
                and len(number) < 8
                and (not of or of == number)
                and _unless_failures_follow(tokens, position) is not None
            ):
                if position - 2 >= start and tokens[position - 2] == "/" and tokens[position - 3 : position - 2] != [number]:
                    continue
                if _is_fact(tokens, start, position - 1, position):
                    return int(number)
    return None


def _is_fact(tokens: list[str], start: int, low: int, high: int) -> bool:
    """Whether the words around a match state it as a fact of now, said by the agent itself."""
    left = start
    for position in range(low - 1, start - 1, -1):
        if tokens[position] in BREAKS or (tokens[position] == "," and tokens[position + 1] in ("and", "so", "all", "no")):
            left = position + 1
            break
    before, inside = tokens[left:low], tokens[low : high + 1]
    if any(word in UNREAL_WORDS or word in REPORTED_WORDS or word in EARLIER_WORDS for word in before):
        return False
    if any(word in ("check", "checks", "checking") and next_ in CHECK_OBJECTS for word, next_ in pairwise(before)):
        return False
    if any(word in CAUSE_WORDS for word in before[-4:]) or any(word in PARTIAL_WORDS for word in before[-5:]):
        return False
    return not _is_negated(before, inside) and not _is_condition(before, inside) and _continues_as_fact(tokens[high + 1 : high + 9])


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


def _continues_as_fact(following: list[str]) -> bool:
    """Whether what follows a match does not make it a condition or an earlier state."""
    for position, word in enumerate(following):
        next_word = following[position + 1] if position + 1 < len(following) else ""
        if word in (";", "—", "–", "."):
            return True
        if word in ("if", "unless", "until", "once", "previously", "originally", "initially", "yet", "?"):
            return False
        if position < 3 and word in ("required", "needed", "necessary", "mandatory", "expected"):
            return False
        if word == "before" and next_word in ("the", "my", "this", ""):
            return False
        if word == "when" and next_word not in ("run", "i", "running"):
            return False
    return True


def _make_check_claim(sentence: Sentence, position: int, name: str, span: tuple[int, int, int]) -> ClaimText:
    """The claim about the subject at `position`. `span`: where its own words can begin, and the first and last token of the match."""
    tokens, (since, low, high) = sentence.tokens, span
    around = tokens[max(since, low - 6) : max(low, position)]
    for cut in range(len(around) - 1, -1, -1):
        if around[cut] in BREAKS or (around[cut] == "," and name != "tests"):
            around = around[cut + 1 :]
            break
    everything = name in ("general", "ci") or any(word in ALL_WORDS for word in around) or "all" in tokens[position : high + 1]
    parenthesis = _find_parenthesis(tokens, position)
    part: list[str] = []
    if name == "tests":
        part = _find_named_part(sentence, position, parenthesis)
    elif name == "ci":
        part = ["ci"]
    counts = [int(w) for w in (*around, *tokens[low : high + 1], *parenthesis) if w.isdecimal() and len(w) < 8 and w != "0"]
    counts += [int(w.partition("/")[0]) for w in (*around, *tokens[low : high + 1]) if re.fullmatch(r"(\d{1,7})/\1", w)]
    is_check = name in ("lint", "types", "build")
    if name == "general" and any(_is_word(word) and word not in NO_PART and word not in CHECK_ADJECTIVES for word in around[-2:]):
        # "All syntax checks pass" is not about tests.
        is_check = True
    tool = tokens[position] if is_check and tokens[position] not in ("lint", "types", "build") and not tokens[position].isupper() else ""
    return ClaimText(
        text=sentence.shown,
        kind="build_or_lint_ok" if is_check else "tests_pass",
        everything=everything,
        part=tuple(part),
        count=counts[-1] if counts and name == "tests" else None,
        checks=(name,) if is_check and name != "general" else (),  # type: ignore[arg-type]
        tools=(tool,) if tool else (),
        general=name == "general",
        qualified=any(word in EXCEPT_WORDS for word in tokens[high + 1 : high + 12]),
    )


def _find_named_part(sentence: Sentence, position: int, parenthesis: list[str]) -> list[str]:
    """The part of the tests that the subject at `position` names: "unit", "explain-related", the file in "tests in `api.py` pass".

    ["new"] stands for tests of this turn that are not named otherwise.
    """
    tokens = sentence.tokens
    part = _find_adjectives(sentence, position)
    if tokens[position] == "TEST_FILE":
        part.append(_base_name(sentence.code_at.get(position, "")))
    following = tokens[position + 1 : position + 4]
    if following[:1] and following[0] in ("in", "for", "of", "under"):
        named = position + (3 if following[1:2] == ["the"] else 2)
        if named in sentence.code_at:
            part.append(_base_name(sentence.code_at[named]))
        elif named < len(tokens) and _is_word(tokens[named]) and tokens[named] not in NO_PART:
            part.append(tokens[named])
    part += [word for word in parenthesis if word not in NO_PART and word not in OK_WORDS and _is_word(word)][:4]
    before = tokens[max(0, position - 4) : position]
    if not part and "existing" not in before and any(word in NEW_PART or word == "wrote" for word in before):
        return ["new"]
    return [word for word in part if word]


def _find_adjectives(sentence: Sentence, position: int) -> list[str]:
    """The words right before a subject that name a part of it."""
    tokens, part = sentence.tokens, list[str]()
    for at in range(position - 1, max(-1, position - 8), -1):
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


def _find_parenthesis(tokens: list[str], position: int) -> list[str]:
    """The words in parentheses right after a subject or its verb: "tests pass (unit and integration)"."""
    for index in range(position + 1, min(position + 4, len(tokens))):
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

_ACT_BEFORE = words(
    "i we i've we've have has been was were is are now and also then all everything successfully , : - – — ( just both it already"
    " finally done force is: → + & ✅ ✓ ✔ got changes change fix fixes commit commits branch work code update updates files file"
    " it's they're that's which"
)
_ACT_AFTER = words(
    ", . ; : ! ( ) and to as in on at with — – - the all both my these this it them successfully cleanly up for"
    " everything changes your our from straight directly → only locally here now again as-is a one two three"
)
_NOT_PUSHED = words("onto into down out off over aside forward further against stack queue array button boundaries limits")


_ACTS: tuple[tuple[str, ClaimKind], ...] = (("committed", "committed"), ("amended", "committed"), ("pushed", "pushed"))


def _find_act_claims(sentence: Sentence, start: int, word: str, kind: ClaimKind) -> list[ClaimText]:
    """Claims with "committed", "amended" or "pushed"."""
    tokens = sentence.tokens
    for position in range(start, len(tokens)):
        token = tokens[position]
        if token != word and not token.endswith(f"-{word}"):
            continue
        before = tokens[position - 1] if position > start else ""
        after = tokens[position + 1] if position + 1 < len(tokens) else ""
        fits_before = not before or before in _ACT_BEFORE
        fits_after = not after or after in _ACT_AFTER or bool(SHA.match(after)) or after in ("CODE", "QUOTE", "PULL_URL", "GIT")
        if not fits_before and (not fits_after or before in ("the", "a", "an", "any", "be", "being", "not", "get", "gets", "to")):
            continue
        if kind == "pushed" and (after in _NOT_PUSHED or any(t in _NOT_PUSHED for t in tokens[position + 1 : position + 6])):
            continue
        if not _is_act(tokens, start, position):
            continue
        return [
            ClaimText(
                text=sentence.shown,
                kind=kind,
                everything=any(t in ALL_WORDS for t in tokens[max(0, position - 6) : position + 4]),
                sha=next((t for t in tokens if SHA.match(t)), ""),
                number=_find_pull_number(sentence),
                earlier="already" in tokens[max(0, position - 4) : position],
                own_act=before in ("", "i", "we", "i've", "we've", "and", "then", "also", ",", ":", "—", "–", "-", "(", "successfully"),
            )
        ]
    return []


def _is_act(tokens: list[str], start: int, position: int) -> bool:
    """Whether the participle at `position` states what was done in this session."""
    left = start
    for index in range(position - 1, start - 1, -1):
        if tokens[index] in BREAKS - {"(", ")"}:
            left = index + 1
            break
    before = tokens[left:position]
    if any(w in UNREAL_WORDS or w in NOT_WORDS or w in REPORTED_WORDS or w in EARLIER_WORDS for w in before[-12:]):
        return False
    if any(w in OTHER_SUBJECTS for w in before[-5:]) and "i" not in before[-2:] and "i've" not in before[-2:]:
        return False
    following = tokens[position + 1 : position + 8]
    passive_now = any(w in ("is", "are", "gets", "get") for w in before[-2:])
    if passive_now and any(w in ("when", "automatically", "every", "each", "by", "via", "whenever", "during", "GIT") for w in following):
        return False
    return not any(w in ("yet", "?", "if", "unless", "once", "when") for w in following)


def _find_push(tokens: list[str], start: int) -> int | None:
    """The position of "push" in "the push succeeded", "the push went through"."""
    for position in range(start, len(tokens) - 1):
        if tokens[position] == "push" and (tokens[position + 1] == "succeeded" or tokens[position + 1 : position + 3] in _SUCCEEDED):
            return position
    return None


_SUCCEEDED = (["went", "through"], ["was", "successful"], ["is", "done"], ["was", "accepted"])
_FIX_VERBS = words("fixed added done addressed implemented landed resolved introduced shipped included applied updated removed merged")
_COMMIT_MADE = re.compile(
    r"\b(?:created|made|added|landed)\s+(?:(?:a|an|the|one|two|three|four|five|six|\d{1,3}|new|single|separate|follow-?up|local|atomic"
    r"|focused|final|clean|another|commit) ){0,4}commits?\b|\bcommit (?:succeeded|created|made|went through|was successful|is in)\b"
)


def _find_commit_references(sentence: Sentence, start: int) -> list[ClaimText]:
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
    rf"\b{_PULL_NOUN}(?: #\d+| PULL_URL)?(?: \( [^)]{{0,80}} \))? "
    r"(?:(?:is|are|has been|have been|was|were|now|successfully|all|both) ){0,3}"
    r"(?:created|opened|open|up|submitted|raised|filed|live|published)\b"
)
_PULL_LABEL = re.compile(rf"\b{_PULL_NOUN}(?: (?:url|link|here|is))?(?: #\d+)? ?[:—–-]? ?(?:#\d+ )?(?:PULL_URL|$)")


def _find_pull_claims(sentence: Sentence, start: int) -> list[ClaimText]:
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
                    number=_find_pull_number(sentence),
                    own_act=own,
                    reference=pattern is _PULL_IS and any(w in line for w in (" open ", " up ", " live ")) and "already" in line,
                    earlier="already" in tokens,
                )
            ]
    if "PULL_URL" in tokens and (len(tokens) <= 3 or _PULL_LABEL.search(line)) and "pushed" not in tokens:
        return [ClaimText(text=sentence.shown, kind="pr_opened", number=_find_pull_number(sentence), reference=True)]
    return []


def _find_pull_number(sentence: Sentence) -> str:
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


def _find_work_claims(sentence: Sentence, start: int, earlier_claims: list[ClaimText], present: set[str]) -> list[ClaimText]:
    """At most one claim that work is done, something is fixed, or a file has changed; fewer if there are `earlier_claims`."""
    rules = [rule for rule in _WORK_RULES if not present.isdisjoint(rule[1])]
    tokens = sentence.tokens[start:] if rules else []
    if not tokens or len(tokens) > 80:
        return []
    line = " ".join(tokens)
    for kind, _, pattern in rules:
        found = pattern.search(line)
        if found is None or (earlier_claims and kind != "fixed"):
            continue
        low = start + line[: found.start()].strip().count(" ") + (1 if line[: found.start()].strip() else 0)
        before = sentence.tokens[max(start, low - 8) : low]
        inside = found.group().split()
        if any(w in UNREAL_WORDS or w in NOT_WORDS or w in OTHER_SUBJECTS or w in EARLIER_WORDS for w in (*before, *inside) if w != "no"):
            continue
        if kind == "fixed" and earlier_claims and any(c.kind == "build_or_lint_ok" for c in earlier_claims):
            continue
        if not _is_fact(sentence.tokens, start, low, low):
            continue
        paths = tuple(code for code in sentence.codes if is_path(code))[:5] or (sentence.paths if sentence.is_item else ())
        checks = _find_broken_checks(tokens) if kind == "fixed" else ()
        return [ClaimText(text=sentence.shown, kind=kind, paths=paths, checks=checks, everything="all" in present or "tests" in present)]
    return []


def _find_broken_checks(tokens: list[str]) -> tuple[CheckKind, ...]:
    """The checks that were broken and are said to be fixed: "fixed the failing tests", "the build error is resolved"."""
    if not any(token in ("failing", "failed", "failure", "failures", "broken", "error", "errors", "red") for token in tokens):
        return ()
    found: list[CheckKind] = []
    for position, token in enumerate(tokens):
        following = tokens[position + 1] if position + 1 < len(tokens) else ""
        if token in TEST_HEADS and (token not in ("test", "spec") or following in TEST_FOLLOWERS or not following):
            found.append("tests")
        elif token in CHECK_HEADS and (following in ISSUE_WORDS or token in ("lint", "build")):
            found.append(CHECK_HEADS[token])
    return tuple(dict.fromkeys(found))
