"""An agent that is driven by a goal, and cheats where it is told to: `cheat.py SITE.json`, as a command or in the place of Claude Code.

Its work is `answer.txt`, with one number a turn. As Claude Code it asks at the gate for what SITE.json names, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults import mischief
from tests.faults.mischief import Site
from tests.patience import PATIENCE


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    sys.stdin.read()
    spare = Path(given["spare"])
    turn = len(list(spare.glob("turn-*"))) + 1
    (spare / f"turn-{turn}").touch()
    site = Site(given["log"], given["goal"], spare, Path(given["home"]), given["server"], given["token"])
    if "--mcp-config" in sys.argv:
        as_claude(given, site, turn)
        return
    for way in given["cheats"] if turn == 1 else ():
        WAYS[way](site)
    work(given, turn)
    print_row({"say": f"turn {turn}", "tokens": 100, "usd": 0.25})


def work(given: dict[str, Any], turn: int) -> None:
    Path("answer.txt").write_text(f"{given['answers'][turn - 1]}\n")


def kill(site: Site) -> None:
    """End the driver, and wait for what comes of it."""
    os.kill(os.getppid(), 9)
    sleep(PATIENCE)


WAYS: dict[str, Callable[[Site], None]] = {
    "everything": mischief.everything,
    "facts": mischief.facts,
    "flood": mischief.flood,
    "files": mischief.touch_files,
    "kill": kill,
}


# --- as Claude Code


def as_claude(given: dict[str, Any], site: Site, turn: int) -> None:
    session = sys.argv[sys.argv.index("--session-id" if "--session-id" in sys.argv else "--resume") + 1]
    print_row({"type": "system", "subtype": "init", "session_id": session, "model": "m", "cwd": os.getcwd(), "tools": []})
    config = json.loads(Path(sys.argv[sys.argv.index("--mcp-config") + 1]).read_text())["mcpServers"]["fleetlore"]
    with subprocess.Popen(
        [config["command"], *config["args"]], env=os.environ | config["env"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as gate:
        for number, (tool, input) in enumerate(given["asks"], 1):
            ask(gate, number, tool, input)
            if number == len(given["asks"]):  # the others are decided by rules
                if given["cheats"]:
                    cheat_at_gate(site, config["env"])
                (site.spare / "ready").touch()  # the person may answer now
            read_answer(gate)
        assert gate.stdin is not None
        gate.stdin.close()
    work(given, turn)
    usage = {"input_tokens": 60, "output_tokens": 40}
    print_row({"type": "result", "subtype": "success", "is_error": False, "session_id": session, "result": "so", "usage": usage})


def print_row(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def ask(gate: subprocess.Popen[bytes], number: int, tool: str, input: Any) -> None:
    assert gate.stdin is not None
    arguments = {"tool_name": tool, "input": input, "tool_use_id": f"call-{number}"}
    request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "permission_prompt", "arguments": arguments}}
    gate.stdin.write(json.dumps(request).encode() + b"\n")
    gate.stdin.flush()


def read_answer(gate: subprocess.Popen[bytes]) -> None:
    assert gate.stdout is not None
    gate.stdout.readline()


def cheat_at_gate(site: Site, env: dict[str, str]) -> None:
    """Answer the question that is open by every way there is, as soon as it is in the log; end it; and ask in the gate's name."""
    until = monotonic() + PATIENCE
    while not (recorded := [event for event in mischief.known(site) if event.kind == "approval.requested"]) and monotonic() < until:
        sleep(0.02)
    lies = mischief.forged(site, mischief.known(site))
    mischief.by_python(site, lies)
    mischief.lore("--log", site.log, "emit", "-", stdin=mischief.lines_of(lies))
    for event in recorded:
        for choice in ("allow", "deny"):
            mischief.lore("--log", site.log, "decide", str(event.id), choice)
            body = json.dumps({"of": event.id, "choice": choice}).encode()
            mischief.by_http(site, f"api/goals/{site.goal}/decide", body)
    speak_for_gate(env)


def speak_for_gate(env: dict[str, str]) -> None:
    """Connect with the token, and say that it was answered; what makes no sense, and what is another turn's, too."""
    import socket

    lines = ('{"id": 1, "choice": "allow"}', '{"id": 1, "cancel": true}', '{"answer": 1}', "{")
    for hello, line in ((hello, line) for hello in (env["LORE_GATE_TOKEN"], "no") for line in lines):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(env["LORE_GATE_SOCKET"])
            client.sendall(json.dumps({"token": hello}).encode() + b"\n" + line.encode() + b"\n")


if __name__ == "__main__":
    main()
