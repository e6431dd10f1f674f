"""How it is told: nodes, screens and machines. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "node.started": (
        (
            "The node {node} of {agent} began its step in turn {turn}",
            "In turn {turn}, {agent} came to the node {node}",
            "Turn {turn} of {agent} passed to the node {node}",
            "{agent} put the node {node} to work in turn {turn}",
            "With turn {turn} under way, the node {node} of {agent} set to work",
        ),
        (
            "The node {node} of {agent} took up its step: {text}",
            "{agent} came to the node {node}: {text}",
            "At the node {node}, {agent} began a step: {text}",
            "The work of {agent} passed to the node {node}: {text}",
            "{agent} put the node {node} to work: {text}",
        ),
        (
            "The node {node} of {agent} began its step",
            "{agent} came to the node {node}",
            "At the node {node}, {agent} began a step",
            "The work of {agent} passed to the node {node}",
            "{agent} put the node {node} to work",
        ),
        (
            "A node of {agent} began its step",
            "{agent} came to the next node",
            "At one of the nodes of {agent}, a step began",
            "The work of {agent} passed to a node",
            "{agent} put a node to work",
        ),
    ),
    "node.finished": (
        (
            "The node {node} of {agent} ended its step in turn {turn}",
            "In turn {turn}, {agent} was through with the node {node}",
            "Turn {turn} of {agent} left the node {node} behind",
            "{agent} brought the node {node} to its end in turn {turn}",
            "With turn {turn} under way, the node {node} of {agent} closed its step",
        ),
        (
            "The node {node} of {agent} closed its step: {text}",
            "{agent} was through with the node {node}: {text}",
            "At the node {node}, {agent} ended a step: {text}",
            "A step of {agent} at the node {node} was over: {text}",
            "{agent} left the node {node} with this: {text}",
        ),
        (
            "The node {node} of {agent} ended its step",
            "{agent} was through with the node {node}",
            "At the node {node}, {agent} ended a step",
            "A step of {agent} at the node {node} was over",
            "{agent} left the node {node} behind",
        ),
        (
            "A node of {agent} ended its step",
            "{agent} was through with a node",
            "At one of the nodes of {agent}, a step ended",
            "A step of {agent} was over at its node",
            "{agent} left a node behind",
        ),
    ),
    "node.failed": (
        (
            "The node {node} of {agent} failed: {error}",
            "{agent} met an error at the node {node}: {error}",
            "At the node {node}, a step of {agent} went wrong: {error}",
            "An error stopped the node {node} of {agent}: {error}",
            "{agent} got no further than the node {node}: {error}",
        ),
        (
            "The node {node} of {agent} did not finish: {text}",
            "{agent} had a failure at the node {node}: {text}",
            "At the node {node}, a step of {agent} failed: {text}",
            "Something went wrong for {agent} in the node {node}: {text}",
            "A failure in the node {node} came up for {agent}: {text}",
        ),
        (
            "The node {node} of {agent} failed in its step",
            "{agent} had a failure at the node {node}",
            "At the node {node}, a step of {agent} went wrong",
            "Something went wrong for {agent} in the node {node}",
            "A failure in the node {node} came up for {agent}",
        ),
        (
            "A node of {agent} failed in its step",
            "{agent} had a failure at one node",
            "At one of the nodes of {agent}, a step went wrong",
            "Something went wrong for {agent} in a node",
            "A failure in a node came up for {agent}",
        ),
    ),
    "ui.controls": (
        (
            "{agent} set the controls on the screen: {text}",
            "The screen of {agent} had its controls set: {text}",
            "New settings for the controls came from {agent}: {text}",
            "{agent} arranged the controls on the screen for the user: {text}",
            "What {agent} put on the screen was this: {text}",
        ),
        (
            "{agent} set the controls on the screen",
            "The screen of {agent} had its controls set",
            "New settings for the controls on the screen came from {agent}",
            "{agent} arranged the controls on the screen for the user",
            "What the screen offered was now as {agent} had set it",
        ),
    ),
    "ui.action": (
        (
            "The user of {agent} acted on the control “{action}”: {text}",
            "On the screen of {agent}, the user turned to “{action}”: {text}",
            "The control “{action}” on the screen of {agent} was the user's choice: {text}",
            "The screen of {agent} took “{action}” from the user: {text}",
            "From the user, {agent} had the action “{action}”: {text}",
        ),
        (
            "The user of {agent} acted on the control “{action}”",
            "On the screen of {agent}, the user turned to “{action}”",
            "The screen of {agent} took “{action}” from the user",
            "From the user, {agent} had the action “{action}”",
            "The control “{action}” on the screen of {agent} was the user's choice",
        ),
        (
            "The user of {agent} pressed or changed a control: {text}",
            "On the screen of {agent}, the user acted: {text}",
            "The screen of {agent} took an action from the user: {text}",
            "From the user, {agent} had an action on the screen: {text}",
            "The user put a control on the screen of {agent} to use: {text}",
        ),
        (
            "The user of {agent} pressed or changed a control",
            "On the screen of {agent}, the user acted",
            "The screen of {agent} took an action from the user",
            "From the user, {agent} had an action on the screen",
            "The user put a control on the screen of {agent} to use",
        ),
    ),
    "ui.reported": (
        (
            "The browser told {agent} what it showed: {text}",
            "{agent} heard from the browser what was on the screen: {text}",
            "A report of the screen came in from the browser for {agent}: {text}",
            "What the browser showed went into the record of {agent}: {text}",
            "The browser gave {agent} an account of the screen: {text}",
        ),
        (
            "The browser told {agent} what it showed",
            "{agent} heard from the browser what was on the screen",
            "A report of the screen came in from the browser for {agent}",
            "What the browser showed went into the record of {agent}",
            "The browser gave {agent} an account of the screen",
        ),
    ),
    "machine.created": (
        (
            "{agent} set up the state machine {machine}, which started in {initial}",
            "The state machine {machine} of {agent} began in the state {initial}",
            "With {initial} as the first state, {agent} set up {machine}",
            "{machine}, a state machine of {agent}, stood ready in {initial}",
            "A state machine named {machine} came from {agent}, starting at {initial}",
        ),
        (
            "{agent} set up the state machine {machine}",
            "A state machine named {machine} came from {agent}",
            "The state machine {machine} was now there for {agent}",
            "{machine}, a state machine of {agent}, stood ready",
            "With {machine}, {agent} had a new state machine",
        ),
        (
            "{agent} set up a state machine",
            "A new state machine came from {agent}",
            "A state machine was now there for {agent}",
            "Here {agent} set a state machine up",
            "{agent} had a new state machine in place",
        ),
    ),
    "machine.moved": (
        (
            "With “{action}”, {machine} of {agent} went from {old_state} to {new_state}",
            "{agent} moved {machine} from {old_state} to {new_state} by “{action}”",
            "The action “{action}” took {machine} of {agent} from {old_state} to {new_state}",
            "{machine} left {old_state} for {new_state} as {agent} recorded “{action}”",
            "For {agent}, {machine} went from {old_state} to {new_state} on “{action}”",
        ),
        (
            "{machine} of {agent} went from {old_state} to {new_state}",
            "{agent} moved the state machine {machine} from {old_state} to {new_state}",
            "The state machine {machine} of {agent} left {old_state} for {new_state}",
            "From {old_state}, {machine} of {agent} passed to {new_state}",
            "{machine} had been in {old_state}, and {agent} took it to {new_state}",
        ),
        (
            "{machine} of {agent} passed to the state {new_state}",
            "{agent} moved the state machine {machine} to {new_state}",
            "The state machine {machine} of {agent} was now in {new_state}",
            "The new state of {machine}, noted by {agent}, was {new_state}",
            "{new_state} became the state of {machine}, by the record of {agent}",
        ),
        (
            "With “{action}”, {machine} of {agent} passed to another state",
            "{agent} moved the state machine {machine} by “{action}”",
            "The action “{action}” took {machine} of {agent} to another state",
            "The state machine {machine} of {agent} moved on “{action}”",
            "{machine} changed its state on “{action}”, as {agent} recorded",
        ),
        (
            "{machine} of {agent} passed to another state",
            "{agent} moved the state machine {machine} on",
            "The state machine {machine} of {agent} changed its state",
            "For {agent}, the state machine {machine} was now in another state",
            "A change of state came to {machine}, by the record of {agent}",
        ),
        (
            "A state machine of {agent} passed to another state",
            "{agent} moved a state machine on",
            "One of the state machines of {agent} changed its state",
            "For {agent}, a state machine was now in another state",
            "A change of state went into the record of {agent}",
        ),
    ),
    "machine.reset": (
        (
            "{agent} set the state machine {machine} back to {new_state}",
            "{machine} of {agent} went back to its first state, {new_state}",
            "The state machine {machine} of {agent} was back at {new_state}",
            "With a reset by {agent}, {machine} stood at {new_state}",
            "The reset of {machine}, noted by {agent}, ended in {new_state}",
        ),
        (
            "{agent} set the state machine {machine} back to its first state",
            "{machine} of {agent} went back to where it had begun",
            "A reset of {machine} went into the record of {agent}",
            "With a reset, {machine} of {agent} stood at its beginning",
            "The state machine {machine} of {agent} was back at its first state",
        ),
        (
            "{agent} set a state machine back to its first state",
            "A state machine of {agent} went back to where it had begun",
            "A reset of a state machine went into the record of {agent}",
            "With a reset, a machine of {agent} stood at its beginning",
            "A state machine of {agent} was back at its first state",
        ),
    ),
    "machine.destroyed": (
        (
            "{agent} took the state machine {machine} away",
            "The state machine {machine} of {agent} was gone",
            "{agent} removed {machine} from the state machines",
            "With {machine}, a state machine of {agent} came to its end",
            "From here on, {agent} did without the state machine {machine}",
        ),
        (
            "{agent} took a state machine away",
            "A state machine of {agent} was gone",
            "One of the state machines of {agent} came to its end",
            "{agent} removed a state machine",
            "From here on, {agent} did without one state machine",
        ),
    ),
    "sensor.idle": (
        (
            "The user of {agent} had gone quiet: {text}",
            "{agent} noted that the user had gone quiet: {text}",
            "No word came to {agent} from the user: {text}",
            "It was quiet on the user's side, as {agent} noted: {text}",
            "Nothing came from the user to the screen of {agent}: {text}",
        ),
        (
            "The user of {agent} had gone quiet",
            "{agent} noted that the user had gone quiet",
            "No word came to {agent} from the user for a while",
            "It was quiet on the user's side, as {agent} noted",
            "Nothing came from the user to the screen of {agent}",
        ),
    ),
    "sensor.returned": (
        (
            "The user of {agent} was back: {text}",
            "{agent} noted that the user had come back: {text}",
            "There was somebody at the screen of {agent}: {text}",
            "The user came back to {agent}: {text}",
            "After a time away, the user rejoined {agent}: {text}",
        ),
        (
            "The user of {agent} was back",
            "{agent} noted that the user had come back",
            "The user came back to the screen of {agent}",
            "After a time away, the user rejoined {agent}",
            "The user's return went into the record of {agent}",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "node.started": (
        "{agent} put nodes to work {count_times} {when}",
        "Nodes of {agent} set out on {count} steps {when}",
        "A node of {agent} began its step {count_times} {when}",
    ),
    "node.finished": (
        "{agent} was through with a node {count_times} {when}",
        "Nodes of {agent} came to the end of {count} steps {when}",
        "A node of {agent} ended its step {count_times} {when}",
    ),
    "node.failed": (
        "A node of {agent} failed {count_times} {when}",
        "There were {count} failed steps in the nodes of {agent} {when}",
        "{agent} had a step go wrong in a node {count_times} {when}",
    ),
    "ui.controls": (
        "{agent} set the controls on the screen {count_times} {when}",
        "There were {count} new settings of the screen's controls by {agent} {when}",
        "The screen of {agent} had its controls set {count_times} {when}",
    ),
    "ui.action": (
        "The user of {agent} acted on the screen {count_times} {when}",
        "There were {count} actions by the user on the screen of {agent} {when}",
        "From the user, {agent} had {count} actions {when}",
    ),
    "ui.reported": (
        "The browser told {agent} what it showed {count_times} {when}",
        "{agent} had {count} reports of the screen {when}",
        "{agent} heard from the browser {count_times} {when}",
    ),
    "machine.created": (
        "{agent} set up {count} state machines {when}",
        "There were {count} new state machines from {agent} {when}",
        "A state machine came from {agent} {count_times} {when}",
    ),
    "machine.moved": (
        "State machines of {agent} changed state {count_times} {when}",
        "There were {count} changes of state under {agent} {when}",
        "{agent} moved state machines on {count_times} {when}",
    ),
    "machine.reset": (
        "{agent} set state machines back {count_times} {when}",
        "{agent} made {count} resets of state machines {when}",
        "A state machine of {agent} went back to its first state {count_times} {when}",
    ),
    "machine.destroyed": (
        "{agent} took {count} state machines away {when}",
        "{agent} removed {count} state machines {when}",
        "A state machine of {agent} came to its end {count_times} {when}",
    ),
    "sensor.idle": (
        "The user of {agent} went quiet {count_times} {when}",
        "There were {count} quiet spells on the user's side of {agent} {when}",
        "{agent} noted {count_times} {when} that the user had gone quiet",
    ),
    "sensor.returned": (
        "The user of {agent} came back {count_times} {when}",
        "There were {count} returns of the user to {agent} {when}",
        "{agent} noted {count_times} {when} that the user was back",
    ),
}
"""Kind → how a run of like events is told."""
