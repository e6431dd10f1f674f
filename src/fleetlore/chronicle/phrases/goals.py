"""How it is told: what steers a goal. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "control.requested": (
        (
            "{actor} asked for a change of course, “{action}”: {text}",
            "A request to “{action}” came from {actor}: {text}",
            "{actor} sent the request “{action}”: {text}",
            "The word from {actor} was “{action}”: {text}",
            "With the request “{action}”, {actor} stepped in: {text}",
        ),
        (
            "{actor} asked for “{action}” and gave a reason: {reason}",
            "A request to “{action}” came from {actor}, for this reason: {reason}",
            "The word from {actor} was “{action}”, with a reason: {reason}",
            "{actor} wanted “{action}”, and said why: {reason}",
            "Giving a reason, {actor} sent the request “{action}”: {reason}",
        ),
        (
            "{actor} asked for a change of course: {action}",
            "A request to “{action}” came from {actor}",
            "{actor} sent the request “{action}”",
            "The word from {actor} was “{action}”",
            "From {actor} came a request on the course to take: {action}",
        ),
        (
            "Somebody asked for a change of course, and the record named {agent}",
            "A request for a new course came in; the entry named {agent}",
            "There was a request for another course, noted under {agent}",
            "A request for a change of course went into the record of {agent}",
            "The log noted a request to change course, with {agent}",
        ),
    ),
    "goal.session_bound": (
        (
            "The goal got a session with {agent}, on {model}",
            "{agent} took up the goal in a session with {model}",
            "A session of {agent} on {model} was there for the goal",
            "For the goal, {agent} had a session with {model}",
            "With {model} as the model, {agent} opened a session for the goal",
        ),
        (
            "The goal got a session of {agent} to work in, by {harness}",
            "By way of {harness}, {agent} had a session for the goal",
            "{agent} opened a session for the goal with {harness}",
            "A session of {agent} with {harness} was there for the goal",
            "For the goal, {harness} gave {agent} a session",
        ),
        (
            "A session of {agent} now belonged to a goal",
            "{agent} had a session to pursue a goal in",
            "The log tied a goal to a session of {agent}",
            "A goal got its session, noted under {agent}",
            "From here on, a goal had a session with {agent}",
        ),
    ),
    "goal.checkpointed": (
        (
            "Before turn {turn}, {agent} had the workspace saved as {sha}",
            "The workspace of {agent} went into {sha} ahead of turn {turn}",
            "The checkpoint before turn {turn} of {agent} was {sha}",
            "A checkpoint for {agent}, {sha}, came ahead of turn {turn}",
            "With {sha}, {agent} had a saved workspace before turn {turn}",
        ),
        (
            "Before turn {turn}, there was a saved workspace for {agent}",
            "{agent} had the workspace saved ahead of turn {turn}",
            "A checkpoint for {agent} came ahead of turn {turn}",
            "The workspace as it stood before turn {turn} stayed on hand for {agent}",
            "Turn {turn} of {agent} began from a saved workspace",
        ),
        (
            "The workspace of {agent} went into the checkpoint {sha}",
            "{agent} had the workspace saved as {sha}",
            "A checkpoint of the work of {agent} got the name {sha}",
            "For {agent}, the log noted the checkpoint {sha}",
            "With {sha}, there was a saved workspace for {agent} to return to",
        ),
        (
            "A saved workspace stood by for {agent} before a turn",
            "{agent} had the workspace saved before going on",
            "The work of {agent} had a checkpoint to return to",
            "A checkpoint of the workspace came ahead of a turn of {agent}",
            "Before the turn, {agent} had a copy of the workspace on hand",
        ),
    ),
    "goal.waiting": (
        (
            "A goal of {agent} had to wait: {why}",
            "{agent} had to let a goal wait, for this reason: {why}",
            "Work on the goal paused under {agent}: {why}",
            "The goal stood waiting with {agent}: {why}",
            "For {agent} there was a wait before the goal could go on: {why}",
        ),
        (
            "The goal of {agent} stood still for now: {text}",
            "A wait began for the goal of {agent}: {text}",
            "{agent} paused the work on a goal: {text}",
            "{agent} had a goal that could not go on yet: {text}",
            "The goal could not go on yet, as {agent} noted: {text}",
        ),
        (
            "A goal of {agent} had to wait",
            "{agent} had to let a goal wait",
            "Work on the goal paused under {agent}",
            "For {agent} there was a wait before the goal could go on",
            "The goal stood waiting, with {agent} on record",
        ),
    ),
    "goal.permission_asked": (
        (
            "{agent} needed a person's permission to use {tool}: {text}",
            "Whether {agent} might use {tool} was for a person to say: {text}",
            "The question of {tool} for {agent} went to a person: {text}",
            "Before {agent} could use {tool}, a question went out: {text}",
            "Somebody had to say whether {agent} might use {tool}: {text}",
        ),
        (
            "Whether {agent} might use {tool} was for a person to say",
            "{agent} needed a person's permission to use {tool}",
            "The question whether {agent} might use {tool} went to a person",
            "Before {agent} could use {tool}, a person had to decide",
            "Somebody was to say yes or no to {tool} for {agent}",
        ),
        (
            "Whether {agent} might use a tool was for a person to say",
            "{agent} needed a person's permission to use a tool",
            "The question of a tool for {agent} went to a person",
            "Before {agent} could use a tool, a person had to decide",
            "Somebody was to say yes or no to a tool for {agent}",
        ),
    ),
    "goal.attempt_ended": (
        (
            "Turn {turn} of {agent} ended with trouble: {error}",
            "{agent} came to the end of turn {turn} with this on record: {error}",
            "Something went wrong as turn {turn} of {agent} ended: {error}",
            "The end of turn {turn} brought {agent} a complaint: {error}",
            "In turn {turn}, {agent} stopped at this: {error}",
        ),
        (
            "{agent} had done a part in turn {turn}, and it went to be judged",
            "Turn {turn} of {agent} was over and waited for judgement",
            "The part of {agent} in turn {turn} was done",
            "With turn {turn} over, the work of {agent} went to be checked",
            "{agent} put down the tools of turn {turn}",
        ),
        (
            "The part of {agent} in a turn was done",
            "{agent} came to the end of a turn",
            "A turn of {agent} was over and waited for judgement",
            "With a turn over, the work of {agent} went to be checked",
            "{agent} put down the tools of a turn",
        ),
    ),
    "goal.spent": (
        (
            "A goal below, in the hands of {agent}, spent {tokens} tokens",
            "{agent} spent {tokens} tokens on a part of the work",
            "To the account of this goal went {tokens} tokens, spent by {agent}",
            "A part of the work, done by {agent}, cost {tokens} tokens",
            "By {tokens} tokens, spent by {agent}, the account of this goal grew",
        ),
        (
            "A goal below spent something on the account of {agent}",
            "{agent} had the spending of another goal to account for",
            "To the account of {agent} went what a part of the work had cost",
            "A part of the work counted against {agent}",
            "By a goal below, the account of {agent} grew",
        ),
    ),
    "goal.tool_effect": (
        (
            "Through {tool}, {agent} made changes to {paths}",
            "{agent} left changes in {paths} with the help of {tool}",
            "{tool}, in the hands of {agent}, changed {paths}",
            "The use of {tool} by {agent} had an effect on {paths}",
            "{paths} held what {agent} had changed with {tool}",
        ),
        (
            "{agent} changed something with {tool}: {text}",
            "The use of {tool} by {agent} had an effect: {text}",
            "Through {tool}, {agent} made a change: {text}",
            "{tool} changed something for {agent}: {text}",
            "A change outside the log came from {agent} by way of {tool}: {text}",
        ),
        (
            "{agent} changed something with {tool}",
            "The use of {tool} by {agent} had an effect",
            "Through {tool}, {agent} made a change outside the log",
            "{tool} changed something for {agent}",
            "A change came from {agent} by way of {tool}",
        ),
        (
            "{agent} changed something with a tool",
            "A tool that {agent} used had an effect outside the log",
            "Through a tool, {agent} made a change",
            "A change came from {agent} by way of a tool",
            "One of the tools of {agent} changed something",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "control.requested": (
        "There were {count} requests for a change of course {when}, noted under {agent}",
        "Somebody asked for a change of course {count_times} {when}, by the record of {agent}",
        "The record of {agent} took in {count} requests to change course {when}",
    ),
    "goal.session_bound": (
        "Goals got a session with {agent} {count_times} {when}",
        "The log tied {count} sessions of {agent} to a goal {when}",
        "A session of {agent} joined a goal {count_times} {when}",
    ),
    "goal.checkpointed": (
        "A checkpoint of the work of {agent} came {count_times} {when}",
        "The work of {agent} had {count} checkpoints {when}",
        "{agent} had the workspace saved {count_times} {when}",
    ),
    "goal.waiting": (
        "The goal had to wait {count_times} {when}, with {agent} on record",
        "{agent} had to let the goal wait {count_times} {when}",
        "There were {count} waits on the goal of {agent} {when}",
    ),
    "goal.permission_asked": (
        "A question about a tool for {agent} went to a person {count_times} {when}",
        "{agent} needed leave for a tool {count_times} {when}",
        "A person had {count} questions to answer about tools for {agent} {when}",
    ),
    "goal.attempt_ended": (
        "Turns of {agent} ended {count_times} {when}",
        "{agent} came to the end of {count} turns {when}",
        "The work of {agent} went to be judged {count_times} {when}",
    ),
    "goal.spent": (
        "Goals below added to the account of {agent} {count_times} {when}",
        "The account of {agent} grew by other goals {count_times} {when}",
        "Parts of the work counted against {agent} {count_times} {when}",
    ),
    "goal.tool_effect": (
        "{agent} changed something with tools {count_times} {when}",
        "{agent} made {count} changes through tools {when}",
        "Tools had an effect for {agent} {count_times} {when}",
    ),
}
"""Kind → how a run of like events is told."""
