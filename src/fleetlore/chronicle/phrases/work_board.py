"""How it is told: what a board carries: messages, items, reviews, watches. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "work.message_sent": (
        (
            "{agent} wrote to {child}: {text}",
            "To {child}, {agent} said “{text}”",
            "{child} had a message from {agent}: {text}",
            "{agent} sent {child} a few words: {text}",
            "Word went from {agent} to {child}: {text}",
            "{agent} let {child} know: {text}",
        ),
        (
            "{agent} sent a message: {text}",
            "{agent} had something to say: {text}",
            "A message went out from {agent}: {text}",
            "{agent} wrote the words “{text}”",
            "In a message, {agent} said “{text}”",
        ),
        (
            "{agent} wrote to {child} with the words “{body}”",
            "{child} had a message from {agent} that read “{body}”",
            "{agent} sent {child} these words: {body}",
            "The message from {agent} to {child} read “{body}”",
            "Word went from {agent} to {child}, saying “{body}”",
        ),
        (
            "{agent} wrote to {child}",
            "{agent} sent a message to {child}",
            "{child} had a message from {agent}",
            "Word went from {agent} to {child}",
            "A few words passed from {agent} to {child}",
        ),
        (
            "{agent} sent a message",
            "{agent} wrote a few words to another",
            "A message went out from {agent}",
            "Word went out from {agent}",
            "{agent} had something to say to another",
        ),
    ),
    "work.message_acked": (
        (
            "{agent} read a message and noted “{text}”",
            "A message reached {agent} and served a purpose: {text}",
            "{agent} took note of a message: {text}",
            "The record shows that {agent} read a message: {text}",
            "{agent} had read what came in: {text}",
        ),
        (
            "{agent} read a message and answered “{answer}”",
            "The answer of {agent} to a message was “{answer}”",
            "A message reached {agent}, and the answer read “{answer}”",
            "{agent} took note of a message and replied: {answer}",
            "To a message {agent} gave this answer: {answer}",
        ),
        (
            "{agent} read a message and put the words to use",
            "A message reached {agent} and was read",
            "{agent} took note of a message",
            "A message reached {agent} and served a purpose",
            "{agent} had read what came in",
        ),
    ),
    "work.item_added": (
        (
            "{agent} added a work item to mission {mission}: {text}",
            "Mission {mission} gained a work item from {agent}: {text}",
            "To the plan of mission {mission}, {agent} added this: {text}",
            "There was more to do in mission {mission}, {agent} wrote: {text}",
            "{agent} wrote one more item for mission {mission}, “{text}”",
        ),
        (
            "{agent} added a work item: {text}",
            "The mission gained a work item from {agent}: {text}",
            "To the plan {agent} added this: {text}",
            "There was more to do, {agent} wrote: {text}",
            "{agent} wrote one more item into the plan, “{text}”",
        ),
        (
            "{agent} added a work item with the title “{title}”",
            "The mission gained a work item from {agent}, “{title}”",
            "To the plan {agent} added “{title}”",
            "One more item came into the plan from {agent}: {title}",
            "{agent} wrote “{title}” into the plan of the mission",
        ),
        (
            "{agent} added work item “{item}” to the mission",
            "The mission gained work item “{item}” from {agent}",
            "To the plan {agent} added work item “{item}”",
            "Work item “{item}” was new in the plan, from {agent}",
            "{agent} wrote work item “{item}” into the plan",
        ),
        (
            "{agent} added a work item to the mission",
            "The mission gained a work item from {agent}",
            "To the plan {agent} added one more item",
            "There was more to do, {agent} wrote",
            "{agent} wrote a further item into the plan of the mission",
        ),
    ),
    "work.review_rejected": (
        (
            "{agent} sent the work back to {child}: {text}",
            "{agent} asked {child} for changes: {text}",
            "The review by {agent} gave {child} more to do: {text}",
            "{child} got the work back from {agent} with the words “{text}”",
            "From {agent} the work returned to {child} with a request: {text}",
        ),
        (
            "{agent} asked for changes: {text}",
            "{agent} sent the work back: {text}",
            "The review by {agent} wanted something changed: {text}",
            "Before saying yes, {agent} wanted a change: {text}",
            "The work came back from {agent} with the words “{text}”",
        ),
        (
            "{agent} asked for changes for this reason: {reason}",
            "{agent} sent the work back with the reason “{reason}”",
            "The review by {agent} wanted something changed, and said “{reason}”",
            "The work came back from {agent} with the remark “{reason}”",
            "The remark with which {agent} asked for changes was “{reason}”",
        ),
        (
            "{agent} asked for changes in review round {round}",
            "In round {round} of the review, {agent} sent the work back",
            "Round {round} of the review by {agent} ended with changes to make",
            "The work came back from {agent} in review round {round}",
            "Review round {round} with {agent} brought a request for changes",
        ),
        (
            "{agent} asked {child} for changes",
            "{agent} sent the work back to {child}",
            "The review by {agent} gave {child} more to do",
            "{child} got the work back from {agent}",
            "From {agent} the work returned to {child}",
        ),
        (
            "{agent} asked for changes",
            "{agent} sent the work back from review",
            "The review by {agent} wanted something changed",
            "The work came back from {agent} with a request",
            "The answer of {agent} in review was a request for changes",
        ),
    ),
    "work.watch_added": (
        (
            "{agent} set up a watch: {text}",
            "A watch began with {agent}: {text}",
            "{agent} began to look out for this: {text}",
            "From here on {agent} had an eye on “{text}”",
            "{agent} had the mission keep an eye open: {text}",
        ),
        (
            "{agent} set up a watch over “{target}”",
            "A watch over “{target}” began with {agent}",
            "{agent} began to look out for news of “{target}”",
            "From here on {agent} had an eye on “{target}”",
            "{agent} had the mission keep an eye on “{target}”",
        ),
        (
            "{agent} set up the watch “{watch}”",
            "The watch “{watch}” began with {agent}",
            "{agent} began to look out with the watch “{watch}”",
            "From here on {agent} had the watch “{watch}” in place",
            "The mission had a new watch from {agent}, “{watch}”",
        ),
        (
            "{agent} set up a watch for the mission",
            "A new watch of the mission began with {agent}",
            "{agent} began to look out for something",
            "From here on the mission had a watch by {agent}",
            "{agent} had the mission keep an eye open",
        ),
    ),
    "work.watch_snoozed": (
        (
            "{agent} put a watch to sleep for a while: {text}",
            "{agent} gave a watch a rest: {text}",
            "{agent} laid a watch aside with the note “{text}”",
            "{agent} asked a watch to be quiet for a while: {text}",
            "With {agent}, a watch fell quiet: {text}",
        ),
        (
            "{agent} put the watch “{watch}” to sleep until {until}",
            "{agent} gave the watch “{watch}” a rest until {until}",
            "{agent} laid the watch “{watch}” aside until {until}",
            "Until {until} the watch “{watch}” of {agent} was quiet",
            "With {agent}, the watch “{watch}” fell quiet until {until}",
        ),
        (
            "{agent} put the watch “{watch}” to sleep with the reason “{reason}”",
            "The watch “{watch}” was to rest, and {agent} gave as reason “{reason}”",
            "{agent} laid the watch “{watch}” aside for this reason: {reason}",
            "The reason that {agent} gave for resting the watch “{watch}” was “{reason}”",
            "With {agent}, the watch “{watch}” fell quiet for this reason: {reason}",
        ),
        (
            "{agent} put a watch to sleep for a while",
            "{agent} gave a watch a rest",
            "{agent} laid a watch aside for later",
            "With {agent}, a watch fell quiet for a while",
            "A watch of the mission got a rest from {agent}",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "work.message_sent": (
        "{agent} sent {count} messages {when}",
        "{agent} wrote to others {count_times} {when}",
        "Word went out from {agent} {count_times} {when}",
    ),
    "work.message_acked": (
        "{agent} read {count} messages {when}",
        "{agent} took note of messages {count_times} {when}",
        "Messages reached {agent} and were read, {count_times} {when}",
    ),
    "work.item_added": (
        "{agent} added {count} work items {when}",
        "The plan grew by {count} items from {agent} {when}",
        "{agent} wrote more work into the plan {count_times} {when}",
    ),
    "work.review_rejected": (
        "{agent} asked for changes {count_times} {when}",
        "{agent} sent work back {count_times} {when}",
        "The record shows {count} requests for changes from {agent} {when}",
    ),
    "work.watch_added": (
        "{agent} set up {count} watches {when}",
        "The mission gained {count} watches from {agent} {when}",
        "{agent} began to look out for something {count_times} {when}",
    ),
    "work.watch_snoozed": (
        "{agent} put watches to sleep {count_times} {when}",
        "Watches got a rest from {agent} {count_times} {when}",
        "The record shows {count} watches laid aside by {agent} {when}",
    ),
}
"""Kind → how a run of like events is told."""
