"""An OpenAI-compatible endpoint on loopback that is strict about schemas, answers prose, fails every third call, or slips once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from tests.models.stub import Stub, Wire, answers, chat, refuses

Mode = Literal["strict", "prose", "fails_third", "slips_once"]
"""`slips_once`: the first answer to each request for an object is prose."""
PROSE = "I have thought about it, and this is what I say about the matter."
_FORBIDDEN_IN_STRICT_MODE = {"minLength", "maxLength", "minProperties", "maxProperties", "default", "allOf"}

ChooseCalls = Callable[[dict[str, Any]], "list[tuple[str, dict[str, Any]]] | str"]
"""From a request with tools to the calls or the text of the answer."""


class FunctionStub(Stub):
    """Fills the schema that a request asks for; requests with tools are answered by `choose`."""

    def __init__(
        self, mode: Mode = "strict", choose: ChooseCalls = lambda body: "Nothing to do.", *, max_context: int | None = None
    ) -> None:
        """`max_context`: characters of messages; longer requests are refused in the words of llama.cpp."""
        super().__init__(self._act)
        self.mode, self._choose, self._max_context = mode, choose, max_context
        self.refusals: list[str] = []

    async def _act(self, wire: Wire) -> None:
        body, number = self.asked[-1].body, len(self.asked)
        if self.mode == "fails_third" and number % 3 == 0:
            await refuses(500, {"error": {"message": "out of order"}})(wire)
        elif self.mode == "prose":
            await answers(*chat(f"{PROSE} ({number})"))(wire)
        elif self.mode == "slips_once" and "response_format" in body and "could not be used" not in str(body["messages"][-1]):
            await answers(*chat(PROSE))(wire)
        elif self._max_context and (size := len(json.dumps(body["messages"]))) > self._max_context:
            self.refusals.append(f"request ({size} tokens) exceeds the available context size ({self._max_context} tokens)")
            await refuses(400, {"error": {"message": self.refusals[-1]}})(wire)
        elif problem := _find_problem(body):
            self.refusals.append(problem)
            await refuses(400, {"error": {"message": f"Invalid schema: {problem}"}})(wire)
        else:
            await answers(*self._answer(body, number))(wire)

    def _answer(self, body: dict[str, Any], number: int) -> list[str]:
        if "response_format" in body:
            return chat(json.dumps(fill(body["response_format"]["json_schema"]["schema"], number)))
        chosen = self._choose(body) if body.get("tools") else f"Here are the facts, number {number}."
        if isinstance(chosen, str):
            return chat(chosen)
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body["tools"]}
        calls = [
            {"index": at, "id": f"call_{number}_{at}", "function": {"name": name, "arguments": json.dumps(_with_nulls(known[name], given))}}
            for at, (name, given) in enumerate(chosen)
        ]
        return chat("", tool_calls=calls)


def count_results(body: dict[str, Any]) -> int:
    """Tool results since the last user message."""
    count = 0
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            break
        count += message["role"] == "tool"
    return count


def fill(schema: dict[str, Any], number: int) -> Any:
    """A value that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {name: fill(field, number) for name, field in schema["properties"].items()}
        case "array":
            return [fill(schema["items"], number)]
        case "integer" | "number":
            return schema.get("minimum", 5)
        case "boolean":
            return False
        case "null":
            return None
    return f"I say thing number {number}, which nobody has said."


def _with_nulls(schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """In strict mode every field is there."""
    return {name: given.get(name) for name in schema["properties"]}


def _find_problem(body: dict[str, Any]) -> str | None:
    functions = [tool["function"] for tool in body.get("tools", ())]
    if loose := [each["name"] for each in functions if not each.get("strict") and each["name"] != "emit_actions"]:
        return f"{loose} must be strict"
    schemas = [(function.get("strict"), function["parameters"]) for function in functions]
    if "response_format" in body:
        wanted = body["response_format"]["json_schema"]
        schemas.append((True, wanted["schema"]))
        if not wanted.get("strict"):
            return "the answer must be strict"
    for is_strict, schema in schemas:
        # A function with free fields cannot be strict; everything else must be.
        if is_strict and (problem := _find_schema_problem(schema, "$")):
            return problem
    return None


def _find_schema_problem(schema: dict[str, Any], path: str) -> str | None:
    if found := _FORBIDDEN_IN_STRICT_MODE & set(schema):
        return f"{path}: {found} is not permitted"
    kinds = schema.get("type", ())
    if "object" in ((kinds,) if isinstance(kinds, str) else kinds):
        if schema.get("additionalProperties") is not False:
            return f"{path}: additionalProperties must be false"
        if set(schema.get("required", ())) != set(schema["properties"]):
            return f"{path}: required must list every property"
    parts = [*schema.get("properties", {}).items(), *([("items", schema["items"])] if "items" in schema else [])]
    return next((problem for name, part in parts if (problem := _find_schema_problem(part, f"{path}.{name}"))), None)
