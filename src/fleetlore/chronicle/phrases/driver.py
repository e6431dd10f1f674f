"""How it is told: goals, attempts, decisions and budgets. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "driver.goal_started": (
        (
            "{agent} took up a goal: {text}",
            "{agent} had a goal to work towards: {text}",
            "{agent} set out towards a goal: {text}",
            "The goal that {agent} took up read “{text}”",
            "A new goal lay ahead of {agent}: {text}",
            "{agent} began the pursuit of this goal: {text}",
        ),
        (
            "{agent} took up a goal on task {task}",
            "For task {task}, {agent} set out towards a goal",
            "Task {task} became a goal for {agent}",
            "A goal on task {task} lay ahead of {agent}",
            "{agent} began the pursuit of a goal for task {task}",
        ),
        (
            "{agent} took up a goal",
            "{agent} set out towards a new goal",
            "A new goal lay ahead of {agent}",
            "The pursuit of a goal began with {agent}",
            "{agent} had a goal to work towards",
        ),
    ),
    "driver.goal_completed": (
        (
            "{agent} came to the end of the goal with the outcome “{outcome}”: {text}",
            "The goal of {agent} ended as “{outcome}”: {text}",
            "For {agent} the goal closed with “{outcome}”, and the last words were “{text}”",
            "At the end of the goal stood “{outcome}” for {agent}: {text}",
            "The pursuit was over for {agent}, with the outcome “{outcome}”: {text}",
        ),
        (
            "{agent} came to the end of the goal: {text}",
            "The goal of {agent} came to an end: {text}",
            "For {agent} the pursuit of the goal was over: {text}",
            "The last words of {agent} on the goal were “{text}”",
            "Here the goal of {agent} ended: {text}",
        ),
        (
            "{agent} came to the end of the goal with the outcome “{outcome}”",
            "The goal of {agent} ended as “{outcome}”",
            "For {agent} the goal closed with “{outcome}”",
            "At the end of the goal stood “{outcome}” for {agent}",
            "The pursuit was over for {agent}, with the outcome “{outcome}”",
        ),
        (
            "{agent} came to the end of the goal",
            "The goal of {agent} came to an end",
            "For {agent} the pursuit of the goal was over",
            "The turns of {agent} towards the goal were over",
            "Here the goal of {agent} ended",
        ),
    ),
    "driver.attempt_started": (
        (
            "{agent} began a turn towards the goal: {text}",
            "A turn of {agent} started: {text}",
            "{agent} went into the next turn with the note “{text}”",
            "The next turn belonged to {agent}: {text}",
            "Another turn at the goal began with {agent}: {text}",
        ),
        (
            "{agent} began turn {turn_index} towards the goal",
            "Turn {turn_index} of {agent} started",
            "{agent} went into turn {turn_index}",
            "The work of {agent} on the goal came to turn {turn_index}",
            "With turn {turn_index}, {agent} worked on towards the goal",
        ),
        (
            "{agent} began a turn towards the goal",
            "A turn of {agent} at the goal started",
            "{agent} went into the next turn",
            "The next turn belonged to {agent}",
            "Another turn at the goal began with {agent}",
        ),
    ),
    "driver.attempt_completed": (
        (
            "{agent} ended a turn with the outcome “{outcome}”: {text}",
            "The turn of {agent} came to “{outcome}”: {text}",
            "A turn by {agent} closed as “{outcome}”, with the words “{text}”",
            "For {agent} the turn ended in “{outcome}”: {text}",
            "The outcome of the turn by {agent} was “{outcome}”: {text}",
        ),
        (
            "{agent} ended a turn with the words “{text}”",
            "The turn of {agent} was over: {text}",
            "One more turn lay behind {agent}: {text}",
            "{agent} came out of the turn with this: {text}",
            "The turn gave {agent} this to report: {text}",
        ),
        (
            "{agent} ended a turn with the outcome “{outcome}”",
            "The turn of {agent} came to “{outcome}”",
            "A turn by {agent} closed as “{outcome}”",
            "For {agent} the turn ended in “{outcome}”",
            "The outcome of the turn by {agent} was “{outcome}”",
        ),
        (
            "{agent} ended a turn towards the goal",
            "The turn of {agent} was over",
            "One more turn lay behind {agent}",
            "{agent} came to the end of a turn",
            "A turn by {agent} at the goal was done",
        ),
    ),
    "driver.decision": (
        (
            "On a tool for {agent} the decision was “{choice}”: {text}",
            "{agent} got the answer “{choice}” about a tool: {text}",
            "The word on a tool in the turn of {agent} was “{choice}”: {text}",
            "A tool came up with {agent}, and the decision read “{choice}”: {text}",
            "Whether {agent} might use a tool was settled as “{choice}”: {text}",
        ),
        (
            "A decision about a tool fell for {agent}: {text}",
            "Whether {agent} might use a tool was settled: {text}",
            "The reason given with a decision on a tool for {agent} was “{text}”",
            "{agent} got an answer about a tool: {text}",
            "A tool came up with {agent}, and a decision followed: {text}",
        ),
        (
            "On a tool for {agent} the decision was “{choice}”",
            "{agent} got the answer “{choice}” about a tool",
            "The word on a tool in the turn of {agent} was “{choice}”",
            "A tool came up with {agent}, and the decision read “{choice}”",
            "Whether {agent} might use a tool was settled as “{choice}”",
        ),
        (
            "A decision about a tool fell for {agent}",
            "Whether {agent} might use a tool was settled",
            "The question of a tool for {agent} found an answer",
            "{agent} got an answer about a tool",
            "A tool came up with {agent}, and a decision followed",
        ),
    ),
    "driver.acceptance": (
        (
            "The check of the goal of {agent} found the criteria {met}: {text}",
            "By the check, what the goal asked of {agent} was {met}: {text}",
            "Checked for {agent}, the criteria of the goal were {met}: {text}",
            "The criteria for {agent} were looked at and were {met}: {text}",
            "The verdict on the goal of {agent} was “{met}”: {text}",
        ),
        (
            "A check went through the criteria for {agent}: {text}",
            "{agent} had the goal checked against the criteria: {text}",
            "A check of the goal took place for {agent}: {text}",
            "The verdict on the goal of {agent} came with the words “{text}”",
            "A check compared the work of {agent} with the criteria: {text}",
        ),
        (
            "The check of the goal of {agent} found the criteria {met}",
            "By the check, what the goal asked of {agent} was {met}",
            "Checked for {agent}, the criteria of the goal were {met}",
            "The criteria for {agent} were looked at and were {met}",
            "The verdict on the goal of {agent} was “{met}”",
        ),
        (
            "A check went through the criteria for {agent}",
            "{agent} had the goal checked against the criteria",
            "A check of the goal took place for {agent}",
            "The question was whether {agent} had met the goal's criteria",
            "A check compared the work of {agent} with the criteria",
        ),
    ),
    "driver.budget_exhausted": (
        (
            "{agent} used up the budget for {axis}: {text}",
            "The goal of {agent} reached the limit on {axis}: {text}",
            "Nothing was left for {agent} of the budget for {axis}: {text}",
            "{agent} came to the limit on {axis}, with the note “{text}”",
            "The budget for {axis} ran out for {agent}: {text}",
        ),
        (
            "{agent} used up a budget of the goal: {text}",
            "The goal of {agent} reached a limit: {text}",
            "Nothing was left for {agent} of one budget: {text}",
            "{agent} came to the end of a budget, with the note “{text}”",
            "A budget ran out for {agent}: {text}",
        ),
        (
            "{agent} used up the budget for {axis}",
            "The goal of {agent} reached the limit on {axis}",
            "Nothing was left for {agent} of the budget for {axis}",
            "{agent} came to the limit on {axis}",
            "The budget for {axis} ran out for {agent}",
        ),
        (
            "{agent} used up a budget of the goal",
            "The goal of {agent} reached one of the limits set",
            "Nothing was left for {agent} of one budget",
            "{agent} came to the end of a budget",
            "A budget of the goal ran out for {agent}",
        ),
    ),
    "driver.escalate": (
        (
            "{agent} needed a person to go on: {text}",
            "{agent} called for a person: {text}",
            "{agent} could not go on alone: {text}",
            "{agent} turned to a person with the words “{text}”",
            "Here {agent} asked a person to step in: {text}",
        ),
        (
            "{agent} needed a person to go on, and gave as reason “{reason}”",
            "{agent} called for a person for this reason: {reason}",
            "{agent} could not go on alone, with the reason “{reason}”",
            "The reason for which {agent} asked for a person was “{reason}”",
            "Here {agent} asked a person to step in, saying “{reason}”",
        ),
        (
            "{agent} needed a person to go on",
            "{agent} called for a person",
            "{agent} could not go on alone",
            "Here {agent} asked a person to step in",
            "The goal of {agent} waited for a person",
        ),
    ),
    "driver.replay_decision": (
        (
            "Turn {turn_index} of {agent} went wrong, and a way on was chosen: {text}",
            "{agent} chose how to go on after a failed turn {turn_index}: {text}",
            "Something failed in turn {turn_index} of {agent}: {text}",
            "A way on was settled for {agent} when turn {turn_index} failed: {text}",
            "In turn {turn_index}, {agent} met with “{text}” and settled how to go on",
        ),
        (
            "A turn of {agent} went wrong, and a way on was chosen: {text}",
            "{agent} chose how to go on after a failed turn: {text}",
            "Something failed in a turn of {agent}: {text}",
            "A way on was settled for {agent} when the turn failed: {text}",
            "In a turn, {agent} met with “{text}” and settled how to go on",
        ),
        (
            "A turn of {agent} went wrong on “{error_message}”, and a way on was chosen",
            "{agent} chose how to go on after the error “{error_message}”",
            "Something failed in a turn of {agent}: {error_message}",
            "A way on was settled for {agent} after the error “{error_message}”",
            "In a turn, {agent} met with “{error_message}” and settled how to go on",
        ),
        (
            "A turn of {agent} went wrong, and a way on was chosen",
            "{agent} chose how to go on after a failed turn",
            "Something failed in a turn of {agent}, and a decision followed",
            "A way on was settled for {agent} when the turn failed",
            "The turn failed for {agent}, and the next step was decided",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "driver.goal_started": (
        "{agent} took up a goal {count_times} {when}",
        "The pursuit of a goal began {count_times} with {agent} {when}",
        "{agent} made {count} starts towards a goal {when}",
    ),
    "driver.goal_completed": (
        "{agent} came to the end of a goal {count_times} {when}",
        "The record shows {count} endings of goals for {agent} {when}",
        "The goals of {agent} came to an end {count_times} {when}",
    ),
    "driver.attempt_started": (
        "{agent} began {count} turns towards the goal {when}",
        "{agent} went into a turn {count_times} {when}",
        "The goal of {agent} had {count} new turns {when}",
    ),
    "driver.attempt_completed": (
        "{agent} ended {count} turns towards the goal {when}",
        "{agent} came to the end of a turn {count_times} {when}",
        "The goal took {count} turns by {agent} {when}",
    ),
    "driver.decision": (
        "Decisions about tools fell for {agent} {count_times} {when}",
        "{agent} got answers about tools {count_times} {when}",
        "The use of tools by {agent} came up for {count} decisions {when}",
    ),
    "driver.acceptance": (
        "The goal of {agent} was checked {count_times} {when}",
        "{agent} had the criteria checked {count_times} {when}",
        "The criteria of the goal saw {count} checks for {agent} {when}",
    ),
    "driver.budget_exhausted": (
        "{agent} used up a budget {count_times} {when}",
        "Budgets ran out for {agent} {count_times} {when}",
        "The goal of {agent} reached a limit {count_times} {when}",
    ),
    "driver.escalate": (
        "{agent} asked for a person {count_times} {when}",
        "{agent} called for a person {count_times} {when}",
        "The goal of {agent} led to {count} calls for a person {when}",
    ),
    "driver.replay_decision": (
        "Turns went wrong for {agent} {count_times} {when}, and a way on was chosen",
        "{agent} chose how to go on after a failed turn {count_times} {when}",
        "After {count} failed turns {when}, a way on was settled for {agent}",
    ),
}
"""Kind → how a run of like events is told."""
