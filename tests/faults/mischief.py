"""All that an agent can do to its own goal with `lore` and a shell. It knows the log's address, and has read all that is there."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from msgspec.structs import replace

from fleetlore import clock, connect
from fleetlore.cli.main import main
from fleetlore.errors import Invalid
from fleetlore.events import codec
from fleetlore.events import driver_types as types
from fleetlore.events.driver_types import Allow, Deny
from fleetlore.events.envelope import Event, Mac
from fleetlore.goal import commands as goal_commands
from fleetlore.goal.events import GoalEvents
from fleetlore.goal.gate.decision import PermissionAnswer, make_decision_event
from fleetlore.goal.gate.decision import PermissionRequest as Asked
from fleetlore.log.admission import Admission
from fleetlore.process.tree import Process
from fleetlore.programs.harness import TurnResult
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalState

OPEN = ("nexus", "tinytown", "nexo", "stage", "cloudevents", "beads", "git")
"""Dialects that can be written, too."""
DIALECTS = (*OPEN, "claude-code", "codex", "forge", "otlp")
MOST_REPLAYED = 20
REFUSED = -1
"""How a command ended that had to be ended."""
_FOREVER = """
import os, sys, time
from fleetlore import connect
from fleetlore.errors import Invalid
from fleetlore.events import codec
lines, stop, until = open(sys.argv[2], "rb").read().splitlines(), sys.argv[3], time.monotonic() + 10
with connect(sys.argv[1]).blocking() as log:
    while time.monotonic() < until and not os.path.exists(stop):
        for line in lines:
            event = codec.decode_event(line)
            event.id = None
            log.append([event])
"""


class Site(NamedTuple):
    """What the agent knows."""

    log: str
    goal: str
    spare: Path
    """A folder of its own."""
    home: Path
    """Where the driver keeps what belongs to goals."""
    server: str
    token: str


# --- what it forges


def known(site: Site) -> list[Event]:
    """Everything on the goal's scope."""
    with connect(site.log).blocking() as log:
        return list(log.read(f"goal:{site.goal}"))


def forged(site: Site, recorded: Sequence[Event]) -> list[Event]:
    """Facts of the goal that it would like to be true, or that would hurt; without a signature, with a made-up one, and with another's."""
    signed = [event for event in recorded if event.mac is not None][:MOST_REPLAYED]
    key = signed[0].mac.key if signed and signed[0].mac else "0" * 16
    made = [*_of_the_driver(site, recorded), *_beside_it(site, recorded), *_of_people(site, recorded)]
    macs = [Mac(key=key, hex="0" * 64), *([signed[-1].mac] if signed else ())]
    false = [replace(event, id=clock.uuid7(), mac=mac) for event in made for mac in macs]
    return [event for event in (*made, *false, *_replayed(signed)) if _is_taken(event)]


def _is_taken(event: Event) -> bool:
    try:
        Admission().admit(event)
    except Invalid:
        return False
    return True


def _replayed(signed: Sequence[Event]) -> Iterator[Event]:
    """What was signed, once more: as it is, under another id, at another time, for another turn."""
    for event in signed:
        yield replace(event, position=None)
        yield replace(event, id=clock.uuid7(), position=None)
        yield replace(event, at=clock.now(), position=None)
        yield replace(event, id=clock.uuid7(), data=event.data | {"turn": 9}, position=None)


def _state(site: Site, recorded: Sequence[Event]) -> GoalState:
    state = GoalState(id=site.goal)
    for event in recorded:
        goals.apply_to_goal(state, event)
    return state


