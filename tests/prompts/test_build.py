"""What a prompt shows of a turn, and how it reports what it leaves out."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleetlore import connect
from fleetlore.errors import ConfigError
from fleetlore.prompts import blocks
from fleetlore.prompts.build import build_prompt, estimate_tokens, find_tokenizer
from fleetlore.prompts.memory import collect_memories, kind_importance, score_salience
from fleetlore.prompts.parts import PromptItem, PromptPart
from fleetlore.prompts.roles import BLOCKS_BY_ROLE
from fleetlore.prompts.turn import MemoryPolicy, MemoryWeights, PromptScene, PromptTurn
from fleetlore.views.stage import PrivateThought, PublicLine

AT = datetime(2026, 11, 15, tzinfo=UTC)


def line(number: int, text: str = "", speaker: str = "brin", kind: str = "agent.spoke", turn: int | None = None) -> PublicLine:
    at = number if turn is None else turn
    return PublicLine(id=f"e{number}", at=AT, turn=at, speaker=speaker, kind=kind, text=text or f"line {number}", position=f"{number:04d}")


def talk(count: int, **more: object) -> PromptTurn:
    lines = tuple(line(n) for n in range(1, count + 1))
    return PromptTurn(agent="ada", number=count, said=lines, said_in_all=count, recalled=lines, **more)  # type: ignore[arg-type]


def shown(turn: PromptTurn, role: str, heading: str) -> list[str]:
    text = build_prompt(turn, role, budget=100_000).text
    block = text.split(f"## {heading}\n")[1].split("\n\n## ")[0]
    return block.splitlines()


def test_blocks_stand_in_the_order_that_is_promised() -> None:
    names = [block.__name__ for block in BLOCKS_BY_ROLE["worker"]]
    assert names == [
        "identity_block",
        "shared_goal_block",
        "scene_block",
        "discussion_block",
        "memory_block",
        "disturbances_block",
        "extra_block",
        "tools_block",
        "output_format_block",
    ]
    assert [block.__name__ for block in BLOCKS_BY_ROLE["judge"]][3] == "judge_exchange_block"


def test_a_worker_gets_the_last_eight_of_others_and_its_own_lines_between_them_do_not_count() -> None:
    lines = tuple(line(n, speaker="ada" if n % 2 else "brin") for n in range(1, 31))
    recorded = shown(PromptTurn(agent="ada", said=lines, said_in_all=30), "worker", "Discussion so far")
    assert recorded[0] == "(15 earlier lines are not shown.)"
    assert [entry for entry in recorded if entry.startswith("> brin")] == [f"> brin: line {n}" for n in range(16, 31, 2)]
    assert [entry for entry in recorded if entry.startswith("> you")] == [f"> you: line {n}" for n in range(17, 30, 2)]


def test_a_judge_gets_all_in_order_or_is_given_how_much_is_missing() -> None:
    assert shown(talk(80), "judge", "Everything that was said, in order")[0] == "> brin: line 1"
    lines = tuple(line(n) for n in range(21, 101))
    turn = PromptTurn(agent="ada", said=lines, said_in_all=100)
    recorded = shown(turn, "judge", "Everything that was said, in order")
    assert recorded[0] == "(Lines 1 to 20 of 100 are left out, there is no room for them. In short:)"
    assert (recorded[1], recorded[80]) == ("> brin: line 21", "> brin: line 100")


def test_a_judge_gets_every_line_that_fits_and_a_summary_of_the_others() -> None:
    every = talk(200)
    assert len([text for text in shown(every, "judge", "Everything that was said, in order") if text.startswith("> ")]) == 200
    prompt = build_prompt(every, "judge", budget=600).text
    kept = [text for text in prompt.splitlines() if text.startswith("> brin: line ")]
    left_out = 200 - len(kept)
    assert 0 < left_out < 200
    assert f"(Lines 1 to {left_out} of 200, turns 1 to {left_out} are left out" in prompt
    assert f'- brin: {left_out} lines, the last: "line {left_out}"' in prompt
    assert kept[0] == f"> brin: line {left_out + 1}"


def test_what_the_transcript_leaves_out_can_still_be_remembered() -> None:
    every = tuple(line(n) for n in range(1, 101))
    turn = PromptTurn(agent="ada", number=100, said=every[20:], said_in_all=100, recalled=every, remembering=MemoryPolicy(most=100))
    recorded = shown(turn, "judge", "What you remember")
    assert recorded == [f"> turn {n}, brin: line {n}" for n in range(1, 21)]


def test_like_words_of_two_events_are_both_reported() -> None:
    lines = (line(1, "yes"), line(2, "the baker never said yes"), line(3, "yes"))
    assert shown(PromptTurn(agent="ada", said=lines, said_in_all=3), "worker", "Discussion so far")[:3] == [
        "> brin: yes",
        "> brin: the baker never said yes",
        "> brin: yes",
    ]


def test_a_line_of_many_lines_is_reported_once() -> None:
    one = line(1, "first\nsecond\nthird")
    text = build_prompt(PromptTurn(agent="ada", said=(one,), said_in_all=1, recalled=(one,))).text
    assert text.count("second") == 1
    assert "> brin: first / second / third" in text


def test_a_thought_in_the_hands_of_another_is_not_reported() -> None:
    thought = PrivateThought(id="t1", at=AT, turn=1, owner="brin", kind="agent.thought", text="xyzzy")
    turn = PromptTurn(
        agent="ada", said=(line(1),), thoughts=(thought, PrivateThought(id="e1", at=AT, turn=1, owner="brin", kind="x", text="xyzzy"))
    )
    assert all("xyzzy" not in build_prompt(turn, role).text for role in BLOCKS_BY_ROLE)


def test_a_goal_stands_there_only_if_there_is_one() -> None:
    assert "Shared goal" not in build_prompt(PromptTurn(agent="ada")).text
    assert "Shared goal\nget home" in build_prompt(PromptTurn(agent="ada", goal="get home")).text


def test_a_role_of_ones_own_is_a_tuple_and_an_event_that_two_blocks_report_stands_once() -> None:
    prompt = build_prompt(talk(3), (blocks.identity_block, blocks.judge_exchange_block, blocks.discussion_block))
    assert prompt.text.count("line 2") == 1
    assert [part.name for part in prompt.parts] == ["identity", "exchange", "discussion"]


def test_a_block_of_ones_own_says_when_it_may_go() -> None:
    def weather(turn: PromptTurn) -> PromptPart:
        return PromptPart(name="weather", heading="The weather", items=(PromptItem(text="frost"), PromptItem(text="wind")), priority=1)

    whole = build_prompt(PromptTurn(agent="ada"), (blocks.identity_block, weather))
    assert whole.text.endswith("## The weather\n> frost\n> wind")
    least = build_prompt(PromptTurn(agent="ada"), (blocks.identity_block,)).tokens
    assert build_prompt(PromptTurn(agent="ada"), (blocks.identity_block, weather), budget=least).left_out == (
        "weather: left out, there was no room for it",
    )


def test_memory_goes_first_its_oldest_lines_before_its_newer_ones_and_the_account_says_so() -> None:
    turn = talk(40, scene=PromptScene(text="A beach."), disturbances=(line(99, "boo"),), disturbed_in_all=1)
    whole = build_prompt(turn, budget=100_000)
    less = build_prompt(turn, budget=whole.tokens - 10)
    assert "> turn 31" not in less.text or whole.text.count("> turn") > less.text.count("> turn")
    [memory] = [part for part in less.parts if part.name == "memory"]
    assert memory.no_room > 0
    assert memory.events == next(part for part in whole.parts if part.name == "memory").events[memory.no_room :]
    assert less.left_out[0].startswith("discussion: 32 earlier")
    assert any(sentence.startswith("memory: ") for sentence in less.left_out)
    order = [
        part.name
        for part in build_prompt(turn, budget=build_prompt(turn, (blocks.identity_block, blocks.scene_block)).tokens).parts
        if part.is_shown
    ]
    assert order == ["identity", "scene"]


def test_a_long_scene_is_cut_before_it_goes() -> None:
    turn = PromptTurn(agent="ada", scene=PromptScene(text="word " * 500))
    least = build_prompt(PromptTurn(agent="ada"), (blocks.identity_block,)).tokens
    [scene] = [
        part for part in build_prompt(turn, (blocks.identity_block, blocks.scene_block), budget=least + 150).parts if part.name == "scene"
    ]
    assert scene.is_shown
    assert scene.is_cut


def test_salience_weighs_nearness_recency_and_importance_as_it_is_written_down() -> None:
    turn = PromptTurn(
        agent="ada",
        number=10,
        recalled=(line(1, turn=10), line(2, kind="user.injected", turn=0), line(3, kind="judge.verdict", turn=5)),
        relevance={"e3": 0.5},
    )
    near, far, old = 0.3 * 0 + 0.4 * 1 + 0.3 * 0.5, 0.4 * 0.36787944117 + 0.3 * 0.95, 0.3 * 0.5 + 0.4 * 0.60653065971 + 0.3 * 0.9
    assert score_salience(turn, collect_memories(turn)) == pytest.approx([near, far, old])


def test_weights_can_be_set_and_episodic_memory_is_simply_the_last() -> None:
    lines = (line(1, kind="user.injected"), line(2), line(3))
    by_importance = MemoryPolicy(most=1, weights=MemoryWeights(relevance=0, recency=0, importance=1))
    assert shown(PromptTurn(agent="ada", number=3, recalled=lines, remembering=by_importance), "worker", "What you remember") == [
        "> turn 1, a visitor (brin): line 1"
    ]
    last = MemoryPolicy(kind="episodic", most=1)
    assert shown(PromptTurn(agent="ada", number=3, recalled=lines, remembering=last), "worker", "What you remember") == [
        "> turn 3, brin: line 3"
    ]


@pytest.mark.parametrize(
    ("kind", "worth"), [("verdict.final", 1.0), ("agent.reflected", 0.85), ("fleet.error", 0.8), ("never.heard_of", 0.5)]
)
def test_kinds_have_their_importance(kind: str, worth: float) -> None:
    assert kind_importance(kind) == worth


def test_a_memory_that_was_put_together_elsewhere_stands_in_place_of_ours() -> None:
    text = build_prompt(talk(30, memory_text="The boat is red.\n## Who you are")).text
    assert "## What you remember\n> The boat is red.\n> \\## Who you are" in text


def test_the_estimate_is_the_stated_one_and_an_unknown_tokenizer_is_named() -> None:
    assert [estimate_tokens(text) for text in ("", "a", "abcd", "abcde", "öö")] == [0, 1, 1, 2, 1]
    with pytest.raises(ConfigError, match="unknown tokenizer: 'abacus'; choose from estimate"):
        find_tokenizer("abacus")


ENCODING = """
def bytes_of_text():
    ranks = {bytes([n]): n for n in range(256)}
    return {"name": "bytes_of_text", "pat_str": r"[\\s\\S]", "mergeable_ranks": ranks, "special_tokens": {"<|end|>": 256}}

