"""Rate limits for many clients: a sustained rate and a burst for each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from time import monotonic

_ROUNDING = 1e-9
_HOST_BITS = 64


class RateLimit:
    """Recent clients.

    Each has one number: the time by which all of its requests are worked off at the given rate (GCRA).
    """

    def __init__(self, rate: float, burst: float, *, clients: int, now: Callable[[], float] = monotonic) -> None:
        self._interval, self._credit, self._most, self._now = 1 / rate, burst / rate, clients, now
        self._busy_until: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        """Number of clients remembered."""
        return len(self._busy_until)

    def count(self, client: str) -> float:
        """Count a request; 0 if it is allowed, else seconds until the next is. Rejected requests are not counted."""
        network, now = get_network(client), self._now()
        until = max(self._busy_until.get(network, now), now) + self._interval
        wait = until - now - self._credit
        if wait > _ROUNDING:
            return wait
        self._busy_until[network] = until
        self._busy_until.move_to_end(network)
        if len(self._busy_until) > self._most:
            self._busy_until.popitem(last=False)
        return 0.0


@lru_cache(maxsize=1024)
def get_network(client: str) -> str:
    """The network of a client: with IPv6 every client has at least a /64."""
    if ":" not in client:
        return client
    try:
        address = ip_address(client)
    except ValueError:
        return client
    if not isinstance(address, IPv6Address):
        return client
    return str(address.ipv4_mapped) if address.ipv4_mapped else f"{int(address) >> _HOST_BITS:x}::/{_HOST_BITS}"
