"""Withholds content when a log is shipped: prompts, code, file contents, model output, private thoughts.

Who, when, which tool, which files, duration, result and the event's text are sent. docs/ship.md describes the rules;
`ship_filter_rules.py` lists them by kind; `ship_filter_words.py` tells names from prose. `anonymise.py` applies the
same filter before events are stored.
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

__all__ = ["HOLDER", "LONGEST", "withhold_private"]

HOLDER = "withheld"
"""The key under which an object says how much of it was withheld."""


def withhold_private(event: Event, policy: rules.WithholdPolicy = rules.SHIPPING_POLICY) -> Event:
    """Return the event as it may leave the machine. It is still valid for its kind. Idempotent."""
    policy = rules.find_policy(event.kind, event.data.get("tool"), policy)
    redaction = _Redaction(policy, is_private=policy.prompts and not can_see(event, READER))
    data = _kind_filter(event.kind, policy).filter_value(redaction, event.data)
    if rules.has_session_title(event.kind, _find_dialect_name(event), policy):
        redaction.hide(data.get("name"))
        data = {key: value for key, value in data.items() if key != "name"}
    states = {name: redaction.filter_plain(getattr(event, name)) for name in ("old_state", "new_state")}
    origin = None if event.origin is None else _filter_origin(event.origin, redaction)
    text = _filter_text(event, redaction)
    if not redaction.count:
        return event
    origin = origin or Origin(dialect=OWN_DIALECT)
    return replace(event, text=text, data=data, **states, origin=replace(origin, redacted=origin.redacted + redaction.count))


def _filter_text(event: Event, redaction: _Redaction) -> str | None:
    """Withhold the event's text if it is content itself or quotes withheld content."""
    if redaction.is_private or rules.is_text_withheld(event.kind, redaction.policy):
        return str(redaction.hide(event.text)) if event.text else event.text
    if event.text and (redaction.is_quoted_by(event.text) or _shows_tool_input(event, redaction.policy)):
        redaction.count += 1
        return None  # the placeholder in the data says enough; boards then show the tool or the kind
    if event.text and rules.is_title_text(event.kind, _find_dialect_name(event), redaction.policy):
        return str(redaction.hide(event.text))
    return event.text


def _find_dialect_name(event: Event) -> str | None:
    return None if event.origin is None else event.origin.dialect


def _shows_tool_input(event: Event, policy: rules.WithholdPolicy) -> bool:
    """Whether the text of a tool event shows more of the tool's input than a file name."""
    if not rules.is_tool_input_text(event.kind, _find_dialect_name(event), policy) or event.text == event.data.get("tool"):
        return False
    given = (event.text or "").partition(": ")[2] or event.text
    return not is_path_value(given) or " " in (given or "") or not rules.is_file_tool(event.data)


def _filter_origin(origin: Origin, redaction: _Redaction) -> Origin:
    """Filter the origin and drop `rest`, which may repeat withheld content."""
    if origin.rest is not None:
        redaction.count += 1
    kept = {name: redaction.keep_name(getattr(origin, name)) for name in ("source", "id", "at")}
    return replace(origin, rest=None, cut=tuple(_filter_cut(cut, redaction) for cut in origin.cut), **kept)


def _filter_cut(cut: Cut, redaction: _Redaction) -> Cut:
    """Filter a cut. Its path consists of keys, which may themselves be content."""
    names = cut.path.replace("$", "").replace("[", "").replace("]", "")
    return cut if looks_like_name(names) and not redaction.is_private else replace(cut, path=redaction.hide(cut.path))


