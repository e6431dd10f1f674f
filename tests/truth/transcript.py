"""Write Claude Code transcripts: rows as the program writes them, with ids and times that depend on the seed only."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

DENIED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string"
    " was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)


class Transcript:
    """One session, written row by row. Methods that run a tool return the id of the call."""

    def __init__(self, seed: str, *, cwd: str = "/home/dana/src/app", branch: str = "main", version: str = "2.1.31") -> None:
        self.random = random.Random(seed)
        self.session = self._uuid()
        self.rows: list[dict[str, Any]] = []
        self.cwd, self.branch, self.version = cwd, branch, version
        self.at = datetime(2026, 2, 3, 9, 0, tzinfo=UTC) + timedelta(minutes=self.random.randrange(60 * 24 * 60))
        self.last: str | None = None
        self.answers: list[str] = []

    def _uuid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def _id(self, prefix: str, size: int = 24) -> str:
        alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"
        return prefix + "".join(self.random.choice(alphabet) for _ in range(size))

    def _row(self, **fields: Any) -> str:
        self.at += timedelta(milliseconds=self.random.randrange(300, 9000))
        uuid = self._uuid()
        common = {
            "parentUuid": self.last,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session,
            "version": self.version,
            "gitBranch": self.branch,
        }
        self.rows.append({**common, **fields, "uuid": uuid, "timestamp": self.at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"})
        self.last = uuid
        return uuid

    def _assistant(self, block: dict[str, Any]) -> str:
        usage = {
            "input_tokens": self.random.randrange(3, 12),
            "cache_creation_input_tokens": self.random.randrange(200, 9000),
            "cache_read_input_tokens": self.random.randrange(15_000, 90_000),
            "output_tokens": self.random.randrange(20, 900),
            "service_tier": "standard",
        }
        message = {
            "model": "claude-opus-4-5-20251101",
            "id": self._id("msg_01", 22),
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return self._row(message=message, requestId=self._id("req_011", 21), type="assistant")

    def prompt(self, text: str) -> str:
        """A person's message; the row's uuid."""
        return self._row(type="user", message={"role": "user", "content": text}, todos=[], permissionMode="default")

    def interrupt(self) -> str:
        """The person presses Escape."""
        content = [{"type": "text", "text": "[Request interrupted by user]"}]
        return self._row(type="user", message={"role": "user", "content": content})

    def say(self, text: str) -> str:
        """A text of the agent in mid-turn; the row's uuid."""
        return self._assistant({"type": "text", "text": text})

    def end(self, text: str, *, marks: bool = True) -> str:
        """The last text of a turn, with the marks that the program writes at the end of a turn; the row's uuid."""
        uuid = self.say(text)
        self.answers.append(uuid)
        if marks:
            self._row(
                type="system",
                subtype="stop_hook_summary",
                hookCount=1,
                hookInfos=[{"command": "notify"}],
                hookErrors=[],
                preventedContinuation=False,
                stopReason="",
                hasOutput=False,
                level="suggestion",
                toolUseID=self._uuid(),
            )
            self._row(type="system", subtype="turn_duration", durationMs=self.random.randrange(31_000, 600_000), isMeta=False)
        return uuid

    def _call(self, name: str, given: dict[str, Any], content: Any, result: Any, *, is_error: bool | None) -> str:
        call = self._id("toolu_01", 22)
        asked = self._assistant({"type": "tool_use", "id": call, "name": name, "input": given})
        block: dict[str, Any] = {"tool_use_id": call, "type": "tool_result", "content": content}
        if is_error is not None:
            block["is_error"] = is_error
        self._row(type="user", message={"role": "user", "content": [block]}, toolUseResult=result, sourceToolAssistantUUID=asked)
        return call

    def run(self, command: str, output: str = "", code: int = 0, description: str = "", **options: Any) -> str:
        """A shell command that prints `output` and exits with `code`."""
        given = {"command": command, "description": description or "Run the command", **options}
        if code:
            content = f"Exit code {code}\n{output}".rstrip()
            return self._call("Bash", given, content, f"Error: {content}", is_error=True)
        result = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        return self._call("Bash", given, output, result, is_error=False)

    def deny(self, command: str, description: str = "") -> str:
        """A shell command that the person refuses."""
        return self._call("Bash", {"command": command, "description": description}, DENIED, "User rejected tool use", is_error=True)

    def deny_edit(self, path: str, old: str, new: str, reason: str) -> str:
        """An edit that the person refuses in an editor, with a reason; the uuid of the row with their words."""
        text = f"{DENIED.partition('. To tell')[0]}. The user provided the following reason for the rejection:  {reason}"
        self._call("Edit", {"file_path": self._full(path), "old_string": old, "new_string": new}, text, f"Error: {text}", is_error=True)
        return str(self.rows[-1]["uuid"])

    def start(self, command: str, description: str = "") -> tuple[str, str]:
        """A shell command in the background: the id of the call and of the background task."""
        task = "b" + "".join(self.random.choice("0123456789abcdef") for _ in range(6))
        text = (
            f"Command running in background with ID: {task}. Output is being written to: /tmp/claude/-home-dana-src-app/tasks/{task}.output"
        )
        result = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False, "backgroundTaskId": task}
        given = {"command": command, "description": description or "Run in the background", "run_in_background": True}
        return self._call("Bash", given, text, result, is_error=False), task

    def read_background(self, task: str, command: str, output: str, code: int = 0) -> str:
        """Read the result of a background command that has finished."""
        text = (
            f"<retrieval_status>success</retrieval_status>\n\n<task_id>{task}</task_id>\n\n<task_type>local_bash</task_type>\n\n"
            f"<status>{'completed' if not code else 'failed'}</status>\n\n<exit_code>{code}</exit_code>\n\n<output>\n{output}\n</output>"
        )
        task_state = {
            "task_id": task,
            "task_type": "local_bash",
            "status": "completed" if not code else "failed",
            "description": command,
            "output": output,
            "exitCode": code,
        }
        given = {"task_id": task, "block": True, "timeout": 120000}
        return self._call("TaskOutput", given, text, {"retrieval_status": "success", "task": task_state}, is_error=None)

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text in a file."""
        full = self._full(path)
        given = {"replace_all": False, "file_path": full, "old_string": old, "new_string": new}
        text = f"The file {full} has been updated successfully."
        lines = [*("-" + line for line in old.splitlines()), *("+" + line for line in new.splitlines())]
        patch = [{"oldStart": 12, "oldLines": len(old.splitlines()), "newStart": 12, "newLines": len(new.splitlines()), "lines": lines}]
        result = {
            "filePath": full,
            "oldString": old,
            "newString": new,
            "originalFile": old,
            "structuredPatch": patch,
            "userModified": False,
            "replaceAll": False,
        }
        return self._call("Edit", given, text, result, is_error=None)

    def write(self, path: str, text: str) -> str:
        """Create a file."""
        full = self._full(path)
        result: dict[str, Any] = {"type": "create", "filePath": full, "content": text, "structuredPatch": [], "originalFile": None}
        return self._call("Write", {"file_path": full, "content": text}, f"File created successfully at: {full}", result, is_error=None)

    def deny_write(self, path: str, text: str) -> str:
        """A file that the person does not want to be written."""
        return self._call("Write", {"file_path": self._full(path), "content": text}, DENIED, "User rejected tool use", is_error=True)

    def read(self, path: str, text: str = "…") -> str:
        """Read a file."""
        full = self._full(path)
        result = {"type": "text", "file": {"filePath": full, "content": text, "numLines": 1, "startLine": 1, "totalLines": 1}}
        return self._call("Read", {"file_path": full}, f"     1→{text}", result, is_error=None)

    def ask_helper(self, task: str, report: str) -> str:
        """Let a sub-agent work, whose own calls are not recorded here."""
        agent = "a" + "".join(self.random.choice("0123456789abcdef") for _ in range(6))
        content = [{"type": "text", "text": report}]
        result = {
            "status": "completed",
            "prompt": task,
            "agentId": agent,
            "content": content,
            "totalDurationMs": 41_000,
            "totalTokens": 21_000,
            "totalToolUseCount": 7,
            "usage": {"input_tokens": 4, "output_tokens": 800},
        }
        given = {"description": task[:40], "prompt": task, "subagent_type": "general-purpose"}
        return self._call("Task", given, content, result, is_error=None)

    def _full(self, path: str) -> str:
        return path if path.startswith(("/", "~")) else f"{self.cwd}/{path}"

    def save(self, folder: Path) -> Path:
        """Write `<session>.jsonl`."""
        path = folder / f"{self.session}.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows), encoding="utf-8")
        return path


def label_claim(text: str, kind: str, verdict: str, why: str, uuid: str, by: str = "record") -> dict[str, str]:
    """A labelled claim."""
    return {"text": text, "kind": kind, "verdict": verdict, "why": why, "uuid": uuid, "by": by}


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write one JSON object per line."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
