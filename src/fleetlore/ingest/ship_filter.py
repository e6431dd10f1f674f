"""What stays on the machine when its log is shipped: prompts, code, file contents, what models wrote, private thoughts.

The deed itself goes: who, when, which tool, which files, how long, how it ended, and the line for people.
docs/ship.md tells the rule in words, `withholding_rules.py` what is held by each kind, `withholding_words.py` what a name is.
`veil.py` holds back the same, or a part of it, from the log itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from fleetlore.events import catalog
from fleetlore.events.envelope import Cut, Event, Origin
from fleetlore.events.visibility import READER, can_see
from fleetlore.ingest import ship_filter_rules as rules
from fleetlore.ingest.ship_filter_words import (
    LONGEST,
    is_long_text,
    is_message_key,
    is_path_value,
    is_placeholder,
    is_quoting,
    is_text_key,
    looks_like_name,
)
from fleetlore.log.admission import OWN_DIALECT

__all__ = ["HOLDER", "LONGEST", "withhold"]

HOLDER = "withheld"
"""The key under which an object tells how much of it stayed."""


def withhold(event: Event, hold: rules.WithholdPolicy = rules.SHIPPING_POLICY) -> Event:
    """The event as it may leave the machine. It still fits its kind; withholding twice changes nothing more."""
    hold = rules.find_policy(event.kind, event.data.get("tool"), hold)
    pen = _Redaction(hold, is_private=hold.prompts and not can_see(event, READER))
    data = _kind_filter(event.kind, hold).filter_value(pen, event.data)
    if rules.has_session_title(event.kind, _dialect_of(event), hold):
        pen.hide(data.get("name"))
        data = {key: value for key, value in data.items() if key != "name"}
    states = {name: pen.filter_plain(getattr(event, name)) for name in ("old_state", "new_state")}
    origin = None if event.origin is None else _filter_origin(event.origin, pen)
    text = _filter_text(event, pen)
    if not pen.count:
        return event
    origin = origin or Origin(dialect=OWN_DIALECT)
    return replace(event, text=text, data=data, **states, origin=replace(origin, redacted=origin.redacted + pen.count))


def _filter_text(event: Event, pen: _Redaction) -> str | None:
    """The line for people, unless it is itself what stays, or quotes it."""
    if pen.is_private or rules.is_text_withheld(event.kind, pen.hold):
        return str(pen.hide(event.text)) if event.text else event.text
    if event.text and (pen.is_quoted_by(event.text) or _shows_tool_input(event, pen.hold)):
        pen.count += 1
        return None  # the placeholder in the data says it all; boards then show the tool or the kind
    if event.text and rules.is_title_text(event.kind, _dialect_of(event), pen.hold):
        return str(pen.hide(event.text))
    return event.text


def _dialect_of(event: Event) -> str | None:
    return None if event.origin is None else event.origin.dialect


def _shows_tool_input(event: Event, hold: rules.WithholdPolicy) -> bool:
    """Whether the line of a tool's event shows more of what the tool was given than a file."""
    if not rules.is_tool_input_text(event.kind, _dialect_of(event), hold) or event.text == event.data.get("tool"):
        return False
    given = (event.text or "").partition(": ")[2] or event.text
    return not is_path_value(given) or " " in (given or "") or not rules.is_file_tool(event.data)


def _filter_origin(origin: Origin, pen: _Redaction) -> Origin:
    """Without the rest of a foreign record, which may hold the same words again."""
    if origin.rest is not None:
        pen.count += 1
    named = {name: pen.named(getattr(origin, name)) for name in ("source", "id", "at")}
    return replace(origin, rest=None, cut=tuple(_filter_cut(cut, pen) for cut in origin.cut), **named)


def _filter_cut(cut: Cut, pen: _Redaction) -> Cut:
    """A path in the data is made of its names, any of which may be none."""
    names = cut.path.replace("$", "").replace("[", "").replace("]", "")
    return cut if looks_like_name(names) and not pen.is_private else replace(cut, path=pen.hide(cut.path))


