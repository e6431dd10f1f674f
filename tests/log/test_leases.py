"""A lease is a right that ends by itself; each taking of it has an epoch, which only ever grows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Lock
from time import monotonic

import pytest

from fleetlore.errors import Invalid, LeaseLost
from fleetlore.log.base import Lease
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.testing import FrozenClock
from tests.log.conftest import Opening, wait_for
from tests.patience import PATIENCE

SHORT, LONG = 0.05, 600
CROWD, ROUNDS = 8, 8


def taken(shared: Coordination, holder: str = "ada", seconds: float = LONG, name: str = "work") -> Lease:
    lease = shared.acquire(name, holder, seconds)
    assert lease is not None
    return lease


def ended(shared: Coordination, name: str = "work") -> None:
    wait_for(lambda: shared.find_lease(name) is None)


def test_a_free_lease_is_taken(shared: Coordination) -> None:
    assert shared.find_lease("work") is None
    before = datetime.now(UTC)
    lease = taken(shared)
    assert (lease.name, lease.holder, lease.seconds) == ("work", "ada", LONG)
    assert lease.epoch > 0
    assert abs(lease.until - before - timedelta(seconds=LONG)) < timedelta(seconds=10)
    held = shared.find_lease("work")
    assert held is not None
    assert (held.holder, held.epoch, held.seconds) == ("ada", lease.epoch, LONG)
    assert abs(held.until - lease.until) < timedelta(seconds=10)


def test_while_one_holds_it_no_other_gets_it(shared: Coordination) -> None:
    lease = taken(shared, "ada")
    assert shared.acquire("work", "bob", LONG) is None
    assert shared.renew(lease).epoch == lease.epoch


def test_the_holder_taking_again_gets_a_new_epoch_and_loses_the_old_one(shared: Coordination) -> None:
    first = taken(shared, "ada")
    second = taken(shared, "ada")
    assert second.epoch > first.epoch
    with pytest.raises(LeaseLost):
        shared.renew(first)
    shared.release(first)
    assert shared.renew(second).epoch == second.epoch


def test_leases_of_many_names_are_apart(shared: Coordination) -> None:
    names = ["work", "a b.c*>", "-", "x" * 200, "→" * 66]
    leases = [taken(shared, f"holder of {name[:9]} 100%", name=name) for name in names]
    assert [lease.holder for name in names if (lease := shared.find_lease(name))] == [lease.holder for lease in leases]


def test_a_renewal_keeps_the_epoch_and_moves_the_end(shared: Coordination) -> None:
    lease = taken(shared, seconds=60)
    longer = shared.renew(lease, LONG)
    assert longer.epoch == lease.epoch
    assert longer.seconds == LONG
    assert longer.until > lease.until
    again = shared.renew(lease)  # whichever copy of the lease it is
    assert again.epoch == lease.epoch
    assert again.until < longer.until
    assert shared.acquire("work", "bob", LONG) is None


def test_a_release_lets_the_next_one_in(shared: Coordination) -> None:
    lease = taken(shared, "ada")
    shared.release(lease)
    assert shared.find_lease("work") is None
    assert taken(shared, "bob").epoch > lease.epoch


def test_a_release_after_renewals_lets_the_next_one_in(shared: Coordination) -> None:
    lease = taken(shared, "ada")
    shared.renew(shared.renew(lease))
    shared.release(lease)
    assert taken(shared, "bob").epoch > lease.epoch


def test_a_lost_lease_frees_nobody_elses(shared: Coordination) -> None:
    lost = taken(shared, "ada")
    shared.release(lost)
    mine = taken(shared, "bob")
    shared.release(lost)
    shared.release(lost)
    assert (shared.find_lease("work") or lost).epoch == mine.epoch


def test_a_lease_is_its_holders_even_with_the_right_epoch(shared: Coordination) -> None:
    lease = taken(shared, "ada")
    forged = Lease(name="work", holder="bob", epoch=lease.epoch, until=lease.until, seconds=LONG)
    with pytest.raises(LeaseLost):
        shared.renew(forged)
    shared.release(forged)
    assert shared.renew(lease).epoch == lease.epoch


def test_a_released_lease_cannot_be_renewed(shared: Coordination) -> None:
    lease = taken(shared)
    shared.release(lease)
    with pytest.raises(LeaseLost, match="take it anew") as lost:
        shared.renew(lease)
    assert (lost.value.name, lost.value.holder, lost.value.epoch) == ("work", "ada", lease.epoch)


def test_a_lease_ends_by_itself_and_is_lost_then(shared: Coordination) -> None:
    """Nobody gets it back by renewing, not even before another has taken it."""
    lost = taken(shared, "ada", SHORT)
    ended(shared)
    with pytest.raises(LeaseLost):
        shared.renew(lost)
    mine = taken(shared, "bob")
    assert mine.epoch > lost.epoch
    with pytest.raises(LeaseLost):
        shared.renew(lost)
    shared.release(lost)
    assert (shared.find_lease("work") or lost).epoch == mine.epoch


@pytest.mark.parametrize("shared_url", ["redis", "nats"], indirect=True)
def test_a_lease_that_is_renewed_in_time_outlives_its_first_end(another: Opening) -> None:
    shared = another()
    lease = taken(shared, "ada", 1.0)
    end = monotonic() + 1.5

    def renewed() -> bool:
        assert shared.acquire("work", "bob", 1.0) is None
        assert shared.renew(lease).epoch == lease.epoch
        return monotonic() > end

    wait_for(renewed)


@pytest.mark.parametrize("address", ["memory:", "sqlite:{folder}/fleet.db"])
def test_the_end_of_a_lease_is_sharp_where_the_clock_is_ours(address: str, tmp_path: Path) -> None:
    clock = FrozenClock()
    with open_shared(address.format(folder=tmp_path), now=clock) as shared:
        lease = taken(shared, "ada", 10)
        assert lease.until == clock() + timedelta(seconds=10)
        clock.advance(9.999999)
        assert shared.find_lease("work") == lease
        assert shared.acquire("work", "bob", 10) is None
        renewed = shared.renew(lease)
        assert renewed.until == clock() + timedelta(seconds=10)
        clock.advance(10)
        assert shared.find_lease("work") is None
        with pytest.raises(LeaseLost):
            shared.renew(renewed)


@pytest.mark.parametrize("address", ["memory:", "sqlite:{folder}/fleet.db"])
def test_epochs_grow_even_if_the_clock_goes_back(address: str, tmp_path: Path) -> None:
    clock = FrozenClock()
    with open_shared(address.format(folder=tmp_path), now=clock) as shared:
        epochs = []
        for _ in range(3):
            lease = taken(shared)
            epochs.append(lease.epoch)
            shared.release(lease)
            clock.advance(-3600)
        assert epochs == sorted(set(epochs))


def test_two_handles_contend_for_one_lease(another: Opening) -> None:
    one, two = another(), another()
    lease = taken(one, "ada")
    assert two.acquire("work", "bob", LONG) is None
    assert (two.find_lease("work") or lease).holder == "ada"
    two.release(two.renew(lease))  # a lease may be handed on
    assert taken(two, "bob").epoch > lease.epoch
    with pytest.raises(LeaseLost):
        one.renew(lease)


def test_leases_of_towns_are_apart(another: Opening) -> None:
    here, there = another(town="here"), another(town="there")
    lease = taken(here, "ada")
    assert there.find_lease("work") is None
    there.release(taken(there, "bob"))
    assert here.renew(lease).epoch == lease.epoch


def test_leases_and_epochs_survive_reopening(shared_url: str) -> None:
    with open_shared(shared_url) as shared:
        released = taken(shared, "ada", name="released")
        shared.release(released)
        kept = taken(shared, "ada", name="kept")
    with open_shared(shared_url) as shared:
        assert taken(shared, "bob", name="released").epoch > released.epoch
        assert shared.acquire("kept", "bob", LONG) is None
        assert shared.renew(kept).epoch == kept.epoch


@pytest.mark.parametrize("seconds", [0, -1, 1e-9, float("nan"), float("inf")])
def test_the_length_of_a_lease_is_checked(seconds: float) -> None:
    with open_shared("memory:") as shared:
        lease = taken(shared)
        with pytest.raises(Invalid, match="seconds"):
            shared.acquire("work", "ada", seconds)
        with pytest.raises(Invalid, match="seconds"):
            shared.renew(lease, seconds)


def test_names_of_leases_and_holders_are_checked(shared: Coordination) -> None:
    with pytest.raises(Invalid, match="not a name for a lease"):
        shared.acquire("", "ada", LONG)
    with pytest.raises(Invalid, match="not a name for a holder"):
        shared.acquire("work", "a\nb", LONG)
    with pytest.raises(Invalid, match="not a name for a lease"):
        shared.find_lease("a\nb")


class Inside:
    """Who is inside: those who hold the lease, as far as it is valid, are never two."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._there: set[str] = set()
        self.epochs: list[int] = []

    def enter(self, lease: Lease) -> None:
        with self._lock:
            assert not self._there, f"{lease.holder} came in while {self._there} was there"
            self._there.add(lease.holder)
            self.epochs.append(lease.epoch)

    def leave(self, lease: Lease) -> None:
        with self._lock:
            self._there.discard(lease.holder)


