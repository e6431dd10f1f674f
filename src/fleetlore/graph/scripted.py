"""A scripted model for the shipped graphs: an agent can be tried without a key, and answers are deterministic.

It makes a counter, a lamp, a traffic light and a table on request, passes on a query that starts with SELECT or follows `sql:`, runs
the code after `python:`, clears the screen, remembers a name, and fails on request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fleetlore.errors import ModelError
from fleetlore.graph.word_match import WordList, split_words
from fleetlore.models.base import ModelRequest
from fleetlore.models.scripted import Answer, Calls, ScriptedModel

SCRIPTED_ADDRESS = "scripted:"

_GREETING_WORDS = WordList(
    ("hello", "hi", "hey", "good morning", "good evening", "thanks", "thank you", "bye", "hallo", "moin", "danke", "tschüss")
)
_GERMAN_WORDS = WordList(
    ("hallo", "moin", "danke", "bitte", "ich", "und", "zeig", "zeige", "mach", "mache", "eine", "einen", "zähler", "ampel")
)
_QUESTION_WORDS = WordList(("what", "why", "how", "who", "when", "where", "which", "was", "warum", "wie", "wer", "wann", "wo", "welche"))
_SQL = re.compile(r"\bsql:\s*(?P<any>.+)|\bselect\b.+", re.IGNORECASE | re.DOTALL)
_PYTHON = re.compile(r"\bpython:\s*(.+)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"\b(?:my name is|i am called|ich heiße)\s+(\w+)", re.IGNORECASE)
_MACHINE = re.compile(r"^> Machine ([^:]+):", re.MULTILINE)
_QUOTED_LINE = re.compile(r"^> ?(.*)$", re.MULTILINE)
_DEFAULT_REPLY = "I can make a counter, a lamp, a traffic light or a table; ask for one, or tell me your name."


def create_scripted_model() -> ScriptedModel:
    """A model that follows this script."""
    return ScriptedModel(answer_request, name=SCRIPTED_ADDRESS)


def answer_request(request: ModelRequest) -> Answer:
    """The scripted answer for the node that asks."""
    answer = _ANSWERS_BY_ROLE.get(request.role or "")
    return _DEFAULT_REPLY if answer is None else answer(request)


def _answer_input(request: ModelRequest) -> Answer:
    text = request.prompt
    words = split_words(text)
    is_social = _GREETING_WORDS.is_found_in(text) and len(words) <= 4
    is_question = text.rstrip().endswith("?") or _QUESTION_WORDS.is_found_in(text)
    return {
        "language": "de" if _GERMAN_WORDS.is_found_in(text) else "en",
        "intent": "social" if is_social else "question" if is_question else "request",
        "topic": " ".join(words[:6]),
        "tone": "urgent" if text.rstrip().endswith("!") and not is_social else "casual",
        "complexity": "trivial" if is_social else "complex" if len(words) > 40 else "simple",
    }


def _answer_thinker(request: ModelRequest) -> Answer:
    """Tool calls first; once there are results, a summary."""
    last = request.messages[-1] if request.messages and not request.prompt else None
    if last is not None and last.role == "tool":
        return _summarise_results(request)
    for words, make in _SCREEN_REQUESTS:
        if words.is_found_in(request.prompt):
            return make(request)
    if (query := _SQL.search(request.prompt)) is not None and (database := _first_database(request)) is not None:
        return Calls([("query_db", {"database": database, "query": query["any"] or query[0]})])
    if (code := _PYTHON.search(request.prompt)) is not None and any(tool.name == "run_python" for tool in request.tools):
        return Calls([("run_python", {"code": code[1]})])
    if WordList(("table", "tabelle")).is_found_in(request.prompt):
        return Calls([("emit_display", {"items": [PLANET_TABLE]})])
    if (name := _NAME.search(request.prompt)) is not None:
        return f"Glad to know you, {name[1]}."
    return _DEFAULT_REPLY


def _summarise_results(request: ModelRequest) -> str:
    results = []
    for message in reversed(request.messages):
        if message.role != "tool":
            break
        results.append(message)
    failed = next((each.text for each in results if each.failed), None)
    return f"That did not work: {failed}" if failed is not None else results[0].text.splitlines()[0]


def _answer_output(request: ModelRequest) -> Answer:
    """The notes as they are; without notes, a greeting."""
    _, separator, notes = request.prompt.rpartition("The notes:\n")
    if separator:
        return " ".join(_QUOTED_LINE.findall(notes))
    welcome = "Welcome back! " if "is back after" in (request.system or "") else ""
    is_german = _GERMAN_WORDS.is_found_in(request.prompt)
    return welcome + ("Schön, dass du da bist. Was darf es sein?" if is_german else f"Good to see you. {_DEFAULT_REPLY}")


def _answer_memorizer(request: ModelRequest) -> Answer:
    user_lines = [line.removeprefix("user: ") for line in _QUOTED_LINE.findall(request.prompt) if line.startswith("user: ")]
    last = user_lines[-1] if user_lines else ""
    names = [f"The user's name is {match[1]}." for line in user_lines if (match := _NAME.search(line))]
    return {
        "mood": "calm",
        "topic": " ".join(split_words(last)[:6]),
        "language": "de" if _GERMAN_WORDS.is_found_in(last) else "en",
        "style": "brief",
        "facts": names,
    }


def _answer_plan(request: ModelRequest) -> Answer:
    return {
        "goal": " ".join(split_words(request.prompt)[:8]),
        "steps": ["Look it up with query_db.", "Show it as a table."],
        "present_as": "table",
    }


def _make_counter(request: ModelRequest) -> Answer:
    payload = {"var": "count", "initial": 0}
    buttons = [
        {"label": "+1", "action": "count_up", "payload": {**payload, "op": "inc"}},
        {"label": "-1", "action": "count_down", "payload": {**payload, "op": "dec"}},
        {"label": "Zero", "action": "count_zero", "payload": {**payload, "op": "set", "value": 0}},
    ]
    label = {"type": "label", "id": "count", "text": "Count", "value": 0}
    return Calls(
        [("set_state", {"key": "count", "value": 0}), ("emit_display", {"items": [label]}), ("emit_actions", {"actions": buttons})]
    )


def _make_lamp(request: ModelRequest) -> Answer:
    button = {"label": "Switch", "action": "lamp_switch", "payload": {"var": "lamp", "op": "toggle", "initial": False}}
    label = {"type": "label", "id": "lamp", "text": "Lamp", "value": False}
    return Calls([("emit_display", {"items": [label]}), ("emit_actions", {"actions": [button]})])


def _make_traffic_light(request: ModelRequest) -> Answer:
    transitions = {"red": "green", "green": "yellow", "yellow": "red"}
    states = [{"name": name, "text": name, "buttons": [{"label": "Next", "action": "next", "go": go}]} for name, go in transitions.items()]
    return Calls([("create_machine", {"id": "light", "initial": "red", "states": states})])


def _clear_screen(request: ModelRequest) -> Answer:
    destroyed: list[tuple[str, dict[str, Any] | str]] = [("destroy_machine", {"id": id}) for id in _MACHINE.findall(request.system or "")]
    return Calls([("emit_actions", {"actions": []}), ("emit_display", {"items": []}), *destroyed])


def _make_failure(request: ModelRequest) -> Answer:
    return ModelError("this script fails on request; send anything else to continue")


def _first_database(request: ModelRequest) -> str | None:
    schema = next((tool.schema for tool in request.tools if tool.name == "query_db"), None)
    return None if schema is None else str(schema["properties"]["database"]["enum"][0])


def _answer_director(request: ModelRequest) -> Answer:
    return {"mode": "building" if "pressed" in request.prompt else "casual", "style": "brief", "proactive": False}


def _answer_critic(request: ModelRequest) -> Answer:
    return {"ok": True, "advice": ""}


_ANSWERS_BY_ROLE: Mapping[str, Callable[[ModelRequest], Answer]] = {
    "input": _answer_input,
    "thinker": _answer_thinker,
    "output": _answer_output,
    "memorizer": _answer_memorizer,
    "director": _answer_director,
    "director:plan": _answer_plan,
    "critic": _answer_critic,
}
PLANET_TABLE = {
    "type": "table",
    "columns": ["planet", "moons"],
    "data": [["Mercury", 0], ["Venus", 0], ["Earth", 1], ["Mars", 2]],
}
_SCREEN_REQUESTS: tuple[tuple[WordList, Callable[[ModelRequest], Answer]], ...] = (
    (WordList(("fail", "scheitere")), _make_failure),
    (WordList(("clear", "remove everything", "räume auf", "leere")), _clear_screen),
    (WordList(("counter", "zähler")), _make_counter),
    (WordList(("lamp", "lampe")), _make_lamp),
    (WordList(("traffic light", "ampel", "machine")), _make_traffic_light),
)
