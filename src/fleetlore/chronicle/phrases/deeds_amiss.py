"""How it is told: what went amiss with a tool, or was not let. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tool.failed/look": (
        (
            "{agent} looked and found nothing: {subject}",
            "A look by {agent} came back empty: {subject}",
            "{agent} came up empty: {subject}",
            "{agent} looked for this in vain: {subject}",
            "{agent} searched and found nothing: {subject}",
        ),
        (
            "{agent} looked and found nothing",
            "A look by {agent} came back empty",
            "{agent} came up empty",
            "{agent} took a look in vain",
            "{agent} searched and found nothing",
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
            "More than one edit by {agent} missed",
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
            "{agent} tried in vain to commit",
        ),
    ),
    "tool.failed/push": (
        (
            "{agent} could not push “{subject}”",
            "A push by {agent} failed: {subject}",
            "The push of {agent} was turned down: {subject}",
            "Something kept {agent} from pushing “{subject}”",
            "{agent} tried in vain to push “{subject}”",
        ),
        (
            "{agent} could not push",
            "A push by {agent} failed",
            "The push of {agent} was turned down",
            "Something kept {agent} from pushing",
            "{agent} tried in vain to push",
        ),
    ),
    "tool.failed/pr_open": (
        (
            "{agent} could not open a pull request: {subject}",
            "The pull request of {agent} did not open: {subject}",
            "Something kept {agent} from proposing “{subject}”",
            "{agent} tried in vain to open a pull request: {subject}",
            "A pull request by {agent} failed to open: {subject}",
        ),
        (
            "{agent} could not open a pull request",
            "The pull request of {agent} did not open",
            "Something kept {agent} from proposing the work",
            "{agent} tried in vain to open a pull request",
            "A pull request by {agent} failed to open",
        ),
    ),
    "tool.failed/pr_merge": (
        (
            "{agent} could not merge “{subject}”",
            "The merge of “{subject}” failed for {agent}",
            "Something kept {agent} from merging “{subject}”",
            "{agent} tried in vain to merge “{subject}”",
            "A merge by {agent} did not go through: {subject}",
        ),
        (
            "{agent} could not merge the pull request",
            "The merge failed for {agent}",
            "Something kept {agent} from merging",
            "{agent} tried in vain to merge",
            "A merge by {agent} did not go through",
        ),
    ),
    "tool.failed/test": (
        (
            "The tests failed for {agent}: {subject}",
            "{agent} ran the tests, and some failed: {subject}",
            "A test run by {agent} came back red: {subject}",
            "Some tests failed for {agent}: {subject}",
            "{agent} saw tests fail: {subject}",
        ),
        (
            "The tests failed for {agent}",
            "{agent} ran the tests, and some failed",
            "A test run by {agent} came back red",
            "Some tests failed for {agent}",
            "{agent} saw tests fail",
        ),
    ),
    "tool.failed/build": (
        (
            "The build failed for {agent}: {subject}",
            "{agent} could not build the code: {subject}",
            "A build by {agent} broke: {subject}",
            "The code did not build for {agent}: {subject}",
            "{agent} saw the build fail: {subject}",
        ),
        (
            "The build failed for {agent}",
            "{agent} could not build the code",
            "A build by {agent} broke",
            "The code did not build for {agent}",
            "{agent} saw the build fail",
        ),
    ),
    "tool.failed/check": (
        (
            "The checks found fault with the work of {agent}: {subject}",
            "{agent} ran the checks, and there were complaints: {subject}",
            "A check by {agent} found faults: {subject}",
            "Faults came to light in a check by {agent}: {subject}",
            "{agent} saw a check fail: {subject}",
        ),
        (
            "The checks found fault with the work of {agent}",
            "{agent} ran the checks, and there were complaints",
            "A check by {agent} found faults",
            "Faults came to light in a check by {agent}",
            "{agent} saw a check fail",
        ),
    ),
    "tool.failed/install": (
        (
            "{agent} could not install packages: {subject}",
            "An installation by {agent} failed: {subject}",
            "The packages that {agent} wanted could not be installed: {subject}",
            "{agent} tried in vain to install packages: {subject}",
            "{agent} saw an installation fail: {subject}",
        ),
        (
            "{agent} could not install packages",
            "An installation by {agent} failed",
            "The packages that {agent} wanted could not be installed",
            "{agent} tried in vain to install packages",
            "{agent} saw an installation fail",
        ),
    ),
    "tool.failed/launch": (
        (
            "{agent} got nothing from a helper: {subject}",
            "The work for a helper of {agent} failed: {subject}",
            "A helper of {agent} came back with an error: {subject}",
            "Help did not come for {agent}: {subject}",
            "{agent} saw a helper fail: {subject}",
        ),
        (
            "{agent} got nothing from a helper",
            "The work for a helper of {agent} failed",
            "A helper of {agent} came back with an error",
            "Help did not come for {agent}",
            "{agent} saw a helper fail",
        ),
    ),
    "tool.failed/run": (
        (
            "A command failed for {agent}: {subject}",
            "{agent} ran this, and it failed: {subject}",
            "This did not work for {agent}: {subject}",
            "{agent} tried this in vain: {subject}",
            "{agent} saw a command fail: {subject}",
        ),
        (
            "A command failed for {agent}",
            "{agent} ran a command, and it failed",
            "The command of {agent} did not work",
            "{agent} tried a command in vain",
            "{agent} saw a command fail",
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
            "{agent} was not allowed to edit a file: {reason}",
            "An edit that {agent} wanted was turned down: {reason}",
            "An edit by {agent} was not allowed: {reason}",
            "{agent} wanted to change a file and was refused: {reason}",
            "{agent} got no permission for an edit: {reason}",
        ),
        (
            "{agent} was not allowed to edit a file",
            "An edit that {agent} wanted was turned down",
            "An edit by {agent} was not allowed",
            "{agent} wanted to change a file and was refused",
            "{agent} got no permission for an edit",
        ),
    ),
    "tool.denied/commit": (
        (
            "{agent} was not allowed to commit: {reason}",
            "A commit that {agent} wanted was turned down: {reason}",
            "A commit by {agent} was not allowed: {reason}",
            "{agent} wanted to commit and was refused: {reason}",
            "{agent} got no permission for a commit: {reason}",
        ),
        (
            "{agent} was not allowed to commit",
            "A commit that {agent} wanted was turned down",
            "A commit by {agent} was not allowed",
            "{agent} wanted to commit and was refused",
            "{agent} got no permission for a commit",
        ),
    ),
    "tool.denied/push": (
        (
            "{agent} was not allowed to push: {reason}",
            "A push that {agent} wanted was turned down: {reason}",
            "A push by {agent} was not allowed: {reason}",
            "{agent} wanted to push and was refused: {reason}",
            "{agent} got no permission for a push: {reason}",
        ),
        (
            "{agent} was not allowed to push",
            "A push that {agent} wanted was turned down",
            "A push by {agent} was not allowed",
            "{agent} wanted to push and was refused",
            "{agent} got no permission for a push",
        ),
    ),
    "tool.denied/plan": (
        (
            "{agent} had a plan turned down: {reason}",
            "The plan of {agent} was refused: {reason}",
            "A person did not go along with the plan of {agent}: {reason}",
            "There was no permission for the plan of {agent}: {reason}",
            "{agent} put a plan forward and was refused: {reason}",
        ),
        (
            "{agent} had a plan turned down",
            "The plan of {agent} was refused",
            "A person did not go along with the plan of {agent}",
            "There was no permission for the plan of {agent}",
            "{agent} put a plan forward and was refused",
        ),
    ),
    "tool.denied/run": (
        (
            "{agent} was not allowed to run a command: {reason}",
            "A command of {agent} was turned down: {reason}",
            "A command by {agent} was not allowed: {reason}",
            "{agent} wanted to run a command and was refused: {reason}",
            "{agent} got no permission for a command: {reason}",
        ),
        (
            "{agent} was not allowed to run a command",
            "A command of {agent} was turned down",
            "A command by {agent} was not allowed",
            "{agent} wanted to run a command and was refused",
            "{agent} got no permission for a command",
        ),
    ),
    "tool.called/loop": (
        (
            "{agent} made the same call to {tool} for the third time in a row",
            "{agent} called {tool} three times in a row in the same way",
            "{agent} went in circles with {tool}, three calls alike in a row",
            "The same call to {tool} came from {agent} three times running",
            "{agent} repeated the same call to {tool} for the third time",
        ),
        (
            "{agent} made the same call for the third time in a row",
            "{agent} called the same tool three times in the same way",
            "{agent} went in circles, three calls alike in a row",
            "The same call came from {agent} three times running",
            "{agent} repeated the same call for the third time",
        ),
    ),
    "prompt.submitted/correction": (
        (
            "A person put {agent} right: “{text}”",
            "{agent} was told otherwise: “{text}”",
            "A correction reached {agent}: “{text}”",
            "Somebody stepped in and told {agent}: “{text}”",
            "A person corrected {agent}: “{text}”",
        ),
        (
            "A person put {agent} right",
            "{agent} was told otherwise",
            "A correction reached {agent}",
            "Somebody stepped in and set {agent} right",
            "A person corrected {agent}",
        ),
    ),
}
"""Key → groups of variants, best first."""


MANY: Mapping[str, tuple[str, ...]] = {
    "tool.failed/look": (
        "{agent} looked {count_times} {when} and found nothing",
        "{agent} came up empty {count_times} {when}",
        "{agent} searched {count_times} {when} and found nothing",
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
        "{agent} tried in vain to open a pull request {count_times} {when}",
    ),
    "tool.failed/pr_merge": (
        "{agent} could not merge {count_times} {when}",
        "{agent} had {count} merges fail {when}",
        "{agent} tried in vain to merge {count_times} {when}",
    ),
    "tool.failed/test": (
        "The tests failed for {agent} {count_times} {when}",
        "{agent} had {count} test runs fail {when}",
        "{agent} saw {count} test runs fail {when}",
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
        "{agent} tried in vain to install packages {count_times} {when}",
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
        "{agent} was not allowed to edit a file {count_times} {when}",
        "{agent} had {count} edits turned down {when}",
        "Edits by {agent} were refused {count_times} {when}",
    ),
    "tool.denied/commit": (
        "{agent} was not allowed to commit {count_times} {when}",
        "{agent} had {count} commits turned down {when}",
        "Commits by {agent} were refused {count_times} {when}",
    ),
    "tool.denied/push": (
        "{agent} was not allowed to push {count_times} {when}",
        "{agent} had {count} pushes turned down {when}",
        "Pushes by {agent} were refused {count_times} {when}",
    ),
    "tool.denied/plan": (
        "{agent} had {count} plans turned down {when}",
        "The plans of {agent} were refused {count_times} {when}",
        "There was no permission for {count} plans of {agent} {when}",
    ),
    "tool.denied/run": (
        "{agent} was not allowed to run a command {count_times} {when}",
        "{agent} had {count} commands turned down {when}",
        "Commands by {agent} were refused {count_times} {when}",
    ),
    "tool.called/loop": (
        "{agent} went in circles {count_times} {when}, with the same call each time",
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
