"""Durations in the words that the driver family uses."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.documents import durations
from fleetlore.errors import Invalid

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (4 * 3600 * SECOND, "4h"),
        (5400 * SECOND, "1h 30m"),
        (90_061_500_000_000, "1day 1h 1m 1s 500ms"),
        (12_345_678_901, "12s 345ms 678us 901ns"),
        (365 * 86_400 * SECOND, "11months 30days 3h 50m 24s"),
        (2 * 31_557_600 * SECOND, "2years"),
        (31_557_600 * SECOND + 2_630_016 * SECOND, "1year 1month"),
    ],
)
def test_a_duration_is_written_in_its_largest_units(nanoseconds: int, text: str) -> None:
    assert durations.format_duration(nanoseconds) == text
    assert durations.parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("1h30m", 5400),
        ("1 hour 30 mins", 5400),
        (" 20 min 5 sec ", 1205),
        ("1m", 60),
        ("1M", 2_630_016),
        ("2wks", 1_209_600),
        ("3 d", 259_200),
        ("1yr", 31_557_600),
        ("1s 1s", 2),
        ("1000 millis", 1),
        ("1000000µs", 1),
        ("1000000000nsec", 1),
    ],
)
def test_a_duration_is_read_in_any_usual_spelling(text: str, seconds: int) -> None:
    assert durations.parse_duration(text) == seconds * SECOND


@pytest.mark.parametrize(
    "text", ["", " ", "5", "h", "1x", "1.5h", "-1s", "1H", "1h 30", "1hm", "s1", "1s\x00", "٣s", "9" * 21 + "s", "9" * 20 + "y"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        durations.parse_duration(text)


@given(st.integers(0, 2**64 * SECOND - 1))
def test_every_duration_is_read_as_it_was_written(nanoseconds: int) -> None:
    assert durations.parse_duration(durations.format_duration(nanoseconds)) == nanoseconds


@given(st.text(max_size=20))
def test_arbitrary_text_is_a_duration_or_refused(text: str) -> None:
    with suppress(Invalid):
        assert durations.parse_duration(text) >= 0


@pytest.mark.parametrize("nanoseconds", [-1, 2**64 * SECOND])
def test_what_cannot_be_written_is_refused(nanoseconds: int) -> None:
    with pytest.raises(Invalid):
        durations.format_duration(nanoseconds)
