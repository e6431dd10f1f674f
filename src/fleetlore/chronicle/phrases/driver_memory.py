"""How it is told: what a driver keeps in mind, and lets go of. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "driver.compact_requested": (
        (
            "{agent} asked for a smaller context: {text}",
            "The context of {agent} was to be made smaller: {text}",
            "{agent} had a context to shorten, with the focus “{text}”",
            "A shorter context was wanted for {agent}: {text}",
            "{agent} was to put the context in fewer words: {text}",
        ),
        (
            "{agent} held {before_tokens} tokens, and the context was to shrink",
            "At {before_tokens} tokens, the context of {agent} was to be made smaller",
            "The context of {agent} stood at {before_tokens} tokens and was to shrink",
            "With {before_tokens} tokens in hand, {agent} was to shorten the context",
            "A shorter context was wanted for {agent} at {before_tokens} tokens",
        ),
        (
            "{agent} asked for a smaller context",
            "The context of {agent} was to be made smaller",
            "A shorter context was wanted for {agent}",
            "{agent} was to put the context in fewer words",
            "The plan was to shorten the context of {agent}",
        ),
    ),
    "driver.compact_completed": (
        (
            "{agent} came through the turn that shortens the context: {text}",
            "The context of {agent} had been shortened: {text}",
            "{agent} went on with a shorter context and the note “{text}”",
            "The turn spent on shortening was over for {agent}: {text}",
            "The shortening of the context was over for {agent}: {text}",
        ),
        (
            "{agent} went on with a context of {after_tokens} tokens",
            "After the shortening, {agent} held {after_tokens} tokens",
            "The context of {agent} came down to {after_tokens} tokens",
            "The turn spent on shortening left {agent} with {after_tokens} tokens",
            "The shortened context of {agent} measured {after_tokens} tokens",
        ),
        (
            "{agent} came through the turn that shortens the context",
            "The turn spent on shortening the context was over for {agent}",
            "{agent} was done with shortening the context",
            "The shortening of the context was over for {agent}",
            "A turn to make the context smaller lay behind {agent}",
        ),
    ),
    "driver.compact_summary_stored": (
        (
            "{agent} kept a summary of the old context: {text}",
            "The old context of {agent} lived on in a summary: {text}",
            "A summary by {agent} was stored with the words “{text}”",
            "{agent} kept in short what came before: {text}",
            "{agent} stored the gist of the old context: {text}",
        ),
        (
            "{agent} summed up {before_tokens} tokens of context and kept {after_tokens}",
            "A summary took the context of {agent} from {before_tokens} to {after_tokens} tokens",
            "From {before_tokens} tokens, {agent} came to {after_tokens} and stored the summary",
            "The summary that {agent} stored turned {before_tokens} tokens into {after_tokens}",
            "Of {before_tokens} tokens, {agent} kept the gist, and {after_tokens} remained",
        ),
        (
            "{agent} kept a summary of the old context",
            "The old context of {agent} lived on in a summary",
            "A summary by {agent} stood for the earlier context",
            "{agent} kept in short what came before",
            "{agent} stored the gist of the old context",
        ),
    ),
    "driver.extract_memories_completed": (
        (
            "{agent} wrote down what was worth remembering: {text}",
            "{agent} saved memories: {text}",
            "{agent} kept something for later: {text}",
            "From the turn {agent} kept in mind “{text}”",
            "For another day {agent} put this down: {text}",
        ),
        (
            "{agent} wrote down what was worth remembering, {memories_saved} in all",
            "The number of memories saved by {agent} was {memories_saved}",
            "Of memories for later, {agent} kept {memories_saved}",
            "The turn left {agent} with memories, {memories_saved} in number",
            "For another day {agent} put down memories, {memories_saved} altogether",
        ),
        (
            "{agent} wrote down what was worth remembering",
            "{agent} saved what was worth keeping",
            "{agent} drew from the turn what was to be remembered",
            "{agent} kept something of the turn for later",
            "For another day {agent} put down memories of the turn",
        ),
    ),
    "driver.extract_memories_skipped": (
        (
            "{agent} wrote nothing down this time: {text}",
            "{agent} kept no memories: {text}",
            "{agent} passed over the writing of memories: {text}",
            "{agent} left the memories as before, with the note “{text}”",
            "Nothing was added to what {agent} remembers: {text}",
        ),
        (
            "{agent} wrote nothing down this time, and the reason read “{reason}”",
            "{agent} kept no memories, with the reason “{reason}”",
            "{agent} passed over the writing of memories: {reason}",
            "The reason why {agent} saved no memories was “{reason}”",
            "{agent} left the memories as before for this reason: {reason}",
        ),
        (
            "{agent} wrote nothing down this time",
            "{agent} kept no memories this time",
            "{agent} passed over the writing of memories",
            "{agent} left the memories as before",
            "Nothing was added to what {agent} remembers",
        ),
    ),
    "driver.auto_dream_outcome": (
        (
            "{agent} turned to the memories between sessions: {text}",
            "Between sessions the memories of {agent} were looked at: {text}",
            "The ordering of memories for {agent} was noted as “{text}”",
            "In the quiet between sessions {agent} noted: {text}",
            "The record says of the memories of {agent}: {text}",
        ),
        (
            "The ordering of memories for {agent} ended as “{outcome_kind}”",
            "Between sessions, {agent} and the memories came to “{outcome_kind}”",
            "For the memories of {agent} the outcome was “{outcome_kind}”",
            "{agent} was to order memories, and the outcome read “{outcome_kind}”",
            "In the quiet between sessions {agent} had the outcome “{outcome_kind}”",
        ),
        (
            "{agent} turned to the memories between sessions",
            "Between sessions the memories of {agent} came up for ordering",
            "The ordering of memories came up for {agent}",
            "The quiet between sessions turned {agent} to the memories",
            "The record has an entry on the memories of {agent}",
        ),
    ),
    "driver.progress": (
        (
            "{agent} reported from turn {turn_index}: {text}",
            "By turn {turn_index}, {agent} had this to say: {text}",
            "From turn {turn_index} came word by {agent}: {text}",
            "{agent} was in turn {turn_index} and said “{text}”",
            "The report of {agent} at turn {turn_index} read “{text}”",
        ),
        (
            "{agent} reported on the goal: {text}",
            "On the way to the goal {agent} said “{text}”",
            "Word of the goal came from {agent}: {text}",
            "{agent} told how far the goal had come: {text}",
            "The report of {agent} on the goal read “{text}”",
        ),
        (
            "{agent} reported from turn {turn_index} of the goal",
            "By turn {turn_index}, {agent} sent word of the goal",
            "From turn {turn_index} came a report by {agent}",
            "{agent} was in turn {turn_index} and said where the goal stood",
            "A report of {agent} came in at turn {turn_index}",
        ),
        (
            "{agent} reported how far the goal had come",
            "Word of the goal came from {agent}",
            "A report on the goal came in from {agent}",
            "{agent} told where the goal stood",
            "{agent} gave a report on the goal",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "driver.compact_requested": (
        "{agent} was to shorten the context {count_times} {when}",
        "A shorter context was wanted for {agent} {count_times} {when}",
        "The record shows {count} requests to shorten the context of {agent} {when}",
    ),
    "driver.compact_completed": (
        "{agent} was done with shortening the context {count_times} {when}",
        "The shortening of the context was over for {agent} {count_times} {when}",
        "Of turns that shorten the context, {agent} ended {count} {when}",
    ),
    "driver.compact_summary_stored": (
        "{agent} kept {count} summaries of the old context {when}",
        "{agent} stored a summary {count_times} {when}",
        "{agent} kept in short what came before, {count_times} {when}",
    ),
    "driver.extract_memories_completed": (
        "{agent} wrote down what was worth remembering {count_times} {when}",
        "{agent} went over the turns for memories {count_times} {when}",
        "{agent} saved what was worth keeping {count_times} {when}",
    ),
    "driver.extract_memories_skipped": (
        "{agent} wrote no memories down {count_times} {when}",
        "{agent} passed over the writing of memories {count_times} {when}",
        "{agent} kept no memories on {count} occasions {when}",
    ),
    "driver.auto_dream_outcome": (
        "{agent} turned to the memories {count_times} {when}",
        "The ordering of memories came up for {agent} {count_times} {when}",
        "Between sessions the memories of {agent} came up {count_times} {when}",
    ),
    "driver.progress": (
        "{agent} reported on the goal {count_times} {when}",
        "{agent} sent {count} reports on the goal {when}",
        "Word of the goal came from {agent} {count_times} {when}",
    ),
}
"""Kind → how a run of like events is told."""
