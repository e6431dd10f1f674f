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
            "{agent} broke off turn {turn_no} (“{trouble}”) and was to go on from there",
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
            "{agent} got permission for {asked_tool}",
            "The use of {asked_tool} by {agent} was allowed",
            "{agent} was free to use {asked_tool}",
        ),
    ),
    "driver.decision/deny": (
        (
            "{agent} asked to use {asked_tool} and was refused: {denied}",
            "The use of {asked_tool} was refused to {agent}: {denied}",
            "{agent} was not allowed to use {asked_tool}: {denied}",
            "{agent} got no permission for {asked_tool}: {denied}",
            "The answer to {agent} about {asked_tool} was no: {denied}",
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
            "{agent} wished to rest until {until}: {nap}",
            "With nothing to do before {until}, {agent} went to sleep: {nap}",
            "The next turn of {agent} was to come at {until}: {nap}",
        ),
    ),
    "goal.waiting/paused": (
        (
            "The work of {agent} paused",
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
            "{actor} wanted a pause",
            "{actor} had the work stopped for a while",
            "On the word of {actor} the work was to pause",
            "The work was put on hold by {actor}",
        ),
    ),
    "control.requested/resume": (
        (
            "{actor} gave the word to go on",
            "The word to go on came from {actor}",
            "{actor} had the work go on from where things stood",
            "On the word of {actor} the work went on",
            "{actor} wanted the work to go on",
        ),
    ),
    "control.requested/cancel": (
        (
            "{actor} called the goal off: {reason}",
            "The goal was called off by {actor}: {reason}",
            "{actor} wanted no more of the goal: {reason}",
            "{actor} gave the word to stop: {reason}",
            "On the word of {actor} the goal was to end: {reason}",
        ),
        (
            "{actor} called the goal off",
            "The goal was called off by {actor}",
            "{actor} wanted no more of the goal",
            "{actor} gave the word to stop for good",
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
            "{actor} let the goal spend more: {raised}",
        ),
        (
            "{actor} gave the goal more room",
            "More room for the goal came from {actor}",
            "{actor} raised what the goal might spend",
            "The budget was raised by {actor}",
            "{actor} let the goal spend more",
        ),
    ),
    "control.requested/yes": (
        (
            "{actor} said yes",
            "The answer of {actor} was yes",
            "{actor} gave permission",
            "{actor} agreed",
            "{actor} allowed that",
        ),
    ),
    "control.requested/no": (
        (
            "{actor} said no, and why: {reason}",
            "The answer of {actor} was no: {reason}",
            "{actor} gave no permission: {reason}",
            "{actor} refused: {reason}",
            "{actor} was against that: {reason}",
        ),
        (
            "{actor} said no",
            "The answer of {actor} was no",
            "{actor} gave no permission",
            "{actor} refused",
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
            "A summary took the context of {agent} from {tokens_before} to {tokens_after}",
        ),
    ),
    "driver.extract_memories_completed": (
        (
            "{agent} wrote down {memories} for later goals",
            "For later goals {agent} kept {memories}",
            "{agent} kept {memories} from the turn",
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
            "{agent} tidied up the memories",
        ),
    ),
}
"""Key → groups of variants, best first; what comes after them are the words of the kind."""
