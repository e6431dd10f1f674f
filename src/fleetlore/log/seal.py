"""The seal of a log: only the holder of its passphrase can sign events that control goals. See docs/sealing.md.

The operator key is 256 random bits. The stored seal is that key encrypted with a pad that scrypt derives from the
passphrase. Changing the passphrase re-encrypts the same key, so earlier signatures stay valid. Keys exist only in the
memory of processes that were given the passphrase; they are never written, shown or pickled.

The operator key signs nothing itself. One key per goal, one for events without a goal and one for tokens are derived
from it, so a signature made for one purpose is useless for another. A signature covers the canonical JSON without
`mac` and without the origin log, which `lore ship` rewrites.
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
"""scrypt's n, r and p: 128 MiB and about half a second per guess."""
_MAX_SCRYPT_MEMORY = 2**29
_KEY_BYTES = 32
_MAX_ADMISSIONS = 4
_is_hex = re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch
_is_key_id = re.compile(r"[0-9a-f]{16}", re.ASCII).fullmatch


class Seal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored seal. Reading it only allows slow guessing of the passphrase."""

    key: str
    """Id of the operator key: 16 hex digits derived from it."""
    made_at: datetime
    """When this passphrase was set."""
    salt: str
    n: int
    r: int
    p: int
    wrapped: str
    """The operator key, encrypted with the passphrase's pad, in hex."""
    check: str
    """HMAC over the seal with a key from the passphrase: detects a wrong passphrase."""


class SigningKey:
    """Signs the events of one goal, or events without a goal."""

    __slots__ = ("_secret", "goal", "id")

    def __init__(self, secret: bytes, *, id: str, goal: str | None) -> None:
        self._secret, self.id, self.goal = secret, id, goal

    def sign_event(self, event: Event, *, admit: Callable[[Event], Record] | None = None) -> Event:
        """Return the event as the log will store it (stamped, validated, redacted), signed.

        Pass `admit` of the log that will store it. Raises `Invalid` for an event of another goal.
        """
        if event.goal != self.goal:
            owner = "no goal" if self.goal is None else f"the goal {self.goal}"
            raise Invalid(f"this key signs facts of {owner}, not of {event.goal}")
        admitted = _admit_until_stable(replace(event, mac=None), admit or _ADMISSION.admit)
        return replace(admitted, mac=Mac(key=self.id, hex=self._compute_mac(admitted)))

    def has_signed(self, event: Event) -> bool:
        """Return whether this key signed exactly this event. Safe for any stored event, however malformed."""
        if event.mac is None or event.mac.key != self.id or event.goal != self.goal:
            return False
        try:
            expected = self._compute_mac(event)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return False
        return hmac.compare_digest(expected.encode(), event.mac.hex.encode(errors="replace"))

    def _compute_mac(self, event: Event) -> str:
        return hmac.digest(self._secret, _signed_bytes(event), "sha256").hex()

    def __repr__(self) -> str:
        return f"<Key {self.id} of {'no goal' if self.goal is None else self.goal}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key stays in the memory of its process")


class OperatorKey:
    """The key behind the passphrase: signs events of any goal or none, and tokens."""

    __slots__ = ("_secret", "id")

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.id = self._derive_secret("name")[:8].hex()

    def goal_key(self, goal_id: str) -> SigningKey:
        """Return the key of one goal; it cannot sign for another."""
        return SigningKey(self._derive_secret("goal", goal_id), id=self.id, goal=goal_id)

    def sign_event(self, event: Event, *, admit: Callable[[Event], Record] | None = None) -> Event:
        """Sign with the key of the event's goal, or with the key for events without a goal."""
        return self._signing_key_for(event).sign_event(event, admit=admit)

    def has_signed(self, event: Event) -> bool:
        """Return whether the event is signed by the key of its goal, or by the key for events without a goal."""
        return self._signing_key_for(event).has_signed(event)

    def sign_token(self, token: Token) -> Token:
        """Return the token signed; on a sealed log only signed tokens may control."""
        return replace(token, mac=self._compute_token_mac(token))

    def has_signed_token(self, token: Token) -> bool:
        """Return whether the token carries a valid signature."""
        return hmac.compare_digest(self._compute_token_mac(token), token.mac)

    def wrap_with_pad(self, pad: bytes) -> str:
        """Return the key encrypted with a pad. Never use a pad for anything else."""
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
    """Return whether a control event is accepted: without a key (log not sealed) all are, else only signed ones."""
    return key is None or key.has_signed(event)


