"""`lore context`: print the prompt of an agent's next turn, and why it is so. docs/context.md describes the rules."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore.cli import arguments, open_log, scopes, terminal
from fleetlore.errors import Invalid, UnknownName
from fleetlore.prompts.build import DEFAULT_BUDGET, build_prompt
from fleetlore.prompts.roles import BLOCKS_BY_ROLE
from fleetlore.prompts.turn import MemoryPolicy, PromptSettings

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.projections.store import ProjectionStore
    from fleetlore.prompts.parts import BuiltPrompt, PartReport
    from fleetlore.prompts.turn import PromptTurn
    from fleetlore.prompts.work_context import SourcedSentence

SUMMARY = "show the prompt that an agent would get at its next turn"

MIN_EVENTS_FOR_PROGRESS = 10_000
"""Logs with more events show a progress bar on the first read."""
_EXAMPLES = (
    ("lore context --agent mara", "the prompt of one of the cast, in the newest run that has it"),
    ("lore context --agent mara --explain", "and for each block why it is there, its size, its events, what was left out"),
    ("lore context --agent tomas --run r7 --as-of 00000000000000000042", "what it knew then, and nothing later"),
    ("lore context --agent stranger --role judge --persona 'You are fair.'", "with a persona, an agent that is not on the log yet"),
    ("lore context --agent claude-code/7f7a50ca", "a coding session: its task, where its work stands, what it remembers"),
    ("lore context --agent mara --budget 800 --json | jq .left_out", "what does not fit into 800 tokens"),
)
_NOTES = """\
Prints the whole prompt that a model would get, without private thoughts of other agents. Tokens are
counted by the tokenizer of [context] in fleetlore.toml (default: `estimate`, four bytes per token).
The first call on a long log reads all of it once.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--agent", metavar="A", required=True, help="whose turn it is: a name in the log, or the one it is shown under")
    parser.add_argument(
        "--role", metavar="R", help=f"which blocks it is shown: {', '.join(BLOCKS_BY_ROLE)}; any other is a worker's (else its own)"
    )
    parser.add_argument("--persona", metavar="TEXT", help="who it is to be (else as its run began)")
    parser.add_argument("--run", metavar="R", help="which run (else the newest that has it)")
    parser.add_argument("--as-of", metavar="POSITION", help="as known at this position of the log, and nothing later")
    parser.add_argument("--budget", metavar="N", type=int, help=f"at most so many tokens (else the configuration's, or {DEFAULT_BUDGET})")
    parser.add_argument("--explain", action="store_true", help="say below it why each block is there, and what was left out")
    parser.add_argument("--record", action="store_true", help="record that this prompt was built, as context.built")
    arguments.add_json(parser, "the text and the account of it, for programs")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Build the prompt and print it."""
    settings = open_log.settings_of(args)
    options = settings.context.value
    prompt_settings = PromptSettings.from_settings(options)
    budget = args.budget if args.budget is not None else prompt_settings.budget
    if budget < 1:
        raise Invalid("--budget must be 1 token or more")
    with open_log.open_existing_log(args, settings=settings) as log:
        turn = _recall_turn(log, args, MemoryPolicy(weights=prompt_settings.weights), options.get("nearness"))
        prompt = build_prompt(turn, budget=budget, tokenizer=prompt_settings.tokenizer)
        if args.record:
            log.append([prompt.make_event()])
    _print_prompt(args, turn, prompt)
    return 0


def _recall_turn(log: BlockingRecorder, args: Namespace, remembering: MemoryPolicy, near: str | None) -> PromptTurn:
    from fleetlore.projections.runner import SAVE_AFTER
    from fleetlore.projections.store import open_store
    from fleetlore.prompts.agent_context import Recall
    from fleetlore.prompts.embeddings import SHARED_WORDS, find_nearness

    info = log.info()
    store = open_store(info) if info.events >= SAVE_AFTER or info.trimmed_before is not None else None
    with store or nullcontext():
        _catch_up(log, store, info.events)
        return Recall(log, store=store, nearness=find_nearness(near or SHARED_WORDS), summarize=summarize_work).turn(
            _find_agent(log, args),
            run=_find_run(log, args.run),
            as_of=args.as_of,
            role=args.role,
            persona=args.persona,
            remembering=remembering,
        )


def _catch_up(log: BlockingRecorder, store: ProjectionStore | None, events: int) -> None:
    """Fold a long log with a progress bar."""
    if events < MIN_EVENTS_FOR_PROGRESS:
        return
    from fleetlore.cli.progress import bar_if_long
    from fleetlore.projections.runner import Runner
    from fleetlore.prompts.agent_context import STAGE_VIEW

    with bar_if_long() as show:
        Runner(log, STAGE_VIEW, store).catch_up(show)


def _find_agent(log: BlockingRecorder, args: Namespace) -> str:
    """The resolved agent. An unknown one is an error, unless a cast names it or `--persona` is given."""
    from fleetlore.events.names import is_name
    from fleetlore.projections.name_lookup import resolve_agent

    name: str = args.agent
    if not is_name(name):
        raise Invalid(f"--agent: {name[:40]!r} is not a valid name; use 1 to 200 bytes without control characters")
    try:
        return resolve_agent(log, name, scopes.view_opener(log))
    except UnknownName:
        if args.persona is not None or _is_in_cast(log, name):
            return name
        raise


def _is_in_cast(log: BlockingRecorder, agent: str) -> bool:
    """Whether a stage run has this agent, even if it has no events yet."""
    from fleetlore.cli.fold import fold
    from fleetlore.views import stage

    return any(agent in run.cast for run in fold(log, stage, "stage").runs.values())


def _find_run(log: BlockingRecorder, run: str | None) -> str | None:
    return None if run is None else scopes.resolve_scope(log, f"run:{run}").partition(":")[2]


def summarize_work(events: Sequence[Event]) -> list[SourcedSentence]:
    """An agent's work in sentences, oldest first: edits in a row are one sentence, and so are events that say the same."""
    from fleetlore.prompts.work_context import SourcedSentence, is_worth_telling
    from fleetlore.story.event_sentences import EventDescriber
    from fleetlore.views.event_text import event_rank

    describer = EventDescriber()
    shown = sorted((event for event in events if is_worth_telling(event)), key=event_rank)
    sentences = []
    for text, described in groupby(_join_edits(shown), key=lambda part: describer.describe(part[0])):
        ids = tuple(event.id or "" for _, sources in described for event in sources)
        sentences.append(SourcedSentence(text, ids))
    return sentences


