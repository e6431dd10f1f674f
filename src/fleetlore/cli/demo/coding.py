"""The coding sessions of the demo: a failing test that is fixed and reviewed, a claim that the log contradicts, and a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore.events.ids import derive_id
from fleetlore.programs.registry import DEFAULT_NAME

if TYPE_CHECKING:
    from fleetlore.cli.demo.fleet import StoryWriter

PERSON = "mira"
"""Who works with the agents."""

MODEL = "claude-sonnet-4-5"
LONGEST_LINE = 90
FOLDER = "/home/mira/parcel-api"
TEST_FILE, SIGNING_FILE, BACKOFF_FILE = "tests/test_retry.py", "src/parcel/signing.py", "src/parcel/backoff.py"
FAILED_RETRY = """\
tests/test_retry.py::test_retries_are_spread FAILED                      [ 92%]
=================================== FAILURES ===================================
____________________________ test_retries_are_spread ____________________________
    def test_retries_are_spread():
        delays = [next_delay(attempt, jitter=0.0) for attempt in range(5)]
>       assert max(delays) <= MAX_DELAY
E       assert 960 <= 900
tests/test_retry.py:31: AssertionError
========================= 1 failed, 41 passed in 3.12s ========================="""
FAILED_ROTATION = """\
tests/test_signing.py::test_old_key_expires FAILED
E       AssertionError: the old key is still accepted after 24 hours
========================= 1 failed, 32 passed in 2.40s ========================="""


def shorten_line(text: str) -> str:
    """The first line of a text, as programs write it into `text`."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


