"""What Codex's rollouts cost: every response once, to the token as `ccusage` counts, copies and repetitions left out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetlore.events.envelope import Event
from tests.programs.rollouts import (
    CHILD,
    THREAD,
    Row,
    asked,
    context,
    event,
    lines,
    meta,
    of_kind,
    read,
    response,
    row,
    said,
    stamp,
    tokens,
    usage,
)

Files = dict[str, list[Row]]

CCUSAGE = os.environ.get("FLEETLORE_CCUSAGE") or shutil.which("ccusage")
A, B, C = usage(1000, 400, 50, 10), usage(1500, 900, 70), usage(2000, 1800, 5, 5)
AB, ABC = usage(2500, 1300, 120, 10), usage(4500, 3100, 125, 15)


def totals(events: list[Event]) -> dict[str, int]:
    """All that was used, an answer that several sources tell counted once."""
    replies = {reply.id: reply.data for reply in of_kind(events, "model.replied")}.values()
    return {key: sum(reply.get(key, 0) for reply in replies) for key in ("input", "cache_read", "cache_write", "output", "reasoning")}


def plain() -> Files:
    again = tokens(9, A, A)
    return {"one": [meta(), context(), tokens(5, A, A), again, event(10, "token_count", info=None), tokens(20, B, AB), tokens(30, C, ABC)]}


def resumed() -> Files:
    return {"one": [meta(), context(), tokens(5, A, A), tokens(4000, A, A), context(4001, "gpt-6-sol"), tokens(4020, B, AB)]}


def only_totals() -> Files:
    return {"one": [meta(), context(), tokens(5, None, A), tokens(20, None, AB), tokens(25, None, AB), tokens(30, None, ABC)]}


def only_last() -> Files:
    return {"one": [meta(), context(), tokens(5, A, None), tokens(20, B, None), tokens(30, C, None)]}


def shrinking() -> Files:
    """After a compaction the totals begin anew."""
    return {
        "one": [
            meta(),
            context(),
            tokens(5, A, A),
            tokens(20, B, AB),
            row(21, "compacted", message="short"),
            tokens(40, C, C),
            tokens(50, None, A),
        ]
    }


def odd_numbers() -> Files:
    more_cached = {**A, "cached_input_tokens": 5000}
    other_names = {"prompt_tokens": "700", "completion_tokens": 7, "cached_tokens": 200}
    context_only = {**usage(0, 0, 0), "total_tokens": 6787}
    return {"one": [meta(), context(), tokens(5, more_cached, None), tokens(20, other_names, None), tokens(30, context_only, None)]}


def written() -> Files:
    more = {**A, "cache_write_input_tokens": 100}
    return {"one": [meta(), context(), tokens(5, more, more)]}


def parent() -> list[Row]:
    return [meta(), context(), *asked(1, "Go"), tokens(5, A, A), *said(19, "Hm"), tokens(20, B, AB), *said(900, "Yes"), tokens(900, C, ABC)]


def copied(seconds: float) -> list[Row]:
    """What there is of the parent when the child begins, written again at once."""
    return [{**record, "timestamp": stamp(seconds + place / 1000)} for place, record in enumerate(parent()[:8])]


def own(seconds: float) -> list[Row]:
    mine = [usage(3000, 100, 31), usage(3300, 3000, 32)]
    all_of_it = [usage(5500, 1400, 151, 10), usage(8800, 4400, 183, 10)]
    return [tokens(seconds + 9 + 20 * place, last, total) for place, (last, total) in enumerate(zip(mine, all_of_it, strict=True))]


def child_meta(**more: object) -> Row:
    header = meta(100, id=CHILD, parent_thread_id=THREAD, forked_from_id=THREAD, **more)
    header["payload"]["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": THREAD, "depth": 1, "agent_path": "/root/a"}}}
    return header


def sub_agent() -> Files:
    return {"one": parent(), "two": [child_meta(), *copied(100), *own(100)]}


def numbered_sub_agent() -> Files:
    rows = [child_meta(subagent_history_start_ordinal=9), *copied(100), *own(100)]
    return {"one": parent(), "two": [{**record, "ordinal": place} for place, record in enumerate(rows)]}


def orphan() -> Files:
    """The parent's rollout is not there."""
    return {"two": [child_meta(), *copied(100), *own(100)]}


def fork() -> Files:
    return {"one": parent(), "two": [meta(100, id=CHILD, forked_from_id=THREAD), *copied(100), *own(160)]}