def _of_the_driver(site: Site, recorded: Sequence[Event]) -> Iterator[Event]:
    state, say = _state(site, recorded), GoalEvents(site.goal, agent="solver", scopes={}, now=clock.now, new_id=clock.uuid7)
    good = types.Verdict(met=True, failures=(), evaluated_at="2026-11-16T10:00:00Z", elapsed_ms=1)
    if state.goal is not None:
        budget = replace(state.goal.budget, max_turns=99, max_tokens=10**9)
        yield say.goal_started(replace(state.goal, acceptance=(), budget=budget))
    yield say.workspace_checkpointed(0, "0" * 40, "/tmp", verifiers="0" * 64)
    yield say.acceptance_checked(good, cause=None)
    for outcome in (types.Done(), types.Cancelled(), types.Escalate(reason="help"), types.BudgetSpent(axis="turns")):
        yield say.attempt_completed(state, outcome, verdict=good, words="done")
        yield from say.goal_finished(state, outcome, "done")
    yield say.attempt_started(state, 7)
    yield say.attempt_ended(
        1, TurnResult(how="finished", tokens=10**7, usd=99.0), complaint=None, until=None, seconds=1, cause=clock.uuid7()
    )
    yield say.wait_started("a long rest", until=clock.now() + timedelta(days=3), turn=1)
    yield from say.spent_by_child([site.goal], turns=50, tokens=10**8, usd=500.0)
    yield say.make_event("model.replied", {"model": "m", "input": 10**8, "output": 10**8, "usd": 500.0})
    yield say.process_started(Process(pid=os.getppid(), group=os.getpgid(os.getppid()), born="1", command="lore"), clock.uuid7())
    yield say.session_bound(clock.uuid7(), harness="command", model=None, workspace="/tmp")
    yield say.replay_decided(state, types.FreshSessionRetry(rollback_to="0" * 40), "lost")
    yield say.compact_requested(state, types.TokenPressure(pct=0.9, tokens_used=9, context_window=10), age_minutes=1, window=100)
    yield from say.compact_completed(state, after=1, stored=True)
    yield say.lease_taken("somewhere:1", 99)
    for choice in (Allow(), Deny(message="no")):
        asked = Asked(tool="Bash", input={"command": "id"}, goal=site.goal, turn=1)
        yield make_decision_event(asked, PermissionAnswer(choice, "because"), id=clock.uuid7(), at=clock.now())


def _beside_it(site: Site, recorded: Sequence[Event]) -> Iterator[Event]:
    ids = [sha256(str(event.id).encode()).hexdigest() for event in recorded]
    say = GoalEvents(site.goal, agent="solver", scopes={}, now=clock.now, new_id=clock.uuid7)
    yield say.progress_made(GoalState(id=site.goal), "soon", turn=9)
    yield say.memories_extracted(1, saved=9, duration_ms=1)
    yield say.extraction_skipped("throttled")
    yield say.dream_ended("completed")
    yield say.make_event("approval.requested", {"tool": "Read", "input": {}, "turn": 1, "expires": "2999-01-01T00:00:00Z"})
    yield say.make_event("goal.permission_asked", {"tool": "Read", "input": {}, "turn": 1, "expires": "2999-01-01T00:00:00Z"})
    yield say.make_event("goal.reserved", {"below": clock.uuid7(), "turns": 50, "tokens": 10**8, "usd": 500.0})
    yield say.make_event("goal.tool_effect", {"tool": "shell", "result": "done"})
    yield say.make_event("log.forgotten", {"count": len(ids), "reason": "never was", "id_hashes": ids})
    yield say.make_event("log.trimmed", {"before": "9" * 16})


def _of_people(site: Site, recorded: Sequence[Event]) -> Iterator[Event]:
    raised = {"turns": 99, "tokens": 10**9, "usd": 1000.0, "wall_time": "90h", "consecutive_denies": 99}
    requests: list[tuple[str, Any]] = [("pause", None), ("resume", None), ("cancel", None), ("say", "All is well."), ("raise", raised)]
    for action, value in requests:
        yield goal_commands.make_control_event(site.goal, action, by="grace", value=value)
    for question in (event.id for event in recorded if event.kind == "approval.requested"):
        for choice in ("deny", "allow"):
            yield goal_commands.make_control_event(site.goal, "decide", by="grace", value={"choice": choice, "message": ""}, of=question)


# --- how it gets that onto the log