class SessionWriter:
    """Writes one session as a coding agent records it."""

    def __init__(self, story: StoryWriter, name: str, minute: float, *, branch: str, title: str) -> None:
        self.story, self._minute, self._context = story, minute, 18_000
        self.run = derive_id("demo", f"session/{name}".encode())
        self.agent = f"{DEFAULT_NAME}/{self.run[:8]}"
        self._who: dict[str, Any] = {"agent": self.agent}
        data = {"cwd": FOLDER, "project": "parcel-api", "branch": branch, "program": DEFAULT_NAME, "person": PERSON, "title": title}
        self._write_event("session.started", "parcel-api", data)

    def _write_event(self, kind: str, text: str | None, data: dict[str, Any] | None = None, *, later: float = 0.15, **fields: Any) -> str:
        self._minute += later
        return self.story.add_event(self._minute, kind, text and shorten_line(text), run=self.run, data=data or {}, **(self._who | fields))

    def add_prompt(self, prompt: str) -> None:
        """The person's prompt."""
        self._write_event("prompt.submitted", prompt, {"prompt": prompt}, actor=PERSON)

    def add_thought(self, thought: str) -> None:
        """A thought of the model."""
        self._write_event("agent.thought", thought, {"thought": thought}, visibility="private")

    def add_reply(self, text: str) -> None:
        """A reply of the model."""
        self._context += 2_400
        usage = {"input": 180, "output": 220 + len(text) // 3, "cache_read": self._context, "cache_write": 1_900}
        self._write_event("model.replied", text, {"model": MODEL, "said": text, **usage})

    def add_call(self, tool: str, given: dict[str, Any], output: str, *, text: str = "", exit_code: int | None = None) -> None:
        """A tool call and its result."""
        call = {"tool": tool, "call_id": f"call-{self.story.rng.getrandbits(32):08x}"}
        label = self._write_event("tool.called", text or str(next(iter(given.values()), "")), call | {"input": given, "cwd": FOLDER})
        failed = bool(exit_code)
        data = call | ({"error": output} if failed else {"output": output}) | ({} if exit_code is None else {"exit_code": exit_code})
        self._write_event("tool.failed" if failed else "tool.returned", text, data, because=label)

    def run_command(self, command: str, output: str, *, exit_code: int = 0, about: str = "") -> None:
        """A shell command."""
        self.add_call(
            "Bash", {"command": command} | ({"description": about} if about else {}), output, text=about or command, exit_code=exit_code
        )

    def add_edit(self, path: str, old: str, new: str) -> None:
        """An edit of a file."""
        full = f"{FOLDER}/{path}"
        self.add_call(
            "Edit", {"file_path": full, "old_string": old, "new_string": new}, f"The file {full} has been updated.", text=f"Edit: {path}"
        )

    def read(self, path: str, output: str) -> None:
        """A file that is read."""
        self.add_call("Read", {"file_path": f"{FOLDER}/{path}"}, output, text=f"Read: {path}")

    def start_helper(self, role: str, prompt: str) -> str:
        """A sub-agent begins; what follows is its own, until it answers."""
        child = f"a{self.story.rng.getrandbits(24):06x}"
        self._write_event("agent.launched", prompt, {"role": role, "prompt": prompt}, child=child)
        self._who = {"agent": child, "parent": self.agent}
        return child

    def give_back(self, child: str, role: str, result: str) -> None:
        """The sub-agent answers."""
        self._who = {"agent": self.agent}
        self._write_event("agent.returned", result, {"role": role, "status": "completed", "result": result}, child=child)

    def end_turn(self, text: str) -> None:
        """The turn ends with an answer."""
        self.add_reply(text)
        self._write_event("session.turn_ended", text, later=0.1)


def write_sessions(story: StoryWriter) -> None:
    """All of them, within the forty minutes of the story."""
    _write_retry_session(story)
    _write_rotation_session(story)
    _write_loop_session(story)


def _write_retry_session(story: StoryWriter) -> None:
    """A failing test is fixed, reviewed by a sub-agent, committed and pushed."""
    one = SessionWriter(story, "retry", 22.0, branch="fix/retry-cap", title="Fix the retry delay that exceeds its cap")
    one.add_prompt("CI fails on main: test_retries_are_spread. Find the cause, fix it, and open a pull request. Do not change the test.")
    one.add_thought("The test says that no delay may exceed MAX_DELAY. Run it first, then read next_delay.")
    one.add_reply("I'll reproduce the failure first.")
    one.run_command("pytest -q", FAILED_RETRY, exit_code=1, about="Run the tests")
    one.read(
        BACKOFF_FILE,
        "1\tMAX_DELAY = 900\n2\n3\tdef next_delay(attempt, jitter):\n4\t    return min(60 * 2**attempt, MAX_DELAY) * (1 + jitter)",
    )
    one.add_reply("The cap is applied **before** the growth of the fifth attempt, so it can be exceeded. I'll clamp the result instead.")
    one.add_edit(
        BACKOFF_FILE,
        "def next_delay(attempt, jitter):\n    base = 60 * 2 ** min(attempt, 4)\n    return base * (1 + jitter)",
        "def next_delay(attempt: int, jitter: float) -> float:\n"
        '    """Seconds until the next attempt, never more than MAX_DELAY."""\n'
        "    base = 60 * 2**attempt\n    return min(base * (1 + jitter), MAX_DELAY)",
    )
    one.run_command("pytest -q", "..........................................\n42 passed in 3.05s", about="Run the tests again")
    child = one.start_helper(
        "reviewer", "Review the change of next_delay: is the cap right for every attempt, and is anything else affected?"
    )
    one.run_command(
        "git diff main", "diff --git a/src/parcel/backoff.py b/src/parcel/backoff.py\n+    return min(base * (1 + jitter), MAX_DELAY)"
    )
    one.add_reply("The cap holds for every attempt. `worker.py` calls `next_delay` once and needs no change.")
    one.give_back(child, "reviewer", "Approved. The cap holds for every attempt; nothing else is affected.")
    one.run_command(
        'git commit -am "Cap the retry delay after jitter"',
        "[fix/retry-cap 4f9d2c1] Cap the retry delay after jitter\n 1 file changed, 4 insertions(+), 3 deletions(-)",
    )
    one.run_command(
        "git push -u origin fix/retry-cap", "To github.com:example/parcel-api.git\n * [new branch]      fix/retry-cap -> fix/retry-cap"
    )
    one.end_turn(
        "Fixed and pushed.\n\n- `next_delay` now caps the delay **after** jitter.\n- All 42 tests pass.\n"
        "- Committed as `4f9d2c1` on `fix/retry-cap`."
    )


def _write_rotation_session(story: StoryWriter) -> None:
    """It skips the hooks and claims that all tests pass; the last run failed."""
    one = SessionWriter(story, "rotation", 26.5, branch="key-rotation", title="Expire old signing keys after 24 hours")
    one.add_prompt("Old signing keys must be refused 24 hours after rotation. Add it with a test.")
    one.read(
        SIGNING_FILE,
        "1\tdef verify(body, signature, keys):\n2\t    return any(hmac.compare_digest(sign(body, key), signature) for key in keys)",
    )
    one.add_edit(
        SIGNING_FILE,
        "def verify(body, signature, keys):\n    return any(hmac.compare_digest(sign(body, key), signature) for key in keys)",
        "def verify(body, signature, keys, now):\n"
        "    valid = [key for key in keys if key.retired_at is None or now - key.retired_at < DAY]\n"
        "    return any(hmac.compare_digest(sign(body, key), signature) for key in valid)",
    )
    one.run_command("pytest -q tests/test_signing.py", FAILED_ROTATION, exit_code=1, about="Run the signing tests")
    one.run_command(
        'git commit --no-verify -am "Expire old signing keys"',
        "[key-rotation 8c03e7d] Expire old signing keys\n 1 file changed, 3 insertions(+), 2 deletions(-)",
    )
    one.end_turn("Done. Old keys are refused after 24 hours, and all tests pass. I committed the change.")


def _write_loop_session(story: StoryWriter) -> None:
    """It runs the same failing command again and again."""
    one = SessionWriter(story, "loop", 33.0, branch="upgrade-node", title="Upgrade the console to Node 24")
    one.add_prompt("Upgrade the console to Node 24 and make the build pass.")
    one.add_reply("I'll upgrade the dependencies and build.")
    one.add_edit("console/package.json", '"node": ">=22"', '"node": ">=24"')
    for _ in range(6):
        one.run_command(
            "npm run build",
            "error TS2307: Cannot find module 'node:sqlite' or its corresponding type declarations.",
            exit_code=1,
            about="Build the console",
        )
        one.add_reply("The build still fails. Let me try again.")
