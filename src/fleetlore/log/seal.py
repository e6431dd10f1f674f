"""The seal of a log: who holds its passphrase signs what steers goals, and nobody else is obeyed. docs/sealing.md tells it for people.

The operator key is 256 bits of chance. Beside the log lies the seal, which is that key under a pad that scrypt makes of the
passphrase: a new passphrase is a new pad over the same key, so that what was signed before still holds. Keys live in the memory of
whoever was given the passphrase; they are never written, shown or pickled.

The operator key itself signs nothing. From it follow one key a goal, one for facts of no goal, and one for tokens, so that nothing
signed for one purpose is worth anything for another. A signature is over the canonical JSON without `mac`, and without the place
that an event was shipped from, which every `lore ship` writes anew.
"""

from __future__ import annotations

import hmac
import re
import secrets
import unicodedata
from collections.abc import Callable
from datetime import datetime
from hashlib import scrypt
from typing import NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Damaged, Denied, Invalid
from fleetlore.events import codec
from fleetlore.events.envelope import Event, Mac, Origin
from fleetlore.log import tokens as token_rules
from fleetlore.log.admission import OWN_DIALECT, Admission
from fleetlore.log.base import Record
from fleetlore.log.tokens import Token

SHORTEST_PASSPHRASE, LONGEST_PASSPHRASE = 12, 1000
COST, BLOCK, LANES = 2**17, 8, 1
"""scrypt's n, r and p: 128 MiB, and about half a second, for every guess."""
_MOST_MEMORY = 2**29
_KEY_BYTES = 32
_MOST_TURNS = 4
_is_hex = re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch
_is_key_id = re.compile(r"[0-9a-f]{16}", re.ASCII).fullmatch


class Seal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept beside a sealed log. Whoever reads it can guess at the passphrase, slowly, and no more."""

    key: str
    """The operator key's name: 16 hex digits, no part of it."""
    made_at: datetime
    """When this passphrase was set."""
    salt: str
    n: int
    r: int
    p: int
    wrapped: str
    """The operator key under the passphrase's pad, in hex."""
    check: str
    """Over all of it, by the passphrase: whether that is the right one."""


class Key:
    """Signs the facts of one goal, or those of none."""

    __slots__ = ("_secret", "goal", "id")

    def __init__(self, secret: bytes, *, id: str, goal: str | None) -> None:
        self._secret, self.id, self.goal = secret, id, goal

    def sign(self, event: Event, *, admit: Callable[[Event], Record] | None = None) -> Event:
        """The event as the log will store it, signed: stamped, checked, its secrets taken out. Give `admit` of the log that it is for."""
        if event.goal != self.goal:
            whose = "no goal" if self.goal is None else f"the goal {self.goal}"
            raise Invalid(f"this key signs facts of {whose}, not of {event.goal}")
        settled = _settled(replace(event, mac=None), admit or _ADMISSION.admit)
        return replace(settled, mac=Mac(key=self.id, hex=self._mac(settled)))

    def holds(self, event: Event) -> bool:
        """Whether this key signed the event as it is. A stored event may be anything."""
        if event.mac is None or event.mac.key != self.id or event.goal != self.goal:
            return False
        try:
            wanted = self._mac(event)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return False
        return hmac.compare_digest(wanted.encode(), event.mac.hex.encode(errors="replace"))

    def _mac(self, event: Event) -> str:
        return hmac.digest(self._secret, _signed_bytes(event), "sha256").hex()

    def __repr__(self) -> str:
        return f"<Key {self.id} of {'no goal' if self.goal is None else self.goal}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key stays in the memory of its process")


class OperatorKey:
    """What the passphrase gives: signs facts of any goal and of none, and vouches for tokens."""

    __slots__ = ("_secret", "id")

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.id = self._derived("name")[:8].hex()

    def goal_key(self, goal_id: str) -> Key:
        """The key of one goal; whoever has it can sign for no other."""
        return Key(self._derived("goal", goal_id), id=self.id, goal=goal_id)

    def sign(self, event: Event, *, admit: Callable[[Event], Record] | None = None) -> Event:
        """The event, signed by the key of its goal, or by that for facts of no goal."""
        return self._key_of(event).sign(event, admit=admit)

    def holds(self, event: Event) -> bool:
        """Whether the event was signed by the key of its goal, or by that for facts of no goal."""
        return self._key_of(event).holds(event)

    def vouch(self, token: Token) -> Token:
        """The token, signed: on a sealed log no other may steer."""
        return replace(token, mac=self._token_mac(token))

    def vouches_for(self, token: Token) -> bool:
        """Whether the token was signed, as it is."""
        return hmac.compare_digest(self._token_mac(token), token.mac)

    def wrapped(self, pad: bytes) -> str:
        """The key under a pad, which must be used for nothing else."""
        return _under_pad(self._secret, pad).hex()

    def _key_of(self, event: Event) -> Key:
        return self.goal_key(event.goal) if event.goal is not None else Key(self._derived("no goal"), id=self.id, goal=None)

    def _token_mac(self, token: Token) -> str:
        return hmac.digest(self._derived("tokens"), token_rules.encoded(replace(token, mac="")), "sha256").hex()

    def _derived(self, purpose: str, name: str = "") -> bytes:
        return hmac.digest(self._secret, f"fleetlore {purpose}\0{name}".encode(), "sha256")

    def __repr__(self) -> str:
        return f"<OperatorKey {self.id}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key stays in the memory of its process")


