"""How often NATS servers write to their disks, from their monitoring ports: clients have no other way to know."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from fleetlore.errors import Unreachable

UNKNOWN = "unknown"
ALWAYS = "always"
_NANOSECONDS = 10**9
_MAX_BYTES = 4 << 20


class _JetStreamConfig(Struct, frozen=True):
    sync_interval: int = 0
    sync_always: bool = False


class _JetStream(Struct, frozen=True):
    config: _JetStreamConfig = _JetStreamConfig()


class _Varz(Struct, frozen=True):
    jetstream: _JetStream = _JetStream()


_decode_varz = msgspec.json.Decoder(_Varz).decode


def parse_monitor(value: str) -> str | None:
    """Return the value of `?monitor=` if it is a port, or addresses that begin with http; otherwise `None`."""
    is_port = value.isascii() and value.isdecimal() and 0 < int(value) < 65536
    return value if is_port or all(address.startswith(("http://", "https://")) for address in value.split(",")) else None


async def read_sync_setting(servers: Sequence[str], monitor: str | None, seconds: float) -> str:
    """Return `always`, the longest `sync_interval` of the servers (`120s`), or `unknown` if no monitoring port is given."""
    if monitor is None:
        return UNKNOWN
    if monitor.isdecimal():
        hosts = [server.partition("://")[2].rpartition(":")[0] or server.partition("://")[2] for server in servers]
        addresses = [f"http://{host}:{monitor}" for host in hosts]
    else:
        addresses = monitor.split(",")
    configs = await asyncio.gather(*(asyncio.to_thread(_read_config, address, seconds) for address in addresses))
    if all(config.sync_always for config in configs):
        return ALWAYS
    return f"{max(config.sync_interval for config in configs if not config.sync_always) / _NANOSECONDS:g}s"


def _read_config(address: str, seconds: float) -> _JetStreamConfig:
    from urllib.request import ProxyHandler, build_opener

    try:
        with build_opener(ProxyHandler({})).open(f"{address}/varz", timeout=seconds) as answer:
            return _decode_varz(answer.read(_MAX_BYTES)).jetstream.config
    except (OSError, ValueError) as error:
        raise Unreachable(
            f"{address}: the monitoring port does not answer ({error}); start nats-server with `-m 8222`, or leave ?monitor= out"
        ) from error
