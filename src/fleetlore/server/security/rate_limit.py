"""How often each of very many clients may come: so many a second in the long run, so many at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from time import monotonic

_ROUNDING = 1e-9
_HOST_BITS = 64


class Rate:
    """The clients of late. Each is one number: the moment by which all that it asked for is worked off at the given rate."""

    def __init__(self, rate: float, burst: float, *, clients: int, now: Callable[[], float] = monotonic) -> None:
        self._interval, self._credit, self._most, self._now = 1 / rate, burst / rate, clients, now
        self._busy_until: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        """How many clients are remembered."""
        return len(self._busy_until)

    def count(self, client: str) -> float:
        """Count one; 0 if it may come, else the seconds until one more may. What may not come is not counted."""
        who, now = network_of(client), self._now()
        until = max(self._busy_until.get(who, now), now) + self._interval
        wait = until - now - self._credit
        if wait > _ROUNDING:
            return wait
        self._busy_until[who] = until
        self._busy_until.move_to_end(who)
        if len(self._busy_until) > self._most:
            self._busy_until.popitem(last=False)
        return 0.0


@lru_cache(maxsize=1024)
def network_of(client: str) -> str:
    """Who an address is: with IPv6, whoever has one has at least a /64 of them."""
    if ":" not in client:
        return client
    try:
        address = ip_address(client)
    except ValueError:
        return client
    if not isinstance(address, IPv6Address):
        return client
    return str(address.ipv4_mapped) if address.ipv4_mapped else f"{int(address) >> _HOST_BITS:x}::/{_HOST_BITS}"
