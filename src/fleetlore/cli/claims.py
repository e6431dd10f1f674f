"""`lore claims`: what agents claimed about their work, and what the records say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.main import OK, SOME_REJECTED
from fleetlore.cli.sessions import add_range, read_outcomes, select_sessions

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SUMMARY = "check what agents claimed: supported, contradicted or unproven by the records"

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
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Print the claims, the contradicted first in each session; 3 if there are any."""
    import msgspec

    from fleetlore.views.outcomes.record import Outcome

    settings = open_log.settings_of(args)
    is_contradicted = False
    with open_log.open_existing_log(args, settings=settings) as log:
        now = clock.now()
        for record in read_outcomes(log, settings, select_sessions(args, log, now), now):
            outcome = msgspec.json.decode(record, type=Outcome)
            claims = [claim for claim in outcome.claims if not args.verdict or claim.verdict in args.verdict]
            is_contradicted = is_contradicted or any(claim.verdict == "contradicted" for claim in outcome.claims)
            if args.json:
                for claim in claims:
                    terminal.out_json(
                        msgspec.json.encode({"session": outcome.session, "agent": outcome.agent} | msgspec.to_builtins(claim))
                    )
            elif claims:
                terminal.out(f"{outcome.session[:8]}  {outcome.name}")
                for claim in sorted(claims, key=lambda claim: _ORDER[claim.verdict]):
                    terminal.out(f'  {claim.verdict:<12}  "{claim.text}": {claim.why}')
    return SOME_REJECTED if is_contradicted else OK
