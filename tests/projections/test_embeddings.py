"""Nearness by meaning, where the extra `embeddings` is installed; and what is said where it is not."""

from __future__ import annotations

import logging
import socket
import sys
from typing import Any

import pytest

from fleetlore.errors import ConfigError
from fleetlore.prompts import embeddings
from fleetlore.prompts.agent_context import Recall
from fleetlore.prompts.build import build_prompt
from fleetlore.prompts.turn import MemoryPolicy, MemoryWeights
from tests.prompts import plays


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("nobody may be called")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_words_are_the_default_and_need_nothing() -> None:
    assert embeddings.find_nearness("words") is None


def test_a_name_that_means_nothing_is_answered_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match="unknown similarity measure: 'stars'; choose from words, wordllama"):
        embeddings.find_nearness("stars")


def test_where_it_is_not_installed_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings._load_wordllama.cache_clear()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ConfigError, match=r"pip install 'fleetlore\[embeddings\]'"):
        embeddings.find_nearness("wordllama")


def test_what_means_the_same_is_near_though_no_word_is_shared(offline: None) -> None:
    pytest.importorskip("wordllama", reason="the extra `embeddings` is not installed")
    handlers = list(logging.getLogger().handlers)
    near = embeddings.find_nearness("wordllama")
    assert near is not None
    assert logging.getLogger().handlers == handlers
    texts = ["A reptile lives in the tower.", "The baker's window was open.", "", " \n", "日本語", "x" * 100_000, "\ud800"]
    said = near("The lighthouse keeper owns a crocodile.", texts)
    assert len(said) == len(texts)
    assert said[0] == max(said) > 2 * said[1]
    assert said[2:4] == [0.0, 0.0]
    assert near("", texts) == [0.0] * len(texts)
    assert near("anything", []) == []


def test_it_finds_a_memory_by_what_it_means(offline: None) -> None:
    pytest.importorskip("wordllama", reason="the extra `embeddings` is not installed")
    with plays.new_log() as log:
        writer = plays.RunWriter(log, "r")
        writer.write("run.started", "conductor", "A long night")
        writer.says("tomas", "The lighthouse keeper owns a crocodile.")
        for number in range(40):
            writer.says("tomas", f"Nothing of interest in drawer {number}.")
        writer.says("edda", "Which reptiles live in the tower?")
        nearest = MemoryPolicy(most=1, weights=MemoryWeights(relevance=1, recency=0, importance=0))
        by_words, by_meaning = (
            build_prompt(Recall(log, nearness=embeddings.find_nearness(name)).turn("mara", remembering=nearest))
            for name in embeddings.KNOWN_MEASURES
        )
    assert "crocodile" not in by_words.text
    assert "> turn 1, tomas: The lighthouse keeper owns a crocodile." in by_meaning.text
    assert "how near (by wordllama)" in str(by_meaning.parts)
