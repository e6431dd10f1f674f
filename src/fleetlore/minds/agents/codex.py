"""Codex takes turns: `codex exec --json`, the prompt on stdin, its records on stdout, one thread over all turns of a goal.

What the gate cannot do here: `codex exec` asks nobody. Its sandbox is the rule: commands write in the workspace and the system's folder
for temporary files alone, and reach no network, unless the user's own config.toml says otherwise; whatever is within these bounds is
done without a question, and what is beyond them fails. Names of tools in `allow` and `deny` have no meaning for it, and neither the
gate nor a person is asked; `extras["ungated"]` says so where somebody wanted it. It has no limit of its own for money or tokens, either:
it is stopped at the first record past the budget.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.minds.agents.codex_records import Records
from fleetlore.minds.agents.codex_rollouts import Rollouts
from fleetlore.minds.agents.listening import LINGER, listen, program_for
from fleetlore.minds.harness import Ended, Order, Watch
from fleetlore.minds.programs.environment import scrubbed

KEEP = ("OPENAI_*", "CODEX_*", "AZURE_OPENAI_*", "RUST_LOG")
_TOOLS = ("shell_tool", "unified_exec", "view_image", "multi_agent", "goals", "apps", "plugins")


class Codex:
    """The harness of Codex. `command` may bear arguments of its own; `keep` names variables that it needs besides, as for its provider."""

    name = "codex"
    has_sessions = True

    def __init__(
        self,
        command: Sequence[str] = ("codex",),
        environ: Mapping[str, str] = os.environ,
        *,
        keep: Sequence[str] = (),
        sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write",
        linger: float = LINGER,
    ) -> None:
        self._command, self._environ, self._keep = tuple(command), environ, tuple(keep)
        self._sandbox, self._linger = sandbox, linger

    async def take_turn(self, order: Order, watch: Watch) -> Ended:
        """One turn. Its thread is named by Codex itself: `order.new_session` is not used."""
        rollouts = Rollouts(self._home(), since=clock.now())
        if order.session:
            await asyncio.to_thread(rollouts.follow, order.session)
        env = scrubbed(self._environ, keep=(*KEEP, *self._keep), mark=order.mark)
        program = program_for(order, (*self._command, *self._arguments(order)), env)
        ended = await listen(order, program, Records(order, rollouts), watch, linger=self._linger)
        if order.gate or order.allow or order.deny:
            return replace(ended, extras={**ended.extras, "ungated": True})
        return ended

    def _arguments(self, order: Order) -> Iterator[str]:
        yield from ("exec", "--json", "--skip-git-repo-check", "--color", "never", "-c", 'approval_policy="never"')
        yield from ("--sandbox", "read-only" if order.is_summary else self._sandbox)
        if order.model:
            yield from ("--model", order.model)
        if order.is_summary:
            yield from (part for tool in _TOOLS for part in ("-c", f"features.{tool}=false"))
            yield from ("-c", 'web_search="disabled"')
        yield from ("resume", order.session, "-") if order.session else ("-",)

    def _home(self) -> Path:
        named = self._environ.get("CODEX_HOME")
        return Path(named) if named else Path(self._environ.get("HOME") or "~").expanduser() / ".codex"
