"""An object that fits a JSON schema, made by chance that is none: the same `Dice` make the same object."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, TypeVar

from fleetlore.minds.lines import JUDGED, SPOKEN, THOUGHT, WORDS
from fleetlore.minds.schema import resolved

_Item = TypeVar("_Item")
_DEEPEST = 24
_USUAL_SPAN = 10


class Dice:
    """Numbers that follow from a seed, on every machine and in every version."""

    def __init__(self, *seed: object) -> None:
        self._seed = "\x1f".join(map(str, seed))
        self._thrown = 0

    def throw(self, sides: int) -> int:
        """The next number below `sides`."""
        self._thrown += 1
        digest = sha256(f"{self._thrown}\x1f{self._seed}".encode(errors="surrogatepass")).digest()
        return int.from_bytes(digest[:8]) % max(1, sides)

    def choose(self, items: Sequence[_Item]) -> _Item:
        """One of several."""
        return items[self.throw(len(items))]


def line(dice: Dice, *, role: str | None = None, field: str = "text") -> str:
    """Something to say, as one who judges, thinks or speaks."""
    if field in ("thought", "thoughts", "thinking", "reasoning"):
        return dice.choose(THOUGHT)
    return dice.choose(JUDGED if role and "judge" in role.lower() else SPOKEN)


def fitted(schema: Any, dice: Dice, *, role: str | None = None) -> Any:
    """A value that fits the schema, where any of ours can."""
    return _Fitter(schema, dice, role).value(schema, "text", 0)


class _Fitter:
    """Walks through one schema."""

    def __init__(self, root: Any, dice: Dice, role: str | None) -> None:
        self._root, self._dice, self._role = root, dice, role

    def value(self, schema: Any, field: str, depth: int) -> Any:
        """One value; `field` is the name that it stands under."""
        schema = resolved(schema, self._root)
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return None
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._dice.choose(schema["enum"])
        for forms in ("anyOf", "oneOf"):
            if schema.get(forms):
                return self.value(schema[forms][0], field, depth + 1)
        if schema.get("allOf"):
            schema = _merged([schema, *(resolved(part, self._root) for part in schema["allOf"])])
        return self._of_type(schema, field, depth)

    def _of_type(self, schema: dict[str, Any], field: str, depth: int) -> Any:
        match _type_of(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                most = schema.get("maxItems", schema.get("minItems", 0) + 2)
                count = schema.get("minItems", min(1, most))
                return [self.value(schema.get("items", {"type": "string"}), field, depth + 1) for _ in range(count)]
            case "integer" | "number" as kind:
                return self._number(schema, kind)
            case "boolean":
                return self._dice.throw(2) == 1
            case "null":
                return None
            case _:
                return self._string(schema, field)

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        known = schema.get("properties", {})
        wanted = dict.fromkeys([*known, *schema.get("required", ())])
        return {
            name: self.value(known.get(name, {}), name, depth + 1) for name in wanted if depth < 4 or name in schema.get("required", ())
        }

    def _number(self, schema: dict[str, Any], kind: str) -> float:
        least = schema.get("minimum", schema.get("exclusiveMinimum"))
        most = schema.get("maximum", schema.get("exclusiveMaximum"))
        if least is None:
            least = 0 if most is None or most > 0 else most - _USUAL_SPAN
        if most is None:
            most = least + _USUAL_SPAN
        if kind == "integer":
            low = int(-(-least // 1)) + (schema.get("exclusiveMinimum") == least)
            high = int(most // 1) - (schema.get("exclusiveMaximum") == most)
            return low + self._dice.throw(high - low + 1)
        return round(float(least + (most - least) * (1 + self._dice.throw(98)) / 100), 4)

    def _string(self, schema: dict[str, Any], field: str) -> str:
        is_short = schema.get("maxLength", 1000) < 20 or field in ("mood", "name", "kind", "label")
        said = self._dice.choose(WORDS) if is_short else line(self._dice, role=self._role, field=field)
        while len(said) < schema.get("minLength", 0):
            said += f" {line(self._dice, role=self._role, field=field)}"
        return said[: schema.get("maxLength", len(said))]


def _type_of(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    return kind or ("object" if "properties" in schema or "required" in schema else "array" if "items" in schema else "string")


def _merged(parts: list[Any]) -> dict[str, Any]:
    """Several schemas that must all hold, as one."""
    whole: dict[str, Any] = {}
    for part in parts:
        for key, item in part.items() if isinstance(part, dict) else ():
            match whole.get(key), item:
                case dict(before), dict():
                    whole[key] = before | item
                case list(before), list():
                    whole[key] = [*before, *item]
                case _:
                    whole[key] = item
    whole.pop("allOf", None)
    return whole
