"""Opens a log by its URL (`connect`). The only module that knows all backends; `coordination.py` uses its URL rules too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.errors import Invalid, InvalidUrl, LogError, Unwritable
from fleetlore.events.envelope import Event, is_name
from fleetlore.log.admission import Admission
from fleetlore.log.base import Backend
from fleetlore.redact import Redactor
from fleetlore.settings import SERVERS

if TYPE_CHECKING:
    from fleetlore.log.async_recorder import Recorder
    from fleetlore.log.check_report import LogCheckReport, Progress
    from fleetlore.log.nats.log import NatsLog
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.log.redis.log import RedisLog

DEFAULT_URL = "sqlite:"
DEFAULT_TOWN = "default"


class Log:
    """A log that is not open yet: `async with log` for asyncio, `with log.blocking()` for threads."""

    def __init__(self, open_backend: Callable[[], Backend], admission: Admission) -> None:
        self._open_backend, self._admission = open_backend, admission
        self._recorder: Recorder | None = None

    async def __aenter__(self) -> Recorder:
        from fleetlore.log.async_recorder import Recorder

        self._recorder = Recorder(self._open_backend(), self._admission)
        return self._recorder

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._recorder is not None:
            await self._recorder.close()

    def blocking(self) -> BlockingRecorder:
        """Return the blocking recorder, for scripts, hooks and threads."""
        from fleetlore.log.recorder import BlockingRecorder

        return BlockingRecorder(self._open_backend, self._admission)


def connect(
    url: str = DEFAULT_URL,
    *,
    town: str | None = None,
    now: clock.Clock = clock.now,
    new_id: Callable[[], str] = clock.uuid7,
    redactor: Redactor | None = None,
    anonymise: Callable[[Event], Event] | None = None,
    keeps_whole_texts: bool = True,
) -> Log:
    """Return the log at a URL; nothing is opened until it is entered.

    URLs: `memory:`, `sqlite:PATH?sync=normal&town=NAME`, `sqlite:` (the user's own log), `redis://HOST`, `nats://HOST`.
    `redactor` and `anonymise` see every event before it is stored: the first removes secrets, the second anonymises.
    `keeps_whole_texts` decides whether strings over 16 KiB, which are cut in the event, are kept whole beside it.
    Raises `InvalidUrl` for a URL that no backend accepts.
    """
    scheme, place, options, name = resolve_url(url, town)
    admission = Admission(now=now, new_id=new_id, redactor=redactor, anonymise=anonymise, keeps_whole_texts=keeps_whole_texts)
    return Log(_backend_opener(scheme, place, options, name), admission)


def resolve_url(url: str, town: str | None) -> tuple[str, str, dict[str, str], str]:
    """Return scheme, path or server address, options and town of a URL; an explicit `town` wins over `?town=`."""
    scheme, path, options = split_url(url)
    name = town or options.pop("town", None) or DEFAULT_TOWN
    options.pop("town", None)
    if not is_name(name):
        raise InvalidUrl(f"not a name for a town: {name!r}; 1 to 200 bytes without control characters are needed")
    # Server addresses are passed on undecoded: a password may contain escaped characters.
    return scheme, url.partition("?")[0] if scheme in SERVERS else path, options, name


def _backend_opener(scheme: str, place: str, options: dict[str, str], town: str) -> Callable[[], Backend]:
    match scheme:
        case "memory":
            return lambda: _open_memory(options, town)
        case "sqlite":
            return lambda: _open_sqlite(place, options, town)
        case "redis" | "rediss" | "unix":
            return lambda: _open_redis(place, options, town)
        case "nats" | "tls":
            return lambda: _open_nats(place, options, town)
        case _:
            raise unknown_scheme_error(scheme)


def unknown_scheme_error(scheme: str) -> InvalidUrl:
    """Return the error for a scheme without a backend."""
    return InvalidUrl(f"unknown log address {scheme}:; use sqlite:PATH, redis://HOST, nats://HOST, or memory: for a log that is not kept")


def _open_memory(options: dict[str, str], town: str) -> Backend:
    from fleetlore.log.memory.log import MemoryLog

    if options:
        raise InvalidUrl(f"memory: takes no options, not ?{next(iter(options))}=; leave it out")
    return MemoryLog(town=town)


def _open_sqlite(path: str, options: dict[str, str], town: str) -> Backend:
    from fleetlore.log.sqlite import file as sqlite_file
    from fleetlore.log.sqlite.log import SqliteLog

    return SqliteLog(resolve_sqlite_path(path), town=town, **sqlite_file.parse_options(options))


def _open_redis(address: str, options: dict[str, str], town: str) -> RedisLog:
    with require_extra("redis"):
        from fleetlore.log.redis import log as redis_log

    return redis_log.RedisLog(address, town=town, **redis_log.parse_options(options))


def _open_nats(address: str, options: dict[str, str], town: str) -> NatsLog:
    with require_extra("nats"):
        from fleetlore.log.nats import log as nats_log

    return nats_log.NatsLog(address, town=town, **nats_log.parse_options(options))


def check_log(url: str, *, town: str | None = None, progress: Progress | None = None) -> LogCheckReport:
    """Read a whole log and report what is damaged or missing; on a server one town, in a file all of them. Changes nothing."""
    scheme, place, options, name = resolve_url(url, town)
    if scheme == "sqlite":
        from fleetlore.log.sqlite import check

        return check.check_log(resolve_sqlite_path(place), progress=progress)
    if scheme == "memory":
        raise Invalid("memory: is gone when its process ends, so there is nothing to verify; name a file or a server with --log")
    if scheme not in SERVERS:
        raise unknown_scheme_error(scheme)
    log = (_open_nats if scheme in ("nats", "tls") else _open_redis)(place, options, name)
    with closing(log):
        return log.check(progress)


@contextmanager
def require_extra(name: str) -> Iterator[None]:
    """Turn a missing client library into a `LogError` that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise LogError(f"{name}: its client is not installed ({error.name}); pip install 'fleetlore[{name}]'") from error


def resolve_sqlite_path(path: str) -> str:
    """Return the file of a `sqlite:` URL. For the user's own log the directory is created."""
    from fleetlore.log.sqlite import file as sqlite_file

    if path.startswith(":"):
        raise InvalidUrl(f"sqlite:{path} is not a file; use memory: for a log that is not kept")
    if path:
        return os.path.expanduser(path)
    own = sqlite_file.default_path()
    try:
        os.makedirs(os.path.dirname(own), mode=0o700, exist_ok=True)
    except OSError as error:
        raise Unwritable(f"{os.path.dirname(own)}: cannot be created ({error.strerror}); name another place with --log") from error
    return own


def split_url(url: str) -> tuple[str, str, dict[str, str]]:
    """Split a URL into scheme, path and options."""
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise InvalidUrl(f"{url!r} is no address of a log; write sqlite:{url} for a file")
    path, _, query = rest.partition("?")
    if path.startswith("//"):
        path = path[2:]  # people write sqlite:///abs/file and sqlite://relative out of habit
    options = dict(part.partition("=")[::2] for part in query.split("&") if part)
    if "%" in url:
        from urllib.parse import unquote

        path, options = unquote(path), {name: unquote(value) for name, value in options.items()}
    return scheme, path, options