def copy_of_a_file() -> Files:
    return {"one": parent(), "two": parent()}


def fork_with_old_times() -> Files:
    return {"one": parent(), "two": [meta(100, id=CHILD, forked_from_id=THREAD), *parent()[:8], *own(160)]}


COPIES = [sub_agent, numbered_sub_agent, orphan, fork, fork_with_old_times]
CASES = [plain, resumed, only_totals, only_last, shrinking, odd_numbers, written, copy_of_a_file, *COPIES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.skipif(CCUSAGE is None, reason="ccusage (npm) is not installed; put it on the PATH or name it in FLEETLORE_CCUSAGE")
def test_totals_are_those_of_ccusage(case: Callable[[], Files], tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "2026" / "09" / "01"
    folder.mkdir(parents=True)
    for name, rows in case().items():
        (folder / f"rollout-{name}.jsonl").write_bytes(b"\n".join(lines(rows)) + b"\n")
    counted = subprocess.run(
        [str(CCUSAGE), "codex", "daily", "--json", "--offline"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CODEX_HOME": str(tmp_path)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    theirs = json.loads(counted.stdout)["totals"]
    names = {"input": "inputTokens", "cache_read": "cacheReadTokens", "cache_write": "cacheCreationTokens", "output": "outputTokens"}
    names["reasoning"] = "reasoningOutputTokens"
    ours = totals([recorded for rows in case().values() for recorded in read(rows)])
    assert ours == {key: theirs[name] for key, name in names.items()}


def test_numbers_that_are_repeated_count_once() -> None:
    [rows] = plain().values()
    assert totals(read(rows)) == {"input": 1400, "cache_read": 3100, "cache_write": 0, "output": 125, "reasoning": 15}


def test_numbers_that_count_nothing_do_not_say_what_the_next_answer_was_made_by() -> None:
    again = event(6, "token_count", info={"total_token_usage": A, "last_token_usage": A, "model": "gpt-5-nano"})
    recorded = read([meta(), context(), tokens(5, A, A), again, tokens(20, B, AB)])
    assert [reply.data["model"] for reply in of_kind(recorded, "model.replied")] == ["gpt-5.5", "gpt-5.5"]


def test_every_answer_has_the_model_of_its_turn() -> None:
    [rows] = resumed().values()
    assert [reply.data["model"] for reply in of_kind(read(rows), "model.replied")] == ["gpt-5.5", "gpt-6-sol"]


@pytest.mark.parametrize("case", COPIES, ids=lambda case: case.__name__)
def test_what_a_parent_has_used_is_not_the_childs(case: Callable[[], Files]) -> None:
    assert [reply.data["output"] for reply in of_kind(read(case()["two"]), "model.replied") if "output" in reply.data] == [31, 32]


def noted(seconds: float, response_id: str, used: dict[str, int], total: dict[str, int]) -> Row:
    return row(seconds, "token_usage_record", response_id=response_id, usage=used, thread_token_usage=total)


RESPONSE = "resp_0123456789abcdef0123456789"


def test_a_response_that_was_noted_has_its_id_and_its_time() -> None:
    rows = [meta(), context(), noted(5, RESPONSE, A, A), response(7, "function_call_output", call_id="x", output="late"), tokens(8, A, A)]
    [reply] = of_kind(read(rows), "model.replied")
    assert reply.data["message_id"] == RESPONSE
    assert reply.at == read([meta(5)])[0].at


def test_a_response_that_summed_a_context_up_counts_though_no_totals_mention_it() -> None:
    compacted = row(7, "compacted", message="short", compaction_response_id=RESPONSE)
    replies = of_kind(read([meta(), context(), tokens(1, A, A), noted(5, RESPONSE, B, AB), compacted, tokens(20, C, ABC)]), "model.replied")
    assert [(reply.data["output"], reply.data.get("source")) for reply in replies] == [(50, None), (70, "compaction"), (5, None)]


def test_a_response_that_summed_a_context_up_counts_once_where_totals_mention_it() -> None:
    compacted = row(7, "compacted", message="short", compaction_response_id=RESPONSE)
    replies = of_kind(read([meta(), context(), noted(5, RESPONSE, A, A), tokens(6, A, A), compacted]), "model.replied")
    assert [reply.data["output"] for reply in replies] == [50]


def test_writing_to_the_cache_is_counted_apart() -> None:
    [rows] = written().values()
    assert totals(read(rows)) == {"input": 500, "cache_read": 400, "cache_write": 100, "output": 50, "reasoning": 10}
