"""Corrections: the examples of every rule, the situations, and what is never a correction."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore.views.outcomes.corrections import built_in_rules, find_corrections, is_correction, read_opening
from fleetlore.views.outcomes.facts import Answer, CallStep, FileEdit, Prompt, Source

AT = datetime(2026, 1, 2, tzinfo=UTC)
RULES = built_in_rules()


def make_prompt(text: str, step: int = 5, **fields: Any) -> Prompt:
    return Prompt(step, 1, AT, Source(f"e{step}", f"u{step}"), text, **fields)


def situation(when: str) -> dict[str, Any]:
    given: dict[str, dict[str, Any]] = {
        "after_stop": {"interrupted": True},
        "while_working": {"mid_turn": True},
        "after_refusal": {"refuses": "command"},
        "after_refused_edit": {"refuses": "edit"},
    }
    return given.get(when, {})


@pytest.mark.parametrize(("when", "text"), [(rule.when, text) for rule in RULES.rule for text in rule.yes])
def test_words_of_a_rule_are_a_correction(when: str, text: str) -> None:
    assert is_correction(make_prompt(text, **situation(when)))


@pytest.mark.parametrize(("when", "text"), [(rule.when, text) for rule in RULES.rule for text in rule.no])
def test_similar_words_are_none(when: str, text: str) -> None:
    assert not is_correction(make_prompt(text, **situation(when)))


@pytest.mark.parametrize("text", [text for never in RULES.never for text in never.yes])
def test_consent_and_excuses_are_no_corrections(text: str) -> None:
    assert not is_correction(make_prompt(text, interrupted=True))


@pytest.mark.parametrize("text", [text for never in RULES.never for text in never.no])
def test_consent_with_an_objection_is_a_correction(text: str) -> None:
    assert is_correction(make_prompt(text))


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "still reviewing",
        "how can we know which agent is active?",
        "commit this, push, open a draft pull request",
        "add a flag that hides the notice, and do not print the path",
        "let's do the first two",
        "don't push yet",
        "<command-name>/exit</command-name>",
        "[Request interrupted by user]",
        "Base directory for this skill: /x\n\nDo not write code.",
        "This session is being continued from a previous conversation. You forgot nothing.",
        "Stop hook feedback: you didn't run the tests",
        'instead of "Another session" print something like this',
        "```\nno, this is wrong\n```",
        "> you forgot the tests",
        "",
        "   ",
    ],
)
def test_other_prompts_are_no_corrections(text: str) -> None:
    assert not is_correction(make_prompt(text))


def test_the_first_prompt_of_a_session_is_never_a_correction() -> None:
    prompts = [make_prompt("why did you delete it?", 1), make_prompt("why did you delete the file?", 2)]
    assert [found.step for found in find_corrections(prompts)] == [2]


def test_words_far_from_the_beginning_are_no_correction() -> None:
    long = "Level two gets a longer track with three lanes, a start gate and a clock that counts down while the agents run " * 2
    assert is_correction(make_prompt("I don't want the icons anymore"))
    assert not is_correction(make_prompt(f"{long} and I don't want the icons anymore"))


def test_a_prompt_that_is_sent_again_is_no_correction() -> None:
    text = "print this notice and do not print the old one, which is wrong"
    prompts = [make_prompt("start", 1), make_prompt(text, 2, interrupted=True), make_prompt(f"{text} at all", 3, interrupted=True)]
    assert [found.step for found in find_corrections(prompts)] == [2]


def test_no_is_an_answer_if_the_agent_asked() -> None:
    prompts = [make_prompt("start", 1), make_prompt("no, keep it", 3)]
    answer = Answer(2, 1, AT, Source("e", "u"), "Shall I delete the file?")
    assert find_corrections(prompts, [answer]) == ()
    assert len(find_corrections(prompts, [Answer(2, 1, AT, Source("e", "u"), "Deleted the file.")])) == 1


def test_a_report_of_failure_counts_after_the_agent_changed_files() -> None:
    prompts = [make_prompt("start", 1), make_prompt("we fail the build", 4)]
    assert find_corrections(prompts) == ()
    found = find_corrections(prompts, (), [FileEdit(2, Source("e", "u"), "a.py")])
    assert [(each.prompt, each.evidence) for each in found] == [("we fail the build", (Source("e4", "u4"),))]


def test_the_reason_of_a_refused_edit() -> None:
    assert is_correction(make_prompt("we want tabs here", refuses="edit"))
    assert not is_correction(make_prompt("we want tabs here", refuses="command"))


def test_the_opening_has_no_code_and_no_output() -> None:
    assert read_opening("Look:\n```\nerror\n```\nno") == "look:"
    assert read_opening("[12:00] started\nIt BREAKS\n> quoted") == "it breaks"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.booleans(), st.sampled_from([None, "edit", "command"]))
def test_any_text_is_read(text: str, interrupted: bool, refuses: Any) -> None:
    is_correction(make_prompt(text, interrupted=interrupted, refuses=refuses))


@pytest.mark.parametrize("piece", ["you ", "no ", "why did ", "still ", "the ", "\n", "```", "hmm not ", "a" * 50, "i'm getting "])
def test_long_text_is_read_in_bounded_time(piece: str) -> None:
    is_correction(make_prompt(piece * 20_000, interrupted=True))


def test_an_order_not_to_do_something_corrects_the_call_that_was_stopped() -> None:
    stopped = CallStep(2, 1, AT, "command", "Bash", "denied", Source("c", "c"), "git stash -u")
    prompts = [make_prompt("start", 1), make_prompt("do not stash anything, read the files", 3, interrupted=True)]
    assert len(find_corrections(prompts, calls=[stopped])) == 1
    other = [make_prompt("start", 1), make_prompt("don't open a pull request, only commit", 3, interrupted=True)]
    assert find_corrections(other, calls=[stopped]) == ()


def test_not_true_is_no_answer_to_a_question() -> None:
    prompts = [make_prompt("start", 1), make_prompt("Not true, you changed it an hour ago", 3)]
    answer = Answer(2, 1, AT, Source("e", "u"), "I have no access. Can you do it?")
    assert len(find_corrections(prompts, [answer])) == 1


def test_comments_on_the_changes_are_corrections() -> None:
    text = "<system-instruction>\nThe user has added 2 comments to the diff for this workspace.\n</system-instruction>"
    assert is_correction(make_prompt(text))
    assert not is_correction(make_prompt("<system-instruction>\nYou are working in a workspace.\n</system-instruction>"))
