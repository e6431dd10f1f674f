"""How it is told: the twelve deeds of a working fleet. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "fleet.dispatch": (
        (
            "{agent} got task {task}: {text}",
            "Task {task} went to {agent}: {text}",
            "{agent} received task {task}, described as “{text}”",
            "A new piece of work, task {task}, reached {agent}: {text}",
            "The next task for {agent} was {task}: {text}",
            "{agent} had task {task} to work on: {text}",
        ),
        (
            "{agent} got work to do: {text}",
            "New work came to {agent}: {text}",
            "{agent} received an assignment: {text}",
            "The work that went to {agent} read “{text}”",
            "{agent} had a new assignment: {text}",
        ),
        (
            "Task {task} went to {agent}",
            "{agent} got task {task} to work on",
            "{agent} received task {task} as an assignment",
            "The work on task {task} passed to {agent}",
            "With task {task}, {agent} had something to do",
        ),
        (
            "Issue {issue_number} went to {agent}",
            "{agent} got issue {issue_number} to work on",
            "{agent} received an assignment, issue {issue_number}",
            "The work on issue {issue_number} came to {agent}",
            "An assignment named issue {issue_number} reached {agent}",
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
            "One more commit came in from {agent}: {text}",
            "{agent} wrote a change down as “{text}”",
            "The next commit by {agent} read “{text}”",
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
            "A pull request from {agent} went up: {text}",
            "{agent} put a change forward under the heading “{text}”",
            "Up for merging came a change by {agent}: {text}",
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
            "{agent} saw a pull request go in: {text}",
            "The merge went through for {agent}: {text}",
            "The main line took in a change by {agent}: {text}",
            "{agent} got a change merged, noted as “{text}”",
            "A pull request from {agent} ended in a merge: {text}",
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
            "{agent} met with a problem: {text}",
            "A fault came up in the work of {agent}: {text}",
            "{agent} came up against “{text}”",
            "The work of {agent} hit a snag: {text}",
        ),
        (
            "{agent} ran into an error on task {task}",
            "Something went wrong for {agent} on task {task}",
            "On task {task}, {agent} met with a problem",
            "A fault came up in task {task} while {agent} worked there",
            "Task {task} met with an error while {agent} was at work",
        ),
        (
            "{agent} ran into an error",
            "An error came up in the work of {agent}",
            "{agent} met with an error",
            "There was an error where {agent} was working",
            "The work of {agent} hit an error",
        ),
    ),
    "fleet.recovery": (
        (
            "{agent} put things right: {text}",
            "The problem no longer stood in the way of {agent}: {text}",
            "{agent} set right what had gone wrong: {text}",
            "Things were in order once more for {agent}: {text}",
            "{agent} got past the error and noted “{text}”",
            "A fix by {agent} cleared the trouble: {text}",
        ),
        (
            "{agent} put right what had gone wrong on task {task}",
            "On task {task}, {agent} got past the error",
            "Task {task} was back in order, with {agent} at work",
            "{agent} brought task {task} back to working order",
            "The trouble on task {task} was over for {agent}",
        ),
        (
            "{agent} made a recovery",
            "{agent} reported a recovery",
            "A recovery followed for {agent}",
            "The record shows a recovery by {agent}",
            "After the trouble, {agent} came to a recovery",
        ),
    ),
    "fleet.abandon": (
        (
            "{agent} let the work go: {text}",
            "{agent} put the work down unfinished: {text}",
            "Here {agent} stopped and left the rest open: {text}",
            "{agent} gave the work up with the words “{text}”",
            "The work stayed unfinished when {agent} let go: {text}",
        ),
        (
            "{agent} let task {task} go unfinished",
            "{agent} put task {task} down before the end",
            "Task {task} stayed unfinished when {agent} let go",
            "{agent} stepped away from task {task}, which was not done",
            "With task {task} not yet done, {agent} let go",
        ),
        (
            "{agent} abandoned the work",
            "{agent} abandoned the work before the end",
            "The work was abandoned by {agent}",
            "{agent} stepped away and abandoned the work",
            "A piece of work was abandoned as {agent} let go",
        ),
    ),
    "fleet.collab": (
        (
            "{agent} worked together with {child}: {text}",
            "{agent} and {child} came together over one thing: {text}",
            "Side by side, {agent} and {child} had this on the table: {text}",
            "{agent} sat down with {child} over the work: {text}",
            "{agent} and {child} shared the work, noted as “{text}”",
        ),
        (
            "{agent} worked with others on one thing: {text}",
            "{agent} joined in shared work: {text}",
            "Together with others, {agent} had this in hand: {text}",
            "{agent} took part in common work, noted as “{text}”",
            "Shared work brought {agent} together with others: {text}",
        ),
        (
            "{agent} and {child} worked on one thing together",
            "{agent} worked side by side with {child}",
            "{agent} and {child} had the same piece of work in hand",
            "One piece of work brought {agent} and {child} together",
            "{agent} shared a piece of work with {child}",
        ),
        (
            "{agent} collaborated with others",
            "{agent} joined others in a collaboration",
            "A collaboration brought {agent} and others together",
            "{agent} took part in a collaboration",
            "{agent} and others collaborated on one thing",
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
            "No work was at hand for {agent}: {text}",
            "{agent} paused with the note “{text}”",
            "For the moment {agent} was without work: {text}",
        ),
        (
            "{agent} was idle",
            "{agent} was idle, with nothing to do",
            "No work was at hand, and {agent} was idle",
            "{agent} reported an idle moment",
            "An idle moment was noted for {agent}",
        ),
    ),
    "fleet.milestone": (
        (
            "{agent} reached a milestone: {text}",
            "Here is something to remember of {agent}: {text}",
            "The work of {agent} came to a milestone: {text}",
            "{agent} came to a point worth noting: {text}",
            "A milestone went on record for {agent}: {text}",
            "Worth remembering of {agent}: {text}",
        ),
        (
            "{agent} reached a milestone on mission {mission}",
            "Mission {mission} came to a milestone with {agent}",
            "On mission {mission}, {agent} reached something worth remembering",
            "{agent} came to a point worth remembering on mission {mission}",
            "The record of mission {mission} gained a milestone by {agent}",
        ),
        (
            "{agent} reached a milestone",
            "{agent} came to a milestone",
            "A milestone went down under the name of {agent}",
            "The work of {agent} passed a milestone",
            "With {agent}, the work came to a milestone",
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
        "{agent} met with {count} problems {when}",
        "Things went wrong for {agent} {count_times} {when}",
    ),
    "fleet.recovery": (
        "{agent} put things right {count_times} {when}",
        "{agent} got past trouble {count_times} {when}",
        "The record shows {count} repairs by {agent} {when}",
    ),
    "fleet.abandon": (
        "{agent} let work go unfinished {count_times} {when}",
        "{agent} put work down {count_times} {when}, each time before the end",
        "The end was not reached when {agent} let go, {count_times} {when}",
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
        "The work of {agent} came to something worth remembering {count_times} {when}",
    ),
}
"""Kind → how a run of like events is told."""
