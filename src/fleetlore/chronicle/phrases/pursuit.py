"""How it is told: the turns of a goal, what its checks find, and how it ends. Data only; `phrases/__init__.py` tells the rules.

A key is a kind, and what it came to. What an event cannot fill here is told by the words of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "driver.attempt_completed/needs_retry": (
        (
            "After turn {turn_no} {agent} said “{said}”, and the check said no: {failing}",
            "{agent} closed turn {turn_no} with “{said}”, but a criterion was open: {failing}",
            "Turn {turn_no} of {agent} ended on “{said}”, and the check disagreed: {failing}",
            "In turn {turn_no} {agent} said “{said}”, but the check wanted more: {failing}",
            "{agent} ended turn {turn_no} with “{said}”, and the check failed: {failing}",
            "“{said}”, said {agent} after turn {turn_no}, but the check failed: {failing}",
        ),
        (
            "Turn {turn_no} of {agent} was not enough for the check: {failing}",
            "After turn {turn_no} the check sent {agent} back to work: {failing}",
            "{agent} ended turn {turn_no}, and the check said no: {failing}",
            "The check found turn {turn_no} of {agent} wanting: {failing}",
            "In turn {turn_no} {agent} came close, but the check had this to say: {failing}",
        ),
    ),
    "driver.attempt_completed/done": (
        (
            "In turn {turn_no} {agent} said “{said}”, and the check agreed",
            "{agent} closed turn {turn_no} with “{said}”, and all criteria were met",
            "Turn {turn_no} of {agent} ended on “{said}”, and every criterion was met",
            "{agent} ended turn {turn_no} with “{said}”, and the check passed",
            "The check found all in order when {agent} ended turn {turn_no} with “{said}”",
        ),
        (
            "In turn {turn_no} {agent} met all criteria",
            "With turn {turn_no}, {agent} had every criterion met",
            "After turn {turn_no} the check had nothing against the work of {agent}",
            "The check found all in order after turn {turn_no} of {agent}",
            "{agent} ended turn {turn_no}, and the check said yes",
        ),
    ),
    "driver.attempt_completed/done/mended": (
        (
            "This time the check agreed: {agent} ended turn {turn_no} with “{said}”",
            "In turn {turn_no} {agent} had put things right, with the words “{said}”",
            "{agent} closed turn {turn_no} with “{said}”, and now all criteria were met",
            "By turn {turn_no} the check was content, and {agent} said “{said}”",
            "Turn {turn_no} set things right: {agent} said “{said}”, and the check agreed",
        ),
        (
            "This time, in turn {turn_no}, {agent} met all criteria",
            "In turn {turn_no} {agent} had put things right, and the check agreed",
            "By turn {turn_no} the check had nothing left against the work of {agent}",
            "Turn {turn_no} of {agent} set things right, and all criteria were met",
            "{agent} ended turn {turn_no}, and now the check said yes",
        ),
    ),
    "driver.attempt_completed/continue": (
        (
            "Turn {turn_no} of {agent} ended before the work did, with “{said}”",
            "{agent} stopped for breath after turn {turn_no}: {said}",
            "After turn {turn_no} {agent} had more to do, and said “{said}”",
            "In turn {turn_no} {agent} came as far as this: {said}",
            "With turn {turn_no} a part of the work lay behind {agent}: {said}",
        ),
    ),
    "driver.attempt_completed/summary": (
        (
            "{agent} spent a turn on writing down where things stood",
            "In a turn of that kind {agent} only summed up the work so far",
            "Where things stood, {agent} put into a summary",
            "One turn of {agent} went into a summary of the work so far",
            "The work paused while {agent} wrote down where things stood",
        ),
    ),
    "driver.attempt_completed/broken": (
        (
            "Turn {turn_no} of {agent} broke off before the work was done",
            "{agent} got no further in turn {turn_no}",
            "In turn {turn_no} something stopped {agent}",
            "The work of {agent} in turn {turn_no} came to an early end",
            "Before the work was done, turn {turn_no} of {agent} broke off",
        ),
    ),
    "driver.attempt_completed/sleep": (
        (
            "{agent} ended turn {turn_no} and asked to be woken later",
            "After turn {turn_no} {agent} wished to sleep for a while",
            "Turn {turn_no} of {agent} ended with the wish for a rest",
            "With turn {turn_no} behind, {agent} asked for a later call",
            "In turn {turn_no} nothing was left for {agent} but to wait",
        ),
    ),
    "driver.attempt_completed/budget_exhausted": (
        (
            "Turn {turn_no} of {agent} was stopped, for nothing was left of the {limit} allowed",
            "In turn {turn_no} {agent} came to the limit on {limit}",
            "{agent} reached the limit on {limit} in the midst of turn {turn_no}",
            "The limit on {limit} ended turn {turn_no} of {agent}",
            "With the {limit} allowed used up, turn {turn_no} of {agent} was over",
        ),
    ),
    "driver.attempt_completed/cancelled": (
        (
            "Turn {turn_no} of {agent} was called off",
            "In turn {turn_no} {agent} was told to stop, and stopped",
            "{agent} had to leave turn {turn_no} where the work stood",
            "The order to stop reached {agent} in turn {turn_no}",
            "At turn {turn_no} the work of {agent} was called off",
        ),
    ),
    "driver.attempt_completed/escalate": (
        (
            "Turn {turn_no} left {agent} with a question for a person",
            "In turn {turn_no} {agent} came to a point where a person was needed",
            "{agent} could not finish turn {turn_no} without a person",
            "With turn {turn_no}, {agent} had to turn to a person",
            "Only a person could help {agent} after turn {turn_no}",
        ),
    ),
    "driver.acceptance/met": (
        (
            "The check found all criteria met for {agent}",
            "All that was asked of {agent} was there, by the check",
            "The check said yes to the work of {agent}",
            "By the check, {agent} had met every criterion",
            "Nothing was missing when the work of {agent} was checked",
        ),
    ),
    "driver.acceptance/unmet": (
        (
            "A look at the work of {agent} found {unmet} not met: {failing}",
            "By the check, {agent} had {unmet} yet to meet: {failing}",
            "The check said no to {agent}, with {unmet} open: {failing}",
            "When the work of {agent} was checked, {unmet} stayed open: {failing}",
            "The check left {agent} with {unmet} to meet: {failing}",
        ),
        (
            "The check said no to the work of {agent}",
            "By the check, {agent} had more to do",
            "Not all that was asked of {agent} was there, by the check",
            "A look at the work of {agent} found something missing",
            "When checked, the work of {agent} was not yet complete",
        ),
    ),
    "driver.goal_completed/done": (
        (
            "{agent} delivered after {turns}, in {elapsed}, for {cost}",
            "So {agent} reached the goal, in {turns} and {elapsed}, for {cost}",
            "The goal was reached: {agent} had needed {turns}, {elapsed} and {cost}",
            "After {turns} and {elapsed}, {agent} reached the goal, for {cost}",
            "With {turns}, {elapsed} and {cost} the goal was reached by {agent}",
        ),
        (
            "{agent} delivered after {turns}, in {elapsed}",
            "So {agent} reached the goal, in {turns} and {elapsed}",
            "The goal was reached: {agent} had needed {turns} and {elapsed}",
            "After {turns} and {elapsed}, {agent} reached the goal",
            "With {turns} and {elapsed} the goal was reached by {agent}",
        ),
        (
            "{agent} reached the goal",
            "So the goal was reached by {agent}",
            "The goal was reached, and {agent} had delivered",
            "What the goal asked for, {agent} had delivered",
            "With that, {agent} had reached the goal",
        ),
    ),
    "driver.goal_completed/budget_exhausted": (
        (
            "{agent} stopped short of the goal after {turns}, {elapsed} and {cost}",
            "There {agent} had to leave the goal, after {turns}, {elapsed} and {cost}",
            "After {turns}, {elapsed} and {cost} the goal was out of reach for {agent}",
            "The goal was not reached: {agent} had used {turns}, {elapsed} and {cost}",
            "With {turns}, {elapsed} and {cost} spent, {agent} ended without the goal",
        ),
        (
            "{agent} stopped short of the goal after {turns} and {elapsed}",
            "There {agent} had to leave the goal, after {turns} and {elapsed}",
            "After {turns} and {elapsed} the goal was out of reach for {agent}",
            "The goal was not reached: {agent} had used {turns} and {elapsed}",
            "With {turns} and {elapsed} spent, {agent} ended without the goal",
        ),
        (
            "{agent} stopped short of the goal, with the budget spent",
            "There the goal was left, for {agent} had nothing more to spend",
            "With nothing left to spend, {agent} ended without the goal",
            "The goal was not reached within what {agent} might spend",
            "The budget was spent, and {agent} ended without the goal",
        ),
    ),
    "driver.goal_completed/cancelled": (
        (
            "The goal was called off, and {agent} stopped after {turns}",
            "{agent} let the goal go after {turns}: called off",
            "After {turns} the goal was taken from {agent}: called off",
            "Called off after {turns}, the goal was left where {agent} stood",
            "With {turns} behind, {agent} was told to let the goal go",
        ),
        (
            "The goal was called off, and {agent} let go",
            "{agent} let the goal go: called off",
            "Called off, the goal stayed where {agent} had brought the work",
            "The goal was taken from {agent}: called off",
            "Somebody called the goal off, and {agent} stopped",
        ),
    ),
    "driver.goal_completed/escalate": (
        (
            "After {turns} the goal was left to a person, and {agent} stopped",
            "{agent} stopped after {turns}, until a person would step in",
            "There {agent} left the goal, {turns} in, for a person to look at",
            "With {turns} behind, {agent} put the goal into a person's hands",
            "The work of {agent} stopped after {turns}, for a person to take up",
        ),
        (
            "There {agent} stopped, until a person would step in",
            "The goal was left to a person, and {agent} stopped",
            "{agent} put the goal into a person's hands",
            "The work of {agent} stopped, for a person to take up",
            "From here on the goal waited for a person, not for {agent}",
        ),
    ),
    "driver.budget_exhausted": (
        (
            "{agent} came to the limit on {limit} after {used}",
            "The limit on {limit} was reached: {agent} had used {used}",
            "With {used} behind, {agent} was at the limit on {limit}",
            "After {used} the limit on {limit} stopped {agent}",
            "At {used}, {agent} had come to the limit on {limit}",
        ),
        (
            "{agent} came to the limit on {limit}, and had to stop",
            "The limit on {limit} was reached, and {agent} had to stop",
            "There the limit on {limit} stopped {agent}",
            "Further than the limit on {limit} {agent} could not go",
            "With the limit on {limit} reached, there was no next turn for {agent}",
        ),
    ),
}
"""Key → groups of variants, best first; what comes after them are the words of the kind."""

MANY: Mapping[str, tuple[str, ...]] = {
    "driver.attempt_completed/needs_retry": (
        "{agent} worked on for {count} turns {when}, and each time the check found {failing}",
        "Each of {count} turns of {agent} {when} came to the same no, {failing}",
        "For {count} turns {when} the check told {agent} the same, {failing}",
    ),
    "driver.decision/deny": (
        "{agent} asked for {asked_tool} {when} and was refused {count_times}",
        "The use of {asked_tool} was refused to {agent} {count_times} {when}",
        "{agent} was refused {asked_tool} {count_times} {when}",
    ),
}
"""Key → how a run of like events is told, where that is not by the words of the kind."""