def test_of_a_crowd_one_at_a_time_holds_the_lease_and_epochs_grow(another: Opening) -> None:
    """Everybody lets the lease be taken over or renews it, then gives it back, until all have had it often enough."""
    inside, start = Inside(), Barrier(CROWD)
    handles = [another() for _ in range(CROWD)]

    def contend(number: int) -> int:
        shared, holder = handles[number], f"holder {number}"
        start.wait()
        had, deadline = 0, monotonic() + PATIENCE
        while had < ROUNDS and monotonic() < deadline:
            lease = shared.acquire("work", holder, 5)
            if lease is None:
                continue
            inside.enter(lease)
            assert shared.renew(lease).epoch == lease.epoch
            inside.leave(lease)
            shared.release(lease)
            had += 1
        return had

    with ThreadPoolExecutor(CROWD) as pool:
        assert list(pool.map(contend, range(CROWD))) == [ROUNDS] * CROWD
    assert inside.epochs == sorted(set(inside.epochs))
    assert len(inside.epochs) == CROWD * ROUNDS


def test_of_a_crowd_no_two_get_one_epoch_when_leases_run_out(another: Opening, shared_url: str) -> None:
    """Nobody gives the lease back: it passes on because it ends. In one epoch there is one holder."""
    handles = [another() for _ in range(CROWD)]
    start, wanted = Barrier(CROWD), 2 if shared_url.startswith("nats") else 20  # NATS counts in seconds
    got: list[int] = []

    def contend(number: int) -> None:
        shared, holder = handles[number], f"holder {number}"
        start.wait()
        deadline = monotonic() + PATIENCE
        while len(got) < wanted and monotonic() < deadline:
            lease = shared.acquire("work", holder, 0.005)
            if lease is not None:
                got.append(lease.epoch)
                wait_until_lost(shared, lease, unless=lambda: len(got) >= wanted)

    with ThreadPoolExecutor(CROWD) as pool:
        list(pool.map(contend, range(CROWD)))
    assert len(got) >= wanted
    assert len(set(got)) == len(got)


def wait_until_lost(shared: Coordination, lease: Lease, *, unless: Callable[[], bool]) -> None:
    wait_for(lambda: unless() or (held := shared.find_lease(lease.name)) is None or held.epoch != lease.epoch)


def test_threads_of_one_handle_contend_too(shared: Coordination) -> None:
    """Eight threads at once, one name: one of them gets it."""
    start = Barrier(CROWD)

    def contend(number: int) -> Lease | None:
        start.wait()
        return shared.acquire("work", f"holder {number}", LONG)

    with ThreadPoolExecutor(CROWD) as pool:
        leases = [lease for lease in pool.map(contend, range(CROWD)) if lease is not None]
    assert len(leases) == 1
    assert (shared.find_lease("work") or leases[0]).holder == leases[0].holder
