"""Loads the files that people write: goals, mission plans, scenarios, graphs and worker files, in TOML or YAML.

`load_document` gives a `Document`: the values, with the line of each. `Document.convert` turns values into structs. All errors of a file
are collected, each as `file:line: key: what is wrong; what to do`, with the nearest key for one that is misspelled, and raised at once.
"""

from __future__ import annotations

import os
import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from fleetlore.documents import validation
from fleetlore.documents.validation import MAX_ERRORS, KeyPath, to_plain_values
from fleetlore.errors import Invalid

YAML_SUFFIXES = (".yaml", ".yml")


class DocumentType(NamedTuple):
    """What the files of one kind have in common."""

    suffixes: tuple[str, ...]
    """Endings of their names. The first is the format of texts whose source has none of them."""
    wrong_suffix: str
    """The error for any other ending."""
    not_a_table: str
    """The error for a file that holds a list or a single value."""
    error: Callable[[Sequence[str]], Invalid]
    """Makes the exception from all errors of a file."""
    max_bytes: int
    too_large: str
    """What to do about a file that is larger."""


class Document:
    """The values of a file, where each is, and what is wrong with it."""

    def __init__(
        self, source: str, root: Any, type: DocumentType, find_lines: Callable[[], Mapping[KeyPath, int]] = dict[KeyPath, int]
    ) -> None:
        self.source, self.root, self.type = source, root, type
        self.errors: list[str] = []
        self._find_lines = find_lines

    @cached_property
    def lines(self) -> Mapping[KeyPath, int]:
        """The line of each path, as far as it is known."""
        return self._find_lines()

    def add_error(self, path: KeyPath, problem: str, *, line: int | None = None) -> None:
        """Add an error, with the line of its path or of the nearest table around it."""
        near = path
        while near and near not in self.lines:
            near = near[:-1]
        line = line or self.lines.get(near)
        location = f"{self.source}:{line}" if line else self.source
        self.errors.append(
            f"{location}: {validation.make_excerpt(validation.format_path(path))}: {problem}" if path else f"{location}: {problem}"
        )

    def raise_if_invalid(self) -> None:
        """Raise the errors found so far, if there are any."""
        if self.errors:
            more = len(self.errors) - MAX_ERRORS
            raise self.type.error([*self.errors[:MAX_ERRORS], *([f"{self.source}: and {more} more"] if more > 0 else ())])

    def convert_value(self, path: KeyPath, value: Any, type: Any, *, without: tuple[str, ...] = ()) -> Any:
        """The value as a type, structs in it checked field by field; `None` after errors were added."""
        errors_before = len(self.errors)
        struct, item = validation.struct_in(type), validation.item_type(type)
        if struct is not None and isinstance(value, Mapping):
            found = self.convert_fields(path, value, struct, without=without)
            for name in missing_fields(struct, value):
                self.add_error(path, f"{name} is missing")
            return struct(**found) if len(self.errors) == errors_before else None
        if item is not None and isinstance(value, list | tuple):
            items = [self.convert_value((*path, index), each, item) for index, each in enumerate(value)]
            return tuple(items) if len(self.errors) == errors_before else None
        if item is not None and isinstance(value, Mapping):
            values = {name: self.convert_value((*path, name), each, item) for name, each in value.items()}
            return values if len(self.errors) == errors_before else None
        return self._convert_plain(path, value, type)

    def convert_fields(
        self, path: KeyPath, value: Any, shape: type[Struct], *, spans: tuple[str, ...] = (), without: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The fields of a table that fit a struct's, with an error for each other one.

        `spans` are seconds that may be written like `20m`; `without` are fields that a file may not set.
        """
        if not isinstance(value, Mapping):
            self.add_error(path, f"a table is needed, not {validation.type_name(value)}")
            return {}
        known: dict[str, FieldInfo] = {each.encode_name: each for each in fields(shape) if each.name not in without}
        found = {}
        for name, given in value.items():
            here = (*path, name)
            if name not in known:
                self.add_error(here, validation.unknown_key_message(str(name), tuple(known)))
                continue
            errors_before = len(self.errors)
            try:
                converted = self.convert_value(here, validation.parse_seconds(given) if name in spans else given, known[name].type)
            except Invalid as error:
                self.add_error(here, str(error))
            if len(self.errors) == errors_before:
                found[known[name].name] = converted
        return found

    def _convert_plain(self, path: KeyPath, value: Any, type: Any) -> Any:
        try:
            return msgspec.convert(value, type)
        except msgspec.ValidationError as error:
            if isinstance(value, Mapping) and (inner := validation.value_type(type)) is not None:
                errors_before = len(self.errors)
                for name, each in value.items():  # msgspec does not say which
                    self._convert_plain((*path, name), each, inner)
                if len(self.errors) > errors_before:
                    return None
            self.add_error(*validation.explain_error(path, str(error), type, value, is_yaml=_is_yaml(self.source, self.type)))
            return None


def missing_fields(shape: type[Struct], given: Mapping[str, Any]) -> list[str]:
    """The keys that a struct needs, and that are not there."""
    return [each.encode_name for each in fields(shape) if each.required and each.encode_name not in given]


def load_document(path: str, type: DocumentType, *, any_suffix: bool = False) -> Document:
    """Load a file; raises the type's error. `OSError` if the file cannot be read."""
    if not any_suffix and not path.endswith(type.suffixes):
        raise Invalid(f"{path}: {type.wrong_suffix}")
    with open(os.path.expanduser(path), "rb") as file:
        raw = file.read(type.max_bytes + 4)  # a byte order mark is not counted
    try:
        return parse_document(raw.decode("utf-8-sig"), path, type)
    except UnicodeDecodeError as error:
        if len(raw) > type.max_bytes:  # possibly cut within a character
            raise type.error([f"{path}: {_too_large(type)}"]) from error
        raise type.error([f"{path}: is not UTF-8 text; save it as such"]) from error


def parse_document(text: str, source: str, type: DocumentType) -> Document:
    """Parse a text as TOML or YAML, by the suffix of `source`; raises the type's error unless it is a table."""
    if len(text.encode(errors="replace")) > type.max_bytes:
        raise type.error([f"{source}: {_too_large(type)}"])
    document = _parse_yaml(text, source, type) if _is_yaml(source, type) else _parse_toml(text, source, type)
    if not isinstance(document.root, dict):
        document.add_error((), type.not_a_table)
    document.raise_if_invalid()
    return document


def _is_yaml(source: str, type: DocumentType) -> bool:
    ending = next((suffix for suffix in (".toml", *YAML_SUFFIXES) if source.endswith(suffix)), type.suffixes[0])
    return ending in YAML_SUFFIXES


def _parse_toml(text: str, source: str, type: DocumentType) -> Document:
    try:
        root, find_lines = parse_toml(text)
    except (ValueError, RecursionError) as error:
        raise type.error([f"{source}: not TOML: {error}"]) from error
    return Document(source, root, type, find_lines)


def _parse_yaml(text: str, source: str, type: DocumentType) -> Document:
    from fleetlore.documents.yaml_lines import InvalidYaml, ParsedYaml

    try:
        parsed = ParsedYaml(text)
    except InvalidYaml as error:
        raise type.error([f"{source}{f':{error.line}' if error.line else ''}: not YAML: {error}"]) from error
    document = Document(source, parsed.root, type, lambda: parsed.lines)
    for path, line in parsed.duplicates:
        document.add_error(path, "is there twice", line=line)
    return document


def _too_large(type: DocumentType) -> str:
    size = f"{type.max_bytes // 1024**2} MiB" if type.max_bytes >= 1024**2 else f"{type.max_bytes // 1024} KiB"
    return f"over {size}; {type.too_large}"


# --- lines of a TOML file, which `tomllib` does not tell


MAX_PLACES = 20_000
"""Places that are kept. A file can hold millions of values, and what has no line gets that of its table."""

_blank = re.compile(r"[ \t]*")
_between = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_bare_key = re.compile(r"[A-Za-z0-9_-]+")
_scalar = re.compile(r"[^,\]}\n#]*")
_string = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}' r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)


