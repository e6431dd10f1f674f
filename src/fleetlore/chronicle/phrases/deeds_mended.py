"""How it is told: deeds that mean more after what came before them (`views/beats.py`). Data only; `phrases/__init__.py` tells the rules.

A key is a kind, a deed where that matters, and why it has another beat than usual.
"""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tool.returned/test/mended": (
        (
            "{agent} got the tests to pass again: {subject}",
            "The tests passed again for {agent}: {subject}",
            "With the fault gone, the tests of {agent} passed: {subject}",
            "{agent} brought the tests back to green: {subject}",
            "The tests of {agent} were green again: {subject}",
        ),
        (
            "{agent} got the tests to pass again",
            "The tests passed again for {agent}",
            "With the fault gone, the tests of {agent} passed",
            "{agent} brought the tests back to green",
            "The tests of {agent} were green again",
        ),
    ),
    "tool.returned/build/mended": (
        (
            "{agent} got the build working again: {subject}",
            "The build came through again for {agent}: {subject}",
            "With the fault gone, the build of {agent} worked: {subject}",
            "{agent} fixed the build: {subject}",
            "The build that had failed for {agent} now worked: {subject}",
        ),
        (
            "{agent} got the build working again",
            "The build came through again for {agent}",
            "With the fault gone, the build of {agent} worked",
            "{agent} fixed the build",
            "The build that had failed for {agent} now worked",
        ),
    ),
    "tool.returned/check/mended": (
        (
            "{agent} got the checks clean again: {subject}",
            "The checks were clean again for {agent}: {subject}",
            "With the faults gone, {agent} passed the checks: {subject}",
            "{agent} fixed what the checks had found: {subject}",
            "The checks had no more complaints about the work of {agent}: {subject}",
        ),
        (
            "{agent} got the checks clean again",
            "The checks were clean again for {agent}",
            "With the faults gone, {agent} passed the checks",
            "{agent} fixed what the checks had found",
            "The checks had no more complaints about the work of {agent}",
        ),
    ),
    "tool.returned/commit/mended": (
        (
            "{agent} got the commit through this time: {subject}",
            "This time the commit of {agent} went through: {subject}",
            "After a refusal, {agent} made the commit: {subject}",
            "The commit that had failed went through for {agent}: {subject}",
            "{agent} fixed what stood in the way and committed “{subject}”",
        ),
        (
            "{agent} got the commit through this time",
            "This time the commit of {agent} went through",
            "After a refusal, {agent} made the commit",
            "The commit that had failed went through for {agent}",
            "{agent} fixed what stood in the way and committed",
        ),
    ),
    "tool.returned/edit/mended": (
        (
            "{agent} got the edit of “{subject}” right at a later try",
            "After some misses, {agent} edited “{subject}”",
            "The edit of “{subject}” that {agent} wanted went in",
            "{agent} found the right place in “{subject}”",
            "This time {agent} got the edit of “{subject}” right",
        ),
        (
            "{agent} got the edit right at a later try",
            "After some misses, {agent} made the edit",
            "The edit that {agent} wanted went in",
            "{agent} found the right place for the edit",
            "This time {agent} got the edit right",
        ),
    ),
    "tool.returned/mended": (
        (
            "{agent} got this to work at a later try: {subject}",
            "What had failed for {agent} now worked: {subject}",
            "At a later try it worked for {agent}: {subject}",
            "{agent} fixed this: {subject}",
            "{agent} got past the trouble with this: {subject}",
        ),
        (
            "{agent} got it to work at a later try",
            "What had failed for {agent} now worked",
            "At a later try it worked for {agent}",
            "{agent} fixed what had failed",
            "{agent} got past the trouble",
        ),
    ),
    "tool.returned/allowed": (
        (
            "{agent} had permission this time: {subject}",
            "What had been denied to {agent} was now allowed: {subject}",
            "This time {agent} was allowed to go on: {subject}",
            "The way was open for {agent}: {subject}",
            "With permission given, {agent} did this: {subject}",
        ),
        (
            "{agent} had permission this time",
            "What had been denied to {agent} was now allowed",
            "This time {agent} was allowed to go on",
            "The way was open for {agent}",
            "With permission given, {agent} went on",
        ),
    ),
    "tool.returned/undone": (
        (
            "{agent} took back an edit of “{subject}”",
            "{agent} put the old text back into “{subject}”",
            "An edit of “{subject}” was undone by {agent}",
            "In “{subject}”, {agent} went back to the old text",
            "{agent} restored the old text of “{subject}”",
        ),
        (
            "{agent} took back an edit",
            "{agent} put the old text back",
            "An edit was undone by {agent}",
            "{agent} restored the old text",
            "In one place {agent} went back to the old text",
        ),
    ),
}
"""Key → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "tool.returned/test/mended": (
        "{agent} brought the tests back to green {count_times} {when}",
        "The tests passed again {count_times} for {agent} {when}",
        "{agent} got the tests to pass again {count_times} {when}",
    ),
    "tool.returned/build/mended": (
        "{agent} fixed the build {count_times} {when}",
        "The build came through again {count_times} for {agent} {when}",
        "{agent} got the build working again {count_times} {when}",
    ),
    "tool.returned/check/mended": (
        "{agent} got the checks clean again {count_times} {when}",
        "The checks were clean again {count_times} for {agent} {when}",
        "{agent} fixed what the checks had found {count_times} {when}",
    ),
    "tool.returned/commit/mended": (
        "{agent} got a commit through at a later try {count_times} {when}",
        "After a refusal, {agent} made the commit {count_times} {when}",
        "A commit that had failed went through for {agent} {count_times} {when}",
    ),
    "tool.returned/edit/mended": (
        "{agent} got edits right at a later try {count_times} {when}",
        "After some misses, {agent} made the edit {count_times} {when}",
        "There were {count} edits by {agent} that went in at a later try {when}",
    ),
    "tool.returned/mended": (
        "{agent} fixed what had failed {count_times} {when}",
        "What had failed for {agent} worked {count_times} {when}",
        "At a later try it worked for {agent} {count_times} {when}",
    ),
    "tool.returned/allowed": (
        "{agent} had permission this time, {count_times} {when}",
        "What had been denied to {agent} was allowed {count_times} {when}",
        "The way was open for {agent} {count_times} {when}",
    ),
    "tool.returned/undone": (
        "{agent} took back {count} edits {when}",
        "{agent} put the old text back {count_times} {when}",
        "There were {count} edits undone by {agent} {when}",
    ),
}
"""Key → how a run of like events is told."""
