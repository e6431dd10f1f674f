"""Where scenarios are found: those that come with Fleetlore, by name, and files of one's own."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from fleetlore.documents.validation import KeyPath
from fleetlore.documents.yaml_lines import ParsedYaml
from fleetlore.errors import Invalid
from fleetlore.events import catalog
from fleetlore.events.names import is_name
from fleetlore.stage.budget import StageLimits
from fleetlore.stage.scenario import (
    JUDGE,
    OBSERVER,
    AgentManifest,
    AgentScript,
    Competition,
    LineSlot,
    ScriptLine,
    ScriptLines,
    StageScenario,
    StageScene,
)
from fleetlore.stage.tools import STAGE_TOOLS

# --- The rules that no type can say: who knows whom, which kinds there are, who may rule, and that everybody gets a turn.

SCENARIO_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_TEXT_BYTES = 8 * 1024
AGENT_ROLES = ("worker", OBSERVER, JUDGE)
RESERVED_NAMES = ("conductor", "visitor", "stage")
ALLOWED_KINDS = ("agent.spoke", "oracle.spoke", "commentary.posted", "world.observed", "agent.thought", "agent.reflected", "judge.verdict")
"""Kinds of the catalog that somebody of a cast may put on the log; beside them, any kind of a family that is not in the catalog."""


def check_scenario(tree: ParsedYaml, scenario: StageScenario) -> None:
    """Complain to the tree about everything that would go wrong."""
    _check_head(tree, scenario)
    names = tuple(manifest.name for manifest in scenario.cast)
    for manifest in scenario.cast:
        _check_manifest(tree, manifest, scenario, names)
    _check_competition(tree, scenario, names)
    _check_limits(tree, scenario)


def _check_head(tree: ParsedYaml, scenario: StageScenario) -> None:
    if not SCENARIO_NAME.fullmatch(scenario.name) or len(scenario.name) > 60:
        tree.add_error(("name",), f"{scenario.name!r}: lower-case words joined by hyphens are needed, 60 characters at most")
    if not scenario.seeds:
        tree.add_error(("seeds",), "at least one is needed")
    if not scenario.cast:
        tree.add_error(("agents",), "at least one is needed")
    _check_slots(tree, ("opening",), scenario.opening, ("seed", "goal"))
    for index, scene in enumerate(scenario.scenes):
        path: KeyPath = ("scenes", index)
        if scene.turn < 1:
            tree.add_error((*path, "turn"), "turns count from one")
        if not scene.text:
            tree.add_error((*path, "text"), "has no words")
        for text in (scene.text,) if isinstance(scene.text, str) else scene.text:
            _check_slots(tree, (*path, "text"), text, ("seed", "goal"))
    turns = [scene.turn for scene in scenario.scenes]
    for turn in sorted({turn for turn in turns if turns.count(turn) > 1}):
        tree.add_error(("scenes",), f"two scenes for turn {turn}; give one of them several texts")


def _check_manifest(tree: ParsedYaml, manifest: AgentManifest, scenario: StageScenario, names: tuple[str, ...]) -> None:
    path: KeyPath = ("agents", manifest.name)
    if not is_name(manifest.name) or manifest.name in RESERVED_NAMES:
        tree.add_error(
            path, f"cannot be called {manifest.name!r}; 1 to 200 bytes without control characters, and none of {', '.join(RESERVED_NAMES)}"
        )
    if manifest.role not in AGENT_ROLES:
        tree.add_error((*path, "role"), f"no role is called {manifest.role!r}; known: {', '.join(AGENT_ROLES)}")
    if not manifest.persona.strip() or len(manifest.persona.encode()) > MAX_TEXT_BYTES:
        tree.add_error((*path, "persona"), "say who it is, in 8 KiB at most")
    _check_kinds(tree, path, manifest)
    _check_turns(tree, path, manifest)
    for index, tool in enumerate(manifest.tools):
        if tool not in STAGE_TOOLS:
            tree.add_error((*path, "tools", index), f"no tool is called {tool!r}; known: {', '.join(STAGE_TOOLS)}")
    _check_script(tree, (*path, "script"), manifest, manifest.script, scenario, names)


def _check_kinds(tree: ParsedYaml, path: KeyPath, manifest: AgentManifest) -> None:
    for index, kind in enumerate(manifest.subscribes_to):
        if not catalog.is_kind_or_family(kind):
            tree.add_error((*path, "subscribes_to", index), f"{kind!r} is neither a kind such as agent.spoke nor a family such as clue.*")
    if not manifest.may_emit:
        tree.add_error((*path, "may_emit"), "it may say nothing at all; give it at least agent.spoke")
    for index, kind in enumerate(manifest.may_emit):
        if problem := _find_kind_error(kind, manifest.role):
            tree.add_error((*path, "may_emit", index), problem)
    if manifest.role == JUDGE and "judge.verdict" not in manifest.may_emit:
        tree.add_error((*path, "may_emit"), "a judge rules: add judge.verdict")


def _find_kind_error(kind: str, role: str) -> str | None:
    """Why somebody in this role may not say this; `None` if it may."""
    if not catalog.KIND_PATTERN.fullmatch(kind):
        return f"{kind!r} is no kind; dotted lower-case words are, such as agent.spoke"
    if kind == "judge.verdict" and role != JUDGE:
        return "only a judge gives a verdict: make its role judge"
    if kind not in ALLOWED_KINDS and kind.partition(".")[0] in catalog.FAMILIES:
        return f"{kind} is not for a cast to say; known: {', '.join(ALLOWED_KINDS)}, or a kind of your own such as clue.found"
    return None


def _check_turns(tree: ParsedYaml, path: KeyPath, manifest: AgentManifest) -> None:
    if manifest.tick_every is not None and manifest.tick_every < 1:
        tree.add_error((*path, "tick_every"), "counts turns: 1 is every turn, 2 every second; leave it out for never")
    if manifest.tick_every is None and not manifest.subscribes_to and manifest.role != JUDGE:
        tree.add_error(path, "would never get a turn: give it tick_every, or something to hear in subscribes_to")
    if manifest.max_consecutive < 1:
        tree.add_error((*path, "max_consecutive"), "at least 1 is needed")
    if manifest.memory.window < 0:
        tree.add_error((*path, "memory", "window"), "0 or more is needed")
    if manifest.memory.reflect_every is not None and manifest.memory.reflect_every < 1:
        tree.add_error((*path, "memory", "reflect_every"), "at least 1 is needed; leave it out for never")


def _check_script(
    tree: ParsedYaml, path: KeyPath, manifest: AgentManifest, script: AgentScript, scenario: StageScenario, names: tuple[str, ...]
) -> None:
    for name in script.replies:
        if name not in names or name == manifest.name:
            tree.add_error((*path, "replies", name), f"nobody else of the cast is called {name!r}; known: {', '.join(names)}")
    for name in script.verdicts:
        if name not in scenario.candidates:
            tree.add_error((*path, "verdicts", name), f"nobody can win as {name!r}; known: {', '.join(scenario.candidates)}")
    for where, line in _iterate_lines(script):
        text = line if isinstance(line, str) else f"{line.text} {line.thought or ''}"
        _check_slots(tree, (*path, *where), text, (*get_args(LineSlot), *(("winner", "wording") if where[0] == "verdicts" else ())))
        if not isinstance(line, str):
            _check_line(tree, (*path, *where), manifest, line)
    deal = scenario.competition.deal
    for role, dealt in script.dealt.items():
        if deal is None or role != deal.role:
            tree.add_error((*path, "dealt", role), f"no role called {role!r} is dealt in this scenario")
        _check_script(tree, (*path, "dealt", role), manifest, dealt, scenario, names)


def _check_line(tree: ParsedYaml, path: KeyPath, manifest: AgentManifest, line: ScriptLine) -> None:
    if line.use is not None and line.use not in manifest.tools:
        tree.add_error(path, f"uses {line.use!r}, which is not among its tools")
    if line.kind is not None and line.kind not in manifest.may_emit:
        tree.add_error(path, f"is a {line.kind}, which is not among what it may emit")


def _iterate_lines(script: AgentScript) -> Iterator[tuple[KeyPath, ScriptLine | str]]:
    pools: dict[KeyPath, ScriptLines] = {
        (name,): getattr(script, name) for name in ("opening", "lines", "disturbed", "closing", "reflections")
    } | {(group, name): lines for group in ("replies", "verdicts") for name, lines in getattr(script, group).items()}
    for where, lines in pools.items():
        for index, line in enumerate(lines):
            yield (*where, index), line


def _check_slots(tree: ParsedYaml, path: KeyPath, text: str, slots: tuple[str, ...]) -> None:
    try:
        found = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError:
        tree.add_error(path, "a brace that stands alone; write {{ and }} for braces")
        return
    for name in found:
        if name not in slots:
            tree.add_error(path, f"{{{name}}} is not known here; known: {', '.join(f'{{{slot}}}' for slot in slots)}")
    if not text.strip() or len(text.encode()) > MAX_TEXT_BYTES:
        tree.add_error(path, "1 byte to 8 KiB of words are needed")


def _check_competition(tree: ParsedYaml, scenario: StageScenario, names: tuple[str, ...]) -> None:
    contest, path = scenario.competition, ("competition",)
    if contest.kind != "none" and not scenario.judges:
        tree.add_error(path, f"a contest ({contest.kind}) needs a judge among the cast")
    if bool(contest.teams) != (contest.kind == "versus"):
        tree.add_error(path, "teams belong to kind versus, and versus needs two or more")
    if (contest.deal is not None) != (contest.kind == "hidden"):
        tree.add_error(path, "a deal belongs to kind hidden, and hidden needs one")
    _check_teams(tree, scenario, names)
    if contest.deal is not None:
        players = tuple(manifest.name for manifest in scenario.players)
        for index, name in enumerate(contest.deal.among):
            if name not in players:
                tree.add_error((*path, "deal", "among", index), f"no player is called {name!r}; known: {', '.join(players)}")
        if len(set(contest.deal.among)) < 2:
            tree.add_error((*path, "deal", "among"), "a hidden role is dealt among two or more")


def _check_teams(tree: ParsedYaml, scenario: StageScenario, names: tuple[str, ...]) -> None:
    taken: dict[str, str] = {}
    for team, members in scenario.competition.teams.items():
        path: KeyPath = ("competition", "teams", team)
        if team in names:
            tree.add_error(path, "is called like one of the cast; a verdict could not tell them apart")
        if not members:
            tree.add_error(path, "has nobody in it")
        for name in members:
            if problem := _find_team_error(scenario, name, names, taken):
                tree.add_error(path, problem)
            taken.setdefault(name, team)
    if len(scenario.competition.teams) == 1:
        tree.add_error(("competition", "teams"), "one team alone is no contest")


def _find_team_error(scenario: StageScenario, name: str, names: tuple[str, ...], taken: dict[str, str]) -> str | None:
    if name not in names:
        return f"nobody of the cast is called {name!r}; known: {', '.join(names)}"
    if name in taken:
        return f"{name} is in {taken[name]} already"
    role = scenario.find_agent(name).role
    return None if role not in (JUDGE, OBSERVER) else f"{name} is {'a judge' if role == JUDGE else 'an observer'} and takes no side"


def _check_limits(tree: ParsedYaml, scenario: StageScenario) -> None:
    for name in scenario.governor.__struct_fields__:
        value = getattr(scenario.governor, name)
        if value is not None and not 0 < value < 1e9:
            tree.add_error(("governor", name), "more than 0 is needed, and less than 1,000,000,000; leave it out for the usual")


# --- From a YAML file to a scenario that can be played, or to every reason why it cannot, each with its line.

T = TypeVar("T")

_REQUIRED_FIELDS = ("name", "title", "seeds", "opening", "agents")
_FIELD_TYPES: dict[str, Any] = {
    "name": str,
    "title": str,
    "about": str,
    "goal": str | None,
    "seeds": tuple[str, ...],
    "opening": str,
    "scenes": tuple[StageScene, ...],
    "agents": dict[str, Any],
    "cast": tuple[str, ...],
    "competition": Competition,
    "governor": StageLimits,
}
"""Field of the file → its type."""


def parse_scenario(text: str, source: str) -> StageScenario:
    """The scenario that a text tells; `InvalidScenario` names all that is wrong, with `source` and line."""
    tree = ParsedYaml(source, text)
    if not isinstance(tree.root, dict):
        tree.add_error((), f"a scenario is a mapping with {', '.join(_REQUIRED_FIELDS)}")
    tree.raise_if_invalid()
    parts = _convert_fields(tree)
    agents = _convert_agents(tree, parts.pop("agents", {}))
    names = parts.pop("cast", None) or tuple(agents)
    _check_cast(tree, names, agents)
    tree.raise_if_invalid()
    scenario = StageScenario(**parts, cast=tuple(agents[name] for name in names))
    check_scenario(tree, scenario)
    tree.raise_if_invalid()
    return scenario


def _convert_fields(tree: ParsedYaml) -> dict[str, Any]:
    """Every field that fits its type; complaints about the others."""
    found: dict[str, Any] = {}
    for name, value in tree.root.items():
        if name not in _FIELD_TYPES:
            tree.add_error((name,), describe_unknown_field(name, _FIELD_TYPES))
        elif (part := _convert_value(tree, (name,), _normalise_seeds(name, value), _FIELD_TYPES[name])) is not None:
            found[name] = part
    for name in _REQUIRED_FIELDS:
        if name not in tree.root:
            tree.add_error((), f"{name} is missing")
    return found


def _normalise_seeds(name: str, value: Any) -> Any:
    """Seeds may be written as numbers."""
    if name == "seeds" and isinstance(value, list):
        return [str(seed) if isinstance(seed, int | float) and not isinstance(seed, bool) else seed for seed in value]
    return value


def _convert_agents(tree: ParsedYaml, agents: dict[str, Any]) -> dict[str, AgentManifest]:
    found = {}
    for name, value in agents.items():
        path: KeyPath = ("agents", name)
        if isinstance(value, dict) and "name" in value:
            tree.add_error((*path, "name"), "the name is what stands before the colon; leave this out")
        elif (manifest := _convert_value(tree, path, value, AgentManifest)) is not None:
            found[name] = msgspec.structs.replace(manifest, name=name)
    return found


def _check_cast(tree: ParsedYaml, names: tuple[str, ...], agents: dict[str, AgentManifest]) -> None:
    written = tree.root.get("agents")
    defined = tuple(written) if isinstance(written, dict) else ()
    for index, name in enumerate(names):
        if name not in defined:
            tree.add_error(("cast", index), f"no agent is called {name!r}; {suggest_known_name(defined, name)}")
        if name in names[:index]:
            tree.add_error(("cast", index), f"{name} is there twice")


def _convert_value(tree: ParsedYaml, path: KeyPath, value: Any, type: Any) -> Any:
    """The value as that type; `None` after a complaint."""
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        reason, _, inner = str(error).partition(" - at `$")
        where = _extend_path(tree, path, inner.rstrip("`"))
        tree.add_error(*_explain_error(tree, where, reason, type))
        return None


def _extend_path(tree: ParsedYaml, path: KeyPath, inner: str) -> KeyPath:
    """msgspec's `.memory.lines[2]` as a path of ours; of a mapping it only says `[...]`, which ends the path that is known."""
    for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", inner):
        if index == "...":
            return path
        path = (*path, int(index) if index else name)
    return path


