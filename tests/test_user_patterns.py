"""Patterns of the settings cost a limited time, and what they cannot be tried on is withheld."""

from __future__ import annotations

import os
import threading
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore import user_patterns
from fleetlore.redact import MASK, WITHHELD, Redactor
from fleetlore.user_patterns import compile_user_patterns, count_steps

PLAIN = [
    "EMP-[0-9]{6}",
    "A+",
    r"token=\S+",
    "a$",
    ".",
    ".+",
    r"\bACME-\d{4,12}\b",
    "https?://corp",
    "x|yy+|z",
    "[a-z]{3,}",
    r"\?",
    r"[^\s]{2}",
]
NOT_PLAIN = ["(a+)+b", "a+b", r"\w+@corp", "(?i)x", "a*?", "a{2}?", "x{", "[]a]", r"(a)\1", "a{0,99}a{0,99}b", "(?=a)a", "a" * 20_000]
SLOW = {
    "nested": ("(a+)+b", "a" * 5_000),
    "on any text": (r"(.+)+\x00", "an ordinary line of text, and some more of it"),
    "alternatives": ("(a|a)*b", "a" * 5_000),
    "in a lookahead": ("(?=(a+)+b)x", "a" * 5_000),
    "quadratic, without heeding signals": (r"\w+@corp", "a" * 1_000_000),
    "cubic": ("(?s).*?,.*?,.*?;", "," * 20_000),
    "all of the memory": ("(?:(?:b?){60000}){60000}a", "bcd"),
    "counted": ("((((a{1,100}){1,100}){1,100}){1,100})b", "a" * 5_000),
}


@pytest.mark.parametrize("pattern", PLAIN)
def test_plain_patterns_are_known_by_their_form(pattern: str) -> None:
    assert count_steps(pattern) is not None


@pytest.mark.parametrize("pattern", NOT_PLAIN)
def test_all_others_are_run_elsewhere(pattern: str) -> None:
    assert (count_steps(pattern) or 10_000) >= 10_000


@given(
    st.lists(
        st.sampled_from(["a", "[ab]", ".", "a{3}", "a{0,9}", "b?", "|", "^", "$", r"\w", "a{2,}", "a+", "a*"]), min_size=1, max_size=8
    ),
    st.text("ab", min_size=0, max_size=40),
)
def test_a_plain_pattern_takes_no_more_steps_than_it_is_said_to(parts: list[str], text: str) -> None:
    pattern = "".join(parts)
    cost = count_steps(pattern)
    if cost is None:
        return
    short, long = ((text or "a") * times for times in (200, 2_000))
    compile_user_patterns((pattern,)).mask([""], MASK)  # compiled
    began = thread_time()
    compile_user_patterns((pattern,)).mask([short], MASK)
    middle = thread_time()
    compile_user_patterns((pattern,)).mask([long], MASK)
    assert thread_time() - middle < 60 * (middle - began) + 0.1  # ten times as much text; clocks are coarse


def test_short_texts_are_done_before_a_long_one_uses_up_the_time() -> None:
    assert Redactor(["(a+)+b"]).redact_value(["a" * 5_000, "aab", "none"]) == ([WITHHELD, MASK, "none"], 2)


def test_keys_that_become_alike_keep_their_values() -> None:
    assert Redactor(["EMP-[0-9]"]).redact_value({"EMP-1": 1, "EMP-2": 2, "x": 3})[0] == {MASK: 1, f"{MASK} (2)": 2, "x": 3}


def test_fixed_keys_keep_their_names_on_every_level_and_their_values_do_not() -> None:
    value = {"data": {"data": "a", "extra": "data"}}
    assert Redactor(["a$"]).redact_value(value, fixed_keys={"data"})[0] == {"data": {"data": MASK, f"extr{MASK}": f"dat{MASK}"}}


@pytest.mark.parametrize("pattern", ["EMP-[0-9]{6}", "(?:EMP)-[0-9]{6}", "(?P<before>k=)EMP-[0-9]{6}(?P<after>;)", "(EMP)-[0-9]+"])
def test_both_ways_mask_the_same(pattern: str) -> None:
    cleaned, found = Redactor([pattern]).redact_value({"text": "k=EMP-123456; is \ud83d ☃", "other": ["EMP", 7, None]})
    assert (cleaned, found) == ({"text": f"k={MASK}; is \ud83d ☃", "other": ["EMP", 7, None]}, 1)


@pytest.mark.parametrize("name", SLOW)
def test_a_pattern_that_takes_too_long_has_its_text_withheld(name: str) -> None:
    pattern, text = SLOW[name]
    assert Redactor([pattern]).redact_value([text, "", 7]) == ([WITHHELD, "", 7], 1)
    # The next one is none the worse for it.
    assert Redactor(["(x)y"]).redact_value("xy and z") == (f"{MASK} and z", 1)


def test_many_slow_events_cost_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_patterns, "MAX_CREDIT_SECONDS", 0.5)
    patterns, tries = user_patterns.UserPatterns((r"(.+)+\x01",)), 0
    asked = user_patterns._worker.ask

    def count(*args: object) -> object:
        nonlocal tries
        tries += 1
        return asked(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(user_patterns._worker, "ask", count)
    for _ in range(60):
        assert patterns.mask([SLOW["on any text"][1]], MASK) == [None]
    assert 1 <= tries <= 6


def test_more_matches_than_can_be_masked_withhold_the_text() -> None:
    assert Redactor(["."]).redact_value("a" * 1_000_001) == (WITHHELD, 1)


def test_without_a_child_process_nothing_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_patterns, "_worker", user_patterns._Worker())
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    assert Redactor(["(x)y"]).redact_value(["xy", "z", 7]) == ([WITHHELD, WITHHELD, 7], 2)


def test_a_broken_pattern_is_an_error_either_way() -> None:
    for pattern in ("[a-", "(a"):
        with pytest.raises(ValueError, match="is no regular expression"):
            Redactor([pattern]).redact_value("a")


def test_threads_and_forks_share_it_without_mixing_answers() -> None:
    wrong: list[str] = []

    def work(letter: str) -> None:
        redactor = Redactor([f"({letter})1"])
        for number in range(50):
            text = f"{letter}1 {letter}{number}x"
            if redactor.redact_value(text)[0] != text.replace(f"{letter}1", MASK):
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    child = os.fork()
    if child == 0:
        os._exit(0 if Redactor(["(e)1"]).redact_value("e1") == (MASK, 1) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert Redactor(["(e)1"]).redact_value("e1") == (MASK, 1)
