"""A cursor is a name for a position: how far somebody has read."""

from __future__ import annotations

import pytest

from fleetlore.errors import Closed, Invalid, InvalidUrl
from fleetlore.log.coordination import Coordination, open_shared
from tests.projections.conftest import Opening

FIRST, SECOND = "00000000000000000007", "00000000000000000012-0001"
NAMES = ["ship", "a b.c*>", "-", "%2D", "ship:höhe/→", "x" * 200, "→" * 66]


def test_a_cursor_that_was_never_committed_is_none(shared: Coordination) -> None:
    assert shared.load("ship") is None
    assert shared.cursors() == {}


def test_what_was_committed_last_is_loaded(shared: Coordination) -> None:
    shared.commit("ship", FIRST)
    shared.commit("ship", SECOND)
    assert shared.load("ship") == SECOND


def test_a_cursor_may_be_moved_back(shared: Coordination) -> None:
    shared.commit("ship", SECOND)
    shared.commit("ship", FIRST)
    assert shared.load("ship") == FIRST


def test_cursors_of_many_names_are_apart(shared: Coordination) -> None:
    wanted = {name: f"{number:020d}" for number, name in enumerate(NAMES)}
    for name, position in wanted.items():
        shared.commit(name, position)
    assert {name: shared.load(name) for name in NAMES} == wanted
    assert shared.cursors() == wanted
    assert list(shared.cursors()) == sorted(NAMES)


def test_a_forgotten_cursor_is_gone_and_the_others_stay(shared: Coordination) -> None:
    shared.forget("ship")
    shared.commit("ship", FIRST)
    shared.commit("index", SECOND)
    shared.forget("ship")
    assert shared.load("ship") is None
    assert shared.cursors() == {"index": SECOND}
    shared.forget("index")
    assert shared.cursors() == {}


def test_cursors_survive_reopening(shared_url: str) -> None:
    with open_shared(shared_url) as shared:
        shared.commit("ship", FIRST)
    with open_shared(shared_url) as shared:
        assert shared.load("ship") == FIRST


def test_two_handles_see_the_same_cursors(another: Opening) -> None:
    one, two = another(), another()
    one.commit("ship", FIRST)
    assert two.load("ship") == FIRST
    two.commit("ship", SECOND)
    assert one.cursors() == {"ship": SECOND}


def test_towns_are_apart(another: Opening) -> None:
    here, there = another(town="here"), another(town="there")
    here.commit("ship", FIRST)
    assert there.load("ship") is None
    there.commit("ship", SECOND)
    there.forget("ship")
    assert here.cursors() == {"ship": FIRST}


def test_the_town_may_stand_in_the_address(shared_url: str, another: Opening) -> None:
    with open_shared(f"{shared_url}?town=here") as shared:
        shared.commit("ship", FIRST)
    assert another(town="here").load("ship") == FIRST
    assert another().load("ship") is None


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "\ud800"])
def test_a_name_is_checked(name: str, shared: Coordination) -> None:
    with pytest.raises(Invalid, match="not a name for a cursor"):
        shared.load(name)
    with pytest.raises(Invalid, match="not a name for a cursor"):
        shared.commit(name, FIRST)


@pytest.mark.parametrize("position", ["", "abc", "1" * 101, "１２", "1\n"])
def test_a_position_is_checked(position: str, shared: Coordination) -> None:
    with pytest.raises(Invalid, match="not a position"):
        shared.commit("ship", position)
    assert shared.cursors() == {}


def test_a_handle_works_only_while_it_is_open(url: str) -> None:
    shared = open_shared(url)
    with pytest.raises(Closed):
        shared.load("ship")
    with shared:
        shared.load("ship")
    with pytest.raises(Closed):
        shared.load("ship")


async def test_asyncio_has_the_same_verbs(url: str) -> None:
    async with open_shared(url).aio() as shared:
        await shared.commit("ship", FIRST)
        await shared.commit("index", SECOND)
        await shared.forget("index")
        assert await shared.load("ship") == FIRST
        assert await shared.cursors() == {"ship": FIRST}
        lease = await shared.take("work", "ada", 60)
        assert lease is not None
        renewed = await shared.renew(lease)
        assert (await shared.holder_of("work") or lease).epoch == renewed.epoch
        await shared.release(renewed)
        assert await shared.holder_of("work") is None


@pytest.mark.parametrize("address", ["ftp://host", "nothing", "memory:?sync=full", "sqlite::memory:", "redis://host?sync=full"])
def test_an_address_is_read_as_the_log_reads_it(address: str) -> None:
    with pytest.raises(InvalidUrl), open_shared(address):
        pass
