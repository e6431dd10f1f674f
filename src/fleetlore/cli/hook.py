"""`lore hook`: called by a coding agent at every step. Appends one line to the spool; prints nothing and never fails."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # every import counts here: `typing`, `json`, `re` and `signal` each take as long as the hook itself
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator
    from typing import NoReturn

MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
SAMPLE_BYTES = 2048
"""How much is kept of a payload that cannot be read."""
MAX_SECONDS = 10.0
"""Seconds after which the process exits in any case."""


SETTINGS = "fleetlore.toml"
PROJECT = "--project"
_PIECE = 1024 * 1024
_EXAMPLES = (("lore hook claude-code < payload.json", "what Claude Code does"),)
_NOTES = """\
Called by coding agents; install it with `lore install claude-code`. It reads one JSON object on
standard input and stores it, without secrets, in a private file; the next `lore` command imports it
into your log. It prints nothing and its exit code is always 0, so that recording never blocks work.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    from fleetlore.cli import arguments

    parser.add_argument("program", metavar="PROGRAM", nargs="?", default="", help="who calls: one of those that `lore install` lists")
    parser.add_argument(PROJECT, action="store_true", help="called by a project's settings; the user's own settings may call, too")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Spool the payload from a running process."""
    _spool_quietly(args.program, project=args.project)
    return 0


def is_call(argv: list[str]) -> bool:
    """Whether a program calls this, not a person who asks for help."""
    return argv[:1] == ["hook"] and not {"-h", "--help"} & set(argv)


def run_alone(argv: list[str]) -> NoReturn:
    """Run the whole process: no output, no failure, and no endless waiting."""
    try:
        _ignore_interrupts()
        _spool_quietly(argv[1] if len(argv) > 1 else "", project=PROJECT in argv)
    finally:
        os._exit(0)


def _spool_quietly(program: str, *, project: bool) -> None:
    try:
        spool_payload(program, project=project)
    except Exception:  # noqa: BLE001  # recording must never disturb the agent
        return


def _ignore_interrupts() -> None:
    """Ctrl-C in the terminal is for the program, not for us; and the program may never close our input."""
    import _signal as signal  # type: ignore[import-not-found]  # without its enums

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)


def spool_payload(program: str, *, project: bool = False) -> None:
    """Read the payload and put one line into the spool."""
    from fleetlore.ingest import spool

    raw, size = _read_input()
    if size:
        spool.append_line(make_spool_line(program, raw, size, project=project))


def make_spool_line(program: str, raw: bytes, size: int, *, project: bool = False) -> bytes:
    """The spool line: time, id, program, folder, log and the redacted payload."""
    from fleetlore.redact_needles import is_surely_clean

    at, id = _stamp_call()
    fields: dict[str, object] = {"at": at, "id": id, "program": program}
    if project:
        fields["project"] = True
    fields |= (environment := _read_environment())
    patterns, raw = _load_patterns(environment.get("cwd")), raw.strip()
    record = _read_plain_object(raw) if size <= MAX_PAYLOAD_BYTES else None
    if record is not None and not patterns and is_surely_clean(raw):
        # Unchanged: encoding it again would take longer than reading it.
        return b'%b,"record":%b}' % (_encode_plain(fields)[:-1], raw)
    return _redact_line(fields, raw, size, patterns, record)


def _stamp_call() -> tuple[str, str]:
    """Time and id of this call: a UUID of version 7 as `clock.uuid7` makes it, which would load `datetime`."""
    from time import gmtime, strftime, time_ns

    now = time_ns()
    at = f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(now // 10**9))}.{now % 10**9 // 1000:06}Z"
    stamp, random = f"{now * 4096 // 1_000_000:015x}", os.urandom(8).hex()
    return at, f"{stamp[:8]}-{stamp[8:12]}-7{stamp[12:]}-8{random[:3]}-{random[3:15]}"


class _PlainJson:
    """What the JSON scanner of the C library needs to know; `json` itself would load `re`."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_int = int
    memo: dict[str, str] = {}  # noqa: RUF012  # one call a process

    @staticmethod
    def parse_constant(name: str) -> NoReturn:
        """NaN and Infinity are not JSON."""
        raise ValueError(name)

    @staticmethod
    def parse_float(text: str) -> float:
        """1e999 would become Infinity."""
        if (number := _read_float(text)) is None:
            raise ValueError(text)
        return number


