"""`lore acp`: runs an agent of the Agent Client Protocol and records its conversation with the editor that started us."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, terminal
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.ingest.batch_writer import BatchWriter

_EXAMPLES = (
    ("lore acp -- gemini --acp", "what your editor starts in place of `gemini --acp`"),
    ("lore --log sqlite:team.db acp -- my-agent acp", "into another log"),
)
_NOTES = """\
Passes every byte on unchanged, in both directions, and records prompts, answers, tool calls, permissions,
plans and costs. The conversation never waits for the log: if it cannot be written, what waits is kept in
memory up to 64 MiB, then dropped, and one line on standard error says so at the end.
Programs whose transcripts `lore import` reads need no proxy: such a session would be in the log twice,
but its tokens count once.
Exit code: that of the agent.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("agent", metavar="AGENT", nargs="+", help="the agent's command line, after --")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Run the agent to its end."""
    from fleetlore.dialects.fields import as_name
    from fleetlore.ingest import acp_proxy

    sys.setswitchinterval(0.0005)  # the thread that stores events must not hold up the ones that pass bytes on (5 ms by default)
    recorder = acp_proxy.ConversationRecorder(lambda: _open_writer(args), agent=as_name(os.path.basename(args.agent[0])) or "acp")
    try:
        result = acp_proxy.run_proxy(args.agent, recorder)
    except OSError as error:
        raise Invalid(f"{args.agent[0]}: cannot be started: {error.strerror or error}") from error
    if result.dropped:
        why = f": {result.error}" if result.error else ""
        terminal.print_error(f"lore: {result.dropped:,} bytes of this conversation are not in the log{why}")
    return result.code


@contextmanager
def _open_writer(args: Namespace) -> Iterator[BatchWriter]:
    """The log that applies here, with its settings; opened in the recorder's thread, so that a slow one delays nothing."""
    from fleetlore.ingest.batch_writer import BatchWriter
    from fleetlore.log.admission import Admission
    from fleetlore.programs.registry import PROTOCOL_NAME

    settings = open_log.load_settings_for(args)
    admission = Admission(redactor=open_log.make_redactor(settings), anonymise=open_log.load_anonymiser(settings))
    with open_log.open_log(args, settings=settings, drain=False) as log:
        yield BatchWriter(log, dialect=PROTOCOL_NAME, admission=admission)