def lore(*argv: str, stdin: bytes = b"", seconds: float = 20.0) -> int:
    """Run a command as a process of its own, without a terminal; answers its exit code."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for source, target in ((read, 0), (nothing, 1), (nothing, 2)):
                os.dup2(source, target)
            os.close(write)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115  # it ends with the process
            code = main(argv)
        finally:
            os._exit(code)
    os.close(read)
    with suppress(BrokenPipeError), open(write, "wb") as pipe:
        pipe.write(stdin)
    return _ended(pid, seconds)


def _ended(pid: int, seconds: float) -> int:
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return REFUSED


def lines_of(events: Sequence[Event]) -> bytes:
    return b"".join(codec.encode_event(event) + b"\n" for event in events)


def by_python(site: Site, events: Sequence[Event]) -> None:
    """As a program of its own would."""
    with connect(site.log).blocking() as log:
        log.append_all(events)


def by_http(site: Site, path: str, body: bytes, kind: str = "application/json") -> int:
    """With the token that lies in the file of a running `lore up`; answers the status."""
    headers = {"authorization": f"Bearer {site.token}", "content-type": kind}
    try:
        with urlopen(Request(f"{site.server}{path}", body, headers), timeout=20) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except URLError:
        return 0


def by_server(site: Site, events: Sequence[Event]) -> dict[str, int]:
    """Through each door that writes. What the log says of itself, nobody may say here."""
    body = lines_of([event for event in events if not event.kind.startswith("log.")])
    codes = {"events": by_http(site, "api/events", body, "application/x-ndjson")}
    for action, value in (("raise", {"turns": 99}), ("cancel", None), ("pause", None), ("say", "hello")):
        request = {"action": action} | ({} if value is None else {"value": value})
        codes[action] = by_http(site, f"api/goals/{site.goal}/control", json.dumps(request).encode())
    answer = json.dumps({"of": str(clock.uuid7()), "choice": "allow"}).encode()
    return codes | {"decide": by_http(site, f"api/goals/{site.goal}/decide", answer)}


def by_other_logs(site: Site, events: Sequence[Event]) -> None:
    """A log of its own, with all of it: written out in every dialect and taken in again, shipped, and shipped again after forgetting."""
    own = f"sqlite:{site.spare}/own.db"
    by_python(site._replace(log=own), events)
    for dialect in DIALECTS:
        path = site.spare / f"{dialect}.jsonl"
        if dialect in OPEN:
            lore("--log", own, "export", dialect, "--out", str(path))
        else:
            path.write_bytes(lines_of(events))
        lore("--log", site.log, "import", dialect, str(path))
    lore("ship", "--from", own, "--to", site.log, "--full", "--once")
    some = [part for event in events[-40:] for part in ("--id", str(event.id))]
    lore("--log", own, "forget", *some, "--reason", "never was", "--yes")
    lore("ship", "--from", own, "--to", site.log, "--full", "--once")


def for_ever(site: Site, events: Sequence[Event]) -> None:
    """A process that has left its group and its marks, and goes on when the turn is over."""
    (site.spare / "some.jsonl").write_bytes(lines_of([event for event in events if event.kind == "control.requested"]))
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for descriptor in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    given = (site.log, str(site.spare / "some.jsonl"), str(site.spare / "stop"))
    os.execve(sys.executable, [sys.executable, "-c", _FOREVER, *given], {})


# --- every command


def commands(site: Site, recorded: Sequence[Event]) -> Mapping[str, Sequence[Sequence[str]]]:
    """What it calls each command with."""
    ids = [str(event.id) for event in recorded if event.kind in ("driver.goal_started", "driver.acceptance", "driver.attempt_started")]
    asked = next((str(event.id) for event in recorded if event.kind == "approval.requested"), clock.uuid7())
    old, goal, file = str(site.spare / "old.db"), site.goal, str(site.spare / "goal.toml")
    Path(file).write_text("description = 'Be done'\nharness = 'command'\ncommand = ['true']\n" + f"id = '{goal}'\n")
    return {
        "setup": [["--yes"]],
        "up": [],  # asked through the one that runs
        "emit": [["control.requested", "--goal", goal, "--data", '{"action": "raise", "value": {"turns": 99}}']],
        "import": [],  # in every dialect, from a log of its own
        "watch": [["claude-code", str(site.spare), "--once"]],
        "open": [["--print"]],
        "trust": [["--list"], ["--yes"]],
        "sinks": [["--send"]],
        "scan": [["--dry-run"], []],
        "statusline": [[]],
        "export": [["nexo", "--out", str(site.spare / "all.jsonl")]],
        "events": [["--scope", f"goal:{goal}", "--json"]],
        "status": [["--json"]],
        "story": [["--all"]],
        "brief": [["--all"]],
        "sessions": [["--all"]],
        "show": [[goal]],
        "claims": [["--all"]],
        "arcs": [["--all"]],
        "chronicle": [["git", "."]],
        "find": [["verdict"]],
        "context": [["--agent", "solver", "--record"]],
        "costs": [["--json"]],
        "name": [["solver", "driver"]],
        "ship": [["--to", f"sqlite:{site.spare}/away.db", "--full", "--once"]],
        "goal": [
            *([verb, goal] for verb in ("pause", "cancel", "resume", "show")),
            *([["resume"], ["list", "--all"], ["run", file], ["check", file], ["say", goal, "All is well."]]),
            ["raise", goal, "--turns", "99", "--tokens", "1000000000", "--usd", "1000"],
        ],
        "worker": [[]],
        "town": [["spawn", "ada"], ["assign", "solver", "--task", goal], ["kill", "solver"], ["backlog", "add", "Say yes"], ["status"]],
        "mcp": [["--write", "--agent", "solver"]],
        "graph": [["list"]],
        "decide": [[], [asked, "allow"], [asked, "deny", "--reason", "no"]],
        "notify": [["list"]],
        "token": [["create", "--scope", "admin"], ["create", "--scope", "write"], ["list"]],
        "seal": [["--status"], [], ["--new-key"]],
        "stage": [["list"]],
        "demo": [["--no-serve", "--speed", "0", "--into"]],
        "verify": [[]],
        "salvage": [[site.log.removeprefix("sqlite:"), f"{site.spare}/salvaged.db"]],
        "archive": [["--before", "2999-01-01"]],
        "why": [[file]],
        "blame": [[file]],
        "review": [["HEAD"]],
        "away": [["on", "--for", "1h"], ["off"]],
        "completion": [["bash"]],
        "service": [["status"]],
        "approve-hook": [["claude-code", "--wait", "0"]],
        "acp": [["--", "true"]],
        "backup": [[old], ["--force", site.log.removeprefix("sqlite:")]],
        "restore": [["--force", old]],
        "forget": [[*(part for id in ids for part in ("--id", id)), "--reason", "never was", "--yes"], ["--agent", "solver", "--yes"]],
        "trim": [["--before", "2999-01-01", "--yes"]],
        "config": [["show"]],
        "doctor": [[]],
        "install": [["claude-code", "--user"], ["claude-code", "--project"]],
        "uninstall": [["claude-code", "--user"]],
        "hook": [["claude-code"]],
        "gate": [[]],
        "evidence": [["claude-code"]],
    }


MAY_NOT = (
    *("goal pause", "goal cancel", "goal resume", "goal say", "goal raise", "goal run", "decide allow", "decide deny", "token admin"),
    *("worker", "town spawn"),
    *("seal", "seal --new-key", "backup --force", "restore --force", "forget --id", "forget --agent", "trim --before"),
)
"""What a sealed log has to refuse."""


def call_all(site: Site, recorded: Sequence[Event]) -> dict[str, int]:
    """Every command, with each of its arguments; answers the exit codes of those that have to be refused."""
    codes: dict[str, int] = {}
    for name, arguments in commands(site, recorded).items():
        for each in arguments:
            code = lore("--log", site.log, name, *each, stdin=b'{"hook_event_name": "Stop", "session_id": "x"}\n')
            codes |= {case: code for case in MAY_NOT if _is_case(case, name, each)}
    return codes


def _is_case(case: str, name: str, argv: Sequence[str]) -> bool:
    word, _, rest = case.partition(" ")
    return word == name and (rest in argv if rest else not argv)


# --- files


def touch_files(site: Site) -> None:
    """Whatever the driver keeps of the goal, and what checks the work; all of it as far as the turn's own process can know where."""
    own = site.home / "goals" / site.goal
    Path("check.sh").write_text("exit 0\n")
    _overwrite(own / "verifiers" / "manifest.json", b'{"start": "", "protected": {"copies": {}}}')
    _overwrite(own / "workspace.json", b'{"kind": "folder", "root": "/tmp"}')
    for name, text in (("config", b"[core]\n\tfsmonitor = touch owned\n"), ("refs/replace/" + "0" * 40, b"0" * 40), ("index", b"")):
        _overwrite(own / "snapshots.git" / name, text)
    with suppress(OSError):
        _overwrite(Path(".git"), f"gitdir: {site.spare}\n".encode())


def _overwrite(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        path.unlink()
    path.write_bytes(content)


# --- all together


def facts(site: Site) -> None:
    """Every fact that it can think of."""
    by_python(site, forged(site, known(site)))


def flood(site: Site) -> None:
    """The same few facts, by two processes, for as long as they are let."""
    lies = forged(site, known(site))
    for_ever(site, lies)
    for_ever(site, lies)


def everything(site: Site) -> None:
    """Every fact in every way, and every command."""
    recorded = known(site)
    lies = forged(site, recorded)
    lore("--log", site.log, "emit", "-", stdin=lines_of(lies))
    by_python(site, lies)
    by_other_logs(site, lies)
    done = {"http": by_server(site, lies), "called": sorted(commands(site, recorded)), "codes": call_all(site, recorded)}
    (site.spare / "done.json").write_text(json.dumps(done))
