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

MIN_PASSPHRASE_CHARS, MAX_PASSPHRASE_CHARS = 12, 1000
SCRYPT_COST, SCRYPT_BLOCK_SIZE, SCRYPT_PARALLELISM = 2**17, 8, 1
"""scrypt's n, r and p: 128 MiB, and about half a second, for every guess."""
_MAX_SCRYPT_MEMORY = 2**29
_KEY_BYTES = 32
_MAX_ADMISSIONS = 4
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


class SigningKey:
    """Signs the facts of one goal, or those of none."""

    __slots__ = ("_secret", "goal", "id")

    def __init__(self, secret: bytes, *, id: str, goal: str | None) -> None:
        self._secret, self.id, self.goal = secret, id, goal

    def sign_event(self, event: Event, *, admit: Callable[[Event], Record] | None = None) -> Event:
        """The event as the log will store it, signed: stamped, checked, its secrets taken out. Give `admit` of the log that it is for."""
        if event.goal != self.goal:
            whose = "no goal" if self.goal is None else f"the goal {self.goal}"
            raise Invalid(f"this key signs facts of {whose}, not of {event.goal}")
        settled = _admit_until_stable(replace(event, mac=None), admit or _ADMISSION.admit)
        return replace(settled, mac=Mac(key=self.id, hex=self._compute_mac(settled)))

    def has_signed(self, event: Event) -> bool:
        """Whether this key signed the event as it is. A stored event may be anything."""
        if event.mac is None or event.mac.key != self.id or event.goal != self.goal:
            return False
        try:
            wanted = self._compute_mac(event)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return False
        return hmac.compare_digest(wanted.encode(), event.mac.hex.encode(errors="replace"))

    def _compute_mac(self, event: Event) -> str:
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
        self.id = self._derive_secret("name")[:8].hex()

    def goal_key(self, goal_id: str) -> SigningKey:
        """The key of one goal; whoever has it can sign for no other."""
        return SigningKey(self._derive_secret("goal", goal_id), id=self.id, goal=goal_id)

    def sign_event(self, event: Event, *, admit: Callable[[Event], Record] | None = None) -> Event:
        """The event, signed by the key of its goal, or by that for facts of no goal."""
        return self._signing_key_for(event).sign_event(event, admit=admit)

    def has_signed(self, event: Event) -> bool:
        """Whether the event was signed by the key of its goal, or by that for facts of no goal."""
        return self._signing_key_for(event).has_signed(event)

    def sign_token(self, token: Token) -> Token:
        """The token, signed: on a sealed log no other may steer."""
        return replace(token, mac=self._compute_token_mac(token))

    def has_signed_token(self, token: Token) -> bool:
        """Whether the token was signed, as it is."""
        return hmac.compare_digest(self._compute_token_mac(token), token.mac)

    def wrap_with_pad(self, pad: bytes) -> str:
        """The key under a pad, which must be used for nothing else."""
        return _xor_with_pad(self._secret, pad).hex()

    def _signing_key_for(self, event: Event) -> SigningKey:
        return self.goal_key(event.goal) if event.goal is not None else SigningKey(self._derive_secret("no goal"), id=self.id, goal=None)

    def _compute_token_mac(self, token: Token) -> str:
        return hmac.digest(self._derive_secret("tokens"), token_rules.encode_token(replace(token, mac="")), "sha256").hex()

    def _derive_secret(self, purpose: str, name: str = "") -> bytes:
        return hmac.digest(self._secret, f"fleetlore {purpose}\0{name}".encode(), "sha256")

    def __repr__(self) -> str:
        return f"<OperatorKey {self.id}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key stays in the memory of its process")


def is_trusted_event(event: Event, key: SigningKey | OperatorKey | None) -> bool:
    """Whether a fact that steers is believed: all are on a log that is not sealed (no key), else those that the key has signed."""
    return key is None or key.has_signed(event)


# --- passphrases


def make_seal(
    passphrase: str, *, key: OperatorKey | None = None, cost: int = SCRYPT_COST, now: clock.Clock = clock.now
) -> tuple[Seal, OperatorKey]:
    """A seal by a new passphrase: over a key that there is, or over a new one."""
    key = key or OperatorKey(secrets.token_bytes(_KEY_BYTES))
    blank = Seal(
        key=key.id,
        made_at=now(),
        salt=secrets.token_hex(_KEY_BYTES),
        n=cost,
        r=SCRYPT_BLOCK_SIZE,
        p=SCRYPT_PARALLELISM,
        wrapped="",
        check="",
    )
    pad, guard = _derive_pad_and_guard(check_passphrase(passphrase), blank)
    seal = replace(blank, wrapped=key.wrap_with_pad(pad))
    return replace(seal, check=_compute_check(guard, seal)), key


