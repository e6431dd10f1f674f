"""How it is told: deeds that mean more after what came before them (`views/beats.py`). Data only; `phrases/__init__.py` tells the rules.

A key is a kind, a deed where that matters, and why it has another beat than usual.
"""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tool.returned/test/mended": (
        (
            "{agent} had the tests pass again: {subject}",
            "The tests passed again for {agent}: {subject}",
            "With the fault gone, the tests of {agent} passed: {subject}",
            "{agent} brought the tests back to green: {subject}",
            "Back to green went the tests of {agent}: {subject}",
        ),
        (
            "{agent} had the tests pass again",
            "The tests passed again for {agent}",
            "With the fault gone, the tests of {agent} passed",
            "{agent} brought the tests back to green",
            "Back to green went the tests of {agent}",
        ),
    ),
    "tool.returned/build/mended": (
        (
            "{agent} had the build working again: {subject}",
            "The build came through again for {agent}: {subject}",
            "With the fault gone, {agent} had a build: {subject}",
            "{agent} brought the build back: {subject}",
            "What {agent} could not build before now came through: {subject}",
        ),
        (
            "{agent} had the build working again",
            "The build came through again for {agent}",
            "With the fault gone, {agent} had a build",
            "{agent} brought the build back",
            "What {agent} could not build before now came through",
        ),
    ),
    "tool.returned/check/mended": (
        (
            "{agent} had the checks come out clean again: {subject}",
            "The checks were clean again for {agent}: {subject}",
            "With the faults gone, {agent} passed the checks: {subject}",
            "{agent} put right what the checks had found: {subject}",
            "What the checks had held against {agent} was gone: {subject}",
        ),
        (
            "{agent} had the checks come out clean again",
            "The checks were clean again for {agent}",
            "With the faults gone, {agent} passed the checks",
            "{agent} put right what the checks had found",
            "What the checks had held against {agent} was gone",
        ),
    ),
    "tool.returned/commit/mended": (
        (
            "{agent} had the commit go through this time: {subject}",
            "This time the commit of {agent} went through: {subject}",
            "After a refusal, {agent} made the commit: {subject}",
            "The commit that had failed went through for {agent}: {subject}",
            "{agent} put right what stood in the way and committed “{subject}”",
        ),
        (
            "{agent} had the commit go through this time",
            "This time the commit of {agent} went through",
            "After a refusal, {agent} made the commit",
            "The commit that had failed went through for {agent}",
            "{agent} put right what stood in the way and committed",
        ),
    ),
    "tool.returned/edit/mended": (
        (
            "{agent} got the edit of “{subject}” in at a later try",
            "After misses, an edit of “{subject}” by {agent} took",
            "The edit of “{subject}” that {agent} wanted went in",
            "{agent} found the right place in “{subject}”",
            "In “{subject}”, the edit by {agent} took this time",
        ),
        (
            "{agent} got the edit in at a later try",
            "After misses, an edit by {agent} took",
            "The edit that {agent} wanted went in",
            "{agent} found the right place for the edit",
            "This time the edit by {agent} took",
        ),
    ),
    "tool.returned/mended": (
        (
            "{agent} had this work at a later try: {subject}",
            "What had failed for {agent} now worked: {subject}",
            "At a later try it worked for {agent}: {subject}",
            "{agent} put this right: {subject}",
            "The trouble of {agent} with this was over: {subject}",
        ),
        (
            "{agent} had it work at a later try",
            "What had failed for {agent} now worked",
            "At a later try it worked for {agent}",
            "{agent} put right what had failed",
            "The trouble of {agent} with it was over",
        ),
    ),
    "tool.returned/allowed": (
        (
            "{agent} had leave this time: {subject}",
            "What had been denied to {agent} was now let: {subject}",
            "This time {agent} was let go on: {subject}",
            "The way was open for {agent}: {subject}",
            "With leave given, {agent} did this: {subject}",
        ),
        (
            "{agent} had leave this time",
            "What had been denied to {agent} was now let",
            "This time {agent} was let go on",
            "The way was open for {agent}",
            "With leave given, {agent} went on",
        ),
    ),
    "tool.returned/undone": (
        (
            "{agent} took back an edit of “{subject}”",
            "{agent} put the old text back into “{subject}”",
            "An edit of “{subject}” was undone by {agent}",
            "In “{subject}”, {agent} went back to the old text",
            "Back to how it was went “{subject}” under {agent}",
        ),
        (
            "{agent} took back an edit",
            "{agent} put the old text back",
            "An edit was undone by {agent}",
            "Back to the old text went {agent}",
            "In one place {agent} went back to the old text",
        ),
    ),
}
"""Key → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "tool.returned/test/mended": (
        "{agent} brought the tests back to green {count_times} {when}",
        "The tests passed again {count_times} for {agent} {when}",
        "Back to green went the tests of {agent} {count_times} {when}",
    ),
    "tool.returned/build/mended": (
        "{agent} brought the build back {count_times} {when}",
        "The build came through again {count_times} for {agent} {when}",
        "{agent} had the build working again {count_times} {when}",
    ),
    "tool.returned/check/mended": (
        "{agent} had the checks clean again {count_times} {when}",
        "The checks were clean again {count_times} for {agent} {when}",
        "{agent} put right what the checks had found {count_times} {when}",
    ),
    "tool.returned/commit/mended": (
        "{agent} had a commit go through at a later try {count_times} {when}",
        "After a refusal, {agent} made the commit {count_times} {when}",
        "A commit that had failed went through for {agent} {count_times} {when}",
    ),
    "tool.returned/edit/mended": (
        "{agent} got edits in at a later try {count_times} {when}",
        "After misses, edits by {agent} took {count_times} {when}",
        "There were {count} edits by {agent} that took at a later try {when}",
    ),
    "tool.returned/mended": (
        "{agent} put right what had failed {count_times} {when}",
        "What had failed for {agent} worked {count_times} {when}",
        "At a later try it worked for {agent} {count_times} {when}",
    ),
    "tool.returned/allowed": (
        "{agent} had leave this time, {count_times} {when}",
        "What had been denied to {agent} was let {count_times} {when}",
        "The way was open for {agent} {count_times} {when}",
    ),
    "tool.returned/undone": (
        "{agent} took back {count} edits {when}",
        "{agent} put the old text back {count_times} {when}",
        "There were {count} edits undone by {agent} {when}",
    ),
}
"""Key → how a run of like events is told."""
