"""Answers that are kept to be given again: the newest, and no more of them than there is room for."""

from __future__ import annotations

from fleetlore.server.view_cache import MAX_ANSWER_BYTES, AnswerCache


def list_built(answers: AnswerCache, names: str) -> list[str]:
    """Which of some answers had to be made when they were asked for one after the other."""
    made: list[str] = []

    def make(name: str) -> bytes:
        made.append(name)
        return name.encode()

    for name in names:
        assert answers.get((name,), lambda name=name: make(name)) == name.encode()  # type: ignore[misc]
    return made


def test_an_answer_is_made_once() -> None:
    assert list_built(AnswerCache(), "abab") == ["a", "b"]


def test_of_too_many_the_one_that_was_asked_for_longest_ago_goes() -> None:
    assert list_built(AnswerCache(2), "abacab") == ["a", "b", "c", "b"]


def test_answers_that_are_too_large_together_do_not_stay() -> None:
    answers, half = AnswerCache(), MAX_ANSWER_BYTES // 2 + 1
    for name in "ab":
        answers.get((name,), lambda: bytes(half))
    assert answers.get(("b",), lambda: b"anew") == bytes(half)
    assert answers.get(("a",), lambda: b"anew") == b"anew"
