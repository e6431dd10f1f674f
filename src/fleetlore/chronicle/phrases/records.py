"""How it is told: what the log says of itself. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "notify.sent": (
        (
            "A notice under the rule {rule} met with an error: {error}",
            "The rule {rule} had a notice to send, and an error came up: {error}",
            "Sending a notice for the rule {rule} gave an error: {error}",
            "An error stood in the way of a notice from the rule {rule}: {error}",
            "The rule {rule} tried to send a notice, with this error: {error}",
        ),
        (
            "Under the rule {rule}, word went out by {via}: {text}",
            "The rule {rule} sent word by {via}: {text}",
            "A notice went out by {via}, as the rule {rule} asked: {text}",
            "By {via}, the rule {rule} let somebody know: {text}",
            "Somebody was to hear of it by {via}, under the rule {rule}: {text}",
        ),
        (
            "Under the rule {rule}, word went out by {via}",
            "The rule {rule} sent word by {via}",
            "A notice went out by {via}, as the rule {rule} asked",
            "By {via}, the rule {rule} let somebody know",
            "Somebody was to hear of it by {via}, under the rule {rule}",
        ),
        (
            "Under the rule {rule}, a notice went out: {text}",
            "The rule {rule} let somebody know: {text}",
            "A notice followed from the rule {rule}: {text}",
            "Word went out to somebody, as the rule {rule} asked: {text}",
            "By the rule {rule}, somebody was to hear of this: {text}",
        ),
        (
            "Under the rule {rule}, a notice went out",
            "The rule {rule} let somebody know",
            "A notice followed from the rule {rule}",
            "Word went out to somebody, as the rule {rule} asked",
            "By the rule {rule}, somebody was to hear of it",
        ),
        (
            "A notice went out, on record under {agent}",
            "Word went to somebody; the entry named {agent}",
            "A notice to somebody went into the record of {agent}",
            "Somebody had a notice, and the record named {agent}",
            "The log noted a notice, with {agent} on the entry",
        ),
    ),
    "log.gap": (
        (
            "A reader missed events that the log had trimmed away, up to position {through}",
            "A trim up to position {through} came before a reader did",
            "The events through position {through} were gone before a reader got there",
            "For one reader the story had a gap, which ended at position {through}",
            "A reader went on after position {through}, without the events that a trim had taken",
        ),
        (
            "A reader missed events that the log had trimmed away",
            "A trim took some events before a reader came by",
            "For one reader, the story had a gap here",
            "The log had let go of events that a reader had not read",
            "A reader came too late for events that a trim had taken",
        ),
    ),
    "log.rejected": (
        (
            "The log did not take in record {n} of {source}: {reason}",
            "Record {n} of {source} stayed out of the log: {reason}",
            "In {source}, the log left record {n} aside: {reason}",
            "There was no place in the log for record {n} of {source}: {reason}",
            "The log turned away record {n} of {source}: {reason}",
        ),
        (
            "The log did not take in a record from {source}: {reason}",
            "A record from {source} stayed out of the log: {reason}",
            "In {source} stood a record that the log could not take: {reason}",
            "The log turned one record from {source} away: {reason}",
            "From {source} came a record that did not fit: {reason}",
        ),
        (
            "The log did not take in a record: {reason}",
            "A record stayed out of the log: {reason}",
            "There was a record that the log could not take: {reason}",
            "The log turned one record away, for this reason: {reason}",
            "A record came that did not fit the log: {reason}",
        ),
        (
            "The log did not take in a record, as {agent} noted",
            "A record stayed out of the log, and the entry named {agent}",
            "There was a record, noted by {agent}, that the log could not take",
            "The log turned one record away, with {agent} on the entry",
            "{agent} noted a record that did not fit the log",
        ),
    ),
    "log.trimmed": (
        (
            "{agent} trimmed the log, and {events} of its oldest entries went",
            "The oldest part of the log, {events} in number, went in a trim by {agent}",
            "In a trim by {agent}, the log gave up {events} of its oldest entries",
            "Of the oldest entries, {agent} cut {events} from the log",
            "The log now began later: {agent} had trimmed {events} of its entries",
        ),
        (
            "{agent} cut off the oldest part of the log",
            "The log lost its oldest part in a trim by {agent}",
            "After a trim by {agent}, the log began later than before",
            "The earliest entries of the log went, as {agent} recorded",
            "{agent} trimmed the beginning of the log",
        ),
    ),
    "log.forgotten": (
        (
            "{agent} erased {count} of the recorded events for good: {reason}",
            "The log forgot {count} of its events, as {agent} recorded: {reason}",
            "Of the recorded events, {agent} removed {count} for ever: {reason}",
            "An erasure by {agent} took {count} of the events: {reason}",
            "The record no longer held {count} of its events, as {agent} noted: {reason}",
        ),
        (
            "{agent} erased events from the log for good: {reason}",
            "The log forgot part of its events, as {agent} recorded: {reason}",
            "Part of the record went for ever, as {agent} noted: {reason}",
            "An erasure took place under {agent}: {reason}",
            "Events left the log for good by way of {agent}: {reason}",
        ),
        (
            "{agent} erased events from the log for good",
            "The log forgot part of its events, as {agent} recorded",
            "Part of the record went for ever, as {agent} noted",
            "An erasure of events took place under {agent}",
            "Events left the log for good by way of {agent}",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "notify.sent": (
        "There were {count} notices on record under {agent} {when}",
        "Word went out {count_times} {when}, by the record of {agent}",
        "The record of {agent} took in {count} notices {when}",
    ),
    "log.gap": (
        "Readers missed trimmed events {count_times} {when}, as {agent} noted",
        "There were {count} gaps for readers of the log {when}, noted under {agent}",
        "The record of {agent} took in {count} gaps for readers {when}",
    ),
    "log.rejected": (
        "The log turned away {count} records {when}, as {agent} noted",
        "{agent} noted {count} records {when} that the log could not take",
        "By the record of {agent}, {count} records stayed out of the log {when}",
    ),
    "log.trimmed": (
        "{agent} cut off the oldest part of the log {count_times} {when}",
        "{agent} trimmed the log {count_times} {when}",
        "The log lost its oldest part {count_times} {when}, as {agent} recorded",
    ),
    "log.forgotten": (
        "{agent} erased events for good {count_times} {when}",
        "There were {count} erasures under {agent} {when}",
        "Events left the log for good {count_times} {when}, by way of {agent}",
    ),
}
"""Kind → how a run of like events is told."""
