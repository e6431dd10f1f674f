"""How it is told: what went amiss with a tool, or was not let. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tool.failed/look": (
        (
            "{agent} looked and found nothing: {subject}",
            "A look by {agent} came back empty: {subject}",
            "There was nothing to see for {agent}: {subject}",
            "In vain {agent} took a look: {subject}",
            "{agent} searched without a find: {subject}",
        ),
        (
            "{agent} looked and found nothing",
            "A look by {agent} came back empty",
            "There was nothing to see for {agent}",
            "In vain {agent} took a look",
            "{agent} searched without a find",
        ),
    ),
    "tool.failed/edit": (
        (
            "{agent} could not edit “{subject}”",
            "An edit of “{subject}” by {agent} did not take",
            "The change that {agent} wanted in “{subject}” did not go in",
            "{agent} tried to change “{subject}”, and it failed",
            "In “{subject}”, an edit by {agent} missed",
        ),
        (
            "{agent} could not make an edit",
            "An edit by {agent} did not take",
            "The change that {agent} wanted did not go in",
            "{agent} tried to change a file, and it failed",
            "One edit by {agent} missed",
        ),
    ),
    "tool.failed/edit/stuck": (
        (
            "{agent} could not get an edit of “{subject}” to take",
            "One edit of “{subject}” after the other missed for {agent}",
            "The edits that {agent} tried in “{subject}” kept missing",
            "{agent} tried more than once to change “{subject}” in vain",
            "In “{subject}”, {agent} missed with more than one edit",
        ),
        (
            "{agent} could not get an edit to take",
            "One edit after the other missed for {agent}",
            "The edits that {agent} tried kept missing",
            "{agent} tried more than once to change a file in vain",
            "With more than one edit {agent} missed",
        ),
    ),
    "tool.failed/commit": (
        (
            "{agent} could not commit “{subject}”: {error}",
            "The commit “{subject}” failed for {agent}: {error}",
            "A commit by {agent}, “{subject}”, was refused: {error}",
            "Something kept {agent} from committing “{subject}”: {error}",
            "{agent} tried to commit “{subject}” and got an error: {error}",
        ),
        (
            "{agent} could not commit “{subject}”",
            "The commit “{subject}” failed for {agent}",
            "A commit by {agent}, “{subject}”, was refused",
            "Something kept {agent} from committing “{subject}”",
            "{agent} tried to commit “{subject}” in vain",
        ),
        (
            "{agent} could not make a commit",
            "A commit by {agent} failed",
            "Something kept {agent} from committing",
            "The commit that {agent} wanted did not go through",
            "In vain {agent} tried to commit",
        ),
    ),
    "tool.failed/push": (
        (
            "{agent} could not push “{subject}”",
            "A push by {agent} failed: {subject}",
            "The push of {agent} was turned down: {subject}",
            "Something kept {agent} from pushing “{subject}”",
            "In vain {agent} tried to push “{subject}”",
        ),
        (
            "{agent} could not push",
            "A push by {agent} failed",
            "The push of {agent} was turned down",
            "Something kept {agent} from pushing",
            "In vain {agent} tried to push",
        ),
    ),
    "tool.failed/pr_open": (
        (
            "{agent} could not open a pull request: {subject}",
            "The pull request of {agent} did not open: {subject}",
            "Something kept {agent} from proposing “{subject}”",
            "In vain {agent} tried to open a pull request: {subject}",
            "A pull request by {agent} failed to open: {subject}",
        ),
        (
            "{agent} could not open a pull request",
            "The pull request of {agent} did not open",
            "Something kept {agent} from proposing the work",
            "In vain {agent} tried to open a pull request",
            "A pull request by {agent} failed to open",
        ),
    ),
    "tool.failed/pr_merge": (
        (
            "{agent} could not merge “{subject}”",
            "The merge of “{subject}” failed for {agent}",
            "Something kept {agent} from merging “{subject}”",
            "In vain {agent} tried to merge “{subject}”",
            "A merge by {agent} did not go through: {subject}",
        ),
        (
            "{agent} could not merge the pull request",
            "The merge failed for {agent}",
            "Something kept {agent} from merging",
            "In vain {agent} tried to merge",
            "A merge by {agent} did not go through",
        ),
    ),
    "tool.failed/test": (
        (
            "The tests failed for {agent}: {subject}",
            "{agent} ran the tests, and some failed: {subject}",
            "A test run by {agent} came back red: {subject}",
            "Red tests for {agent}: {subject}",
            "{agent} had tests fail: {subject}",
        ),
        (
            "The tests failed for {agent}",
            "{agent} ran the tests, and some failed",
            "A test run by {agent} came back red",
            "Red tests came back to {agent}",
            "{agent} had tests fail",
        ),
    ),
    "tool.failed/build": (
        (
            "The build failed for {agent}: {subject}",
            "{agent} could not build the code: {subject}",
            "A build by {agent} broke: {subject}",
            "No build came of this for {agent}: {subject}",
            "{agent} had the build fail: {subject}",
        ),
        (
            "The build failed for {agent}",
            "{agent} could not build the code",
            "A build by {agent} broke",
            "No build came of it for {agent}",
            "{agent} had the build fail",
        ),
    ),
    "tool.failed/check": (
        (
            "The checks found fault with the work of {agent}: {subject}",
            "{agent} ran the checks, and there were complaints: {subject}",
            "A check by {agent} found faults: {subject}",
            "Faults came to light in a check by {agent}: {subject}",
            "{agent} had a check fail: {subject}",
        ),
        (
            "The checks found fault with the work of {agent}",
            "{agent} ran the checks, and there were complaints",
            "A check by {agent} found faults",
            "Faults came to light in a check by {agent}",
            "{agent} had a check fail",
        ),
    ),
    "tool.failed/install": (
        (
            "{agent} could not bring packages in: {subject}",
            "An installation by {agent} failed: {subject}",
            "The packages that {agent} wanted did not come in: {subject}",
            "In vain {agent} tried to install: {subject}",
            "{agent} had an installation fail: {subject}",
        ),
        (
            "{agent} could not bring packages in",
            "An installation by {agent} failed",
            "The packages that {agent} wanted did not come in",
            "In vain {agent} tried to install packages",
            "{agent} had an installation fail",
        ),
    ),
    "tool.failed/launch": (
        (
            "{agent} got nothing from a helper: {subject}",
            "The work for a helper of {agent} failed: {subject}",
            "A helper of {agent} came back with an error: {subject}",
            "Help did not come for {agent}: {subject}",
            "{agent} had a helper fail: {subject}",
        ),
        (
            "{agent} got nothing from a helper",
            "The work for a helper of {agent} failed",
            "A helper of {agent} came back with an error",
            "Help did not come for {agent}",
            "{agent} had a helper fail",
        ),
    ),
    "tool.failed/run": (
        (
            "A command failed for {agent}: {subject}",
            "{agent} ran this, and it failed: {subject}",
            "This did not work for {agent}: {subject}",
            "In vain {agent} tried this: {subject}",
            "{agent} had a command fail: {subject}",
        ),
        (
            "A command failed for {agent}",
            "{agent} ran a command, and it failed",
            "The command of {agent} did not work",
            "In vain {agent} tried a command",
            "{agent} had a command fail",
        ),
    ),
    "tool.failed/interrupted": (
        (
            "A person broke off what {agent} was doing: {subject}",
            "{agent} was stopped in the middle of this: {subject}",
            "This did not come to its end with {agent}: {subject}",
            "Somebody stopped {agent} at this: {subject}",
            "In the middle of this {agent} had to stop: {subject}",
        ),
        (
            "A person broke off what {agent} was doing",
            "{agent} was stopped in the middle of a step",
            "One step of {agent} did not come to its end",
            "Somebody stopped {agent} in the middle of a step",
            "In the middle of a step {agent} had to stop",
        ),
    ),
    "tool.denied/edit": (
        (
            "{agent} was not let edit a file: {reason}",
            "An edit that {agent} wanted was turned down: {reason}",
            "No leave came for an edit by {agent}: {reason}",
            "{agent} wanted to change a file and got a no: {reason}",
            "The answer to {agent} about an edit was no: {reason}",
        ),
        (
            "{agent} was not let edit a file",
            "An edit that {agent} wanted was turned down",
            "No leave came for an edit by {agent}",
            "{agent} wanted to change a file and got a no",
            "The answer to {agent} about an edit was no",
        ),
    ),
    "tool.denied/commit": (
        (
            "{agent} was not let commit: {reason}",
            "A commit that {agent} wanted was turned down: {reason}",
            "No leave came for a commit by {agent}: {reason}",
            "{agent} wanted to commit and got a no: {reason}",
            "The answer to {agent} about a commit was no: {reason}",
        ),
        (
            "{agent} was not let commit",
            "A commit that {agent} wanted was turned down",
            "No leave came for a commit by {agent}",
            "{agent} wanted to commit and got a no",
            "The answer to {agent} about a commit was no",
        ),
    ),
    "tool.denied/push": (
        (
            "{agent} was not let push: {reason}",
            "A push that {agent} wanted was turned down: {reason}",
            "No leave came for a push by {agent}: {reason}",
            "{agent} wanted to push and got a no: {reason}",
            "The answer to {agent} about a push was no: {reason}",
        ),
        (
            "{agent} was not let push",
            "A push that {agent} wanted was turned down",
            "No leave came for a push by {agent}",
            "{agent} wanted to push and got a no",
            "The answer to {agent} about a push was no",
        ),
    ),
    "tool.denied/plan": (
        (
            "{agent} had a plan turned down: {reason}",
            "The plan of {agent} met with a no: {reason}",
            "A person did not go along with the plan of {agent}: {reason}",
            "No leave came for the plan of {agent}: {reason}",
            "{agent} put a plan forward and got a no: {reason}",
        ),
        (
            "{agent} had a plan turned down",
            "The plan of {agent} met with a no",
            "A person did not go along with the plan of {agent}",
            "No leave came for the plan of {agent}",
            "{agent} put a plan forward and got a no",
        ),
    ),
    "tool.denied/run": (
        (
            "{agent} was not let run a command: {reason}",
            "A command of {agent} was turned down: {reason}",
            "No leave came for a command by {agent}: {reason}",
            "{agent} wanted to run a command and got a no: {reason}",
            "The answer to {agent} about a command was no: {reason}",
        ),
        (
            "{agent} was not let run a command",
            "A command of {agent} was turned down",
            "No leave came for a command by {agent}",
            "{agent} wanted to run a command and got a no",
            "The answer to {agent} about a command was no",
        ),
    ),
    "tool.called/loop": (
        (
            "{agent} made the same call to {tool} for the third time in a row",
            "A third call in a row to {tool}, the same one, came from {agent}",
            "Round and round went {agent} with {tool}: three calls alike in a row",
            "Three times running {tool} had the same call from {agent}",
            "In a row {agent} gave {tool} three calls alike",
        ),
        (
            "{agent} made the same call for the third time in a row",
            "A third call in a row, the same one, came from {agent}",
            "Round and round went {agent}: three calls alike in a row",
            "Three times running the same call came from {agent}",
            "In a row {agent} made three calls alike",
        ),
    ),
    "prompt.submitted/correction": (
        (
            "A person put {agent} right: “{text}”",
            "{agent} was told otherwise: “{text}”",
            "A correction reached {agent}: “{text}”",
            "Somebody stepped in and told {agent}: “{text}”",
            "To what {agent} had done, a person said: “{text}”",
        ),
        (
            "A person put {agent} right",
            "{agent} was told otherwise",
            "A correction reached {agent}",
            "Somebody stepped in and set {agent} right",
            "From a person came a correction for {agent}",
        ),
    ),
}
"""Key → groups of variants, best first."""


MANY: Mapping[str, tuple[str, ...]] = {
    "tool.failed/look": (
        "{agent} looked {count_times} {when} and found nothing",
        "{agent} had {count} looks come back empty {when}",
        "There were {count} looks by {agent} without a find {when}",
    ),
    "tool.failed/edit": (
        "{agent} had {count} edits fail {when}",
        "{agent} could not make an edit {count_times} {when}",
        "There were {count} edits by {agent} that did not take {when}",
    ),
    "tool.failed/edit/stuck": (
        "{agent} could not get edits to take {count_times} {when}",
        "One edit after the other missed for {agent}, {count_times} {when}",
        "There were {count} files {when} in which the edits of {agent} missed",
    ),
    "tool.failed/commit": (
        "{agent} could not commit {count_times} {when}",
        "{agent} had {count} commits fail {when}",
        "There were {count} commits by {agent} that did not go through {when}",
    ),
    "tool.failed/push": (
        "{agent} could not push {count_times} {when}",
        "{agent} had {count} pushes fail {when}",
        "There were {count} pushes by {agent} that did not go through {when}",
    ),
    "tool.failed/pr_open": (
        "{agent} could not open a pull request {count_times} {when}",
        "{agent} had {count} pull requests fail to open {when}",
        "There were {count} vain tries by {agent} to open a pull request {when}",
    ),
    "tool.failed/pr_merge": (
        "{agent} could not merge {count_times} {when}",
        "{agent} had {count} merges fail {when}",
        "There were {count} vain tries by {agent} to merge {when}",
    ),
    "tool.failed/test": (
        "The tests failed for {agent} {count_times} {when}",
        "{agent} had {count} test runs fail {when}",
        "There were {count} red test runs for {agent} {when}",
    ),
    "tool.failed/build": (
        "The build failed for {agent} {count_times} {when}",
        "{agent} had {count} builds fail {when}",
        "There were {count} broken builds for {agent} {when}",
    ),
    "tool.failed/check": (
        "The checks found faults for {agent} {count_times} {when}",
        "{agent} had {count} checks fail {when}",
        "There were {count} checks by {agent} that found faults {when}",
    ),
    "tool.failed/install": (
        "{agent} could not bring packages in {count_times} {when}",
        "{agent} had {count} installations fail {when}",
        "There were {count} vain tries by {agent} to install packages {when}",
    ),
    "tool.failed/launch": (
        "{agent} got nothing from helpers {count_times} {when}",
        "{agent} had helpers fail {count_times} {when}",
        "There were {count} errors from helpers of {agent} {when}",
    ),
    "tool.failed/run": (
        "{agent} had {count} commands fail {when}",
        "Commands failed for {agent} {count_times} {when}",
        "There were {count} commands by {agent} that did not work {when}",
    ),
    "tool.failed/interrupted": (
        "{agent} was stopped in the middle of a step {count_times} {when}",
        "A person broke off what {agent} was doing {count_times} {when}",
        "There were {count} steps of {agent} {when} that did not come to an end",
    ),
    "tool.denied/edit": (
        "{agent} was not let edit a file {count_times} {when}",
        "{agent} had {count} edits turned down {when}",
        "No leave came for {count} edits by {agent} {when}",
    ),
    "tool.denied/commit": (
        "{agent} was not let commit {count_times} {when}",
        "{agent} had {count} commits turned down {when}",
        "No leave came for {count} commits by {agent} {when}",
    ),
    "tool.denied/push": (
        "{agent} was not let push {count_times} {when}",
        "{agent} had {count} pushes turned down {when}",
        "No leave came for {count} pushes by {agent} {when}",
    ),
    "tool.denied/plan": (
        "{agent} had {count} plans turned down {when}",
        "The plans of {agent} met with a no {count_times} {when}",
        "No leave came for {count} plans of {agent} {when}",
    ),
    "tool.denied/run": (
        "{agent} was not let run a command {count_times} {when}",
        "{agent} had {count} commands turned down {when}",
        "No leave came for {count} commands by {agent} {when}",
    ),
    "tool.called/loop": (
        "{agent} went round and round {count_times} {when}, with the same call each time",
        "{agent} made the same call over and over {count_times} {when}",
        "There were {count} loops of like calls by {agent} {when}",
    ),
    "prompt.submitted/correction": (
        "A person put {agent} right {count_times} {when}",
        "{agent} was told otherwise {count_times} {when}",
        "There were {count} corrections for {agent} {when}",
    ),
}
"""Key → how a run of like events is told."""
