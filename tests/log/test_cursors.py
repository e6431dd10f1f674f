"""A cursor is a name for a position: how far somebody has read."""

from __future__ import annotations

import pytest

from fleetlore.errors import Closed, Invalid, InvalidUrl
from fleetlore.log.coordination import Coordination, open_shared
from tests.log.conftest import Opening

FIRST, SECOND = "00000000000000000007", "00000000000000000012-0001"
NAMES = ["ship", "a b.c*>", "-", "%2D", "ship:höhe/→", "x" * 200, "→" * 66]


def test_a_cursor_that_was_never_committed_is_none(shared: Coordination) -> None:
    assert shared.load_cursor("ship") is None
    assert shared.list_cursors() == {}


def test_what_was_committed_last_is_loaded(shared: Coordination) -> None:
    shared.commit_cursor("ship", FIRST)
    shared.commit_cursor("ship", SECOND)
    assert shared.load_cursor("ship") == SECOND


def test_a_cursor_may_be_moved_back(shared: Coordination) -> None:
    shared.commit_cursor("ship", SECOND)
    shared.commit_cursor("ship", FIRST)
    assert shared.load_cursor("ship") == FIRST


def test_cursors_of_many_names_are_apart(shared: Coordination) -> None:
    wanted = {name: f"{number:020d}" for number, name in enumerate(NAMES)}
    for name, position in wanted.items():
        shared.commit_cursor(name, position)
    assert {name: shared.load_cursor(name) for name in NAMES} == wanted
    assert shared.list_cursors() == wanted
    assert list(shared.list_cursors()) == sorted(NAMES)


def test_a_forgotten_cursor_is_gone_and_the_others_stay(shared: Coordination) -> None:
    shared.delete_cursor("ship")
    shared.commit_cursor("ship", FIRST)
    shared.commit_cursor("index", SECOND)
    shared.delete_cursor("ship")
    assert shared.load_cursor("ship") is None
    assert shared.list_cursors() == {"index": SECOND}
    shared.delete_cursor("index")
    assert shared.list_cursors() == {}


def test_cursors_survive_reopening(shared_url: str) -> None:
    with open_shared(shared_url) as shared:
        shared.commit_cursor("ship", FIRST)
    with open_shared(shared_url) as shared:
        assert shared.load_cursor("ship") == FIRST


def test_two_handles_see_the_same_cursors(another: Opening) -> None:
    one, two = another(), another()
    one.commit_cursor("ship", FIRST)
    assert two.load_cursor("ship") == FIRST
    two.commit_cursor("ship", SECOND)
    assert one.list_cursors() == {"ship": SECOND}


def test_towns_are_apart(another: Opening) -> None:
    here, there = another(town="here"), another(town="there")
    here.commit_cursor("ship", FIRST)
    assert there.load_cursor("ship") is None
    there.commit_cursor("ship", SECOND)
    there.delete_cursor("ship")
    assert here.list_cursors() == {"ship": FIRST}


def test_the_town_may_stand_in_the_address(shared_url: str, another: Opening) -> None:
    with open_shared(f"{shared_url}?town=here") as shared:
        shared.commit_cursor("ship", FIRST)
    assert another(town="here").load_cursor("ship") == FIRST
    assert another().load_cursor("ship") is None


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "\ud800"])
def test_a_name_is_checked(name: str, shared: Coordination) -> None:
    with pytest.raises(Invalid, match="not a name for a cursor"):
        shared.load_cursor(name)
    with pytest.raises(Invalid, match="not a name for a cursor"):
        shared.commit_cursor(name, FIRST)


@pytest.mark.parametrize("position", ["", "abc", "1" * 101, "１２", "1\n"])
def test_a_position_is_checked(position: str, shared: Coordination) -> None:
    with pytest.raises(Invalid, match="not a position"):
        shared.commit_cursor("ship", position)
    assert shared.list_cursors() == {}


def test_a_handle_works_only_while_it_is_open(url: str) -> None:
    shared = open_shared(url)
    with pytest.raises(Closed):
        shared.load_cursor("ship")
    with shared:
        shared.load_cursor("ship")
    with pytest.raises(Closed):
        shared.load_cursor("ship")


async def test_asyncio_has_the_same_verbs(url: str) -> None:
    async with open_shared(url).as_async() as shared:
        await shared.commit_cursor("ship", FIRST)
        await shared.commit_cursor("index", SECOND)
        await shared.delete_cursor("index")
        assert await shared.load_cursor("ship") == FIRST
        assert await shared.list_cursors() == {"ship": FIRST}
        lease = await shared.acquire("work", "ada", 60)
        assert lease is not None
        renewed = await shared.renew(lease)
        assert (await shared.find_lease("work") or lease).epoch == renewed.epoch
        await shared.release(renewed)
        assert await shared.find_lease("work") is None


@pytest.mark.parametrize("address", ["ftp://host", "nothing", "memory:?sync=full", "sqlite::memory:", "redis://host?sync=full"])
def test_an_address_is_read_as_the_log_reads_it(address: str) -> None:
    with pytest.raises(InvalidUrl), open_shared(address):
        pass
