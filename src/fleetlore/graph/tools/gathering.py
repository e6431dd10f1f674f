"""Collects the rows of a query up to the limits, with values converted to JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

from fleetlore.graph.tools.database import Cell, QueryLimits, Table

_MAX_EXACT_INTEGER = 2**53
"""Larger integers are not exact in a browser."""
_MAX_SHOWN_BYTES = 32


class TableBuilder:
    """Collects rows until a limit is reached."""

    def __init__(self, limits: QueryLimits) -> None:
        self._limits, self._rows, self._remaining_bytes = limits, list[tuple[Cell, ...]](), limits.bytes
        self.columns: tuple[str, ...] = ()
        self.cut: str | None = None

    def set_columns(self, columns: Iterable[str]) -> None:
        """Set the column names."""
        self.columns = tuple(name[: self._limits.cell] for name in columns)

    def add_row(self, row: Sequence[Any]) -> bool:
        """Add a row; returns `False` if a limit is reached and no more rows are wanted."""
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
        """The table so far."""
        return Table(columns=self.columns, rows=tuple(self._rows), cut=self.cut)


def convert_cell(value: Any, max_length: int) -> Cell:
    """A database value as JSON; as text if JSON has no such type."""
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
            return _truncate_text(value, max_length)
        case bytes() | bytearray() | memoryview():
            raw = bytes(value)
            return f"0x{raw[:_MAX_SHOWN_BYTES].hex()}" + (f"… ({len(raw):,} bytes)" if len(raw) > _MAX_SHOWN_BYTES else "")
        case datetime() | date() | time():
            return value.isoformat()
        case dict() | list() | tuple():
            return _truncate_text(json.dumps(value, ensure_ascii=False, default=str), max_length)
        case _:
            return _truncate_text(str(value), max_length)


def _convert_decimal(value: Decimal) -> Cell:
    """A number if that is exact, else text."""
    if not value.is_finite() or abs(value) > _MAX_EXACT_INTEGER:
        return str(value)
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else str(value)


def _truncate_text(value: str, max_length: int) -> str:
    text = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not value.isascii() else value
    return text if len(text) <= max_length else f"{text[:max_length]}…"
