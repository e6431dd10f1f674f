"""Transcripts in the manner of Claude Code, row by row."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 11, 10, 9, 0, tzinfo=UTC)
Row = dict[str, Any]


class Transcript:
    """Writes rows of one session, a second apart."""

    def __init__(self, session: str = "0b5e1111-aaaa-4bbb-8ccc-0123456789ab", *, at: datetime = START, **common: Any) -> None:
        self.session, self._at, self._count = session, at, 0
        self._common = {"cwd": "/home/ada/harbour", "gitBranch": "main", "version": "2.1.197", "isSidechain": False} | common
        self.rows: list[Row] = []

    def add(self, row_type: str, **fields: Any) -> Row:
        """Any row."""
        self._count += 1
        self._at += timedelta(seconds=1)
        own = f"{self.session[:24]}{self._count:012x}"
        stamp = self._at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        row = {"type": row_type, "uuid": own, "parentUuid": None, "sessionId": self.session, "timestamp": stamp} | self._common | fields
        self.rows.append(row)
        return row

    def prompt(self, words: str, prompt: str | None = "p-1", **fields: Any) -> Row:
        """A person's words."""
        own = {"promptId": prompt} if prompt else {}
        return self.add("user", message={"role": "user", "content": words}, **own, **fields)

    def reply(self, message: str, *blocks: Row, output: int = 20, stop: str | None = "end_turn", request: str | None = None) -> Row:
        """One row of an answer."""
        usage = {
            "input_tokens": 3,
            "output_tokens": output,
            "cache_read_input_tokens": 1000,
            "cache_creation_input_tokens": 50,
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
        }
        inner = {
            "id": message,
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": list(blocks),
            "stop_reason": stop,
            "usage": usage,
        }
        return self.add("assistant", message=inner, requestId=request or f"req-{message}")

    def result(self, call: str, content: object, *, error: bool = False, **fields: Any) -> Row:
        """What came of a tool call."""
        part = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": error}
        return self.add("user", message={"role": "user", "content": [part]}, **fields)

    def lines(self) -> list[bytes]:
        """All rows as they stand in a file."""
        return [json.dumps(row, ensure_ascii=False).encode() for row in self.rows]

    def write(self, folder: Path, name: str | None = None) -> Path:
        """The file of the session."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name or self.session}.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in self.lines()))
        return path


def text(words: str) -> Row:
    """A block of words."""
    return {"type": "text", "text": words}


def thinking(words: str) -> Row:
    """A block of thought."""
    return {"type": "thinking", "thinking": words, "signature": "xyz"}


def tool(call: str, name: str, **given: Any) -> Row:
    """A block that calls a tool."""
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def bash(call: str, command: str, **given: Any) -> Row:
    """A block that calls the shell."""
    return tool(call, "Bash", command=command, **given)


def a_day(session: str = "0b5e1111-aaaa-4bbb-8ccc-0123456789ab", *, mark: str = "", at: datetime = START) -> Transcript:
    """A session with a bit of everything: words, a failing test, an edit, a passing one, a commit, the end of the turn."""
    recorded, own = Transcript(session, at=at), f"{mark}{session[:4]}"
    recorded.add("mode", mode="normal")
    recorded.prompt(f"Mend the tide table, issue #42{mark}", f"p{own}")
    recorded.reply(f"m1{own}", text("I look first."), output=1, stop=None)
    recorded.reply(f"m1{own}", bash(f"t1{own}", "pytest tests/tide", description="Run the tests"), output=21, stop="tool_use")
    recorded.result(f"t1{own}", "Exit code 1\n2 failed, 3 passed", error=True)
    edit = tool(f"t2{own}", "Edit", file_path="/home/ada/harbour/tide.py", old_string="a", new_string="b")
    recorded.reply(f"m2{own}", edit, output=30, stop="tool_use")
    recorded.result(f"t2{own}", "The file was updated", toolUseResult={"filePath": "/home/ada/harbour/tide.py"})
    recorded.reply(f"m3{own}", bash(f"t3{own}", "pytest tests/tide"), output=8, stop="tool_use")
    recorded.result(f"t3{own}", "5 passed")
    recorded.reply(f"m4{own}", bash(f"t4{own}", "git commit -am 'tide: mend the table'"), output=9, stop="tool_use")
    recorded.result(f"t4{own}", "[main 1a2b3c4] tide: mend the table")
    recorded.reply(f"m5{own}", text("The table is mended."), output=12)
    recorded.add("system", subtype="turn_duration", durationMs=12_000)
    return recorded
