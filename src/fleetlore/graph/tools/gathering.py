"""What a query finds, taken row by row until there is enough, each value as JSON can hold it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

from fleetlore.graph.tools.database import Cell, Limits, Table

_MAX_EXACT_INTEGER = 2**53
"""Beyond it, a browser's numbers have gaps."""
_MAX_SHOWN_BYTES = 32


class TableBuilder:
    """Rows, until one of the limits is reached."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._rows, self._remaining_bytes = limits, list[tuple[Cell, ...]](), limits.bytes
        self.columns: tuple[str, ...] = ()
        self.cut: str | None = None

    def set_columns(self, columns: Iterable[str]) -> None:
        """What the columns are called."""
        self.columns = tuple(one[: self._limits.cell] for one in columns)

    def add_row(self, row: Sequence[Any]) -> bool:
        """Takes one more; `False` if there was no room for it, and none is wanted after it."""
        if len(self._rows) >= self._limits.rows:
            self.cut = f"after {self._limits.rows:,} rows"
            return False
        cells = tuple(convert_cell(value, self._limits.cell) for value in row)
        self._remaining_bytes -= sum(len(str(cell).encode(errors="replace")) + 2 for cell in cells)
        if self._remaining_bytes < 0:
            self.cut = f"after {self._limits.bytes:,} bytes"
            return False
        self._rows.append(cells)
        return True

    def build_table(self) -> Table:
        """All that was taken."""
        return Table(columns=self.columns, rows=tuple(self._rows), cut=self.cut)


def convert_cell(value: Any, longest: int) -> Cell:
    """One value of a database as JSON has it; text that says it where JSON has nothing like it."""
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) <= _MAX_EXACT_INTEGER else str(value)
        case float():
            return value if isfinite(value) else str(value)
        case Decimal():
            return _convert_decimal(value)
        case str():
            return _truncate_text(value, longest)
        case bytes() | bytearray() | memoryview():
            raw = bytes(value)
            return f"0x{raw[:_MAX_SHOWN_BYTES].hex()}" + (f"… ({len(raw):,} bytes)" if len(raw) > _MAX_SHOWN_BYTES else "")
        case datetime() | date() | time():
            return value.isoformat()
        case dict() | list() | tuple():
            return _truncate_text(json.dumps(value, ensure_ascii=False, default=str), longest)
        case _:
            return _truncate_text(str(value), longest)


def _convert_decimal(value: Decimal) -> Cell:
    """A number where that loses nothing."""
    if not value.is_finite() or abs(value) > _MAX_EXACT_INTEGER:
        return str(value)
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else str(value)


def _truncate_text(value: str, longest: int) -> str:
    whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not value.isascii() else value
    return whole if len(whole) <= longest else f"{whole[:longest]}…"
