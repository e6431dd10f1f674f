"""How it is told: what agents got done with their tools, deed by deed. Data only; `phrases/__init__.py` tells the rules.

A key is a kind and a deed.
"""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tool.returned/look": (
        (
            "{agent} looked at “{subject}”",
            "{agent} took a look at “{subject}”",
            "{agent} examined “{subject}”",
            "{agent} went through “{subject}”",
            "{agent} had a look at “{subject}”",
        ),
        (
            "{agent} took a look around",
            "{agent} looked something up",
            "{agent} had a look around",
            "For a moment {agent} read and searched",
            "{agent} read on and looked around",
        ),
    ),
    "tool.returned/edit": (
        (
            "{agent} edited “{subject}”",
            "{agent} changed “{subject}”",
            "An edit by {agent} went into “{subject}”",
            "In “{subject}”, {agent} made an edit",
            "{agent} worked on “{subject}”",
            "{agent} made changes to “{subject}”",
        ),
        (
            "{agent} edited a file",
            "{agent} made a change to a file",
            "An edit came from {agent}",
            "One more file changed under {agent}",
            "{agent} worked on a file",
        ),
    ),
    "tool.returned/commit": (
        (
            "{agent} committed “{subject}”",
            "{agent} made a commit: {subject}",
            "A commit by {agent} said “{subject}”",
            "{agent} checked in “{subject}”",
            "A commit came from {agent}: {subject}",
            "{agent} recorded a commit: {subject}",
        ),
        (
            "{agent} made a commit",
            "{agent} committed the work so far",
            "A commit came from {agent}",
            "The work of {agent} went into a commit",
            "{agent} checked the work in",
        ),
    ),
    "tool.returned/push": (
        (
            "{agent} pushed “{subject}”",
            "{agent} sent the work off with a push: {subject}",
            "A push by {agent} went out: {subject}",
            "With a push, {agent} shared “{subject}”",
            "{agent} pushed the latest work: {subject}",
        ),
        (
            "{agent} pushed the work",
            "{agent} sent the commits off",
            "A push by {agent} went out",
            "With a push, {agent} shared the work",
            "The commits of {agent} went to the remote",
        ),
    ),
    "tool.returned/pr_open": (
        (
            "{agent} opened a pull request: {subject}",
            "{agent} put the work up for review: {subject}",
            "A pull request came from {agent}: {subject}",
            "With a pull request, {agent} proposed “{subject}”",
            "{agent} asked for a review: {subject}",
        ),
        (
            "{agent} opened a pull request",
            "{agent} put the work up for review",
            "A pull request came from {agent}",
            "{agent} asked for a review of the work",
            "The work of {agent} went up for review",
        ),
    ),
    "tool.returned/pr_merge": (
        (
            "{agent} merged pull request “{subject}”",
            "{agent} brought a pull request in: {subject}",
            "A merge by {agent} took in “{subject}”",
            "With a merge, {agent} closed “{subject}”",
            "The pull request “{subject}” was merged by {agent}",
        ),
        (
            "{agent} merged a pull request",
            "{agent} brought a pull request in",
            "A merge came from {agent}",
            "With a merge, {agent} brought the work in",
            "A pull request was brought in by {agent}",
        ),
    ),
    "tool.returned/revert": (
        (
            "{agent} took work back: {subject}",
            "{agent} undid earlier work: {subject}",
            "{agent} stepped back: {subject}",
            "{agent} rolled work back: {subject}",
            "{agent} threw changes away: {subject}",
        ),
        (
            "{agent} took work back",
            "{agent} undid earlier changes",
            "{agent} took a step back",
            "{agent} rolled some changes back",
            "Earlier work was undone by {agent}",
        ),
    ),
    "tool.returned/test": (
        (
            "{agent} ran the tests: {subject}",
            "The tests ran for {agent}: {subject}",
            "{agent} put the work to the test: {subject}",
            "A test run by {agent} went through: {subject}",
            "{agent} tested the work: {subject}",
        ),
        (
            "{agent} ran the tests",
            "The tests ran for {agent}",
            "{agent} put the work to the test",
            "A test run by {agent} went through",
            "There was a test run by {agent}",
        ),
    ),
    "tool.returned/build": (
        (
            "{agent} built the code: {subject}",
            "The code was built for {agent}: {subject}",
            "{agent} ran a build: {subject}",
            "A build by {agent} went through: {subject}",
            "{agent} had the code built: {subject}",
        ),
        (
            "{agent} built the code",
            "The code was built for {agent}",
            "{agent} ran a build",
            "A build by {agent} went through",
            "There was a build by {agent}",
        ),
    ),
    "tool.returned/check": (
        (
            "{agent} ran the checks: {subject}",
            "The checks ran for {agent}: {subject}",
            "{agent} had the code checked: {subject}",
            "A check by {agent} went through: {subject}",
            "{agent} checked the code: {subject}",
        ),
        (
            "{agent} ran the checks",
            "The checks ran for {agent}",
            "{agent} had the code checked",
            "A check by {agent} went through",
            "There was a check of the code by {agent}",
        ),
    ),
    "tool.returned/install": (
        (
            "{agent} installed packages: {subject}",
            "{agent} installed what the work needed: {subject}",
            "An installation by {agent}: {subject}",
            "{agent} brought packages in: {subject}",
            "Packages came in for {agent}: {subject}",
        ),
        (
            "{agent} brought packages in",
            "{agent} installed what the work needed",
            "An installation by {agent} came through",
            "Packages came in for {agent}",
            "There were new packages for {agent}",
        ),
    ),
    "tool.returned/plan": (
        (
            "{agent} turned to the next step of the plan: {subject}",
            "{agent} kept the plan up to date: {subject}",
            "Next on the plan of {agent}: {subject}",
            "The plan of {agent} now said: {subject}",
            "{agent} went on with the plan: {subject}",
        ),
        (
            "{agent} brought the plan up to date",
            "{agent} worked on the plan",
            "The plan of {agent} moved on",
            "{agent} marked on the plan where things stood",
            "A plan took shape with {agent}",
        ),
    ),
    "tool.returned/ask": (
        (
            "{agent} asked a person: “{subject}”",
            "A question came from {agent}: “{subject}”",
            "{agent} wanted to know: “{subject}”",
            "The question of {agent} was “{subject}”",
            "Before going on, {agent} asked: “{subject}”",
        ),
        (
            "{agent} asked a person and had an answer",
            "A question of {agent} had an answer",
            "{agent} wanted to know something and was told",
            "Before going on, {agent} asked a person",
            "The question of {agent} was answered",
        ),
    ),
    "tool.returned/launch": (
        (
            "{agent} gave work to a helper: {subject}",
            "A helper of {agent} had this to do: {subject}",
            "{agent} called in a helper for this: {subject}",
            "With a helper, {agent} had this done: {subject}",
            "Some work went from {agent} to a helper: {subject}",
        ),
        (
            "{agent} gave work to a helper",
            "A helper worked for {agent}",
            "{agent} called in some help",
            "With a helper, {agent} went on",
            "Some work went from {agent} to a helper",
        ),
    ),
    "tool.returned/run": (
        (
            "{agent} ran this: {subject}",
            "{agent} ran a command: {subject}",
            "A command by {agent}: {subject}",
            "{agent} executed this: {subject}",
            "This ran for {agent}: {subject}",
        ),
        (
            "{agent} ran a command",
            "{agent} had a command run",
            "A command ran for {agent}",
            "{agent} executed a command",
            "There was a command from {agent}",
        ),
    ),
}
"""Key → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "tool.returned/look": (
        "{agent} looked around {count_times} {when}",
        "{agent} took {count} looks around {when}",
        "There were {count} looks around by {agent} {when}",
    ),
    "tool.returned/edit": (
        "{agent} made {count} edits {when}",
        "{agent} edited files {count_times} {when}",
        "There were {count} edits by {agent} {when}",
    ),
    "tool.returned/work": (
        "{agent} worked on {when}",
        "{agent} was at work {when}",
        "{agent} kept at it {when}",
        "Work by {agent} went on {when}",
        "The work of {agent} moved along {when}",
    ),
    "tool.returned/commit": (
        "{agent} made {count} commits {when}",
        "{agent} committed {count_times} {when}",
        "There were {count} commits by {agent} {when}",
    ),
    "tool.returned/push": (
        "{agent} pushed {count_times} {when}",
        "{agent} sent {count} pushes out {when}",
        "There were {count} pushes by {agent} {when}",
    ),
    "tool.returned/pr_open": (
        "{agent} opened {count} pull requests {when}",
        "{agent} put work up for review {count_times} {when}",
        "There were {count} pull requests from {agent} {when}",
    ),
    "tool.returned/pr_merge": (
        "{agent} merged {count} pull requests {when}",
        "{agent} brought {count} pull requests in {when}",
        "There were {count} merges by {agent} {when}",
    ),
    "tool.returned/revert": (
        "{agent} took work back {count_times} {when}",
        "{agent} undid earlier work {count_times} {when}",
        "There were {count} steps back by {agent} {when}",
    ),
    "tool.returned/test": (
        "{agent} ran the tests {count_times} {when}",
        "{agent} put the work to the test {count_times} {when}",
        "There were {count} test runs by {agent} {when}",
    ),
    "tool.returned/build": (
        "{agent} built the code {count_times} {when}",
        "{agent} ran {count} builds {when}",
        "There were {count} builds by {agent} {when}",
    ),
    "tool.returned/check": (
        "{agent} ran the checks {count_times} {when}",
        "{agent} had the code checked {count_times} {when}",
        "There were {count} checks by {agent} {when}",
    ),
    "tool.returned/install": (
        "{agent} brought packages in {count_times} {when}",
        "{agent} installed packages {count_times} {when}",
        "There were {count} installations by {agent} {when}",
    ),
    "tool.returned/plan": (
        "{agent} brought the plan up to date {count_times} {when}",
        "{agent} worked on the plan {count_times} {when}",
        "The plan of {agent} moved on {count_times} {when}",
    ),
    "tool.returned/ask": (
        "{agent} asked a person {count_times} {when}",
        "{agent} had {count} questions {when}",
        "There were {count} questions from {agent} {when}",
    ),
    "tool.returned/launch": (
        "{agent} gave work to helpers {count_times} {when}",
        "{agent} called in helpers {count_times} {when}",
        "There were {count} pieces of work for helpers of {agent} {when}",
    ),
    "tool.returned/run": (
        "{agent} ran {count} commands {when}",
        "{agent} had {count} commands run {when}",
        "There were {count} commands from {agent} {when}",
    ),
}
"""Key → how a run of like events is told."""
