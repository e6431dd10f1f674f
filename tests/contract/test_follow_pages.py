"""What every log promises to those who follow its stored records, as the live feed does."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from fleetlore import connect
from fleetlore.errors import InvalidScope
from fleetlore.log.base import TailPage
from fleetlore.log.reading import decode_stored
from fleetlore.log.recorder import BlockingRecorder
from tests.contract.helpers import make_event


def texts(page: TailPage) -> list[str | None]:
    return [decode_stored(stored).text for stored in page.rows]


def test_pages_hold_the_stored_bytes_of_what_is_there_and_of_what_comes(url: str) -> None:
    with connect(url).blocking() as log:
        [first] = log.append([make_event("0")])
        pages = log.follow_pages("task:t", after=first)
        log.append([make_event("1", task="t"), make_event("2", task="u")])
        assert texts(next(pages)) == ["1"]
        log.append([make_event("3", task="t")])
        assert texts(next(pages)) == ["3"]
        pages.close()
        assert [event.text for event in log.read()] == ["0", "1", "2", "3"]


def test_a_page_mentions_the_gap_that_a_trim_left(url: str) -> None:
    with connect(url).blocking() as log:
        positions = log.append([make_event(str(n)) for n in range(4)])
        log.trim(positions[3])
        page = next(log.follow_pages(after=positions[0]))
        rows = page.rows or next(log.follow_pages(after=page.gap)).rows  # some tell of the gap by itself
        assert (page.gap, texts(TailPage(rows))) == (positions[2], ["3"])


def test_anybody_who_waits_for_pages_is_given_an_empty_one_now_and_then_and_none_once_the_log_is_closed() -> None:
    with connect("memory:").blocking() as log:
        pages = log.follow_pages()
        assert next(pages) == TailPage([])
        waiting = Thread(target=lambda: ended.append(next(pages, None)))
        ended: list[TailPage | None] = []
        waiting.start()
        log.close()
        waiting.join()
        assert ended[0] in (None, TailPage([]))
        assert next(pages, None) is None


def test_a_scope_that_is_none_is_refused_before_anything_is_followed() -> None:
    log: BlockingRecorder
    with connect("memory:").blocking() as log, pytest.raises(InvalidScope):
        log.follow_pages("nobody")


@pytest.mark.parametrize("scheme", ["memory:", "sqlite:"])
def test_ctrl_c_is_ctrl_c_though_it_comes_just_as_a_lock_was_let_go(scheme: str, tmp_path: Path) -> None:
    with connect(scheme if scheme == "memory:" else f"sqlite:{tmp_path}/fleet.db").blocking() as log:
        backend: Any = cast(Any, log)._require_backend()
        changed: Any = backend.changed if scheme == "memory:" else backend.changes.condition
        let_go = changed._release_save

        def interrupted() -> None:
            changed._release_save = let_go
            let_go()
            raise KeyboardInterrupt

        changed._release_save = interrupted
        with pytest.raises(KeyboardInterrupt):
            next(log.follow())