def parse_toml(text: str) -> tuple[Any, Callable[[], dict[KeyPath, int]]]:
    """The values, with dates as text; and a function that finds their lines, which only errors need. `ValueError` if it is no TOML."""
    values = to_plain_values(tomllib.loads(text))
    return values, lambda: _KeyScanner(text).scan_document()


class _KeyScanner:
    """Walks through a text that `tomllib` accepts, and notes where each key and item begins."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        self._counts: dict[KeyPath, int] = {}
        """Arrays of tables, with how many tables were seen."""

    def scan_document(self) -> dict[KeyPath, int]:
        """Path → line."""
        table: KeyPath = ()
        self._skip_pattern(_between)
        while self._at < len(self._text) and len(self._lines) < MAX_PLACES:
            if self._text.startswith("[[", self._at):
                table = self._scan_array_header()
            elif self._text[self._at] == "[":
                table = self._scan_table_header()
            else:
                self._scan_assignment(table)
            self._skip_pattern(_between)
        return self._lines

    def _scan_array_header(self) -> KeyPath:
        start = self._at
        self._at += len("[[")
        parts = self._scan_key()
        self._at += len("]]")
        array = (*self._resolve_header(parts[:-1]), parts[-1])
        index = self._counts.get(array, 0)
        self._counts[array] = index + 1
        self._note_path((*array, index), start)
        return (*array, index)

    def _scan_table_header(self) -> KeyPath:
        start = self._at
        self._at += len("[")
        table = self._resolve_header(self._scan_key())
        self._at += len("]")
        self._note_path(table, start)
        return table

    def _resolve_header(self, parts: list[str]) -> KeyPath:
        """The path of a header: the name of an array of tables means its last table."""
        path: KeyPath = ()
        for part in parts:
            path = (*path, part)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _scan_assignment(self, table: KeyPath) -> None:
        start = self._at
        path = (*table, *self._scan_key())
        self._note_path(path, start)
        self._at += len("=")
        self._scan_value(path)

    def _scan_key(self) -> list[str]:
        """A dotted key, up to what follows it."""
        parts = []
        while True:
            self._skip_pattern(_blank)
            if match := _bare_key.match(self._text, self._at):
                parts.append(match[0])
            elif match := _string.match(self._text, self._at):
                parts.append(tomllib.loads(f"key = {match[0]}")["key"])
            else:
                raise ValueError(f"no key at {self._at}")
            self._at = match.end()
            self._skip_pattern(_blank)
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _scan_value(self, path: KeyPath) -> None:
        self._skip_pattern(_between)
        if self._text[self._at] == "[":
            self._scan_items("]", lambda index: self._scan_item((*path, index)))
        elif self._text[self._at] == "{":
            self._scan_items("}", lambda index: self._scan_assignment(path))
        elif not self._skip_pattern(_string):
            self._skip_pattern(_scalar)

    def _scan_item(self, path: KeyPath) -> None:
        self._note_path(path, self._at)
        self._scan_value(path)

    def _scan_items(self, end: str, scan_item: Callable[[int], None]) -> None:
        """What stands between brackets, with commas."""
        self._at += 1
        index = 0
        self._skip_pattern(_between)
        while self._text[self._at] != end:
            scan_item(index)
            index += 1
            self._skip_pattern(_between)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip_pattern(_between)
        self._at += 1

    def _skip_pattern(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match is not None

    def _note_path(self, path: KeyPath, start: int) -> None:
        """A path that begins at an offset, and the tables around it that were not seen so far."""
        if len(self._lines) >= MAX_PLACES:
            return
        line = bisect_right(self._newlines, start - 1) + 1
        for length in range(1, len(path) + 1):
            self._lines.setdefault(path[:length], line)
