"""What is done for every event, compiled from `_quick.c`; it may be absent."""

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import Any

INTERFACE: int
"""Raised when the arguments of `Admitter` change."""

def uuid7() -> str:
    """A new id: RFC 9562 version 7, ascending within a process."""

def start_afresh() -> None:
    """A forked child would otherwise draw the same random bits as its parent."""

class Words:
    """Literals in lower case, looked for whatever the capitals of a text."""

    def __init__(self, anywhere: tuple[bytes, ...], openers: tuple[bytes, ...], /) -> None: ...
    def found_in(self, raw: bytes, /) -> bool:
        """Whether one of the words stands in these bytes."""
    def numbers_in(self, raw: bytes, /) -> set[int]:
        """The numbers of all words in these bytes; openers are counted behind the others."""

class Admitter:
    """The short way of admission."""

    def __init__(
        self,
        *,
        event: type,
        record: Callable[..., Any],
        encode: Callable[[Any], bytes],
        now: Callable[[], datetime],
        new_id: Callable[[], str],
        scopes_of_names: Callable[[tuple[str | None, ...]], Sequence[str]],
        payload_of: Callable[[str], type | None],
        convert: Callable[..., Any],
        suspects: Callable[[bytes], bool],
        words: Words,
        utc: tzinfo,
        fields: tuple[tuple[str, str], ...],
        choices: tuple[str, ...],
        version: int,
        origin: type,
        origin_fields: tuple[tuple[str, str], ...],
        longest: int,
    ) -> None: ...
    def admit(self, event: Any, /) -> Any:
        """The record to store; `None` where the event is not as plain as that."""