def obeyed(event: Event, key: Key | OperatorKey | None) -> bool:
    """Whether a fact that steers is believed: all are on a log that is not sealed (no key), else those that the key has signed."""
    return key is None or key.holds(event)


# --- passphrases


def make_seal(
    passphrase: str, *, key: OperatorKey | None = None, cost: int = COST, now: clock.Clock = clock.now
) -> tuple[Seal, OperatorKey]:
    """A seal by a new passphrase: over a key that there is, or over a new one."""
    key = key or OperatorKey(secrets.token_bytes(_KEY_BYTES))
    blank = Seal(key=key.id, made_at=now(), salt=secrets.token_hex(_KEY_BYTES), n=cost, r=BLOCK, p=LANES, wrapped="", check="")
    pad, guard = _stretched(check_passphrase(passphrase), blank)
    seal = replace(blank, wrapped=key.wrapped(pad))
    return replace(seal, check=_check_value(guard, seal)), key


def unlock(seal: Seal, passphrase: str) -> OperatorKey:
    """The operator key; `Denied` if this is not the passphrase."""
    pad, guard = _stretched(passphrase, check_seal(seal))
    if not hmac.compare_digest(_check_value(guard, seal), seal.check):
        raise Denied("this is not the passphrase of this log; try again")
    return OperatorKey(_under_pad(bytes.fromhex(seal.wrapped), pad))


def check_passphrase(passphrase: str) -> str:
    """A passphrase that can be set."""
    if any(unicodedata.category(character) == "Cc" for character in passphrase):
        raise Invalid("a passphrase holds no control characters; type it again")
    if not SHORTEST_PASSPHRASE <= len(passphrase) <= LONGEST_PASSPHRASE:
        raise Invalid(
            f"a passphrase of at least {SHORTEST_PASSPHRASE} characters is needed, and at most {LONGEST_PASSPHRASE:,};"
            " four or five words that do not belong together are good"
        )
    return passphrase


def _stretched(passphrase: str, seal: Seal) -> tuple[bytes, bytes]:
    """The pad and the guard of a passphrase. One character may be written in two ways, and keyboards differ in that."""
    typed = unicodedata.normalize("NFC", passphrase).encode(errors="surrogateescape")
    made = scrypt(typed, salt=bytes.fromhex(seal.salt), n=seal.n, r=seal.r, p=seal.p, maxmem=_MOST_MEMORY, dklen=2 * _KEY_BYTES)
    return made[:_KEY_BYTES], made[_KEY_BYTES:]


def _check_value(guard: bytes, seal: Seal) -> str:
    return hmac.digest(guard, encoded(replace(seal, check="")), "sha256").hex()


def _under_pad(key: bytes, pad: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(key, pad, strict=True))


# --- what is kept


def check_seal(seal: Seal) -> Seal:
    """The seal, if it can be one; its numbers may ask for no more memory than there should be."""
    is_formal = _is_key_id(seal.key) and all(_is_hex(text) for text in (seal.salt, seal.wrapped, seal.check)) and seal.made_at.tzinfo
    is_cost = (
        seal.n > 1 and seal.n & (seal.n - 1) == 0 and seal.r > 0 and seal.p > 0 and 128 * seal.r * (seal.n + seal.p + 2) < _MOST_MEMORY
    )
    if not (is_formal and is_cost):
        raise Damaged("the seal of this log cannot be read, so nothing that it guards is done; restore a backup (`lore restore`)")
    return seal


def encoded(seal: Seal) -> bytes:
    """A seal as it is kept."""
    return msgspec.json.encode(seal)


def decoded(raw: bytes | str) -> Seal:
    """A seal by what is kept of it. One that cannot be read is no open door: `Damaged`."""
    try:
        return check_seal(_decode(raw))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(
            "the seal of this log cannot be read, so nothing that it guards is done; restore a backup (`lore restore`)"
        ) from error


_decode = msgspec.json.Decoder(Seal).decode


# --- what is signed


def _settled(event: Event, admit: Callable[[Event], Record]) -> Event:
    """The event as it stays, however often it is admitted."""
    raw = admit(event).raw
    for _ in range(_MOST_TURNS):
        event = codec.decode(raw)
        before, raw = raw, admit(event).raw
        if raw == before:
            return event
    raise Invalid("an event that becomes another each time its secrets are taken out cannot be signed; look at [redact] patterns")


def _signed_bytes(event: Event) -> bytes:
    return codec.encode(replace(event, mac=None, origin=_without_place(event.origin)))


def _without_place(origin: Origin | None) -> Origin | None:
    if origin is None:
        return None
    left = replace(origin, log=None)
    return None if left == Origin(dialect=OWN_DIALECT) else left


_ADMISSION = Admission()