class _Redaction:
    """Puts placeholders where something stays, counts them, and remembers what they hide."""

    def __init__(self, hold: rules.WithholdPolicy, *, is_private: bool) -> None:
        self.hold, self.is_private = hold, is_private
        self.count = 0
        self._hidden_texts: list[str] = []

    def filter_plain(self, value: Any) -> Any:
        """A value that its kind describes: names, states, reasons, titles."""
        if isinstance(value, str):
            return self.hide(value) if self.is_private or is_long_text(value) else value
        if isinstance(value, list):
            return [self.filter_plain(item) for item in value]
        return self.filter_undescribed(value)

    def named(self, value: Any) -> Any:
        """A value that goes if it is a name, a path, an id or a time; one that does not is no line for people either, where titles stay."""
        as_quoted = self.hold.titles or (isinstance(value, str) and is_long_text(value))
        return self.hide(value, as_quoted=as_quoted) if isinstance(value, str) and not looks_like_name(value) else value

    def filter_undescribed(self, value: Any) -> Any:
        """A value that nobody has described: names and numbers go, words stay."""
        if self.is_private:
            return self.hide_each(value) if isinstance(value, list) else self.hide_object(value)
        if isinstance(value, list):
            return [self.filter_undescribed(item) for item in value]
        if isinstance(value, dict):
            return self.filter_extra_fields(value)
        return self.named(value)

    def filter_extra_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The parts of an object that nobody has described."""
        if not fields:
            return fields
        if self.is_private:
            hidden = self.hide_object(fields)
            assert isinstance(hidden, dict)
            return hidden
        return {
            self.filter_key(key): self.hide(item) if self._is_text_key(key) else self.filter_undescribed(item)
            for key, item in fields.items()
        }

    def _is_text_key(self, key: str) -> bool:
        return is_text_key(key) or (self.hold.titles and key == "title")

    def filter_key(self, key: str) -> str:
        """The name of a part, which may be no name either."""
        return key if looks_like_name(key) and not self.is_private else str(self.hide(key))

    def hide(self, value: Any, *, as_quoted: bool = True) -> Any:
        """A placeholder for words and structures; numbers, and what is empty, go as they are."""
        if not isinstance(value, str | list | dict) or not value or is_placeholder(value):
            return value
        self.count += 1
        if as_quoted:
            self._hidden_texts.extend(_strings_in(value))
        size = len(value.encode(errors="replace")) if isinstance(value, str) else len(msgspec.json.encode(value))
        return f"[withheld: {size:,} {'byte' if size == 1 else 'bytes'}]"

    def hide_object(self, value: Any) -> Any:
        """The same for what must stay an object."""
        if not isinstance(value, dict):
            return self.hide(value)
        return {HOLDER: self.hide(value)} if value and not _is_hidden_object(value) else value

    def hide_each(self, value: Any) -> Any:
        """The same for what must stay a list, and its objects objects."""
        return [self.hide_object(item) for item in value] if isinstance(value, list) else self.hide(value)

    def only_paths(self, value: Any) -> Any:
        """Of a tool's input, the files that it names."""
        if not isinstance(value, dict) or self.is_private:
            return self.hide_object(value)
        kept = {key: value[key] for key in rules.PATH_KEYS if key in value and is_path_value(value[key])}
        rest = {key: item for key, item in value.items() if key not in kept}
        if not rest:
            return value
        return kept | (rest if _is_hidden_object(rest) else {HOLDER: self.hide(rest)})

    def leave(self, value: Any) -> Any:
        """What nobody asked to withhold, without the words that stand in it under telling names."""
        if self.is_private:
            return self.filter_plain(value)
        if isinstance(value, list):
            return [self.leave(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {key: self.hide(item) if self.hold.prompts and is_message_key(key) else self.leave(item) for key, item in value.items()}

    def is_quoted_by(self, text: str) -> bool:
        """Whether a line for people repeats something that stays."""
        return not is_placeholder(text) and any(is_quoting(text, words) for words in self._hidden_texts)


def _is_hidden_object(value: dict[str, Any]) -> bool:
    return len(value) == 1 and is_placeholder(value.get(HOLDER))


def _strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_strings_in, value))
    elif isinstance(value, dict):
        yield from chain.from_iterable(map(_strings_in, value.values()))


class _FieldFilter:
    """How a value of some type is written: what nobody has described."""

    def filter_value(self, pen: _Redaction, value: Any) -> Any:
        """The value without what stays."""
        return pen.filter_undescribed(value)


class _PlainFilter(_FieldFilter):
    """Names, states, reasons, titles."""

    def filter_value(self, pen: _Redaction, value: Any) -> Any:
        return pen.filter_plain(value)


class _RuleFilter(_FieldFilter):
    """What a rule speaks of."""

    def __init__(self, how: rules.WithholdMethod) -> None:
        self._how = how

    def filter_value(self, pen: _Redaction, value: Any) -> Any:
        return getattr(pen, self._how)(value)


class _FormalFilter(_PlainFilter):
    """One of some words, or what a pattern asks for, as times do: it holds no words of anybody's, however long it is."""

    def __init__(self, *, words: frozenset[Any] = frozenset(), pattern: str | None = None) -> None:
        self.words, self._pattern = words, pattern

    def filter_value(self, pen: _Redaction, value: Any) -> Any:
        is_formal = isinstance(value, str) and (value in self.words or (self._pattern is not None and re.search(self._pattern, value)))
        return value if is_formal else super().filter_value(pen, value)


