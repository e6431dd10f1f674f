"""The token that `lore up` creates for programs of the same user, and the address of the running server.

Both are in files that only their owner can read, in the user's data directory, one pair for each log and town. If
others can read the token's file, its token is revoked and replaced. On a sealed log it has no admin rights: an agent
that runs as the same user can read it. `lore open` reads both.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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

LOCAL_TOKEN_LABEL = "lore up"
"""The label of the token that `lore up` creates for itself."""
_MAX_BYTES = 256
_PERMISSIONS_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def local_token_file(info: LogInfo, *, folder: str | None = None) -> str | None:
    """Path of the token file of a log; `None` for a log in memory, which gets a new token each time."""
    if info.backend == "memory":
        return None
    return os.path.join(folder or os.path.dirname(default_path()), f"up-{_address_hash(info)}.token")


def cookie_name(info: LogInfo) -> str:
    """Name of the browser's cookie for a log."""
    return f"fleetlore_{_address_hash(info)}"


@contextmanager
def publish_url(token_file: str | None, url: str) -> Iterator[None]:
    """Keep the server's URL beside its token file for the duration of the block, so that `lore open` finds it."""
    if token_file is None:
        yield
        return
    file = _url_file(token_file)
    _write_private_file(file, url)
    try:
        yield
    finally:
        if _read_url_file(file) == url:  # another server may have replaced it
            with suppress(FileNotFoundError):
                os.unlink(file)


def find_server(info: LogInfo) -> tuple[str, str] | None:
    """The URL and the token of the server that serves a log; `None` if none was started or it ended.

    Raises `PermissionError` if the token file is not a plain file of this user.
    """
    token_file = local_token_file(info)
    if token_file is None:
        return None
    secret, is_safe = _read_token_file(token_file)
    url = _read_url_file(_url_file(token_file))
    return None if secret is None or url is None or not is_safe else (url, secret)


def _url_file(token_file: str) -> str:
    return f"{os.path.splitext(token_file)[0]}.url"


def _read_url_file(file: str) -> str | None:
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="ascii") as opened:
            return opened.read(_MAX_BYTES).strip()
    except (OSError, UnicodeDecodeError):
        return None


def _address_hash(info: LogInfo) -> str:
    """The hash of log and town at the end of the cache file's name, `NAME-HASH.SUFFIX`."""
    return os.path.splitext(store_file_name(info).rpartition("-")[2])[0]


def load_or_create_token(shared: Coordination, file: str | None, *, scope: TokenScope = "admin", now: clock.Clock = clock.now) -> str:
    """The secret of the local token with this scope: from the file if it is still valid, else a new one, stored there."""
    secret, token = create_token(scope, label=LOCAL_TOKEN_LABEL, now=now())
    if file is not None:
        try:
            secret_in_file, is_safe = _read_token_file(file)
            if secret_in_file is not None and is_safe and _is_valid_secret(secret_in_file, scope, shared.list_tokens(), now()):
                return secret_in_file
            if secret_in_file is not None:
                _revoke_token(secret_in_file, shared)
            _write_private_file(file, secret)
        except OSError as error:
            advice = "make its folder yours and writable, or set XDG_DATA_HOME to another folder"
            raise Unwritable(f"{file}: cannot store the token of `lore up` ({error.strerror}); {advice}") from error
    shared.save_token(token)
    return secret


def select_issued_tokens(tokens: Sequence[Token], now: datetime) -> list[Token]:
    """Valid tokens that were issued to somebody: all but the local one."""
    return [token for token in tokens if token.label != LOCAL_TOKEN_LABEL and not token.is_expired(now)]


def _is_valid_secret(secret: str, scope: TokenScope, tokens: Sequence[Token], now: datetime) -> bool:
    return any(token.hash == hash_secret(secret) and token.scope == scope and not token.is_expired(now) for token in tokens)


def _revoke_token(secret: str, shared: Coordination) -> None:
    for token in shared.list_tokens():
        if token.hash == hash_secret(secret):
            shared.delete_token(token.id)


def _read_token_file(file: str) -> tuple[str | None, bool]:
    """The file's content, and whether only we can have read or written it. Links are not followed."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(EPERM, "it is not a plain file of yours; remove it")
        text = os.read(descriptor, _MAX_BYTES).decode("latin-1").strip()
    finally:
        os.close(descriptor)
    return text if is_secret(text) else None, not status.st_mode & _PERMISSIONS_OF_OTHERS


def _write_private_file(file: str, text: str) -> None:
    """Write one line atomically, with mode 0600 from the first byte."""
    folder, name = os.path.split(file)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.{token_hex(4)}.part")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="ascii") as file_object:
            file_object.write(f"{text}\n")
            file_object.flush()
            os.fsync(file_object.fileno())
        os.replace(temporary, file)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
