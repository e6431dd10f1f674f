"""How it is told: the twelve deeds of a working fleet. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "fleet.dispatch": (
        (
            "{agent} got task {task}: {text}",
            "Task {task} went to {agent}: {text}",
            "{agent} was sent to task {task}: {text}",
            "{agent} was given task {task}: {text}",
            "The next task for {agent} was {task}: {text}",
            "{agent} had task {task} to work on: {text}",
        ),
        (
            "{agent} got work to do: {text}",
            "New work came to {agent}: {text}",
            "{agent} received an assignment: {text}",
            "{agent} was asked to do this: {text}",
            "{agent} had a new assignment: {text}",
        ),
        (
            "Task {task} went to {agent}",
            "{agent} got task {task} to work on",
            "{agent} was given task {task} as the next assignment",
            "The work on task {task} passed to {agent}",
            "{agent} was put on task {task}",
        ),
        (
            "Issue {issue_number} went to {agent}",
            "{agent} got issue {issue_number} to work on",
            "{agent} received an assignment, issue {issue_number}",
            "The work on issue {issue_number} came to {agent}",
            "{agent} was put on issue {issue_number}",
        ),
        (
            "{agent} was dispatched to a piece of work",
            "New work was dispatched to {agent}",
            "{agent} was dispatched with an assignment",
            "A dispatch came in for {agent}",
            "A new dispatch reached {agent}",
        ),
    ),
    "fleet.commit": (
        (
            "{agent} committed: {text}",
            "{agent} put in a change: {text}",
            "{agent} made a commit with the message “{text}”",
            "A commit came from {agent}: {text}",
            "{agent} checked in a change: {text}",
            "A commit by {agent} read “{text}”",
            "{agent} added this to the code: {text}",
        ),
        (
            "{agent} made commit {sha}",
            "{agent} recorded a change as commit {sha}",
            "Commit {sha} came in from {agent}",
            "A change by {agent} went in as commit {sha}",
            "{agent} put in a change, and the commit was {sha}",
        ),
        (
            "{agent} committed a change",
            "{agent} made a commit",
            "A new commit came from {agent}",
            "{agent} added a commit to the code",
            "The history gained a commit by {agent}",
        ),
    ),
    "fleet.push": (
        (
            "{agent} pushed: {text}",
            "{agent} sent commits up with the note “{text}”",
            "Commits arrived from {agent}: {text}",
            "{agent} shared new commits: {text}",
            "A push by {agent} went out: {text}",
        ),
        (
            "{agent} pushed the commits made so far",
            "{agent} pushed commits for others to see",
            "A push came in from {agent}",
            "The shared repository received a push from {agent}",
            "{agent} brought the shared branch up to date with a push",
        ),
    ),
    "fleet.pr_open": (
        (
            "{agent} opened a pull request: {text}",
            "{agent} proposed a change for merging: {text}",
            "A pull request came from {agent}: {text}",
            "{agent} put a change forward: {text}",
            "{agent} put a pull request up for review: {text}",
            "{agent} asked for a change to be merged: {text}",
        ),
        (
            "{agent} opened a pull request for task {task}",
            "{agent} proposed a change for task {task}",
            "A pull request for task {task} went up from {agent}",
            "On task {task}, {agent} put a change forward for merging",
            "{agent} asked for the change in task {task} to be merged",
        ),
        (
            "{agent} opened a pull request",
            "A pull request was opened by {agent}",
            "One more pull request stood open, from {agent}",
            "{agent} opened a pull request to be looked at",
            "A newly opened pull request came from {agent}",
        ),
    ),
    "fleet.pr_merge": (
        (
            "A change by {agent} was merged: {text}",
            "{agent} had a pull request merged: {text}",
            "The pull request by {agent} was merged: {text}",
            "The main line took in a change by {agent}: {text}",
            "{agent} got a change merged: {text}",
            "{agent} landed a change: {text}",
        ),
        (
            "A change by {agent} for task {task} was merged",
            "{agent} got the change for task {task} merged",
            "The pull request for task {task} went in for {agent}",
            "Task {task} had a change by {agent} in the main line",
            "A merge brought in the change by {agent} for task {task}",
        ),
        (
            "A pull request by {agent} was merged",
            "{agent} got a pull request merged",
            "The merge of a pull request went through for {agent}",
            "The main line gained a merged pull request by {agent}",
            "{agent} saw a pull request merged into the main line",
        ),
    ),
    "fleet.error": (
        (
            "{agent} ran into an error: {text}",
            "Something went wrong for {agent}: {text}",
            "{agent} hit a problem: {text}",
            "Trouble came up for {agent}: {text}",
            "{agent} came up against “{text}”",
            "The work of {agent} hit a snag: {text}",
        ),
        (
            "{agent} ran into an error on task {task}",
            "Something went wrong for {agent} on task {task}",
            "On task {task}, {agent} hit a problem",
            "Trouble came up on task {task} while {agent} was at work",
            "{agent} hit an error on task {task}",
        ),
        (
            "{agent} ran into an error",
            "An error came up in the work of {agent}",
            "{agent} hit an error",
            "There was an error in the work of {agent}",
            "The work of {agent} hit an error",
        ),
    ),
    "fleet.recovery": (
        (
            "{agent} put things right: {text}",
            "{agent} solved the problem: {text}",
            "{agent} fixed what had gone wrong: {text}",
            "{agent} was back on track: {text}",
            "{agent} got past the error and noted “{text}”",
            "A fix by {agent} cleared the trouble: {text}",
        ),
        (
            "{agent} fixed what had gone wrong on task {task}",
            "On task {task}, {agent} got past the error",
            "{agent} had task {task} back on track",
            "{agent} brought task {task} back to working order",
            "The trouble on task {task} was over for {agent}",
        ),
        (
            "{agent} made a recovery",
            "{agent} came to a recovery",
            "A recovery followed for {agent}",
            "A recovery by {agent} was recorded",
            "After the trouble, {agent} made a recovery",
        ),
    ),
    "fleet.abandon": (
        (
            "{agent} let the work go: {text}",
            "{agent} put the work down unfinished: {text}",
            "{agent} stopped and left the rest open: {text}",
            "{agent} gave the work up with the words “{text}”",
            "{agent} gave up on the work: {text}",
        ),
        (
            "{agent} let task {task} go unfinished",
            "{agent} put task {task} down before the end",
            "Task {task} stayed unfinished when {agent} let go",
            "{agent} gave up on task {task}",
            "{agent} left task {task} before the work was done",
        ),
        (
            "{agent} abandoned the work",
            "{agent} abandoned the work before the end",
            "The work was abandoned by {agent}",
            "{agent} stepped away and abandoned the work",
            "{agent} gave up and abandoned the work",
        ),
    ),
    "fleet.collab": (
        (
            "{agent} worked together with {child}: {text}",
            "{agent} and {child} worked on this together: {text}",
            "{agent} teamed up with {child}: {text}",
            "{agent} sat down with {child} over the work: {text}",
            "{agent} and {child} shared the work: {text}",
        ),
        (
            "{agent} worked with others on this: {text}",
            "{agent} joined in shared work: {text}",
            "{agent} teamed up with others: {text}",
            "{agent} took part in common work: {text}",
            "Shared work brought {agent} together with others: {text}",
        ),
        (
            "{agent} and {child} worked on one thing together",
            "{agent} worked side by side with {child}",
            "{agent} teamed up with {child}",
            "The work brought {agent} and {child} together",
            "{agent} shared a piece of work with {child}",
        ),
        (
            "{agent} collaborated with others",
            "{agent} joined others in a collaboration",
            "A collaboration brought {agent} and others together",
            "{agent} took part in a collaboration",
            "{agent} and others collaborated",
        ),
    ),
    "fleet.heartbeat": (
        (
            "{agent} checked in: {text}",
            "{agent} gave a sign of life: {text}",
            "Word came from {agent}: {text}",
            "{agent} reported in with “{text}”",
            "A short report came in from {agent}: {text}",
        ),
        (
            "{agent} checked in from cycle {cycle} with the status “{status}”",
            "In cycle {cycle}, {agent} reported the status “{status}”",
            "{agent} was in cycle {cycle}, and the status read “{status}”",
            "Cycle {cycle} found {agent} with the status “{status}”",
            "From cycle {cycle}, {agent} sent word of the status “{status}”",
        ),
        (
            "{agent} checked in on model {model}",
            "{agent} gave a sign of life from model {model}",
            "Word came from {agent}, running on {model}",
            "{agent} was there, with {model} as the model",
            "On model {model}, {agent} reported in",
        ),
        (
            "{agent} sent a heartbeat",
            "{agent} checked in with a heartbeat",
            "A heartbeat came from {agent}",
            "{agent} sent the usual heartbeat",
            "The regular heartbeat came in from {agent}",
        ),
    ),
    "fleet.idle": (
        (
            "{agent} had nothing to do: {text}",
            "{agent} was free for work: {text}",
            "There was no work for {agent}: {text}",
            "{agent} paused with the note “{text}”",
            "For the moment {agent} was without work: {text}",
        ),
        (
            "{agent} was idle",
            "{agent} was idle, with nothing to do",
            "There was no work, and {agent} was idle",
            "{agent} reported an idle moment",
            "An idle moment was noted for {agent}",
        ),
    ),
    "fleet.milestone": (
        (
            "{agent} reached a milestone: {text}",
            "{agent} passed a milestone: {text}",
            "The work of {agent} came to a milestone: {text}",
            "{agent} came to a point worth noting: {text}",
            "A milestone for {agent}: {text}",
            "{agent} marked a milestone: {text}",
        ),
        (
            "{agent} reached a milestone on mission {mission}",
            "Mission {mission} passed a milestone with {agent}",
            "On mission {mission}, {agent} reached something worth remembering",
            "{agent} came to a point worth remembering on mission {mission}",
            "{agent} passed a milestone on mission {mission}",
        ),
        (
            "{agent} reached a milestone",
            "{agent} came to a milestone",
            "{agent} passed a milestone",
            "The work of {agent} passed a milestone",
            "A milestone was reached by {agent}",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "fleet.dispatch": (
        "{agent} got new work {count_times} {when}",
        "New work came to {agent} {count_times} {when}",
        "{agent} received {count} assignments {when}",
    ),
    "fleet.commit": (
        "{agent} committed {count_times} {when}",
        "{agent} made {count} commits {when}",
        "The code grew by {count} commits from {agent} {when}",
        "Commit followed commit from {agent}, {count} in all, {when}",
    ),
    "fleet.push": (
        "{agent} pushed {count_times} {when}",
        "{agent} sent commits up {count_times} {when}",
        "The shared repository took {count} pushes from {agent} {when}",
    ),
    "fleet.pr_open": (
        "{agent} opened {count} pull requests {when}",
        "{agent} proposed changes {count_times} {when}",
        "The queue for merging grew by {count} changes from {agent} {when}",
    ),
    "fleet.pr_merge": (
        "{agent} got {count} changes merged {when}",
        "The main line took in {count} changes by {agent} {when}",
        "Merges went through for {agent} {count_times} {when}",
    ),
    "fleet.error": (
        "{agent} ran into errors {count_times} {when}",
        "{agent} hit {count} problems {when}",
        "Things went wrong for {agent} {count_times} {when}",
    ),
    "fleet.recovery": (
        "{agent} put things right {count_times} {when}",
        "{agent} got past trouble {count_times} {when}",
        "{agent} fixed things {count_times} {when}",
    ),
    "fleet.abandon": (
        "{agent} let work go unfinished {count_times} {when}",
        "{agent} put work down {count_times} {when}, each time before the end",
        "{agent} gave up on work {count_times} {when}",
    ),
    "fleet.collab": (
        "{agent} worked together with others {count_times} {when}",
        "{agent} took part in shared work {count_times} {when}",
        "Shared work brought {agent} and others together {count_times} {when}",
    ),
    "fleet.heartbeat": (
        "{agent} checked in {count_times} {when}",
        "{agent} gave {count} signs of life {when}",
        "Regular word came from {agent}, {count_times} {when}",
    ),
    "fleet.idle": (
        "{agent} had nothing to do {count_times} {when}",
        "{agent} was without work {when}, noted {count_times}",
        "Things were quiet for {agent} {when}, as {count} entries tell",
    ),
    "fleet.milestone": (
        "{agent} reached {count} milestones {when}",
        "The work of {agent} passed {count} milestones {when}",
        "Milestones came {count_times} for {agent} {when}",
    ),
}
"""Kind → how a run of like events is told."""