# --- passphrases


def make_seal(
    passphrase: str, *, key: OperatorKey | None = None, cost: int = SCRYPT_COST, now: clock.Clock = clock.now
) -> tuple[Seal, OperatorKey]:
    """Create a seal with a new passphrase, for an existing key or a new one."""
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
    """Return the operator key; raise `Denied` if the passphrase is wrong."""
    pad, guard = _derive_pad_and_guard(passphrase, check_seal(seal))
    if not hmac.compare_digest(_compute_check(guard, seal), seal.check):
        raise Denied("this is not the passphrase of this log; try again")
    return OperatorKey(_xor_with_pad(bytes.fromhex(seal.wrapped), pad))


def check_passphrase(passphrase: str) -> str:
    """Return the passphrase unchanged; raise `Invalid` if it is too short or too long."""
    if any(unicodedata.category(character) == "Cc" for character in passphrase):
        raise Invalid("a passphrase holds no control characters; type it again")
    if not MIN_PASSPHRASE_CHARS <= len(passphrase) <= MAX_PASSPHRASE_CHARS:
        raise Invalid(
            f"a passphrase of at least {MIN_PASSPHRASE_CHARS} characters is needed, and at most {MAX_PASSPHRASE_CHARS:,};"
            " four or five words that do not belong together are good"
        )
    return passphrase


def _derive_pad_and_guard(passphrase: str, seal: Seal) -> tuple[bytes, bytes]:
    """Derive pad and check key. NFC first: keyboards encode the same character differently."""
    typed = unicodedata.normalize("NFC", passphrase).encode(errors="surrogateescape")
    derived = scrypt(typed, salt=bytes.fromhex(seal.salt), n=seal.n, r=seal.r, p=seal.p, maxmem=_MAX_SCRYPT_MEMORY, dklen=2 * _KEY_BYTES)
    return derived[:_KEY_BYTES], derived[_KEY_BYTES:]


def _compute_check(guard: bytes, seal: Seal) -> str:
    return hmac.digest(guard, encode_seal(replace(seal, check="")), "sha256").hex()


def _xor_with_pad(key: bytes, pad: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(key, pad, strict=True))


# --- storage


def check_seal(seal: Seal) -> Seal:
    """Return the seal unchanged; raise `Damaged` if it is malformed or its scrypt numbers need too much memory."""
    has_valid_format = _is_key_id(seal.key) and all(_is_hex(text) for text in (seal.salt, seal.wrapped, seal.check)) and seal.made_at.tzinfo
    has_valid_cost = (
        seal.n > 1
        and seal.n & (seal.n - 1) == 0
        and seal.r > 0
        and seal.p > 0
        and 128 * seal.r * (seal.n + seal.p + 2) < _MAX_SCRYPT_MEMORY
    )
    if not (has_valid_format and has_valid_cost):
        raise Damaged("the seal of this log cannot be read, so nothing that it guards is done; restore a backup (`lore restore`)")
    return seal


def encode_seal(seal: Seal) -> bytes:
    """Encode a seal as JSON for storage."""
    return msgspec.json.encode(seal)


def decode_seal(raw: bytes | str) -> Seal:
    """Decode a stored seal; raise `Damaged` if it cannot be read."""
    try:
        return check_seal(_decode_json(raw))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(
            "the seal of this log cannot be read, so nothing that it guards is done; restore a backup (`lore restore`)"
        ) from error


_decode_json = msgspec.json.Decoder(Seal).decode


# --- signed bytes


def _admit_until_stable(event: Event, admit: Callable[[Event], Record]) -> Event:
    """Admit repeatedly until nothing changes, so that storing a signed event does not alter it."""
    raw = admit(event).raw
    for _ in range(_MAX_ADMISSIONS):
        event = codec.decode_event(raw)
        before, raw = raw, admit(event).raw
        if raw == before:
            return event
    raise Invalid("an event that becomes another each time its secrets are taken out cannot be signed; look at [redact] patterns")


def _signed_bytes(event: Event) -> bytes:
    return codec.encode_event(replace(event, mac=None, origin=_drop_log_origin(event.origin)))


def _drop_log_origin(origin: Origin | None) -> Origin | None:
    if origin is None:
        return None
    left = replace(origin, log=None)
    return None if left == Origin(dialect=OWN_DIALECT) else left


_ADMISSION = Admission()