class _Redaction:
    """Replaces content by placeholders, counts them, and remembers the hidden texts."""

    def __init__(self, policy: rules.WithholdPolicy, *, is_private: bool) -> None:
        self.policy, self.is_private = policy, is_private
        self.count = 0
        self._hidden_texts: list[str] = []

    def filter_plain(self, value: Any) -> Any:
        """Filter a value that its kind describes: names, states, reasons, titles."""
        if isinstance(value, str):
            return self.hide(value) if self.is_private or is_long_text(value) else value
        if isinstance(value, list):
            return [self.filter_plain(item) for item in value]
        return self.filter_undescribed(value)

    def keep_name(self, value: Any) -> Any:
        """Keep a name, a path, an id or a time; hide anything else.

        A hidden short text counts as quoted by the event's text only if titles are withheld.
        """
        as_quoted = self.policy.titles or (isinstance(value, str) and is_long_text(value))
        return self.hide(value, as_quoted=as_quoted) if isinstance(value, str) and not looks_like_name(value) else value

    def filter_undescribed(self, value: Any) -> Any:
        """Filter a value that no schema describes: keep names and numbers, hide texts."""
        if self.is_private:
            return self.hide_each(value) if isinstance(value, list) else self.hide_object(value)
        if isinstance(value, list):
            return [self.filter_undescribed(item) for item in value]
        if isinstance(value, dict):
            return self.filter_extra_fields(value)
        return self.keep_name(value)

    def filter_extra_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Filter the fields of an object that no schema describes."""
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
        return is_text_key(key) or (self.policy.titles and key == "title")

    def filter_key(self, key: str) -> str:
        """Filter a key, which may be content too."""
        return key if looks_like_name(key) and not self.is_private else str(self.hide(key))

    def hide(self, value: Any, *, as_quoted: bool = True) -> Any:
        """Replace texts and structures by a placeholder; numbers and empty values are kept."""
        if not isinstance(value, str | list | dict) or not value or is_placeholder(value):
            return value
        self.count += 1
        if as_quoted:
            self._hidden_texts.extend(_strings_in(value))
        size = len(value.encode(errors="replace")) if isinstance(value, str) else len(msgspec.json.encode(value))
        return f"[withheld: {size:,} {'byte' if size == 1 else 'bytes'}]"

    def hide_object(self, value: Any) -> Any:
        """Hide a value that must stay an object."""
        if not isinstance(value, dict):
            return self.hide(value)
        return {HOLDER: self.hide(value)} if value and not _is_hidden_object(value) else value

    def hide_each(self, value: Any) -> Any:
        """Hide a value that must stay a list, with objects staying objects."""
        return [self.hide_object(item) for item in value] if isinstance(value, list) else self.hide(value)

    def keep_paths(self, value: Any) -> Any:
        """Of a tool's input, keep the files that it names."""
        if not isinstance(value, dict) or self.is_private:
            return self.hide_object(value)
        kept = {key: value[key] for key in rules.PATH_KEYS if key in value and is_path_value(value[key])}
        rest = {key: item for key, item in value.items() if key not in kept}
        if not rest:
            return value
        return kept | (rest if _is_hidden_object(rest) else {HOLDER: self.hide(rest)})

    def hide_messages(self, value: Any) -> Any:
        """Keep a value, except for fields whose keys name messages, if prompts are withheld."""
        if self.is_private:
            return self.filter_plain(value)
        if isinstance(value, list):
            return [self.hide_messages(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self.hide(item) if self.policy.prompts and is_message_key(key) else self.hide_messages(item) for key, item in value.items()
        }

    def is_quoted_by(self, text: str) -> bool:
        """Whether a text repeats something hidden."""
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
    """Filters a value by its type. The base class handles values that no schema describes."""

    def filter_value(self, redaction: _Redaction, value: Any) -> Any:
        """Return the value without withheld content."""
        return redaction.filter_undescribed(value)


class _PlainFilter(_FieldFilter):
    """Names, states, reasons, titles."""

    def filter_value(self, redaction: _Redaction, value: Any) -> Any:
        return redaction.filter_plain(value)


class _RuleFilter(_FieldFilter):
    """A field with a rule of its own."""

    def __init__(self, method: rules.WithholdMethod) -> None:
        self._method = method

    def filter_value(self, redaction: _Redaction, value: Any) -> Any:
        return getattr(redaction, self._method)(value)


class _FormalFilter(_PlainFilter):
    """One of some fixed words, or a value that matches a pattern, such as a time: kept at any length."""

    def __init__(self, *, words: frozenset[Any] = frozenset(), pattern: str | None = None) -> None:
        self.words, self._pattern = words, pattern

    def filter_value(self, redaction: _Redaction, value: Any) -> Any:
        is_formal = isinstance(value, str) and (value in self.words or (self._pattern is not None and re.search(self._pattern, value)))
        return value if is_formal else super().filter_value(redaction, value)


class _ListFilter(_FieldFilter):
    """A list of values of one type."""

    def __init__(self, item: _FieldFilter) -> None:
        self._item = item

    def filter_value(self, redaction: _Redaction, value: Any) -> Any:
        return (
            [self._item.filter_value(redaction, item) for item in value]
            if isinstance(value, list)
            else super().filter_value(redaction, value)
        )


class _MapFilter(_FieldFilter):
    """A map with arbitrary keys and values of one type."""

    def __init__(self, item: _FieldFilter) -> None:
        self._item = item

    def filter_value(self, redaction: _Redaction, value: Any) -> Any:
        if not isinstance(value, dict):
            return super().filter_value(redaction, value)
        return {redaction.filter_key(key): self._item.filter_value(redaction, item) for key, item in value.items()}


class _ObjectFilter(_FieldFilter):
    """An object with known fields, and possibly others."""

    def __init__(self, fields: Mapping[str, _FieldFilter]) -> None:
        self.fields = fields

    def filter_value(self, redaction: _Redaction, value: Any) -> Any:
        if not isinstance(value, dict):
            return super().filter_value(redaction, value)
        known = {key: self.fields[key].filter_value(redaction, item) for key, item in value.items() if key in self.fields}
        return known | redaction.filter_extra_fields({key: item for key, item in value.items() if key not in self.fields})


class _UnionFilter(_FieldFilter):
    """One filter for objects, one for lists, one for other values."""

    def __init__(self, shapes: Sequence[_FieldFilter]) -> None:
        objects = [shape for shape in shapes if isinstance(shape, _ObjectFilter)]
        maps = [shape for shape in shapes if isinstance(shape, _MapFilter)]
        self._object: _FieldFilter = _merge_objects(objects) if objects else next(iter(maps), _FieldFilter())
        self._list: _FieldFilter = next((shape for shape in shapes if isinstance(shape, _ListFilter)), _PlainFilter())
        self._else: _FieldFilter = next((shape for shape in shapes if isinstance(shape, _PlainFilter)), _PlainFilter())

    def filter_value(self, redaction: _Redaction, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object.filter_value(redaction, value)
        return (self._list if isinstance(value, list) else self._else).filter_value(redaction, value)


def _merge_objects(objects: Sequence[_ObjectFilter]) -> _ObjectFilter:
    """Merge the variants of a union; each variant has its own tag."""
    fields: dict[str, _FieldFilter] = {}
    for name, shape in chain.from_iterable(each.fields.items() for each in objects):
        before = fields.get(name)
        if isinstance(before, _FormalFilter) and isinstance(shape, _FormalFilter):
            shape = _FormalFilter(words=before.words | shape.words)
        fields[name] = shape
    return _ObjectFilter(fields)


@lru_cache(maxsize=4096)
def _kind_filter(kind: str, policy: rules.WithholdPolicy) -> _FieldFilter:
    """The filter of a kind's data. `fleet.*`, `town.*` and unknown kinds have no schema."""
    payload = catalog.find_payload(kind)
    if payload is None or payload.lenient:
        return _FieldFilter()
    return _make_filter(inspect.type_info(payload), rules.find_rules(kind, policy), "")


def _make_filter(kind: inspect.Type, field_rules: Mapping[str, rules.WithholdMethod], path: str) -> _FieldFilter:
    match kind:
        case inspect.StructType():
            return _make_object_filter(kind, field_rules, path)
        case inspect.UnionType():
            return _make_union_filter(kind, field_rules, path)
        case inspect.VarTupleType():
            return _ListFilter(_make_filter(kind.item_type, field_rules, path))
        case inspect.AnyType() | inspect.DictType(value_type=inspect.AnyType()):
            return _FieldFilter()
        case inspect.DictType():
            return _MapFilter(_make_filter(kind.value_type, field_rules, path))
        case inspect.LiteralType():
            return _FormalFilter(words=frozenset(kind.values))
        case inspect.StrType(pattern=str(pattern)):
            return _FormalFilter(pattern=pattern)
        case _:
            return _PlainFilter()


def _make_object_filter(kind: inspect.StructType, field_rules: Mapping[str, rules.WithholdMethod], path: str) -> _ObjectFilter:
    fields: dict[str, _FieldFilter] = {}
    if kind.tag_field is not None:
        fields[kind.tag_field] = _FormalFilter(words=frozenset({kind.tag}))
    for field in kind.fields:
        here = f"{path}{field.encode_name}"
        fields[field.encode_name] = (
            _RuleFilter(field_rules[here]) if here in field_rules else _make_filter(field.type, field_rules, f"{here}.")
        )
    return _ObjectFilter(fields)


def _make_union_filter(kind: inspect.UnionType, field_rules: Mapping[str, rules.WithholdMethod], path: str) -> _FieldFilter:
    parts = [_make_filter(part, field_rules, path) for part in kind.types if not isinstance(part, inspect.NoneType)]
    return parts[0] if len(parts) == 1 else _UnionFilter(parts)