def _explain_error(tree: ParsedYaml, path: KeyPath, reason: str, type: Any) -> tuple[KeyPath, str]:
    """In our words, and where the wrong field itself stands."""
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", reason, re.DOTALL):
        field = match[1]
        place = next((where for where in tree.lines if where[: len(path)] == path and where[-1] == field), (*path, field))
        return place, describe_unknown_field(field, _known_fields(type, path))
    if match := re.fullmatch(r"Object missing required field `(.*)`", reason):
        return path, f"{match[1]} is missing"
    if "got `bool`" in reason and "str" in reason:
        return path, f"{reason[0].lower()}{reason[1:]}; YAML takes yes, no, on and off for true and false: put words into quotes"
    return path, f"{reason[0].lower()}{reason[1:]}"


def _known_fields(type: Any, path: KeyPath) -> tuple[str, ...]:
    """The fields that are known there, as far as the type tells."""
    for part in path:
        hint = getattr(type, "__annotations__", {}).get(part)
        found = None if hint is None else _NESTED_STRUCTS.get(part if isinstance(part, str) else "")
        type = found or type
    return tuple(name for name in getattr(type, "__struct_fields__", ()) if not (type is AgentManifest and name == "name"))


def _load_nested_structs() -> dict[str, Any]:
    from fleetlore.stage.scenario import AgentScript, HiddenRoleDeal, StageMemory

    return {"memory": StageMemory, "script": AgentScript, "deal": HiddenRoleDeal}


