"""`lore claims`: what agents claimed about their work, and what the records say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, terminal
from fleetlore.cli.main import OK, SOME_REJECTED
from fleetlore.cli.sessions import add_range, explain_nothing, read_range

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_ORDER = {"contradicted": 0, "unproven": 1, "supported": 2}
_EXAMPLES = (
    ("lore claims", "the claims of the last 7 days"),
    ("lore claims --since 1d --verdict contradicted", "only those that the records contradict"),
    ("lore claims --json | jq 'select(.kind == \"tests_pass\")'", "one JSON object per line and claim"),
)
_NOTES = "The exit code is 3 if any claim is contradicted."


def configure(parser: ArgumentParser) -> None:
    """Which claims."""
    add_range(parser)
    parser.add_argument("--verdict", choices=tuple(_ORDER), action="append", help="only claims with this verdict; may be repeated")
    arguments.add_json(parser, "print one JSON object per line and claim")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Print the claims, the contradicted first in each session; 3 if there are any."""
    import msgspec

    from fleetlore.cli.operations import open_context
    from fleetlore.operations.sessions import ListClaims, list_claims
    from fleetlore.operations.table import find_operation

    with open_context(args, find_operation("claims")) as context:
        request = ListClaims(**read_range(args, context.now()), limit=None, verdict=args.verdict or [])
        found = list_claims(context, request).sessions
    for one in found:
        if args.json:
            for claim in one.claims:
                terminal.print_value({"session": one.session, "agent": one.agent} | msgspec.to_builtins(claim))
        elif one.claims:
            terminal.print_line(f"{one.session[:8]}  {one.name}")
            for claim in sorted(one.claims, key=lambda claim: _ORDER[claim.verdict]):
                terminal.print_line(f'  {claim.verdict:<12}  "{claim.text}": {claim.why}')
    if not args.json and not any(one.claims for one in found):
        explain_nothing(args, "claims")
    return SOME_REJECTED if any(one.contradicted for one in found) else OK