def _join_edits(events: Iterable[Event]) -> Iterator[tuple[Event, list[Event]]]:
    """Each event with itself as source; edits in a row as one event that names all their files."""
    for is_edit, group in groupby(events, key=lambda event: event.kind == "tool.returned" and event.data.get("deed") == "edit"):
        sources = list(group)
        if not is_edit:
            yield from ((event, [event]) for event in sources)
            continue
        lists = [paths for event in sources if isinstance(paths := event.data.get("paths"), list)]
        paths = [path for paths in lists for path in paths]
        yield replace(sources[0], data={**sources[0].data, "paths": paths}), sources


# --- output


def _print_prompt(args: Namespace, turn: PromptTurn, prompt: BuiltPrompt) -> None:
    if args.json:
        terminal.out_value(prompt.to_dict() | {"notes": turn.notes})
        return
    terminal.out(prompt.text)
    if args.explain:
        terminal.out("\n" + "\n".join(terminal.sanitise(line) for line in explain_prompt(turn, prompt)))


def explain_prompt(turn: PromptTurn, prompt: BuiltPrompt) -> list[str]:
    """Lines that explain each part of the prompt."""
    lines = [
        "-" * 72,
        f"{prompt.agent} as {prompt.role}: {prompt.tokens:,} of {prompt.budget:,} tokens, counted by `{prompt.tokenizer}`",
        *(f"{note[:1].upper()}{note[1:]}." for note in turn.notes),
    ]
    if prompt.as_of is not None:
        lines.append(f"The log is known up to {prompt.as_of}.")
    for part in prompt.parts:
        lines += ["", *_explain_part(part)]
    return lines


def _explain_part(part: PartReport) -> list[str]:
    size = f"{part.tokens:,} tokens" if part.is_shown else "left out: there was no room"
    events = f", {len(part.events):,} {'event' if len(part.events) == 1 else 'events'}" if part.events else ""
    lines = [f"{part.name:<14} {size}{events}", f"    why: {part.why}"]
    if part.is_shown and part.is_cut:
        lines.append("    cut short: there was no room for all of it")
    if part.no_room:
        lines.append(f"    no room for: {part.no_room:,} of its oldest")
    if part.is_shown and part.left_out > part.no_room:
        lines.append(f"    not shown: {part.left_out - part.no_room:,} earlier")
    if part.passed_over:
        lines.append(f"    passed over: {part.passed_over:,} that stand elsewhere here, or matter less")
    lines += [f"    {event}" for event in part.events]
    return lines
