"""`lore context`: print the prompt of an agent's next turn, and why it is so. docs/context.md describes the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.progress import show_progress_if_long
from fleetlore.cli.terminal import find_user_name
from fleetlore.errors import Invalid
from fleetlore.operations.context import OperationContext, open_source
from fleetlore.operations.prompts import AgentPrompt, BuildPrompt, build_prompt
from fleetlore.prompts.build import DEFAULT_BUDGET
from fleetlore.prompts.roles import BLOCKS_BY_ROLE

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.prompts.build import PartReport

_EXAMPLES = (
    ("lore context --agent mara", "the prompt of a stage agent, in its newest run"),
    ("lore context --agent mara --explain", "and why each block is there, its size, its events, what was left out"),
    ("lore context --agent tomas --run r7 --as-of 00000000000000000042", "what it knew then, and nothing later"),
    ("lore context --agent stranger --role judge --persona 'You are fair.'", "with a persona, an agent that is not in the log yet"),
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
    parser.add_argument("--agent", metavar="A", required=True, help="whose turn it is: an agent or a session, by any name that is shown")
    parser.add_argument(
        "--role",
        metavar="R",
        help=f"which blocks it is shown: {', '.join(BLOCKS_BY_ROLE)}; any other gets a worker's (default: the agent's own role)",
    )
    parser.add_argument("--persona", metavar="TEXT", help="persona text (default: the one that its run started with)")
    parser.add_argument("--run", metavar="R", help="which run (default: its newest)")
    parser.add_argument("--as-of", metavar="POSITION", help="as known at this position of the log, and nothing later")
    parser.add_argument(
        "--budget", metavar="N", type=int, help=f"maximum number of tokens (default: from the settings, or {DEFAULT_BUDGET})"
    )
    parser.add_argument("--explain", action="store_true", help="explain below the prompt why each block is there, and what was left out")
    parser.add_argument("--record", action="store_true", help="record that this prompt was built, as context.built")
    arguments.add_json(parser, "print the prompt and its explanation as JSON")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Build the prompt and print it."""
    settings = open_log.load_settings_for(args)
    if args.budget is not None and args.budget < 1:
        raise Invalid("--budget must be 1 token or more")
    request = BuildPrompt(
        agent=args.agent,
        role=args.role,
        persona=args.persona,
        run=args.run,
        as_of=args.as_of,
        budget=args.budget,
        record=args.record,
    )
    with open_log.open_existing_log(args, settings=settings) as log, open_source(log, settings, progress=show_progress_if_long) as source:
        prompt = build_prompt(OperationContext(source, actor=find_user_name()), request)
    _print_prompt(args, prompt)
    return 0


# --- output


def _print_prompt(args: Namespace, prompt: AgentPrompt) -> None:
    if args.json:
        terminal.print_value(prompt.to_dict())
        return
    terminal.print_line(prompt.text)
    if args.explain:
        terminal.print_line("\n" + "\n".join(terminal.sanitise_text(line) for line in explain_prompt(prompt)))


def explain_prompt(prompt: AgentPrompt) -> list[str]:
    """Lines that explain each part of the prompt."""
    lines = [
        "-" * 72,
        f"{prompt.agent} as {prompt.role}: {prompt.tokens:,} of {prompt.budget:,} tokens, counted by `{prompt.tokenizer}`",
        *(f"{note[:1].upper()}{note[1:]}." for note in prompt.notes),
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