ENCODING_CONSTRUCTORS = {"bytes_of_text": bytes_of_text}
"""
COUNT = """
from fleetlore.prompts.build import find_tokenizer
count = find_tokenizer("tiktoken:bytes_of_text")
print([count(text) for text in ("", "ab", "öö", "<|end|>", "x" * 100_000)])
try:
    find_tokenizer("tiktoken:no_such")
except Exception as error:
    print(type(error).__name__, error)
"""


def test_tiktoken_counts_where_it_is_installed_with_encodings_of_ones_own(tmp_path: Path) -> None:
    pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    (tmp_path / "tiktoken_ext").mkdir()
    (tmp_path / "tiktoken_ext" / "ours.py").write_text(ENCODING)
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    recorded = subprocess.run([sys.executable, "-c", COUNT], env=environ, capture_output=True, text=True, check=True).stdout
    assert recorded.startswith("[0, 2, 4, 7, 100000]\nConfigError tiktoken:no_such: tiktoken cannot load this encoding")


def test_a_tokenizer_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find_tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ConfigError, match="pip install tiktoken, or take the tokenizer `estimate`"):
        find_tokenizer("tiktoken:o200k_base")


def test_a_prompt_can_be_recorded() -> None:
    prompt = build_prompt(talk(12), budget=400)
    with connect("memory:").blocking() as log:
        log.append([prompt.make_event()])
        [event] = log.read()
    assert event.kind == "context.built"
    assert event.data["tokens"] == prompt.tokens <= 400
    assert event.data["blocks"][0] == {"name": "identity", "tokens": prompt.parts[0].tokens, "events": 0}
    assert event.data["events"] == list(prompt.events)
