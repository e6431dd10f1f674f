"""How it is told: sessions, prompts and helpers. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "agent.launched": (
        (
            "{agent} set {child} to work, with the role {role}: {text}",
            "In the role of {role}, {child} began to work for {agent}: {text}",
            "{agent} called in {child} for the part of {role}: {text}",
            "A piece of work went from {agent} to {child}, whose role was {role}: {text}",
            "{child} went to work for {agent}, in the role of {role}: {text}",
        ),
        (
            "{agent} set {child} to work: {text}",
            "{child} began to work for {agent}: {text}",
            "{agent} brought in {child} for a piece of work: {text}",
            "A piece of the work went from {agent} to {child}: {text}",
            "{agent} launched {child} with this to do: {text}",
        ),
        (
            "{agent} set {child} to work",
            "{child} began to work at the word of {agent}",
            "{agent} brought {child} in to work",
            "A launch by {agent} put {child} to work",
            "Some of the work of {agent} now lay with {child}",
        ),
        (
            "{parent} set {agent} to work: {text}",
            "{agent} went to work for {parent}: {text}",
            "A piece of work came to {agent} from {parent}: {text}",
            "{parent} launched {agent} with this to do: {text}",
            "Under {parent}, {agent} started work: {text}",
        ),
        (
            "{agent} asked for a helper in the role of {role}: {text}",
            "A helper with the role {role} went to work for {agent}: {text}",
            "{agent} launched another agent, with the role {role}: {text}",
            "In the role of {role}, a helper of {agent} began: {text}",
            "{agent} gave a helper the part of {role}: {text}",
        ),
        (
            "{agent} set another agent to work: {text}",
            "A helper of {agent} had this to do: {text}",
            "{agent} launched a helper: {text}",
            "Another agent started work for {agent}: {text}",
            "{agent} passed a piece of the work to a helper: {text}",
        ),
        (
            "{agent} set another agent to work",
            "A helper started work for {agent}",
            "{agent} launched a helper",
            "Another agent joined in at the word of {agent}",
            "{agent} called in a helper",
        ),
    ),
    "agent.returned": (
        (
            "{child} came back to {agent} with this: {text}",
            "{agent} heard back from {child}: {text}",
            "The work that {agent} had given to {child} came back: {text}",
            "{child} returned to {agent} and reported: {text}",
            "Back with {agent}, {child} gave this account: {text}",
        ),
        (
            "{child} came back to {agent} with the status “{status}”",
            "{agent} had {child} back, and the status read “{status}”",
            "With “{status}” as the status, {child} returned to {agent}",
            "The status was “{status}” when {child} came back to {agent}",
            "{child} reported back to {agent}, under the status “{status}”",
        ),
        (
            "{child} came back to {agent}",
            "{agent} had {child} back from the work",
            "The piece of work that {agent} gave to {child} was over",
            "{child} reported back to {agent}",
            "From the work set by {agent}, {child} returned",
        ),
        (
            "{agent} came back to {parent}: {text}",
            "{parent} heard back from {agent}: {text}",
            "{agent} reported to {parent}: {text}",
            "Returning to {parent}, {agent} gave this account: {text}",
            "The work that {parent} had set {agent} came back: {text}",
        ),
        (
            "{agent} came back from a piece of work: {text}",
            "Back from work for another agent, {agent} reported: {text}",
            "{agent} returned with this: {text}",
            "The work given to {agent} came back: {text}",
            "{agent} ended a piece of work for another agent: {text}",
        ),
        (
            "{agent} came back from work set by another agent",
            "A piece of work that another had given to {agent} was over",
            "{agent} returned from the work of a helper",
            "From a piece of work for another agent, {agent} came back",
            "The part of {agent} as a helper ended here",
        ),
    ),
    "prompt.submitted": (
        (
            "A person told {agent}: “{text}”",
            "{agent} had this to do: “{text}”",
            "A new prompt reached {agent}: “{text}”",
            "The next request to {agent} read: “{text}”",
            "Somebody wrote to {agent}: “{text}”",
            "{agent} had a new instruction to work from: “{text}”",
        ),
        (
            "A person gave {agent} a new instruction on {task}",
            "On {task}, {agent} had a new prompt to work from",
            "{agent} heard from a person about {task}",
            "A prompt for {agent} came in under {task}",
            "There was a new request to {agent}, filed under {task}",
        ),
        (
            "A person told {agent} what to do",
            "{agent} had a new prompt from a person",
            "A new request reached {agent}",
            "Somebody gave {agent} an instruction to follow",
            "The next instruction for {agent} came in",
        ),
    ),
    "session.started": (
        (
            "{agent} opened a session on {project} (branch {branch}): {text}",
            "On the branch {branch} of {project}, {agent} opened a session: {text}",
            "A session of {agent} began in {project}, on {branch}: {text}",
            "{project} had {agent} at work on the branch {branch}: {text}",
            "With {project} on the branch {branch}, {agent} began a session: {text}",
        ),
        (
            "{agent} opened a session on {project}, on the branch {branch}",
            "A session of {agent} began in {project}, branch {branch}",
            "On the branch {branch} of {project}, {agent} came in to work",
            "{agent} started on {project} from the branch {branch}",
            "The branch {branch} of {project} was where {agent} opened a session",
        ),
        (
            "{agent} opened a session on {project}",
            "A session of {agent} began in {project}",
            "In {project}, {agent} had a session open",
            "{project} was where {agent} started this session",
            "{agent} came in to work on {project}",
        ),
        (
            "{agent} opened a session: {text}",
            "A session began for {agent}: {text}",
            "A session was open for {agent}: {text}",
            "{agent} came in: {text}",
            "The session of {agent} started with this note: {text}",
        ),
        (
            "{agent} opened a session with {model}",
            "A session of {agent} began, with {model} as the model",
            "With {model} behind the session, {agent} came in",
            "{model} was the model when {agent} opened a session",
            "{agent} came in to work, running on {model}",
        ),
        (
            "{agent} opened a session",
            "A session began for {agent}",
            "{agent} came in, and a session was open",
            "Here a session of {agent} opened",
            "{agent} had a session open from here on",
        ),
    ),
    "session.waiting": (
        (
            "{agent} could not go on without a person's word on {tool}: {text}",
            "{agent} wanted to use {tool} and waited for an answer: {text}",
            "Before using {tool}, {agent} waited for a person: {text}",
            "At {tool}, {agent} stopped and waited for somebody to decide: {text}",
            "A person had to act on {tool} before {agent} could go on: {text}",
        ),
        (
            "{agent} waited for a person: {text}",
            "{agent} could not go on until somebody answered: {text}",
            "Work stood still with {agent} until a person acted: {text}",
            "{agent} stopped and turned to a person: {text}",
            "The next step for {agent} lay with a person: {text}",
        ),
        (
            "{agent} waited for a person at {tool}, for this reason: {why}",
            "With {tool} next, {agent} stopped and waited: {why}",
            "{tool} had to wait, and {agent} with it: {why}",
            "{agent} held off from {tool} until a person acted: {why}",
            "Somebody had to act before {agent} could use {tool}: {why}",
        ),
        (
            "{agent} waited for a person, for this reason: {why}",
            "{agent} could go no further until somebody acted: {why}",
            "The session of {agent} stood waiting: {why}",
            "Only a person could let {agent} go on: {why}",
            "{agent} stopped to wait, and the program said why: {why}",
        ),
        (
            "{agent} waited for a person to act",
            "{agent} could not go on until somebody answered",
            "The session of {agent} stood waiting for a person",
            "It was a person's turn to act, and {agent} waited",
            "{agent} stopped, and the next step was a person's",
        ),
    ),
    "session.turn_ended": (
        (
            "{agent} ended turn {turn}: {text}",
            "Turn {turn} was over for {agent}: {text}",
            "At the end of turn {turn}, {agent} wrote: {text}",
            "{agent} closed turn {turn} with these words: {text}",
            "With turn {turn} done, {agent} left this line: {text}",
        ),
        (
            "{agent} ended the turn: {text}",
            "At the end of a turn, {agent} wrote: {text}",
            "The turn was over, and {agent} left this line: {text}",
            "{agent} closed the turn with these words: {text}",
            "A turn of {agent} came to its end: {text}",
        ),
        (
            "{agent} ended turn {turn}",
            "Turn {turn} was over for {agent}",
            "With the end of turn {turn}, {agent} came to a rest",
            "{agent} brought turn {turn} to a close",
            "Here {agent} closed turn {turn}",
        ),
        (
            "{agent} ended the turn, and the reason on record was “{reason}”",
            "A turn of {agent} was over, for this reason: {reason}",
            "The turn ended for {agent} with “{reason}” noted as the reason",
            "{agent} stopped at the end of a turn: {reason}",
            "As {agent} closed the turn, the log noted why: {reason}",
        ),
        (
            "{agent} ended the turn",
            "A turn of {agent} came to its end",
            "{agent} closed a turn and rested",
            "The turn was over for {agent}",
            "Here {agent} brought a turn to its close",
        ),
    ),
    "session.ended": (
        (
            "{agent} closed the session: {text}",
            "The session of {agent} was over: {text}",
            "With these words {agent} left the session: {text}",
            "{agent} ended the session on this note: {text}",
            "The last line of the session came from {agent}: {text}",
        ),
        (
            "{agent} closed the session, and the reason on record was “{reason}”",
            "The session of {agent} ended, for this reason: {reason}",
            "A session of {agent} closed; the reason read “{reason}”",
            "{agent} left the session, with “{reason}” noted as the reason",
            "For {agent} the session was over: {reason}",
        ),
        (
            "{agent} closed the session",
            "The session of {agent} came to an end",
            "{agent} left the session",
            "For {agent}, this session was over",
            "Here a session of {agent} closed",
        ),
    ),
    "session.compacted": (
        (
            "{agent} cut the session's context from {before_tokens} tokens to {after_tokens}",
            "The context of {agent} shrank from {before_tokens} tokens to {after_tokens}",
            "Of {before_tokens} tokens of context, {agent} went on with {after_tokens}",
            "A compaction took {agent} from {before_tokens} tokens of context to {after_tokens}",
            "{agent} had {before_tokens} tokens of context before a compaction and {after_tokens} after",
        ),
        (
            "{agent} made the session's context smaller: {text}",
            "The context of {agent} became smaller: {text}",
            "A compaction came for the session of {agent}: {text}",
            "{agent} went on with a shorter context: {text}",
            "In a compaction, {agent} shed part of the context: {text}",
        ),
        (
            "{agent} compacted the session, with “{trigger}” as the trigger",
            "A compaction marked “{trigger}” made the context of {agent} smaller",
            "The context of {agent} shrank in a compaction marked “{trigger}”",
            "With “{trigger}” as the trigger, the context of {agent} became smaller",
            "{agent} went on with a smaller context; the trigger read “{trigger}”",
        ),
        (
            "{agent} made the session's context smaller",
            "The context of {agent} became smaller",
            "A compaction left {agent} with a smaller context",
            "{agent} went on from a condensed context",
            "The session of {agent} shed part of its context",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "agent.launched": (
        "{agent} set other agents to work {count_times} {when}",
        "{agent} launched helpers {count_times} {when}",
        "A helper started work for {agent} {count_times} {when}",
    ),
    "agent.returned": (
        "Work set for other agents came back {count_times} on the record of {agent} {when}",
        "The work of helpers came back {count_times} {when}, noted under {agent}",
        "On the record of {agent}, {count} pieces of work came back {when}",
    ),
    "prompt.submitted": (
        "{agent} had {count} new prompts {when}",
        "A person told {agent} what to do {count_times} {when}",
        "There were {count} new instructions for {agent} {when}",
    ),
    "session.started": (
        "{agent} opened {count} sessions {when}",
        "A session began for {agent} {count_times} {when}",
        "The sessions that {agent} opened {when} came to {count}",
    ),
    "session.waiting": (
        "{agent} waited for a person {count_times} {when}",
        "{agent} stopped for a person's word {count_times} {when}",
        "A person had to act {count_times} {when} before {agent} could go on",
    ),
    "session.turn_ended": (
        "{agent} ended {count} turns {when}",
        "{agent} brought {count} turns to a close {when}",
        "A turn of {agent} came to its end {count_times} {when}",
    ),
    "session.ended": (
        "{agent} closed {count} sessions {when}",
        "A session of {agent} ended {count_times} {when}",
        "{agent} left {count} sessions {when}",
    ),
    "session.compacted": (
        "{agent} had the session's context made smaller {count_times} {when}",
        "The context of {agent} became smaller {count_times} {when}",
        "The session of {agent} went through {count} compactions {when}",
    ),
}
"""Kind → how a run of like events is told."""
