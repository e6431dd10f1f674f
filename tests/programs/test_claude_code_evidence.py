"""What outcomes need of Claude Code's transcripts: row ids, branches, ends of long outputs, reports of background helpers."""

from __future__ import annotations

from typing import Any

import pytest

from fleetlore.events.envelope import Event
from fleetlore.programs.claude_code.transcript import RECORDING
from fleetlore.programs.sessions import LONGEST_END
from tests.transcripts import Transcript, bash, text, tool


def read(recorded: Transcript) -> list[Event]:
    reader = RECORDING.open(None)
    return [event for line in recorded.lines() for event in reader.read(line)] + reader.end(None)


def of_kind(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event.kind == kind]


def test_prompts_and_answers_name_the_rows_that_hold_them() -> None:
    recorded = Transcript()
    asked = recorded.prompt("fix it")
    recorded.reply("m1", text("Let me look."), stop=None)
    recorded.reply("m1", bash("t1", "ls"), stop=None)
    recorded.result("t1", "a.txt")
    answer = recorded.reply("m2", text("It is fixed."))
    events = read(recorded)
    assert [event.data["row"] for event in of_kind(events, "prompt.submitted")] == [asked["uuid"]]
    assert of_kind(events, "model.replied")[-1].data["row"] == answer["uuid"]


def test_a_refusal_with_words_names_its_row() -> None:
    recorded = Transcript()
    recorded.prompt("fix it")
    recorded.reply("m1", bash("t1", "rm -r build"), stop="tool_use")
    words = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nkeep it"
    refused = recorded.result("t1", words, error=True)
    recorded.reply("m2", text("All right."))
    [denied] = of_kind(read(recorded), "tool.denied")
    assert (denied.data["reason"], denied.data["row"]) == ("keep it", refused["uuid"])


def test_a_branch_that_changes_is_reported_at_the_end_of_the_turn() -> None:
    recorded = Transcript()
    recorded.prompt("make a branch")
    recorded.reply("m1", text("Done."))
    recorded.rows[-1]["gitBranch"] = "cart"
    recorded.prompt("go on", "p-2")
    recorded.rows[-1]["gitBranch"] = "cart"
    recorded.reply("m2", text("Done again."))
    recorded.rows[-1]["gitBranch"] = "cart"
    ends = of_kind(read(recorded), "session.turn_ended")
    assert [end.data.get("branch") for end in ends] == ["cart", None]


def test_of_a_long_output_the_end_is_kept_too() -> None:
    recorded = Transcript()
    recorded.prompt("test it")
    recorded.reply("m1", bash("t1", "pytest"), bash("t2", "ls"), stop="tool_use")
    recorded.result("t1", "x" * 40_000 + "12 passed")
    recorded.result("t2", "a.txt")
    long, short = of_kind(read(recorded), "tool.returned")
    assert len(long.data["output_end"]) == LONGEST_END
    assert long.data["output_end"].endswith("12 passed")
    assert "output_end" not in short.data


@pytest.mark.parametrize(
    ("name", "given", "fields", "content"),
    [
        (
            "TaskOutput",
            {"task_id": "a17"},
            {"toolUseResult": {"task": {"task_id": "a17", "status": "completed", "output": "2 issues"}}},
            "x",
        ),
        ("TaskOutput", {"task_id": "a17"}, {}, "<status>completed</status>\n<output>\n2 issues\n</output>"),
        ("AgentOutputTool", {"agentId": "a17"}, {}, "<status>completed</status><output>2 issues</output>"),
    ],
)
def test_a_background_helper_returns_when_its_report_is_asked_for(name: str, given: Any, fields: Any, content: str) -> None:
    recorded = Transcript()
    recorded.prompt("review it")
    recorded.reply("m1", tool("t1", "Task", prompt="Look", subagent_type="security"), stop="tool_use")
    recorded.result(
        "t1", "Async agent launched", toolUseResult={"status": "async_launched", "agentId": "a17", "prompt": "Look", "description": "Look"}
    )
    recorded.reply("m2", tool("t2", name, **given), stop="tool_use")
    recorded.result("t2", "<status>running</status>")
    recorded.reply("m3", tool("t3", name, **given), stop="tool_use")
    recorded.result("t3", content, **fields)
    [returned] = of_kind(read(recorded), "agent.returned")
    assert (returned.child, returned.data["status"], returned.data["result"]) == ("a17", "completed", "2 issues")
