"""`lore graph test`: scenarios played one after the other, each in a session of its own on a log that is not kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from fleetlore.cli import terminal
from fleetlore.cli.graph.command import settings_of
from fleetlore.cli.main import FAILED, OK, UsageError
from fleetlore.errors import Invalid
from fleetlore.log.connect import connect

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.graph.scenarios import ExpectationResult


def test(args: Namespace) -> int:
    """Play them; fails if anything that is expected does not hold."""
    if not args.places:
        raise UsageError("which scenarios? Name their files, as in `lore graph test examples/graph/*.md`")
    return asyncio.run(_played(args))


async def _played(args: Namespace) -> int:
    from fleetlore.graph import scenarios
    from fleetlore.graph.sessions import SessionManager

    stories = [scenarios.parse_scenario(_text(place), place) for place in args.places]
    failed = 0
    async with connect("memory:") as log, SessionManager(log, settings_of(args)) as sessions:
        for story in stories:
            findings = await scenarios.run_scenario(story, sessions)
            wrong = scenarios.select_failures(findings)
            failed += len(wrong)
            if args.json:
                shown = [scenarios.as_json(finding) for finding in findings]
                terminal.out_value({"file": story.source, "title": story.title, "ok": not wrong, "findings": shown})
                continue
            _tell(story.source, story.title, findings, wrong)
    return FAILED if failed else OK


def _tell(source: str, title: str, findings: list[ExpectationResult], wrong: list[ExpectationResult]) -> None:
    verdict = f"{len(findings)} hold" if not wrong else f"{len(wrong)} of {len(findings)} do not hold"
    terminal.out(terminal.sanitise(f"{source}: {title}: {verdict}"))
    for finding in wrong:
        terminal.out(terminal.sanitise(f"  {source}:{finding.line}: {finding.step}: {finding.wanted}: {finding.wrong}"))


def _text(place: str) -> str:
    try:
        return Path(place).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{place}: cannot be read ({error}); see that it is there, and that you may read it") from error
