"""How it is told: what holds a goal up, who steers it, and what is kept of it. Data only; `phrases/__init__.py` tells the rules.

As in `pursuit.py`, what an event cannot fill here is told by the words of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "driver.replay_decision/next_turn": (
        (
            "Turn {turn_no} of {agent} broke off (“{trouble}”); the work was to go on from there",
            "In turn {turn_no} of {agent} something came between: {trouble}",
            "{agent} was held up in turn {turn_no}, and was to go on from there: {trouble}",
            "Turn {turn_no} of {agent} came to an early end: {trouble}",
            "“{trouble}” ended turn {turn_no} early, and {agent} was to go on from there",
        ),
    ),
    "driver.replay_decision/fresh_session_retry": (
        (
            "Turn {turn_no} was lost (“{trouble}”), and {agent} began the turn afresh in a new session",
            "{agent} lost turn {turn_no} to “{trouble}” and started over in a new session",
            "After “{trouble}” in turn {turn_no}, {agent} was given a new session",
            "With a new session {agent} went back to the start of turn {turn_no}, after “{trouble}”",
            "“{trouble}” undid turn {turn_no}, and {agent} began that turn in a new session",
        ),
    ),
    "driver.replay_decision/compact_and_retry": (
        (
            "In turn {turn_no} the context of {agent} was too full (“{trouble}”) and had to shrink first",
            "{agent} had too much in mind for turn {turn_no} (“{trouble}”), and was to sum up first",
            "Turn {turn_no} did not fit (“{trouble}”), so {agent} was to make room and retry",
            "Before another try at turn {turn_no}, {agent} had to make room: {trouble}",
            "“{trouble}” stopped turn {turn_no}, and {agent} was to shorten the context",
        ),
    ),
    "driver.replay_decision/escalate": (
        (
            "Turn {turn_no} of {agent} met with something that only a person could mend: {trouble}",
            "What stopped {agent} in turn {turn_no} was for a person to mend: {trouble}",
            "{agent} was stopped in turn {turn_no}, and a person was needed: {trouble}",
            "In turn {turn_no} {agent} came to a stop that called for a person: {trouble}",
            "A person was needed after turn {turn_no} of {agent}: {trouble}",
        ),
    ),
    "driver.decision/allow": (
        (
            "{agent} was allowed to use {asked_tool}",
            "The use of {asked_tool} was open to {agent}",
            "For {asked_tool}, {agent} had a yes",
            "A yes came for {agent} and {asked_tool}",
            "To {asked_tool}, in the hands of {agent}, the answer was yes",
        ),
    ),
    "driver.decision/deny": (
        (
            "{agent} asked to use {asked_tool} and got a no: {denied}",
            "The use of {asked_tool} was refused to {agent}: {denied}",
            "For {asked_tool}, {agent} had a no: {denied}",
            "No leave was given to {agent} for {asked_tool}: {denied}",
            "To {asked_tool}, in the hands of {agent}, the answer was no: {denied}",
        ),
    ),
    "goal.waiting/until": (
        (
            "{agent} had to wait until {until}: {waited}",
            "Until {until} nothing could be done by {agent}: {waited}",
            "A wait until {until} came up for {agent}: {waited}",
            "The work of {agent} rested until {until}: {waited}",
            "Work was to go on at {until}, and {agent} waited: {waited}",
        ),
    ),
    "goal.waiting/asleep": (
        (
            "{agent} asked to be woken at {until}: {nap}",
            "Until {until} {agent} wanted to sleep: {nap}",
            "A rest until {until} was the wish of {agent}: {nap}",
            "With nothing to do before {until}, {agent} went to sleep: {nap}",
            "The next turn of {agent} was to come at {until}: {nap}",
        ),
    ),
    "goal.waiting/paused": (
        (
            "There the work of {agent} paused",
            "{agent} put the work down for the time being",
            "Between two turns {agent} was made to pause",
            "The work of {agent} was laid aside until somebody would call",
            "A pause began for {agent}",
        ),
    ),
    "goal.permission_asked": (
        (
            "{agent} wanted to use {tool} and asked a person first",
            "Whether {agent} might use {tool} was a question for a person",
            "Before using {tool}, {agent} had to ask a person",
            "A person was asked whether {agent} might use {tool}",
            "{agent} stopped at {tool}, for a person to say yes or no",
        ),
    ),
    "control.requested/pause": (
        (
            "{actor} asked for a pause",
            "A pause was wanted by {actor}",
            "{actor} had the work stopped for a while",
            "On the word of {actor} the work was to pause",
            "The work was put on hold by {actor}",
        ),
    ),
    "control.requested/resume": (
        (
            "{actor} gave the word to go on",
            "The word to go on came from {actor}",
            "{actor} had the work taken up where things had been left",
            "On the word of {actor} the work went on",
            "To go on was the wish of {actor}",
        ),
    ),
    "control.requested/cancel": (
        (
            "{actor} called the goal off: {reason}",
            "The goal was called off by {actor}: {reason}",
            "{actor} wanted no more of the goal: {reason}",
            "The word of {actor} was to stop: {reason}",
            "On the word of {actor} the goal was to end: {reason}",
        ),
        (
            "{actor} called the goal off",
            "The goal was called off by {actor}",
            "{actor} wanted no more of the goal",
            "The word of {actor} was to stop for good",
            "On the word of {actor} the goal was to end",
        ),
    ),
    "control.requested/say": (
        (
            "{actor} had a word for the next turn: {word}",
            "A message came from {actor}: {word}",
            "{actor} wrote to the agent: {word}",
            "For the next turn {actor} left this: {word}",
            "The word from {actor} was “{word}”",
        ),
    ),
    "control.requested/raise": (
        (
            "{actor} gave the goal more room: {raised}",
            "More room for the goal came from {actor}: {raised}",
            "{actor} raised what the goal might spend: {raised}",
            "The budget was raised by {actor}: {raised}",
            "What the goal might spend was more now, by {actor}: {raised}",
        ),
        (
            "{actor} gave the goal more room",
            "More room for the goal came from {actor}",
            "{actor} raised what the goal might spend",
            "The budget was raised by {actor}",
            "What the goal might spend was more now, by {actor}",
        ),
    ),
    "control.requested/yes": (
        (
            "{actor} said yes",
            "The answer of {actor} was yes",
            "{actor} gave leave",
            "A yes came from {actor}",
            "The word of {actor} was yes",
        ),
    ),
    "control.requested/no": (
        (
            "{actor} said no, and why: {reason}",
            "The answer of {actor} was no: {reason}",
            "{actor} gave no leave: {reason}",
            "A no came from {actor}: {reason}",
            "{actor} was against that: {reason}",
        ),
        (
            "{actor} said no",
            "The answer of {actor} was no",
            "{actor} gave no leave",
            "A no came from {actor}",
            "{actor} was against that",
        ),
    ),
    "work.lease_taken/goal": (
        (
            "A driver took charge of the work of {agent}",
            "From here on a driver saw to the work of {agent}",
            "The work of {agent} had a driver",
            "A driver was there to see {agent} through",
            "{agent} had a driver to answer to",
        ),
    ),
    "driver.compact_requested": (
        (
            "At {tokens_before}, {agent} was to sum up and start afresh",
            "The context of {agent} had grown to {tokens_before}, and was to be summed up",
            "With {tokens_before} in mind, {agent} was asked for a summary",
            "{agent} had {tokens_before} in mind, and was to make room",
            "Room was wanted: {agent} carried {tokens_before} of context",
        ),
    ),
    "driver.compact_summary_stored": (
        (
            "{agent} summed up {tokens_before} of context in {tokens_after}",
            "Out of {tokens_before} of context {agent} made a summary of {tokens_after}",
            "What had been {tokens_before} in the mind of {agent} became {tokens_after}",
            "A summary of {tokens_after} took the place of {tokens_before}, kept by {agent}",
            "From {tokens_before} to {tokens_after} went the context of {agent}, by a summary",
        ),
    ),
    "driver.extract_memories_completed": (
        (
            "{agent} wrote down {memories} for later goals",
            "For later goals {agent} kept {memories}",
            "Out of the turn came {memories} that {agent} kept",
            "What {agent} knew grew by {memories}",
            "What was worth keeping came to {memories}, written down by {agent}",
        ),
    ),
    "driver.auto_dream_outcome/completed": (
        (
            "{agent} put the memories of many sessions in order",
            "Between goals the memories of {agent} were put in order",
            "The memories of {agent} were gone through and put in order",
            "In a quiet hour {agent} set the memories in order",
            "Order came into the memories of {agent}",
        ),
    ),
}
"""Key → groups of variants, best first; what comes after them are the words of the kind."""
