"""`lore evidence`: a Stop hook that asks an agent once to show its evidence. The coding program calls it.

It reads the program's own transcript, so it needs no log. Whatever goes wrong, it prints nothing and the agent stops as usual.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from fleetlore.events.envelope import Event
    from fleetlore.views.outcomes.record import JudgedClaim

TIMEOUT_SECONDS = 8.0
"""After this time the agent may stop, whatever it claimed."""
MAX_TRANSCRIPT_BYTES = 64 * 1024 * 1024
"""With a longer transcript the agent may stop: reading it would take too long."""
MAX_INPUT_BYTES = 1024 * 1024
MAX_CLAIMS = 5
KINDS = frozenset(("tests_pass", "build_or_lint_ok", "committed", "pushed", "pr_opened"))
"""Claims that a recorded call can show."""
_EXAMPLES = (("lore evidence claude-code < payload.json", "what Claude Code does when an agent is about to stop"),)
_NOTES = """\
`lore install claude-code --ask-for-evidence` has the program call it. If the agent's last text claims that tests or a build
pass, or that it committed, pushed or opened a pull request, and its transcript contradicts that or does not show it, the
agent is asked to show its evidence: once per turn. Otherwise it prints nothing. Its exit code is always 0.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    from fleetlore.cli import arguments

    parser.add_argument("program", metavar="PROGRAM", help="who calls: one of those that `lore install` lists")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Answer one Stop hook; never fails and never takes longer than `TIMEOUT_SECONDS`."""
    import json
    import signal

    reason = ""
    previous = signal.getsignal(signal.SIGALRM)
    try:
        signal.signal(signal.SIGALRM, _give_up)
        signal.setitimer(signal.ITIMER_REAL, TIMEOUT_SECONDS)
        payload = json.loads(sys.stdin.buffer.read(MAX_INPUT_BYTES))
        reason = find_reason(args.program, payload) if isinstance(payload, dict) else ""
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Exception:  # noqa: BLE001  # an agent must never be held up by a fault of ours
        reason = ""
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    if reason:
        sys.stdout.write(json.dumps({"decision": "block", "reason": reason}) + "\n")
    return 0


def _give_up(number: int, frame: object) -> None:
    raise TimeoutError


def find_reason(program: str, payload: Mapping[str, Any]) -> str:
    """What to ask the agent; empty if it may stop."""
    text, path, session = (payload.get(key) for key in ("last_assistant_message", "transcript_path", "session_id"))
    if payload.get("stop_hook_active") is True or payload.get("agent_id"):  # it was asked already, or is a subagent
        return ""
    if not (isinstance(text, str) and text.strip() and isinstance(path, str) and isinstance(session, str)):
        return ""
    if os.path.getsize(path) > MAX_TRANSCRIPT_BYTES:
        return ""
    return _ask_for_evidence(judge_last_text(read_transcript(program, path), session, text))


def read_transcript(program: str, path: str) -> Iterator[Event]:
    """The events of a transcript; a line that cannot be read is skipped."""
    from fleetlore.errors import DialectError
    from fleetlore.programs import registry

    reader = registry.require_program(program).load_recording().open(None)
    with open(path, "rb") as file:
        for raw in file:
            try:
                yield from reader.read(raw.strip())
            except DialectError:
                continue
    yield from reader.end()


def judge_last_text(events: Iterator[Event], session: str, text: str) -> list[JudgedClaim]:
    """The claims in the text with which the newest turn of a session ends, judged by what was recorded before it."""
    from fleetlore import clock
    from fleetlore.events.envelope import Event
    from fleetlore.views.outcomes import fold
    from fleetlore.views.outcomes import session as session_fold
    from fleetlore.views.outcomes.record import make_record
    from fleetlore.views.outcomes.rules import default_rules

    rules = default_rules()
    state = fold.fold_events(events, rules).runs.get(session)
    if state is None:
        return []
    # Only the statements of the last text are judged.
    if state.status.turn == "running":  # the transcript does not have the last text yet, so it is added
        earlier = len(state.statements)
        state.text, state.status.text = None, ""
        session_fold.apply(
            state, Event(kind="session.turn_ended", agent=state.agent or None, run=session, at=clock.now(), text=text), rules
        )
        state.statements = state.statements[earlier:]
    else:
        state.statements = [said for said in state.statements[-1:] if said.where == "answer" and said.turn_start == state.turn_start]
    return [claim for claim in make_record(state, clock.now()).claims if claim.kind in KINDS and claim.verdict != "supported"]


def _ask_for_evidence(claims: Sequence[JudgedClaim]) -> str:
    if not claims:
        return ""
    lines = [f'- "{claim.text}": {_describe_claim(claim)}' for claim in claims[:MAX_CLAIMS]]
    return "\n".join(
        (
            "Your last message claims something that the recorded tool calls do not show:",
            *lines,
            "Show the evidence: run the command now and report its result, or correct the statement. You are asked once.",
        )
    )


def _describe_claim(claim: JudgedClaim) -> str:
    verdict = "the record contradicts it" if claim.verdict == "contradicted" else "the record does not show it"
    return f"{verdict} ({claim.why})" if claim.why else verdict