def unlock_seal(seal: Seal, passphrase: str) -> OperatorKey:
    """The operator key; `Denied` if this is not the passphrase."""
    pad, guard = _derive_pad_and_guard(passphrase, check_seal(seal))
    if not hmac.compare_digest(_compute_check(guard, seal), seal.check):
        raise Denied("this is not the passphrase of this log; try again")
    return OperatorKey(_xor_with_pad(bytes.fromhex(seal.wrapped), pad))


def check_passphrase(passphrase: str) -> str:
    """A passphrase that can be set."""
    if any(unicodedata.category(character) == "Cc" for character in passphrase):
        raise Invalid("a passphrase holds no control characters; type it again")
    if not MIN_PASSPHRASE_CHARS <= len(passphrase) <= MAX_PASSPHRASE_CHARS:
        raise Invalid(
            f"a passphrase of at least {MIN_PASSPHRASE_CHARS} characters is needed, and at most {MAX_PASSPHRASE_CHARS:,};"
            " four or five words that do not belong together are good"
        )
    return passphrase


def _derive_pad_and_guard(passphrase: str, seal: Seal) -> tuple[bytes, bytes]:
    """The pad and the guard of a passphrase. One character may be written in two ways, and keyboards differ in that."""
    typed = unicodedata.normalize("NFC", passphrase).encode(errors="surrogateescape")
    made = scrypt(typed, salt=bytes.fromhex(seal.salt), n=seal.n, r=seal.r, p=seal.p, maxmem=_MAX_SCRYPT_MEMORY, dklen=2 * _KEY_BYTES)
    return made[:_KEY_BYTES], made[_KEY_BYTES:]


def _compute_check(guard: bytes, seal: Seal) -> str:
    return hmac.digest(guard, encode_seal(replace(seal, check="")), "sha256").hex()


def _xor_with_pad(key: bytes, pad: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(key, pad, strict=True))


# --- what is kept


def check_seal(seal: Seal) -> Seal:
    """The seal, if it can be one; its numbers may ask for no more memory than there should be."""
    is_formal = _is_key_id(seal.key) and all(_is_hex(text) for text in (seal.salt, seal.wrapped, seal.check)) and seal.made_at.tzinfo
    is_cost = (
        seal.n > 1
        and seal.n & (seal.n - 1) == 0
        and seal.r > 0
        and seal.p > 0
        and 128 * seal.r * (seal.n + seal.p + 2) < _MAX_SCRYPT_MEMORY
    )
    if not (is_formal and is_cost):
        raise Damaged("the seal of this log cannot be read, so nothing that it guards is done; restore a backup (`lore restore`)")
    return seal


def encode_seal(seal: Seal) -> bytes:
    """A seal as it is kept."""
    return msgspec.json.encode(seal)


def decode_seal(raw: bytes | str) -> Seal:
    """A seal by what is kept of it. One that cannot be read is no open door: `Damaged`."""
    try:
        return check_seal(_decode_json(raw))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(
            "the seal of this log cannot be read, so nothing that it guards is done; restore a backup (`lore restore`)"
        ) from error


_decode_json = msgspec.json.Decoder(Seal).decode


# --- what is signed


def _admit_until_stable(event: Event, admit: Callable[[Event], Record]) -> Event:
    """The event as it stays, however often it is admitted."""
    raw = admit(event).raw
    for _ in range(_MAX_ADMISSIONS):
        event = codec.decode(raw)
        before, raw = raw, admit(event).raw
        if raw == before:
            return event
    raise Invalid("an event that becomes another each time its secrets are taken out cannot be signed; look at [redact] patterns")


def _signed_bytes(event: Event) -> bytes:
    return codec.encode(replace(event, mac=None, origin=_drop_log_origin(event.origin)))


def _drop_log_origin(origin: Origin | None) -> Origin | None:
    if origin is None:
        return None
    left = replace(origin, log=None)
    return None if left == Origin(dialect=OWN_DIALECT) else left


_ADMISSION = Admission()
