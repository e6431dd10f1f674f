"""How it is told: a cast on a stage. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "run.started": (
        (
            "{agent} opened a run of {scenario} with these words: {text}",
            "A run of {scenario} began, and {agent} noted: {text}",
            "With {scenario}, {agent} began a new run: {text}",
            "Here began a run of {scenario}, noted by {agent}: {text}",
            "{scenario} was the scenario when {agent} began a run: {text}",
        ),
        (
            "{agent} began a run of {scenario}",
            "A run of {scenario} opened under {agent}",
            "The scenario was {scenario}, and {agent} began the run",
            "For the scenario {scenario}, {agent} opened a new run",
            "{agent} set {scenario} going as a new run",
        ),
        (
            "{agent} began a run: {text}",
            "A new run opened under {agent}: {text}",
            "At the opening of a run, {agent} wrote: {text}",
            "The run that {agent} began had this for its opening line: {text}",
            "A run started, and {agent} noted: {text}",
        ),
        (
            "{agent} began a new run",
            "A new run opened under {agent}",
            "Here a run of {agent} began",
            "{agent} set a new run going",
            "A new run was under way with {agent}",
        ),
    ),
    "run.finished": (
        (
            "The run ended with {winner} as the winner, and {agent} closed it: {text}",
            "{agent} closed the run that {winner} had won: {text}",
            "{winner} won the run, in the words of {agent}: {text}",
            "At the end of the run {agent} named {winner} as winner: {text}",
            "The win went to {winner} as {agent} ended the run: {text}",
        ),
        (
            "The run ended, and {agent} recorded {winner} as the winner",
            "{agent} closed the run with {winner} named as its winner",
            "{winner} won, and {agent} brought the run to its end",
            "When {agent} ended the run, the win went to {winner}",
            "As {agent} closed the run, {winner} stood as the winner",
        ),
        (
            "{agent} ended the run: {text}",
            "The run came to its end, and {agent} wrote: {text}",
            "With these words {agent} closed the run: {text}",
            "The last line of the run came from {agent}: {text}",
            "A run under {agent} was over: {text}",
        ),
        (
            "{agent} ended the run and gave the reason as “{reason}”",
            "The run under {agent} closed, with “{reason}” as the reason on record",
            "A run ended here; the reason that {agent} noted was “{reason}”",
            "The run stopped, and {agent} put down why: {reason}",
            "{agent} brought the run to an end, for this reason: {reason}",
        ),
        (
            "{agent} brought the run to its end",
            "The run under {agent} came to a close",
            "Here the run ended, by the record of {agent}",
            "{agent} closed the run",
            "A run was over, as {agent} noted",
        ),
    ),
    "world.observed": (
        (
            "The scene changed: {text}",
            "Something in the scene was different now: {text}",
            "The run showed a new scene: {text}",
            "A change came over the scene: {text}",
            "The world around the cast changed: {text}",
            "This was now the scene: {text}",
        ),
        (
            "The scene changed, as {agent} recorded it",
            "By the account of {agent}, the scene was no longer the same",
            "{agent} noted a change in the scene",
            "A new scene came into the record of {agent}",
            "Something in the scene changed, with {agent} as the source",
        ),
    ),
    "agent.spoke": (
        (
            "{agent} said: “{text}”",
            "{agent} spoke up: “{text}”",
            "To all who listened, {agent} said: “{text}”",
            "These were the words of {agent}: “{text}”",
            "{agent} had this to say: “{text}”",
            "{agent} told everyone: “{text}”",
            "From {agent} came the line: “{text}”",
        ),
        (
            "{agent} said something to everyone",
            "{agent} spoke up, in words that did not reach the record",
            "A line from {agent} was there for all to hear",
            "What {agent} said went out to everyone",
            "{agent} took the floor and spoke",
        ),
    ),
    "agent.thought": (
        (
            "In turn {turn}, {agent} thought something over in private",
            "{agent} had a private thought in turn {turn}",
            "Turn {turn} held a private thought of {agent}",
            "{agent} spent part of turn {turn} in thought",
            "A thought of turn {turn} stayed with {agent} alone",
        ),
        (
            "{agent} paused for thought while on {task}",
            "While {task} was open, {agent} had a thought in private",
            "During {task}, {agent} thought something over",
            "A private thought came to {agent} during {task}",
            "On {task}, {agent} thought and said nothing aloud",
        ),
        (
            "{agent} thought something over without a word",
            "{agent} had a thought and kept it private",
            "A thought came to {agent} and stayed unspoken",
            "{agent} gave the matter some thought",
            "In private, {agent} had a thought",
            "One thought of {agent} stayed out of this account",
        ),
    ),
    "agent.reflected": (
        (
            "In turn {turn}, {agent} looked back and came to a belief",
            "{agent} used turn {turn} to reflect on what had happened",
            "Turn {turn} found {agent} reflecting, and a belief came of it",
            "A belief took shape with {agent} in turn {turn}",
            "By the end of turn {turn}, {agent} had come to a belief",
        ),
        (
            "While on {task}, {agent} reflected and came to a belief",
            "On {task}, {agent} stopped to reflect",
            "{agent} looked back and drew a conclusion during {task}",
            "A belief took shape with {agent} during {task}",
            "During {task}, {agent} took stock and settled on a belief",
        ),
        (
            "{agent} looked back and came to a belief",
            "{agent} stopped to reflect",
            "Looking over what had happened, {agent} formed a belief",
            "{agent} drew a conclusion from what had gone before",
            "A new belief took shape with {agent}",
        ),
    ),
    "oracle.spoke": (
        (
            "{agent} spoke as the oracle: “{text}”",
            "In the oracle's part, {agent} said: “{text}”",
            "The oracle's words came from {agent}: “{text}”",
            "With the voice of the oracle, {agent} told everyone: “{text}”",
            "The oracle spoke, and {agent} gave the words: “{text}”",
        ),
        (
            "{agent} spoke as the oracle",
            "The oracle said something to all, through {agent}",
            "A saying of the oracle came from {agent}",
            "{agent} gave everyone a word from the oracle",
            "What the oracle said came through {agent}",
        ),
    ),
    "judge.verdict": (
        (
            "{agent} gave a verdict, with {winner} as the winner: “{text}”",
            "The verdict of {agent} went to {winner}: “{text}”",
            "{agent} judged, and named {winner} the winner: “{text}”",
            "{winner} won the verdict of {agent}: “{text}”",
            "For {agent}, the winner was {winner}: “{text}”",
        ),
        (
            "{agent} named {winner} the winner",
            "The verdict of {agent} went in favour of {winner}",
            "{winner} won, by the verdict of {agent}",
            "{agent} judged and gave the win to {winner}",
            "In the judgement of {agent}, the winner was {winner}",
        ),
        (
            "{agent} gave a verdict, and the accused was {accused}: “{text}”",
            "With {accused} as the accused, {agent} gave this verdict: “{text}”",
            "The accused was {accused}, and {agent} judged: “{text}”",
            "{agent} ruled in the matter of {accused}: “{text}”",
            "On {accused}, the accused, {agent} had this verdict: “{text}”",
        ),
        (
            "{agent} gave this verdict: “{text}”",
            "The verdict came from {agent}: “{text}”",
            "{agent} ruled on the matter: “{text}”",
            "As judge, {agent} said: “{text}”",
            "The judgement of {agent} was this: “{text}”",
        ),
        (
            "{agent} gave a verdict",
            "A verdict came from {agent}",
            "{agent} ruled on the matter",
            "As judge, {agent} came to a ruling",
            "The judging fell to {agent}, and a verdict followed",
        ),
    ),
    "user.injected": (
        (
            "{actor} broke in: “{text}”",
            "A word from outside came from {actor}: “{text}”",
            "{actor} stepped in from outside and said: “{text}”",
            "Into the middle of it all, {actor} said: “{text}”",
            "The run had a visitor's word from {actor}: “{text}”",
        ),
        (
            "A visitor broke in, and the record named {agent}",
            "Somebody from outside had a word, noted under {agent}",
            "A voice from outside joined in, with {agent} on record",
            "A visitor's line went into the record of {agent}, without its words",
            "Somebody stepped in from outside; the entry named {agent}",
        ),
    ),
    "commentary.posted": (
        (
            "{agent} remarked: “{text}”",
            "A comment on the run came from {agent}: “{text}”",
            "{agent} commented from the side: “{text}”",
            "Looking on, {agent} wrote: “{text}”",
            "In a remark on the run, {agent} said: “{text}”",
        ),
        (
            "{agent} remarked on the run",
            "A comment on the run came from {agent}",
            "{agent} added a remark from the side",
            "Looking on, {agent} commented on what went on",
            "The run drew a comment from {agent}",
        ),
    ),
}
"""Kind → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "run.started": (
        "{agent} began {count} runs {when}",
        "{agent} opened a run {count_times} {when}",
        "A new run opened {count_times} under {agent} {when}",
    ),
    "run.finished": (
        "{agent} brought {count} runs to an end {when}",
        "There were {count} runs under {agent} that ended {when}",
        "A run of {agent} came to its close {count_times} {when}",
    ),
    "world.observed": (
        "The scene changed {count_times} {when}, as {agent} recorded it",
        "By the account of {agent}, the scene changed {count_times} {when}",
        "{agent} noted {count} changes of scene {when}",
    ),
    "agent.spoke": (
        "{agent} spoke {count_times} {when}",
        "Everyone had {count} lines from {agent} {when}",
        "In {count} lines {when}, {agent} spoke to all",
    ),
    "agent.thought": (
        "{agent} thought in private {count_times} {when}",
        "{agent} kept {count} thoughts private {when}",
        "In silence, {agent} gave things some thought {count_times} {when}",
    ),
    "agent.reflected": (
        "{agent} stopped to reflect {count_times} {when}",
        "{agent} came to {count} beliefs {when}",
        "Looking back {count_times} {when}, {agent} came to a belief each time",
    ),
    "oracle.spoke": (
        "{agent} spoke as the oracle {count_times} {when}",
        "The oracle had {count} things to say through {agent} {when}",
        "There were {count} sayings of the oracle from {agent} {when}",
    ),
    "judge.verdict": (
        "{agent} gave {count} verdicts {when}",
        "There were {count} verdicts from {agent} {when}",
        "As judge, {agent} ruled {count_times} {when}",
    ),
    "user.injected": (
        "A visitor broke in {count_times} {when}, noted under {agent}",
        "The record of {agent} took in {count} lines from outside {when}",
        "Somebody from outside joined in {count_times} {when}, by the record of {agent}",
    ),
    "commentary.posted": (
        "{agent} remarked on the run {count_times} {when}",
        "There were {count} comments from {agent} {when}",
        "Looking on, {agent} commented {count_times} {when}",
    ),
}
"""Kind → how a run of like events is told."""
