"""CloudEvents in binary mode: attributes in `ce-*` headers, the data in the body. Here they become one JSON object.

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request

from fleetlore.errors import DialectError
from fleetlore.server.doors.reading import object_of

PREFIX = b"ce-"
STRUCTURED = "application/cloudevents"
_LONGEST = 8 * 1024
_name = re.compile(rb"[a-z0-9]+").fullmatch
_escaped = re.compile(rb"\\(.)", re.DOTALL)
_is_json = re.compile(r"(application|text)/(.+\+)?json").fullmatch


def is_binary(request: Request, media_type: str) -> bool:
    """Whether a request is a CloudEvent in binary mode: it has their headers, and its body is none of theirs."""
    return "ce-specversion" in request.headers and not media_type.startswith(STRUCTURED)


def attributes_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The attributes that headers tell; `DialectError` for one that cannot be read."""
    attributes: dict[str, str] = {}
    for header, value in headers:
        if not header.lower().startswith(PREFIX):
            continue
        name = header.lower()[len(PREFIX) :]
        if not _name(name) or name in (b"data", b"datacontenttype"):
            raise DialectError(f"ce-{name.decode('latin-1')[:40]}", "no attribute is called so: letters and digits, as in ce-type")
        if name.decode() in attributes:
            raise DialectError(f"ce-{name.decode()}", "stands there twice")
        attributes[name.decode()] = _value(name.decode(), value)
    return attributes


def _value(name: str, raw: bytes) -> str:
    """A header's value: out of its quotes, then out of its percent signs, then out of UTF-8."""
    if len(raw) > _LONGEST:
        raise DialectError(f"ce-{name[:40]}", f"longer than {_LONGEST} bytes")
    if len(raw) > 1 and raw.startswith(b'"') and raw.endswith(b'"'):
        raw = _escaped.sub(rb"\1", raw[1:-1])
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise DialectError(f"ce-{name[:40]}", f"not UTF-8 behind its percent signs: {error.reason}") from error


def record_of(attributes: Mapping[str, str], media_type: str, body: bytes) -> bytes:
    """The same CloudEvent in its structured form; a `Problem` where JSON is promised, and is none."""
    record: dict[str, object] = dict(attributes)
    if media_type:
        record["datacontenttype"] = media_type
    if body:
        record |= _data(media_type, body)
    return msgspec.json.encode(record)


def _data(media_type: str, body: bytes) -> dict[str, object]:
    if not media_type or _is_json(media_type):
        return {"data": msgspec.Raw(object_of(body).raw)}
    try:
        return {"data": body.decode()}
    except UnicodeDecodeError:
        return {"data_base64": b64encode(body).decode()}
