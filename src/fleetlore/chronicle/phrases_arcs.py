"""How arcs are told: data only. An arc that is open is told as things stood when the telling ended."""

from __future__ import annotations

from collections.abc import Mapping

ARCS: Mapping[str, tuple[str, ...]] = {
    "struggle_and_recovery": (
        "{agent} ran into trouble on {thread} and put things right {span} later",
        "Things went wrong for {agent} on {thread} and were fixed {span} later",
        "{agent} needed {span} to get from setback to fix on {thread}",
        "{agent} hit a setback on {thread} and was past the trouble in {span}",
        "{agent} fixed what had gone wrong on {thread} within {span}",
    ),
    "abandon_then_retry:same": (
        "{agent} let {thread} go and came back {span} later",
        "{agent} put {thread} down, and {span} later took the work up again",
        "After letting go of {thread}, {agent} was back at work {span} later",
        "What {agent} laid aside on {thread}, {agent} also picked up again, {span} later",
        "For {span} {agent} had let go of {thread}, and then began again",
    ),
    "abandon_then_retry:other": (
        "{agent} let {thread} go, and {span} later {other} took over",
        "Where {agent} had left off on {thread}, {other} began {span} later",
        "What {agent} put down on {thread}, {other} picked up {span} later",
        "{other} took up {thread} {span} after {agent} had let go",
        "Between {agent} letting go of {thread} and {other} taking over lay {span}",
    ),
    "solo_sprint": (
        "{agent} took {thread} from first claim to delivery alone, in {span}",
        "Alone and without a setback, {agent} brought {thread} to delivery in {span}",
        "From start to delivery, {agent} did all of {thread} alone in {span}",
        "No other hand touched {thread} on the way: {agent} delivered in {span}",
        "{agent} carried {thread} alone through {count} steps, and delivered within {span}",
    ),
    "fleet_convergence": (
        "{agents} came together on {thread}",
        "On {thread} the paths of {agents} met",
        "The work on {thread} brought {agents} together",
        "{agents} shared the work on {thread}",
        "What had begun apart on {thread} became common work for {agents}",
    ),
    "silent_grind": (
        "{agent} worked through {thread} step by step, {count} in all, and delivered",
        "Step after step, {agent} brought {thread} to delivery in {span}",
        "Without a word in between, {agent} took {count} steps on {thread} up to delivery",
        "A steady {span} of work by {agent} ended with {thread} delivered",
        "{agent} kept to {thread} for {span}, with no setback and no detour, until delivery",
    ),
    "handoff_chain": (
        "The work on {thread} changed hands more than once, with {agents} taking part",
        "Before {thread} was closed, {agents} saw the work handed on more than once",
        "From hand to hand went {thread}, and at the end {agents} had taken part",
        "There was more than one handover on {thread}, and {agents} took part",
        "In {span} the work on {thread} was passed on several times, with {agents} involved",
    ),
    "review_ping_pong": (
        "The work on {thread} went back and forth in review, with {agents} taking part",
        "Review asked for changes on {thread} more than once, and the work went on",
        "Between review and rework, {thread} went through {count} steps in {span}",
        "Review sent {thread} back, and then back once more, before the matter was closed",
        "More than one round of review was needed for {thread}, with {agents} at work",
    ),
    "budget_death": (
        "The budget of {thread} ran out, and the work ended there",
        "With the budget spent, {thread} ended without a delivery",
        "For {agent} the end of the budget was also the end of {thread}",
        "No budget was left for {thread}, and {agent} ended there",
        "When the budget of {thread} was used up, {agent} ended without a delivery",
    ),
    "rescue": (
        "{agent} hit a setback on {thread}, and {other} got the work going",
        "Where things went wrong for {agent} on {thread}, {other} got further {span} later",
        "{other} carried {thread} past the point where things had gone wrong for {agent}",
        "What went wrong for {agent} on {thread} came right with {other}, {span} later",
        "Things went wrong on {thread} for {agent}, and {other} saw the work through",
    ),
    "comeback": (
        "After {setbacks}, {thread} reached delivery, with {agents} at work",
        "There were {setbacks} on the way of {thread}, and a delivery at the end",
        "{agents} met {setbacks} on {thread} and delivered",
        "Delivery came to {thread} after {setbacks}, {span} from the first",
        "Between the first trouble on {thread} and delivery lay {setbacks} and {span}",
    ),
    "milestone": (
        "{agent} reached a milestone on {thread}",
        "On {thread} a milestone was set by {agent}",
        "Worth remembering of {thread}: {agent} reached a milestone",
        "{agent} passed a milestone on {thread}",
        "The work of {agent} on {thread} came to a point worth remembering",
    ),
    "cascade": (
        "Trouble showed first with {agent} and came to {setbacks} in all, since resolved",
        "One setback followed another among {agents}, {setbacks} in all, until all was resolved",
        "Linked to one another, {setbacks} passed through the work of {agents} and came to an end",
        "From {agent} the trouble travelled on, {setbacks} in all, and {span} later was over",
        "There were {setbacks} in a row among {agents}, and {span} later the last was resolved",
    ),
    "collision": (
        "{agent} and {other} both edited {note}, and the first edit was not yet committed",
        "{other} edited {note} while changes by {agent} were not yet committed",
        "Two agents were in one file: {agent} and {other} in {note}",
        "The edits of {agent} and {other} met in {note}, the first one uncommitted",
        "In {note}, the open changes of {agent} were joined by an edit from {other}",
    ),
    "stall": (
        "For {span} nothing was heard of {thread}",
        "There was a silence of {span} on {thread}",
        "The work on {thread} rested for {span}",
        "After {agent}, nobody was heard on {thread} for {span}",
        "On {thread}, {span} passed without a sign of work",
    ),
}
"""Kind → variants for an arc that is closed."""

