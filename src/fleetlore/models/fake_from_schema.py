"""Deterministic fake objects from a JSON schema: the same seed gives the same object. Used by `scripted.py`."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, TypeVar

from fleetlore.models.json_schema import resolve_reference

# --- Built-in lines: harmless, and fitting into most conversations

SPOKEN_LINES = (
    "Let us look at what we know before we guess at what we do not.",
    "I agree with half of that, and the other half is the interesting one.",
    "Somebody moved the lamp. Ask yourselves who needed the dark.",
    "If that is true, then the bell should have rung twice. I heard it once.",
    "We keep talking about the door. Nobody has mentioned the window.",
    "Give me one fact that would change your mind, and I will go and look for it.",
    "It is simpler than we make it: start small, and see what breaks.",
    "I was wrong about the first part. I still think the second part holds.",
    "There is a cost to that which nobody has counted yet: our time.",
    "Then we try it the other way round, and compare.",
    "The quiet one in the corner has not been asked. I should like to hear from there.",
    "That explains the footprints. It does not explain the umbrella.",
    "Two of us saw the same thing and told it differently. That is worth a closer look.",
    "Write it down as it happened, not as we wish it had.",
    "I would rather have a small answer today than a grand one too late.",
    "We have the map, the rope and the hour. What we lack is a reason to wait.",
    "Strange: it only happens when it rains.",
    "Leave that open for now. The next clue will close it, or it will not matter.",
    "Suppose our guess is the wrong way round. What would we see then?",
    "That is the best argument so far, and it comes from the least likely side.",
)

THOUGHT_LINES = (
    "They have not noticed yet. I had better be plain about it.",
    "I am less sure than I sound.",
    "That answer came too quickly.",
    "One more fact and I will make up my mind.",
    "I must not say this again in other words; it needs something new.",
    "Somebody here knows more than they tell.",
    "If nobody asks, I will bring it up myself.",
    "This is going better than I feared.",
)

JUDGE_LINES = (
    "Having weighed it all, I decide for the one who brought facts where others brought feelings.",
    "It was close. The clearer line of thought carries it.",
    "Both made their case; one of them also answered the other's.",
    "The boldest claim was also the best supported. That settles it.",
    "I looked for a reason to doubt it, and found none that would hold.",
    "The winner said less, and more of it was true.",
)

SHORT_WORDS = ("amber", "birch", "candle", "drift", "ember", "fern", "gable", "harbour", "ivory", "juniper", "kettle", "lantern")


# --- Generator

_Item = TypeVar("_Item")
_MAX_DEPTH = 24
_DEFAULT_RANGE = 10


class SeededRandom:
    """Numbers that depend only on the seed, on every machine and in every Python version."""

    def __init__(self, *seed: object) -> None:
        self._seed = "\x1f".join(map(str, seed))
        self._draw_count = 0

    def next_number(self, limit: int) -> int:
        """The next number below `limit`."""
        self._draw_count += 1
        digest = sha256(f"{self._draw_count}\x1f{self._seed}".encode(errors="surrogatepass")).digest()
        return int.from_bytes(digest[:8]) % max(1, limit)

    def choose_item(self, items: Sequence[_Item]) -> _Item:
        """One of the items."""
        return items[self.next_number(len(items))]


def make_line(random: SeededRandom, *, role: str | None = None, field: str = "text") -> str:
    """A line of text, depending on the role and on the field's name."""
    if field in ("thought", "thoughts", "thinking", "reasoning"):
        return random.choose_item(THOUGHT_LINES)
    return random.choose_item(JUDGE_LINES if role and "judge" in role.lower() else SPOKEN_LINES)


def make_fake_value(schema: Any, random: SeededRandom, *, role: str | None = None) -> Any:
    """A value that fits the schema, as far as the generator supports it."""
    return _FakeBuilder(schema, random, role).make_value(schema, "text", 0)


class _FakeBuilder:
    """Walks through one schema."""

    def __init__(self, root: Any, random: SeededRandom, role: str | None) -> None:
        self._root, self._random, self._role = root, random, role

    def make_value(self, schema: Any, field: str, depth: int) -> Any:
        """One value; `field` is its name in the parent object."""
        schema = resolve_reference(schema, self._root)
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._random.choose_item(schema["enum"])
        for combinator in ("anyOf", "oneOf"):
            if schema.get(combinator):
                return self.make_value(schema[combinator][0], field, depth + 1)
        if schema.get("allOf"):
            schema = _merge_schemas([schema, *(resolve_reference(part, self._root) for part in schema["allOf"])])
        return self._make_typed_value(schema, field, depth)

    def _make_typed_value(self, schema: dict[str, Any], field: str, depth: int) -> Any:
        match _schema_type(schema):
            case "object":
                return self._make_object(schema, depth)
            case "array":
                max_items = schema.get("maxItems", schema.get("minItems", 0) + 2)
                count = schema.get("minItems", min(1, max_items))
                return [self.make_value(schema.get("items", {"type": "string"}), field, depth + 1) for _ in range(count)]
            case "integer" | "number" as kind:
                return self._make_number(schema, kind)
            case "boolean":
                return self._random.next_number(2) == 1
            case "null":
                return None
            case _:
                return self._make_string(schema, field)

    def _make_object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        names = dict.fromkeys([*properties, *schema.get("required", ())])
        return {
            name: self.make_value(properties.get(name, {}), name, depth + 1)
            for name in names
            if depth < 4 or name in schema.get("required", ())
        }

    def _make_number(self, schema: dict[str, Any], kind: str) -> float:
        minimum = schema.get("minimum", schema.get("exclusiveMinimum"))
        maximum = schema.get("maximum", schema.get("exclusiveMaximum"))
        if minimum is None:
            minimum = 0 if maximum is None or maximum > 0 else maximum - _DEFAULT_RANGE
        if maximum is None:
            maximum = minimum + _DEFAULT_RANGE
        if kind == "integer":
            low = int(-(-minimum // 1)) + (schema.get("exclusiveMinimum") == minimum)
            high = int(maximum // 1) - (schema.get("exclusiveMaximum") == maximum)
            return low + self._random.next_number(high - low + 1)
        return round(float(minimum + (maximum - minimum) * (1 + self._random.next_number(98)) / 100), 4)

    def _make_string(self, schema: dict[str, Any], field: str) -> str:
        is_short = schema.get("maxLength", 1000) < 20 or field in ("mood", "name", "kind", "label")
        text = self._random.choose_item(SHORT_WORDS) if is_short else make_line(self._random, role=self._role, field=field)
        while len(text) < schema.get("minLength", 0):
            text += f" {make_line(self._random, role=self._role, field=field)}"
        return text[: schema.get("maxLength", len(text))]


def _schema_type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    return kind or ("object" if "properties" in schema or "required" in schema else "array" if "items" in schema else "string")


def _merge_schemas(parts: list[Any]) -> dict[str, Any]:
    """One schema for several that must all hold (`allOf`)."""
    merged: dict[str, Any] = {}
    for part in parts:
        for key, item in part.items() if isinstance(part, dict) else ():
            match merged.get(key), item:
                case dict(before), dict():
                    merged[key] = before | item
                case list(before), list():
                    merged[key] = [*before, *item]
                case _:
                    merged[key] = item
    merged.pop("allOf", None)
    return merged
