"""How it is told: what was asked of models. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "model.called": (
        (
            "{agent} asked {model}, for this purpose: {purpose}",
            "A question went from {agent} to {model}: {purpose}",
            "{agent} called on {model}, with “{purpose}” as the purpose",
            "For the purpose of “{purpose}”, {agent} turned to {model}",
            "The purpose was “{purpose}” when {agent} asked {model}",
        ),
        (
            "{agent} put a question to {model}",
            "A question went from {agent} to {model}",
            "{agent} turned to {model} for an answer",
            "{model} had a request from {agent} to answer",
            "{agent} had a question for {model}",
        ),
        (
            "{agent} asked a model from {provider}",
            "A request went from {agent} to {provider}",
            "{agent} turned to {provider} for an answer",
            "{provider} had a request from {agent} to answer",
            "For the next answer, {agent} called on {provider}",
        ),
        (
            "{agent} put a question to a model",
            "A request went from {agent} to a model",
            "{agent} turned to a model for an answer",
            "A model had a request from {agent} to answer",
            "For the next step, {agent} consulted a model",
        ),
    ),
    "model.replied": (
        (
            "{agent} answered: {text}",
            "{agent} said this: {text}",
            "The answer of {agent} was this: {text}",
            "{agent} wrote this answer: {text}",
            "{agent} gave this answer: {text}",
        ),
        (
            "{model} answered {agent} on {task}",
            "On {task}, {agent} had an answer from {model}",
            "A reply from {model} reached {agent} during {task}",
            "For {task}, {agent} heard back from {model}",
            "With {task} open, an answer came from {model} to {agent}",
        ),
        (
            "{model} answered {agent}",
            "{agent} had an answer from {model}",
            "The reply of {model} reached {agent}",
            "From {model} an answer came to {agent}",
            "{agent} heard back from {model}",
        ),
        (
            "{agent} had an answer from a model",
            "A model answered {agent}",
            "The reply of a model reached {agent}",
            "An answer came in for {agent} from a model",
            "{agent} heard back from a model",
        ),
    ),
    "model.failed": (
        (
            "{model} gave {agent} no answer: {error}",
            "{agent} asked {model} and got an error: {error}",
            "A call from {agent} to {model} failed: {error}",
            "In place of an answer, {agent} had an error from {model}: {error}",
            "Nothing came of the call that {agent} made to {model}: {error}",
        ),
        (
            "{model} did not answer {agent}: {text}",
            "{agent} asked {model}, and no answer came: {text}",
            "The call of {agent} to {model} went wrong: {text}",
            "For {agent} there was no answer from {model}: {text}",
            "A question from {agent} to {model} stayed open: {text}",
        ),
        (
            "{model} gave {agent} no answer, only the status {status}",
            "{agent} asked {model} and got status {status} back",
            "With status {status}, the call of {agent} to {model} failed",
            "A call to {model} left {agent} with status {status} and no answer",
            "Status {status} was all that {agent} had back from {model}",
        ),
        (
            "{model} gave {agent} no answer",
            "{agent} asked {model}, and the call failed",
            "A question from {agent} to {model} stayed without an answer",
            "No answer from {model} reached {agent}",
            "The call that {agent} made to {model} did not work",
        ),
        (
            "{agent} asked a model and got no answer: {error}",
            "A model call of {agent} failed: {error}",
            "No answer came from the model for {agent}: {error}",
            "The model that {agent} had asked gave an error: {error}",
            "In place of an answer, {agent} had an error from a model: {error}",
        ),
        (
            "{agent} asked a model and got no answer",
            "A model gave {agent} no answer",
            "A question from {agent} to a model stayed without an answer",
            "The model call of {agent} failed",
            "No answer from a model reached {agent}",
        ),
    ),
    "context.built": (
        (
            "A prompt of {tokens} tokens was ready for {agent} in the role of {role}",
            "With the role {role}, {agent} had a prompt of {tokens} tokens",
            "{tokens} tokens made up the prompt for {agent} in the role of {role}",
            "The prompt for {agent}, in the role of {role}, came to {tokens} tokens",
            "The role was {role}, and the prompt for {agent} held {tokens} tokens",
        ),
        (
            "A prompt of {tokens} tokens was ready for the turn of {agent}",
            "The prompt for {agent} came to {tokens} tokens",
            "{agent} had a prompt of {tokens} tokens for the turn",
            "{tokens} tokens made up the prompt for the turn of {agent}",
            "For {agent}, the next prompt held {tokens} tokens",
        ),
        (
            "A prompt was ready for {agent} in the role of {role}",
            "With the role {role}, {agent} had a prompt for the turn",
            "For {agent}, a prompt for the role {role} came together",
            "There was now a prompt for {agent} with the role {role}",
            "The role was {role}, and {agent} had the prompt for it",
        ),
        (
            "A prompt was ready for the turn of {agent}",
            "{agent} had a prompt for the turn",
            "The prompt for {agent} came together",
            "For the turn of {agent}, the prompt was complete",
            "A turn of {agent} had its prompt",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "model.called": (
        "{agent} asked a model {count_times} {when}",
        "{agent} put {count} questions to models {when}",
        "Models had {count} requests from {agent} {when}",
    ),
    "model.replied": (
        "{agent} answered {count_times} {when}",
        "{agent} gave {count} answers {when}",
        "There were {count} answers from {agent} {when}",
    ),
    "model.failed": (
        "Models gave {agent} no answer {count_times} {when}",
        "{agent} had {count} model calls fail {when}",
        "{agent} asked models {count_times} {when} without an answer",
    ),
    "context.built": (
        "The prompts that came together for {agent} {when} numbered {count}",
        "{agent} had a fresh prompt {count_times} {when}",
        "A prompt was ready for {agent} {count_times} {when}",
    ),
}
"""Kind → how a run of like events is told."""