OPEN_ARCS: Mapping[str, tuple[str, ...]] = {
    "struggle_and_recovery": (
        "{agent} had run into trouble on {thread}, and nothing had been fixed yet",
        "On {thread}, the trouble that {agent} had met was not yet over",
        "A setback of {agent} on {thread} had no fix yet",
        "{agent} had hit trouble on {thread} {count_times}, with no fix so far",
        "What had gone wrong for {agent} on {thread} was not fixed yet",
    ),
    "solo_sprint": (
        "{agent} had brought {thread} as far as a proposal, alone and without a setback",
        "Alone, {agent} had {thread} ready but for the delivery",
        "One step was left for {agent} on {thread}: the delivery",
        "The change for {thread} was proposed by {agent}, who had worked alone so far",
        "From first claim to proposal, {agent} had done {thread} alone, and delivery was to come",
    ),
    "silent_grind": (
        "{agent} was working through {thread} step by step, {count} so far",
        "Step after step, {agent} had taken {count} on {thread}, with delivery to come",
        "The steady work of {agent} on {thread} had come to {count} steps",
        "Without a word in between, {agent} had gone {count} steps on {thread}",
        "A quiet row of {count} steps by {agent} on {thread} was not at the end yet",
    ),
    "handoff_chain": (
        "The work on {thread} had been handed on {count_times} and was not closed yet",
        "From hand to hand {thread} had gone {count_times}, with no end so far",
        "Handed on {count_times}, {thread} was open, with {agents} taking part",
        "There had been {count} handovers on {thread}, and the work was under way",
        "{agents} had passed {thread} on {count_times}, and the end was to come",
    ),
    "review_ping_pong": (
        "The work on {thread} was going back and forth in review, with {agents} taking part",
        "Changes had been asked for more than once on {thread}, and the matter was open",
        "Between review and rework, {thread} had gone {count} steps so far",
        "Review had sent {thread} back more than once, with no end so far",
        "More than one round of review lay behind {thread}, with {agents} at work",
    ),
    "budget_death": (
        "The budget of {thread} had run out, and the work was not closed yet",
        "With the budget spent, {thread} stood where {agent} had left off",
        "No budget was left for {thread}, and no end was on record",
        "{agent} had used up the budget of {thread}, with nothing delivered since",
        "Whether {thread} would go on was open: the budget was spent",
    ),
    "cascade": (
        "One setback had followed another among {agents}, {setbacks} so far",
        "Linked to one another, {setbacks} lay open in the work of {agents}",
        "The trouble that showed first with {agent} had come to {setbacks} and was not over",
        "Among {agents} there were {setbacks} in a row, not all resolved",
        "From {agent} the trouble had travelled on, {setbacks} in all, with no end so far",
    ),
    "stall": (
        "Nothing had been heard of {thread} for {span}",
        "The last sign on {thread} was {span} old, and had come from {agent}",
        "For {span} there had been silence on {thread}",
        "Since {agent} last acted on {thread}, {span} had passed without a sign",
        "The work on {thread} had rested for {span}",
    ),
}
"""Kind → variants for an arc that is open."""
