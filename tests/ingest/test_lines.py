"""Bytes cut into lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.ingest import lines
from fleetlore.ingest.lines import split_lines


def raws(*chunks: bytes) -> list[tuple[int, bytes]]:
    return [(line.n, line.raw) for line in split_lines("x", chunks)]


def test_empty_lines_count_but_are_left_out() -> None:
    assert raws(b"a\n\n  \nb\n") == [(1, b"a"), (4, b"b")]


def test_a_torn_last_line_is_a_line() -> None:
    assert raws(b"a\nb") == [(1, b"a"), (2, b"b")]


def test_carriage_returns_and_a_byte_order_mark_are_left_out() -> None:
    assert raws(b"\xef\xbb\xbfa\r\nb\r\n\r\n\xef\xbb\xbfc\r") == [(1, b"a"), (2, b"b"), (4, b"\xef\xbb\xbfc")]


@given(st.lists(st.binary(max_size=9).map(lambda raw: raw.replace(b"\r", b"\n").replace(b"\xef", b"x"))))
def test_it_does_not_matter_how_the_bytes_arrive(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    expected = [(n, raw) for n, raw in enumerate(whole.split(b"\n"), 1) if raw.strip()]
    assert raws(*chunks) == expected


def test_occurrences_of_the_same_bytes_are_counted() -> None:
    assert [line.nth for line in split_lines("x", [b"a\nb\na\na\nb\n"])] == [0, 0, 1, 2, 1]


def test_counting_holds_for_many_lines() -> None:
    many = [b"%d\n" % (n % 5000) for n in range(10_000)]
    assert [line.nth for line in split_lines("x", many)] == [0] * 5000 + [1] * 5000


def test_a_line_that_is_too_long_is_kept_as_a_beginning_and_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 5000)
    long, other = b"x" * 9000, b"x" * 8999 + b"y"
    first, second, third, last = split_lines("x", [long[:6000], long[6000:] + b"\n" + other + b"\n" + long + b"\nshort"])
    assert first.too_long
    assert first.size == 9000
    assert len(first.raw) == lines.SAMPLE_BYTES + 32
    assert first.raw != second.raw
    assert (third.raw, third.nth) == (first.raw, 1)
    assert (last.raw, last.too_long, last.n) == (b"short", False, 4)