class _ListFilter(_FieldFilter):
    """A list of some shape."""

    def __init__(self, item: _FieldFilter) -> None:
        self._item = item

    def filter_value(self, pen: _Redaction, value: Any) -> Any:
        return [self._item.filter_value(pen, item) for item in value] if isinstance(value, list) else super().filter_value(pen, value)


class _MapFilter(_FieldFilter):
    """Names of anybody's choice, each with a value of some shape."""

    def __init__(self, item: _FieldFilter) -> None:
        self._item = item

    def filter_value(self, pen: _Redaction, value: Any) -> Any:
        if not isinstance(value, dict):
            return super().filter_value(pen, value)
        return {pen.filter_key(key): self._item.filter_value(pen, item) for key, item in value.items()}


class _ObjectFilter(_FieldFilter):
    """An object whose fields are known; it may hold others beside them."""

    def __init__(self, fields: Mapping[str, _FieldFilter]) -> None:
        self.fields = fields

    def filter_value(self, pen: _Redaction, value: Any) -> Any:
        if not isinstance(value, dict):
            return super().filter_value(pen, value)
        known = {key: self.fields[key].filter_value(pen, item) for key, item in value.items() if key in self.fields}
        return known | pen.filter_extra_fields({key: item for key, item in value.items() if key not in self.fields})


class _UnionFilter(_FieldFilter):
    """One shape for objects, one for lists, one for what is left."""

    def __init__(self, shapes: Sequence[_FieldFilter]) -> None:
        objects = [shape for shape in shapes if isinstance(shape, _ObjectFilter)]
        maps = [shape for shape in shapes if isinstance(shape, _MapFilter)]
        self._object: _FieldFilter = _merge_objects(objects) if objects else next(iter(maps), _FieldFilter())
        self._list: _FieldFilter = next((shape for shape in shapes if isinstance(shape, _ListFilter)), _PlainFilter())
        self._else: _FieldFilter = next((shape for shape in shapes if isinstance(shape, _PlainFilter)), _PlainFilter())

    def filter_value(self, pen: _Redaction, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object.filter_value(pen, value)
        return (self._list if isinstance(value, list) else self._else).filter_value(pen, value)


def _merge_objects(objects: Sequence[_ObjectFilter]) -> _ObjectFilter:
    """Objects of which the value may be any; each has its own word for what it is."""
    fields: dict[str, _FieldFilter] = {}
    for name, shape in chain.from_iterable(each.fields.items() for each in objects):
        before = fields.get(name)
        if isinstance(before, _FormalFilter) and isinstance(shape, _FormalFilter):
            shape = _FormalFilter(words=before.words | shape.words)
        fields[name] = shape
    return _ObjectFilter(fields)


@lru_cache(maxsize=4096)
def _kind_filter(kind: str, hold: rules.WithholdPolicy) -> _FieldFilter:
    """The shape of a kind's data. `fleet.*`, `town.*` and unknown kinds are free."""
    payload = catalog.find(kind)
    if payload is None or payload.lenient:
        return _FieldFilter()
    return _make_filter(inspect.type_info(payload), rules.find_rules(kind, hold), "")


def _make_filter(kind: inspect.Type, ruled: Mapping[str, rules.WithholdMethod], path: str) -> _FieldFilter:
    match kind:
        case inspect.StructType():
            return _make_object_filter(kind, ruled, path)
        case inspect.UnionType():
            return _make_union_filter(kind, ruled, path)
        case inspect.VarTupleType():
            return _ListFilter(_make_filter(kind.item_type, ruled, path))
        case inspect.AnyType() | inspect.DictType(value_type=inspect.AnyType()):
            return _FieldFilter()
        case inspect.DictType():
            return _MapFilter(_make_filter(kind.value_type, ruled, path))
        case inspect.LiteralType():
            return _FormalFilter(words=frozenset(kind.values))
        case inspect.StrType(pattern=str(pattern)):
            return _FormalFilter(pattern=pattern)
        case _:
            return _PlainFilter()


def _make_object_filter(kind: inspect.StructType, ruled: Mapping[str, rules.WithholdMethod], path: str) -> _ObjectFilter:
    fields: dict[str, _FieldFilter] = {}
    if kind.tag_field is not None:
        fields[kind.tag_field] = _FormalFilter(words=frozenset({kind.tag}))
    for field in kind.fields:
        here = f"{path}{field.encode_name}"
        fields[field.encode_name] = _RuleFilter(ruled[here]) if here in ruled else _make_filter(field.type, ruled, f"{here}.")
    return _ObjectFilter(fields)


def _make_union_filter(kind: inspect.UnionType, ruled: Mapping[str, rules.WithholdMethod], path: str) -> _FieldFilter:
    parts = [_make_filter(part, ruled, path) for part in kind.types if not isinstance(part, inspect.NoneType)]
    return parts[0] if len(parts) == 1 else _UnionFilter(parts)
