"""Cursors, leases, tokens and seal in hashes beside the town's streams, by the server's clock.

    tt:<town>:fleetlore:cursors    name → position
    tt:<town>:fleetlore:leases     name → `EPOCH UNTIL SECONDS HOLDER`, UNTIL in microseconds since 1970
    tt:<town>:fleetlore:epochs     name → the last epoch
    tt:<town>:fleetlore:tokens     id → token as JSON, without the secret
    tt:<town>:fleetlore:seal       the seal as JSON

Each method is one script or one command, and may be sent again after a broken connection.
"""

from __future__ import annotations

from fleetlore.errors import LeaseLost
from fleetlore.log.base import Lease, Position, make_lease, seconds_to_microseconds
from fleetlore.log.redis.client import RedisClient, check_server
from fleetlore.log.redis.entry import TownKeys
from fleetlore.log.tokens import Token, decode_tokens, encode_token

# KEYS: leases, and to acquire: epochs. ARGV: name, holder, then further arguments of the script.
_LEASE_FUNCTIONS = """
local NAME, HOLDER = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local function held()
  local text = redis.call('HGET', KEYS[1], NAME)
  if not text then return nil, nil end
  local epoch, till, holder = string.match(text, '^(%d+) (%d+) %S+ (.*)$')
  if tonumber(till) <= now then return nil, nil end
  return epoch, holder
end

local function hold(epoch, microseconds, seconds)
  local till = string.format('%.0f', now + tonumber(microseconds))
  redis.call('HSET', KEYS[1], NAME, epoch .. ' ' .. till .. ' ' .. seconds .. ' ' .. HOLDER)
  return {epoch, till}
end
"""

# ARGV: … microseconds, seconds. Computes the epoch as `next_epoch` in log/coordination.py does.
_ACQUIRE_SCRIPT = f"""#!lua
{_LEASE_FUNCTIONS}
local _, holder = held()
if holder and holder ~= HOLDER then return false end
local last = tonumber(redis.call('HGET', KEYS[2], NAME) or '0')
local epoch = string.format('%.0f', math.max(last + 1, now))
redis.call('HSET', KEYS[2], NAME, epoch)
return hold(epoch, ARGV[3], ARGV[4])
"""

# ARGV: … epoch, microseconds, seconds.
_RENEW_SCRIPT = f"""#!lua flags=allow-oom
{_LEASE_FUNCTIONS}
local epoch, holder = held()
if epoch ~= ARGV[3] or holder ~= HOLDER then return false end
return hold(epoch, ARGV[4], ARGV[5])
"""

# ARGV: … epoch.
_RELEASE_SCRIPT = f"""#!lua flags=allow-oom
{_LEASE_FUNCTIONS}
local epoch, holder = held()
if epoch == ARGV[3] and holder == HOLDER then redis.call('HDEL', KEYS[1], NAME) end
return 1
"""

# ARGV: the new seal, the expected one or ''.
_SET_SEAL_SCRIPT = """#!lua
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] and found ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""


class RedisCoordination:
    """Coordination state of one town on one server. Methods as in `CoordinationStore`."""

    def __init__(self, address: str, *, town: str, timeout: float = 10.0) -> None:
        prefix = f"tt:{town}:fleetlore"
        self._cursors_key, self._leases_key, self._epochs_key = f"{prefix}:cursors", f"{prefix}:leases", f"{prefix}:epochs"
        self._tokens_key, self._seal_key = f"{prefix}:tokens", TownKeys(town).seal
        self._client = RedisClient(address, timeout=timeout)
        try:
            check_server(self._client)
        except BaseException:
            self._client.close()
            raise

    def load_cursor(self, name: str) -> Position | None:
        """Return the position of a cursor."""
        [found] = self._client.run_commands(("HGET", self._cursors_key, name))
        return None if found is None else found.decode()

    def commit_cursor(self, name: str, position: Position) -> None:
        """Set a cursor."""
        self._client.run_commands(("HSET", self._cursors_key, name, position))

    def list_cursors(self) -> dict[str, Position]:
        """Return all cursors."""
        [pairs] = self._client.run_commands(("HGETALL", self._cursors_key))
        return {name.decode(): position.decode() for name, position in zip(pairs[::2], pairs[1::2], strict=True)}

    def delete_cursor(self, name: str) -> None:
        """Delete a cursor."""
        self._client.run_commands(("HDEL", self._cursors_key, name))

    def acquire(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Acquire a lease if it is free or already the holder's."""
        answer = self._client.run_script(
            _ACQUIRE_SCRIPT, [self._leases_key, self._epochs_key], [name, holder, seconds_to_microseconds(seconds), repr(seconds)]
        )
        if answer is None:
            return None
        epoch, until = map(int, answer)
        return make_lease(name, holder, epoch, until, seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Extend a lease."""
        answer = self._client.run_script(
            _RENEW_SCRIPT, [self._leases_key], [lease.name, lease.holder, lease.epoch, seconds_to_microseconds(seconds), repr(seconds)]
        )
        if answer is None:
            raise LeaseLost(lease.name, lease.holder, lease.epoch)
        epoch, until = map(int, answer)
        return make_lease(lease.name, lease.holder, epoch, until, seconds)

    def release(self, lease: Lease) -> None:
        """End a lease, if it is still this acquisition."""
        self._client.run_script(_RELEASE_SCRIPT, [self._leases_key], [lease.name, lease.holder, lease.epoch])

    def find_lease(self, name: str) -> Lease | None:
        """Return the current lease."""
        text, (seconds, microseconds) = self._client.run_commands(("HGET", self._leases_key, name), ("TIME",))
        if text is None:
            return None
        epoch, until, length, holder = text.decode().split(" ", 3)
        if int(until) <= int(seconds) * 1_000_000 + int(microseconds):
            return None
        return make_lease(name, holder, int(epoch), int(until), float(length))

    def save_token(self, token: Token) -> None:
        """Store a token."""
        self._client.run_commands(("HSET", self._tokens_key, token.id, encode_token(token)))

    def list_tokens(self) -> list[Token]:
        """Return all tokens."""
        [rows] = self._client.run_commands(("HVALS", self._tokens_key))
        return decode_tokens(rows)

    def delete_token(self, id: str) -> None:
        """Delete a token."""
        self._client.run_commands(("HDEL", self._tokens_key, id))

    def load_seal(self) -> bytes | None:
        """Return the seal."""
        raw: bytes | None
        [raw] = self._client.run_commands(("GET", self._seal_key))
        return raw

    def set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        """Replace the seal."""
        return bool(self._client.run_script(_SET_SEAL_SCRIPT, [self._seal_key], [seal, expect or b""]))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
