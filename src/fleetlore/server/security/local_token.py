"""The token that `lore up` makes for itself: for its own pages, and for the programs of the same user.

It lies in a file that only its owner can read, in the user's data directory, one for each log and town. A file that others can read, or
could have read, is worth nothing any more: its token is revoked, and another takes its place. On a sealed log it cannot steer: an agent
that runs as the same user can read it, too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from errno import EPERM
from secrets import token_hex

from fleetlore import clock
from fleetlore.errors import Unwritable
from fleetlore.log.base import LogInfo
from fleetlore.log.coordination import Coordination
from fleetlore.log.sqlite.file import default_path
from fleetlore.log.tokens import Token, TokenScope, create_token, hash_secret, is_secret
from fleetlore.projections.store import store_file_name

LABEL = "lore up"
_LONGEST = 256
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def own_file(info: LogInfo, *, folder: str | None = None) -> str | None:
    """Where the token of a log lies; `None` for a log that is not kept: it has a new one each time."""
    if info.backend == "memory":
        return None
    where = os.path.splitext(store_file_name(info).rpartition("-")[2])[0]
    return os.path.join(folder or os.path.dirname(default_path()), f"up-{where}.token")


def own_token(shared: Coordination, file: str | None, *, scope: TokenScope = "admin", now: clock.Clock = clock.now) -> str:
    """The secret of our own token with a scope: that of the file if it is still good, else a new one, which is kept there."""
    secret, token = create_token(scope, label=LABEL, now=now())
    if file is not None:
        try:
            found, is_safe = _read(file)
            if found is not None and is_safe and _is_good(found, scope, shared.list_tokens(), now()):
                return found
            if found is not None:
                _revoke(found, shared)
            _write(file, secret)
        except OSError as error:
            advice = "make its folder yours and writable, or name another with XDG_DATA_HOME"
            raise Unwritable(f"{file}: our own token cannot be kept there ({error.strerror}); {advice}") from error
    shared.save_token(token)
    return secret


def given_out(tokens: Sequence[Token], now: datetime) -> list[Token]:
    """Those that somebody was given and that are still good: not our own."""
    return [token for token in tokens if token.label != LABEL and not token.is_expired(now)]


def _is_good(secret: str, scope: TokenScope, tokens: Sequence[Token], now: datetime) -> bool:
    return any(token.hash == hash_secret(secret) and token.scope == scope and not token.is_expired(now) for token in tokens)


def _revoke(secret: str, shared: Coordination) -> None:
    for token in shared.list_tokens():
        if token.hash == hash_secret(secret):
            shared.delete_token(token.id)


def _read(file: str) -> tuple[str | None, bool]:
    """What stands in the file, and whether only we can have read or written it. No link is followed."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(EPERM, "what is there is no plain file of yours; take it away")
        text = os.read(descriptor, _LONGEST).decode("latin-1").strip()
    finally:
        os.close(descriptor)
    return text if is_secret(text) else None, not status.st_mode & _FOR_OTHERS


def _write(file: str, secret: str) -> None:
    """Put a secret into the file's place, whole and closed to others from the first byte on."""
    folder, name = os.path.split(file)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    part = os.path.join(folder, f".{name}.{token_hex(4)}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="ascii") as opened:
            opened.write(f"{secret}\n")
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(part, file)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)