def _read_plain_object(raw: bytes) -> dict[str, object] | None:
    """The JSON object, if it is one on one line, without lone surrogates, which JavaScript sometimes produces."""
    if b"\n" in raw or b"\r" in raw or b"\\ud" in raw or b"\\uD" in raw:
        return None
    from _json import make_scanner

    try:
        text = raw.decode()
        record, end = make_scanner(_PlainJson)(text, 0)  # type: ignore[arg-type]
    except (StopIteration, ValueError, RecursionError, SystemError):  # the last where `json` would have raised its own error
        return None
    return record if isinstance(record, dict) and end == len(text) else None


def _encode_plain(fields: dict[str, object]) -> bytes:
    """Strings and True as one line of JSON."""
    from _json import encode_basestring

    pairs = [f'"{key}":{"true" if value is True else encode_basestring(str(value))}' for key, value in fields.items()]
    return f"{{{','.join(pairs)}}}".encode(errors="replace")


def _redact_line(fields: dict[str, object], raw: bytes, size: int, patterns: tuple[str, ...], record: dict[str, object] | None) -> bytes:
    """The spool line of a payload that may contain secrets, or is not plain JSON: then there is no record yet."""
    from fleetlore.redact import Redactor

    redactor = Redactor(patterns)
    if record is None and size <= MAX_PAYLOAD_BYTES:
        record = _read_object(raw)
    if record is None:
        text, _ = redactor.redact_value(raw[: 4 * SAMPLE_BYTES].decode(errors="replace"))  # redacted before it is cut
        return _encode_line(fields | {"raw": text.encode()[:SAMPLE_BYTES].decode(errors="ignore"), "bytes": size})
    record, _ = redactor.redact_value(record, fixed_keys=frozenset(record))
    return _encode_line(fields | {"record": record})


def _read_object(raw: bytes) -> dict[str, object] | None:
    """The JSON object, if it is one. NaN and Infinity are not JSON: the reader of the spool would reject the whole line."""
    import json

    try:
        record = json.loads(raw, parse_constant=lambda name: None, parse_float=_read_float)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _read_float(text: str) -> float | None:
    """The number; `None` if it is too large for one."""
    return number if abs(number := float(text)) != float("inf") else None


def _encode_line(fields: dict[str, object]) -> bytes:
    """One line of JSON; lone surrogates, which JavaScript sometimes produces, become `?`."""
    from _json import encode_basestring, make_encoder  # as in `json.dumps(fields, ensure_ascii=False)`

    encode = make_encoder({}, repr, encode_basestring, None, ": ", ", ", False, False, False)  # all values are those of JSON
    return "".join(encode(fields, 0)).encode(errors="replace")


def _read_input() -> tuple[bytes, int]:
    """Standard input and its size; too large input is truncated."""
    if os.isatty(0):
        return b"", 0
    pieces, size = [], 0
    # All of it is read, even if it is too much: the program may not like its pipe closed.
    while piece := os.read(0, _PIECE):
        if size <= MAX_PAYLOAD_BYTES:
            pieces.append(piece)
        size += len(piece)
    return b"".join(pieces), size


def _read_environment() -> dict[str, str]:
    """The folder and variables that decide which log is used."""
    found = {"cwd": _current_folder(), "log": _log_of_environment(), "town": os.environ.get("FLEETLORE_TOWN")}
    return {name: value for name, value in found.items() if value}


def _log_of_environment() -> str | None:
    """The log that the environment names; a password in its address goes to no disk, and the drainer asks for it again."""
    log = os.environ.get("FLEETLORE_LOG")
    if log is None or "@" not in log:
        return log
    from fleetlore.settings import mask_url

    return mask_url(log)


def _current_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _load_patterns(folder: str | None) -> tuple[str, ...]:
    """The redact patterns of the settings that apply in a folder."""
    # Reading settings takes as long as everything else, so only files that can have patterns are read.
    if not any(_file_contains(path, b"redact") for path in _settings_files(folder)):
        return ()
    from fleetlore import settings
    from fleetlore.errors import ConfigError

    try:
        return settings.load_settings().redact_patterns.value
    except ConfigError:  # the next command says so; what waits in the spool is redacted again on its way into the log
        return _patterns_of_user()


def _patterns_of_user() -> tuple[str, ...]:
    """Those of the user's own file, which a broken file of a project must not switch off."""
    from fleetlore import settings as config
    from fleetlore.errors import ConfigError

    try:
        return config.load_settings(folder=os.path.dirname(config.user_file())).redact_patterns.value
    except ConfigError:
        return ()


def _settings_files(folder: str | None) -> Iterator[str]:
    """Where `config` would look."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    yield os.path.join(home, "fleetlore", SETTINGS)
    while folder is not None:
        yield os.path.join(folder, SETTINGS)
        above = os.path.dirname(folder)
        folder = above if above != folder else None


def _file_contains(path: str, word: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return word in file.read()
    except OSError:
        return False
