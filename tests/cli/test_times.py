"""Moments as people write them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from fleetlore.cli.times import parse_time
from fleetlore.errors import Invalid

NOW = datetime(2026, 11, 15, 20, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("3d", timedelta(days=3)),
        ("1w", timedelta(weeks=1)),
        ("1h30m", timedelta(minutes=90)),
    ],
)
def test_so_long_ago(text: str, ago: timedelta) -> None:
    assert parse_time(text, now=NOW) == NOW - ago


def test_a_time_with_a_zone_is_that_time() -> None:
    assert parse_time("2026-11-15T20:00:00Z", now=NOW) == NOW
    assert parse_time("2026-11-15T21:00+01:00", now=NOW) == NOW


def test_a_day_or_a_time_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert parse_time("2026-11-15", now=NOW) == datetime(2026, 11, 14, 15, tzinfo=UTC)
        assert parse_time("2026-11-15 09:00", now=NOW) == datetime(2026, 11, 15, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "soon", "2", "h2", "2 h", "999999999w", "2026-13-01", "0001-01-01T00:00+14:00"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_time(text, now=NOW)