_NESTED_STRUCTS = _load_nested_structs()


def describe_unknown_field(name: str, fields: Any) -> str:
    """That there is no such field, and which there are."""
    return f"no such field; {suggest_known_name(tuple(fields), name)}"


def suggest_known_name(names: tuple[str, ...], wrong: str) -> str:
    """Which there are, and which was perhaps meant."""
    near = get_close_matches(wrong, names, n=1)
    return f"known: {', '.join(names) or 'none'}" + (f"; did you mean {near[0]}?" if near else "")


# ---

_SHIPPED_SCENARIOS = resources.files("fleetlore.stage") / "scenarios"


def list_scenario_names() -> tuple[str, ...]:
    """Those that come with Fleetlore."""
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in _SHIPPED_SCENARIOS.iterdir() if entry.name.endswith(".yaml")))


def load_scenario(place: str) -> StageScenario:
    """A scenario by its name, or by the path of its file; `Invalid` says what is wrong with it."""
    if place in list_scenario_names():
        return parse_scenario((_SHIPPED_SCENARIOS / f"{place}.yaml").read_text(encoding="utf-8"), f"{place}.yaml")
    path = Path(place).expanduser()
    if path.suffix not in (".yaml", ".yml") and not path.exists():
        raise Invalid(
            f"no scenario is called {place!r}; {suggest_known_name(list_scenario_names(), place)}; or name a file, as in ./my.yaml"
        )
    try:
        return parse_scenario(path.read_text(encoding="utf-8"), place)
    except UnicodeDecodeError as error:
        raise Invalid(f"{place}: is not UTF-8 text; save it as such") from error
