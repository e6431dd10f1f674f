"""Reads request bodies: size limits, decompression, UTF-8, and splitting into JSON pieces. Raises `Problem` for what cannot be read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from fleetlore.dialects.recording import parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.server.security.limits import RequestLimits

_T = TypeVar("_T")

LARGE_BYTES, LARGE_COMPRESSED_BYTES = 1 << 20, 1 << 14
MAX_EVENTS = 100_000
"""In one request."""
DECOMPRESS_STEP = 4096
MAX_MEMBERS = 100_000
"""Compressed streams that follow each other in one body, which gzip allows."""
MAX_LINES = 1_000_000
"""Blank lines included."""
MAX_COMMAS = 2_000_000
"""An upper bound for the elements of an array, checked before parsing: all elements are decoded at once and take memory."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP, _ZLIB, _RAW = 31, 15, -15
_WINDOWS = {"gzip": (_GZIP,), "x-gzip": (_GZIP,), "deflate": (_ZLIB, _RAW)}
"""Content coding → zlib window sizes to try: some clients send `deflate` without the zlib header."""
_array_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_value_decoder = msgspec.json.Decoder(msgspec.Raw)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class RequestBody(NamedTuple):
    """A request body as received, and its content coding."""

    raw: bytes
    coding: str

    @property
    def is_large(self) -> bool:
        """Whether it may take much time and memory. A compressed body may grow a thousandfold."""
        return len(self.raw) > (LARGE_BYTES if self.coding == "identity" else LARGE_COMPRESSED_BYTES)

    def decompress(self, limit: int) -> bytes:
        """The content; a `Problem` if it is damaged or longer than the limit. Slow: run it in a thread."""
        return self.raw if self.coding == "identity" else decompress_body(self.raw, self.coding, limit)


class BodyPiece(NamedTuple):
    """One record of a body."""

    where: str
    """The unit of `n`: `line` (from 1) or `index` (from 0)."""
    n: int
    raw: bytes


async def read_body(request: Request, limits: RequestLimits) -> RequestBody:
    """Read the body up to the limit; a `Problem` if it is too long, its coding is unknown, or the client disconnects."""
    coding = request.headers.get("content-encoding", "identity").strip().lower() or "identity"
    if coding != "identity" and coding not in _WINDOWS:
        detail = f"Content-Encoding {coding[:40]} is not read here; send gzip, deflate, or the body as it is"
        raise Problem(415, detail, headers={"accept-encoding": "gzip, deflate, identity"})
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limits.body:
                raise _body_too_long(limits.body)
            parts.append(part)
    except ClientDisconnect as error:
        raise Problem(400, "the connection broke before all of the body was there; send it again") from error
    return RequestBody(b"".join(parts), coding)


def read_media_type(request: Request) -> str:
    """The media type in lower case, without parameters. `Guard` has checked the charset."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def decompress_body(raw: bytes, coding: str, limit: int) -> bytes:
    """Decompress gzip or deflate; a `Problem` if it is damaged or longer than the limit."""
    for window in _WINDOWS[coding]:
        try:
            return _decompress_members(raw, window, limit)
        except zlib.error as error:
            reason = str(error)
    raise Problem(400, f"what was sent as {coding} is damaged: {reason}; send it again")


def _decompress_members(raw: bytes, window: int, limit: int) -> bytes:
    """All gzip members: clients that compress line by line send several."""
    parts, size, offset, members = [], 0, 0, 0
    decompressor = zlib.decompressobj(window)
    while offset < len(raw):
        if decompressor.eof:
            members += 1
            decompressor = _next_member(window, members)
        # In small steps: zlib copies the rest of its input at the end of each member, and there may be very many members.
        chunk = raw[offset : offset + DECOMPRESS_STEP]
        parts.append(decompressor.decompress(chunk, limit - size + 1))
        size += len(parts[-1])
        if size > limit:
            raise _body_too_long(limit)
        offset += len(chunk) - len(decompressor.unused_data)
    if raw and not decompressor.eof:
        raise zlib.error("it breaks off before its end")
    return b"".join(parts)


def _next_member(window: int, members: int) -> zlib._Decompress:
    if window != _GZIP:
        raise zlib.error("something follows its end")
    if members >= MAX_MEMBERS:
        raise Problem(413, f"packed in more than {MAX_MEMBERS:,} pieces; pack it as one")
    return zlib.decompressobj(window)


def _body_too_long(limit: int) -> Problem:
    return Problem(413, f"the body is longer than {limit:,} bytes; send it in several requests")


def check_utf8(raw: bytes) -> bytes:
    """The bytes without a byte order mark; a `Problem` if they are not UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, f"not UTF-8: {error.reason} at byte {error.start}") from error
    return raw.removeprefix(_BYTE_ORDER_MARK)


def decode_json(raw: bytes, kind: type[_T], usage: str) -> _T:
    """A JSON object as a type; a `Problem` that ends with `usage` if it does not fit."""
    try:
        return msgspec.json.decode(check_utf8(raw), type=kind)
    except msgspec.ValidationError as error:
        raise Problem(422, f"{error}; {usage}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(400, f"not JSON: {error}") from error


def split_lines(raw: bytes) -> Iterator[BodyPiece]:
    """The lines of NDJSON, without blank ones."""
    for n, line in enumerate(BytesIO(check_utf8(raw)), 1):
        if n > MAX_LINES:
            raise Problem(413, f"more than {MAX_LINES:,} lines in one request; send them in several")
        if stripped := line.strip():
            yield BodyPiece("line", n, stripped)


def split_json(raw: bytes) -> list[BodyPiece]:
    """The elements of a JSON array, or the one object."""
    text = check_utf8(raw).strip()
    return split_array(text) if text.startswith(b"[") else [parse_single(text)]


def parse_single(raw: bytes) -> BodyPiece:
    """A JSON document as one piece."""
    try:
        return BodyPiece("index", 0, bytes(_value_decoder.decode(check_utf8(raw))))
    except _UNREADABLE as error:
        raise _not_json(error) from error


def parse_foreign_record(raw: bytes) -> Record:
    """A JSON object of another program, parsed leniently: lone surrogates, which JavaScript produces when it cuts strings, are accepted."""
    try:
        return parse_record(check_utf8(raw))
    except DialectError as error:
        raise Problem(400, str(error)) from error


def split_array(raw: bytes) -> list[BodyPiece]:
    """The elements of a JSON array."""
    text = check_utf8(raw)
    if text.count(b",") > MAX_COMMAS:
        raise Problem(413, "too many parts for one array; send them in several requests, or as application/x-ndjson")
    try:
        elements = _array_decoder.decode(text)
    except _UNREADABLE as error:
        raise _not_json(error) from error
    if len(elements) > MAX_EVENTS:
        raise Problem(413, f"more than {MAX_EVENTS:,} events in one request; send them in several")
    return [BodyPiece("index", n, bytes(element)) for n, element in enumerate(elements)]


def _not_json(error: Exception) -> Problem:
    if isinstance(error, RecursionError):
        return Problem(400, "not readable: it is nested too deeply")
    if isinstance(error, msgspec.ValidationError):
        return Problem(400, f"not what is needed here: {error}")
    return Problem(400, f"not JSON: {error}")
