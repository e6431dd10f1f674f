"""What came in by a door, as bytes and as pieces of JSON. Anything that cannot be read is a `Problem` that says why."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from email.message import Message
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from fleetlore.dialects.recording import parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.server.security.limits import Limits

_T = TypeVar("_T")

LARGE, LARGE_IF_PACKED = 1 << 20, 1 << 14
MOST_EVENTS = 100_000
"""In one request."""
STEP = 4096
MOST_MEMBERS = 100_000
MOST_LINES = 1_000_000
"""Blank ones too."""
MOST_COMMAS = 2_000_000
"""An array is cut into its elements all at once: of more commas, those alone would take a lot of memory."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP, _ZLIB, _RAW = 31, 15, -15
_WINDOWS = {"gzip": (_GZIP,), "x-gzip": (_GZIP,), "deflate": (_ZLIB, _RAW)}
"""Content codings → the forms that they come in: some programs leave the header out of `deflate`."""
_pieces = msgspec.json.Decoder(list[msgspec.Raw])
_piece = msgspec.json.Decoder(msgspec.Raw)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Body(NamedTuple):
    """A body as it came in, and the way in which it is packed."""

    raw: bytes
    coding: str

    @property
    def is_large(self) -> bool:
        """Whether it may take long, and much memory: a packed one may have a thousand times its length."""
        return len(self.raw) > (LARGE if self.coding == "identity" else LARGE_IF_PACKED)

    def unpack(self, limit: int) -> bytes:
        """What is in it; a `Problem` if that is damaged or more than the limit. For a thread: it takes a while."""
        return self.raw if self.coding == "identity" else inflate(self.raw, self.coding, limit)


class Piece(NamedTuple):
    """One record of a body."""

    where: str
    """`line`, from one, or `index`, from nought."""
    n: int
    raw: bytes


async def read_body(request: Request, limits: Limits) -> Body:
    """The body, counted while it comes in. A coding that is not known is refused before."""
    coding = request.headers.get("content-encoding", "identity").strip().lower() or "identity"
    if coding != "identity" and coding not in _WINDOWS:
        detail = f"Content-Encoding {coding[:40]} is not read here; send gzip, deflate, or the body as it is"
        raise Problem(415, detail, headers={"accept-encoding": "gzip, deflate, identity"})
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limits.body:
                raise _too_long(limits.body)
            parts.append(part)
    except ClientDisconnect as error:
        raise Problem(400, "the connection broke before all of the body was there; send it again") from error
    return Body(b"".join(parts), coding)


def media_type(request: Request) -> str:
    """What the body is said to be, in lower case; a text in another encoding than UTF-8 is refused."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    charset = header.get_param("charset")
    if isinstance(charset, str) and charset.lower() not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(415, f"charset {charset[:40]} is not read here; JSON is UTF-8")
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def inflate(raw: bytes, coding: str, limit: int) -> bytes:
    """What was packed, as long as it is not more than the limit."""
    for window in _WINDOWS[coding]:
        try:
            return _inflate(raw, window, limit)
        except zlib.error as error:
            reason = str(error)
    raise Problem(400, f"what was sent as {coding} is damaged: {reason}; send it again")


def _inflate(raw: bytes, window: int, limit: int) -> bytes:
    """All members, one behind the other: those who pack line by line send several."""
    parts, size, place, members = [], 0, 0, 0
    unpacker = zlib.decompressobj(window)
    while place < len(raw):
        if unpacker.eof:
            members += 1
            unpacker = _next_member(window, members)
        # In steps: whatever follows a member is copied at its end, and there may be very many members.
        piece = raw[place : place + STEP]
        parts.append(unpacker.decompress(piece, limit - size + 1))
        size += len(parts[-1])
        if size > limit:
            raise _too_long(limit)
        place += len(piece) - len(unpacker.unused_data)
    if raw and not unpacker.eof:
        raise zlib.error("it breaks off before its end")
    return b"".join(parts)


def _next_member(window: int, members: int) -> zlib._Decompress:
    if window != _GZIP:
        raise zlib.error("something follows its end")
    if members >= MOST_MEMBERS:
        raise Problem(413, f"packed in more than {MOST_MEMBERS:,} pieces; pack it as one")
    return zlib.decompressobj(window)


def _too_long(limit: int) -> Problem:
    return Problem(413, f"the body is longer than {limit:,} bytes; send it in several requests")


def text_of(raw: bytes) -> bytes:
    """The same bytes, if they are UTF-8; without a byte order mark."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, f"not UTF-8: {error.reason} at byte {error.start}") from error
    return raw.removeprefix(_BYTE_ORDER_MARK)


def read_as(raw: bytes, kind: type[_T], how: str) -> _T:
    """One JSON object as a type; `how` tells who sent another one what would fit."""
    try:
        return msgspec.json.decode(text_of(raw), type=kind)
    except msgspec.ValidationError as error:
        raise Problem(422, f"{error}; {how}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(400, f"not JSON: {error}") from error


def lines_of(raw: bytes) -> Iterator[Piece]:
    """The lines of NDJSON; blank ones are counted and passed over."""
    for n, line in enumerate(BytesIO(text_of(raw)), 1):
        if n > MOST_LINES:
            raise Problem(413, f"more than {MOST_LINES:,} lines in one request; send them in several")
        if stripped := line.strip():
            yield Piece("line", n, stripped)


def one_or_many(raw: bytes) -> list[Piece]:
    """The object that a document is, or the elements of its array."""
    text = text_of(raw).strip()
    return elements_of(text) if text.startswith(b"[") else [object_of(text)]


def object_of(raw: bytes) -> Piece:
    """A document as one piece."""
    try:
        return Piece("index", 0, bytes(_piece.decode(text_of(raw))))
    except _UNREADABLE as error:
        raise _not_json(error) from error


def foreign_record(raw: bytes) -> Record:
    """A document of another program's, read as forgivingly as those are: half a character, which JavaScript cuts off, is not refused."""
    try:
        return parse_record(text_of(raw))
    except DialectError as error:
        raise Problem(400, str(error)) from error


def elements_of(raw: bytes) -> list[Piece]:
    """The elements of a document that is an array."""
    text = text_of(raw)
    if text.count(b",") > MOST_COMMAS:
        raise Problem(413, "too many parts for one array; send them in several requests, or as application/x-ndjson")
    try:
        found = _pieces.decode(text)
    except _UNREADABLE as error:
        raise _not_json(error) from error
    if len(found) > MOST_EVENTS:
        raise Problem(413, f"more than {MOST_EVENTS:,} events in one request; send them in several")
    return [Piece("index", n, bytes(piece)) for n, piece in enumerate(found)]


def _not_json(error: Exception) -> Problem:
    if isinstance(error, RecursionError):
        return Problem(400, "not readable: it is nested too deeply")
    if isinstance(error, msgspec.ValidationError):
        return Problem(400, f"not what is needed here: {error}")
    return Problem(400, f"not JSON: {error}")
