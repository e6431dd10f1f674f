"""Loads scenarios: those shipped with Fleetlore by name, others by path. Reports all errors with their lines."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from fleetlore.documents.document import Document, DocumentType, load_document, missing_fields, parse_document
from fleetlore.documents.validation import KeyPath
from fleetlore.errors import Invalid, InvalidScenario
from fleetlore.events import catalog
from fleetlore.events.budget_axes import list_axes
from fleetlore.events.envelope import is_name
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

# --- Finding scenarios

_SHIPPED_SCENARIOS = resources.files("fleetlore.stage") / "scenarios"


def list_scenario_names() -> tuple[str, ...]:
    """Names of the shipped scenarios."""
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in _SHIPPED_SCENARIOS.iterdir() if entry.name.endswith(".yaml")))


def load_scenario(source: str) -> StageScenario:
    """Load a scenario by name or by the path of its file; raises `Invalid` with what is wrong."""
    if source in list_scenario_names():
        return parse_scenario((_SHIPPED_SCENARIOS / f"{source}.yaml").read_text(encoding="utf-8"), f"{source}.yaml")
    path = Path(source).expanduser()
    if path.suffix not in (".yaml", ".yml") and not path.exists():
        raise Invalid(
            f"no scenario is called {source!r}; {suggest_known_name(list_scenario_names(), source)}; or name a file, as in ./my.yaml"
        )
    return _build_scenario(load_document(source, SCENARIO, any_suffix=True))


# --- Parsing

SCENARIO = DocumentType(
    suffixes=(".yaml", ".yml"),
    wrong_suffix="a scenario is written in a file that ends in .yaml or .yml",
    not_a_table="a scenario is a mapping with name, title, seeds, opening, agents",
    error=InvalidScenario,
    max_bytes=1024 * 1024,
    too_large="that is too large for a scenario",
)


class _ScenarioTable(Struct, kw_only=True):
    """Top-level keys of a scenario."""

    name: str
    title: str
    about: str = ""
    goal: str | None = None
    seeds: tuple[str, ...]
    opening: str
    scenes: tuple[StageScene, ...] = ()
    agents: dict[str, Any]
    cast: tuple[str, ...] = ()
    competition: Competition = Competition()
    governor: StageLimits = StageLimits()


def parse_scenario(text: str, source: str) -> StageScenario:
    """Parse a scenario; raises `InvalidScenario` with all errors, each with `source` and line."""
    return _build_scenario(parse_document(text, source, SCENARIO))


def _build_scenario(document: Document) -> StageScenario:
    normalise: Mapping[str, Callable[[Any], Any]] = {"seeds": _normalise_seeds, "governor": _normalise_limits}
    root = {name: normalise[name](value) if name in normalise else value for name, value in document.root.items()}
    fields = document.convert_fields((), root, _ScenarioTable)
    for name in missing_fields(_ScenarioTable, root):
        document.add_error((), f"{name} is missing")
    agents = _convert_agents(document, fields.pop("agents", {}))
    names = fields.pop("cast", None) or tuple(agents)
    _check_cast(document, names, agents)
    document.raise_if_invalid()
    scenario = StageScenario(**fields, cast=tuple(agents[name] for name in names))
    check_scenario(document, scenario)
    document.raise_if_invalid()
    return scenario


def _normalise_seeds(value: Any) -> Any:
    """Convert seeds that are written as numbers to strings."""
    if isinstance(value, list):
        return [str(seed) if isinstance(seed, int | float) and not isinstance(seed, bool) else seed for seed in value]
    return value


def _normalise_limits(value: Any) -> Any:
    """Move limits on axes that are counted from events to `others`; in the file they look like all other limits."""
    names = {f"max_{row.name}": row.name for row in list_axes("stage") if row.is_counted_from_events}
    if not isinstance(value, dict) or not names.keys() & value.keys():
        return value
    return {name: limit for name, limit in value.items() if name not in names} | {
        "others": {names[name]: limit for name, limit in value.items() if name in names}
    }


def _convert_agents(document: Document, agents: dict[str, Any]) -> dict[str, AgentManifest]:
    manifests = {}
    for name, value in agents.items():
        path: KeyPath = ("agents", name)
        if isinstance(value, dict) and "name" in value:
            document.add_error((*path, "name"), "the name is the key before the colon; remove this")
        elif (manifest := document.convert_value(path, value, AgentManifest, without=("name",))) is not None:
            manifests[name] = msgspec.structs.replace(manifest, name=name)
    return manifests


def _check_cast(document: Document, names: tuple[str, ...], agents: dict[str, AgentManifest]) -> None:
    agents_table = document.root.get("agents")
    defined = tuple(agents_table) if isinstance(agents_table, dict) else ()
    for index, name in enumerate(names):
        if name not in defined:
            document.add_error(("cast", index), f"no agent is called {name!r}; {suggest_known_name(defined, name)}")
        if name in names[:index]:
            document.add_error(("cast", index), f"{name} is there twice")


def suggest_known_name(names: tuple[str, ...], name: str) -> str:
    """The known names, and the closest match."""
    matches = get_close_matches(name, names, n=1)
    return f"known: {', '.join(names) or 'none'}" + (f"; did you mean {matches[0]}?" if matches else "")


# --- Checks that types cannot express: names, kinds, roles, and that every agent gets a turn

SCENARIO_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_TEXT_BYTES = 8 * 1024
AGENT_ROLES = ("worker", OBSERVER, JUDGE)
RESERVED_NAMES = ("conductor", "visitor", "stage")
ALLOWED_KINDS = ("agent.spoke", "oracle.spoke", "commentary.posted", "world.observed", "agent.thought", "agent.reflected", "judge.verdict")
"""Catalog kinds that a cast may emit; kinds of families outside the catalog are also allowed."""


def check_scenario(document: Document, scenario: StageScenario) -> None:
    """Add every error of the scenario to the document."""
    _check_top_level(document, scenario)
    names = tuple(manifest.name for manifest in scenario.cast)
    for manifest in scenario.cast:
        _check_manifest(document, manifest, scenario, names)
    _check_competition(document, scenario, names)
    _check_limits(document, scenario)


def _check_top_level(document: Document, scenario: StageScenario) -> None:
    if not SCENARIO_NAME.fullmatch(scenario.name) or len(scenario.name) > 60:
        document.add_error(("name",), f"{scenario.name!r}: use lower-case words joined by hyphens, at most 60 characters")
    if not scenario.seeds:
        document.add_error(("seeds",), "at least one is needed")
    if not scenario.cast:
        document.add_error(("agents",), "at least one is needed")
    _check_slots(document, ("opening",), scenario.opening, ("seed", "goal"))
    for index, scene in enumerate(scenario.scenes):
        path: KeyPath = ("scenes", index)
        if scene.turn < 1:
            document.add_error((*path, "turn"), "turns count from one")
        if not scene.text:
            document.add_error((*path, "text"), "is empty")
        for text in (scene.text,) if isinstance(scene.text, str) else scene.text:
            _check_slots(document, (*path, "text"), text, ("seed", "goal"))
    turns = [scene.turn for scene in scenario.scenes]
    for turn in sorted({turn for turn in turns if turns.count(turn) > 1}):
        document.add_error(("scenes",), f"two scenes for turn {turn}; give one of them several texts")


def _check_manifest(document: Document, manifest: AgentManifest, scenario: StageScenario, names: tuple[str, ...]) -> None:
    path: KeyPath = ("agents", manifest.name)
    if not is_name(manifest.name) or manifest.name in RESERVED_NAMES:
        document.add_error(
            path, f"cannot be called {manifest.name!r}; 1 to 200 bytes without control characters, and none of {', '.join(RESERVED_NAMES)}"
        )
    if manifest.role not in AGENT_ROLES:
        document.add_error((*path, "role"), f"no role is called {manifest.role!r}; known: {', '.join(AGENT_ROLES)}")
    if not manifest.persona.strip() or len(manifest.persona.encode()) > MAX_TEXT_BYTES:
        document.add_error((*path, "persona"), "describe the agent, in at most 8 KiB")
    _check_kinds(document, path, manifest)
    _check_turns(document, path, manifest)
    for index, tool in enumerate(manifest.tools):
        if tool not in STAGE_TOOLS:
            document.add_error((*path, "tools", index), f"no tool is called {tool!r}; known: {', '.join(STAGE_TOOLS)}")
    _check_script(document, (*path, "script"), manifest, manifest.script, scenario, names)


def _check_kinds(document: Document, path: KeyPath, manifest: AgentManifest) -> None:
    for index, kind in enumerate(manifest.subscribes_to):
        if not catalog.is_kind_or_family(kind):
            document.add_error(
                (*path, "subscribes_to", index), f"{kind!r} is neither a kind such as agent.spoke nor a family such as clue.*"
            )
    if not manifest.may_emit:
        document.add_error((*path, "may_emit"), "it may emit nothing; add at least agent.spoke")
    for index, kind in enumerate(manifest.may_emit):
        if problem := _find_kind_error(kind, manifest.role):
            document.add_error((*path, "may_emit", index), problem)
    if manifest.role == JUDGE and "judge.verdict" not in manifest.may_emit:
        document.add_error((*path, "may_emit"), "a judge must be able to give a verdict: add judge.verdict")


def _find_kind_error(kind: str, role: str) -> str | None:
    """Why an agent with this role may not emit the kind; `None` if it may."""
    if not catalog.KIND_PATTERN.fullmatch(kind):
        return f"{kind!r} is no kind; use dotted lower-case words, such as agent.spoke"
    if kind == "judge.verdict" and role != JUDGE:
        return "only a judge gives a verdict: make its role judge"
    if kind not in ALLOWED_KINDS and kind.partition(".")[0] in catalog.FAMILIES:
        return f"agents of a cast cannot emit {kind}; choose from {', '.join(ALLOWED_KINDS)}, or use a kind of your own such as clue.found"
    return None


def _check_turns(document: Document, path: KeyPath, manifest: AgentManifest) -> None:
    if manifest.tick_every is not None and manifest.tick_every < 1:
        document.add_error((*path, "tick_every"), "counts turns: 1 is every turn, 2 every second; omit it for never")
    if manifest.tick_every is None and not manifest.subscribes_to and manifest.role != JUDGE:
        document.add_error(path, "would never get a turn: set tick_every, or kinds in subscribes_to")
    if manifest.max_consecutive < 1:
        document.add_error((*path, "max_consecutive"), "at least 1 is needed")
    if manifest.memory.window < 0:
        document.add_error((*path, "memory", "window"), "0 or more is needed")
    if manifest.memory.reflect_every is not None and manifest.memory.reflect_every < 1:
        document.add_error((*path, "memory", "reflect_every"), "at least 1 is needed; omit it for never")


def _check_script(
    document: Document, path: KeyPath, manifest: AgentManifest, script: AgentScript, scenario: StageScenario, names: tuple[str, ...]
) -> None:
    for name in script.replies:
        if name not in names or name == manifest.name:
            document.add_error((*path, "replies", name), f"no other agent of the cast is named {name!r}; known: {', '.join(names)}")
    for name in script.verdicts:
        if name not in scenario.candidates:
            document.add_error((*path, "verdicts", name), f"{name!r} cannot win; possible winners: {', '.join(scenario.candidates)}")
    for line_path, line in _iterate_lines(script):
        text = line if isinstance(line, str) else f"{line.text} {line.thought or ''}"
        _check_slots(
            document, (*path, *line_path), text, (*get_args(LineSlot), *(("winner", "wording") if line_path[0] == "verdicts" else ()))
        )
        if not isinstance(line, str):
            _check_line(document, (*path, *line_path), manifest, line)
    deal = scenario.competition.deal
    for role, role_script in script.dealt.items():
        if deal is None or role != deal.role:
            document.add_error((*path, "dealt", role), f"no role called {role!r} is dealt in this scenario")
        _check_script(document, (*path, "dealt", role), manifest, role_script, scenario, names)


def _check_line(document: Document, path: KeyPath, manifest: AgentManifest, line: ScriptLine) -> None:
    if line.use is not None and line.use not in manifest.tools:
        document.add_error(path, f"uses {line.use!r}, which is not among its tools")
    if line.kind is not None and line.kind not in manifest.may_emit:
        document.add_error(path, f"is a {line.kind}, which is not among what it may emit")


def _iterate_lines(script: AgentScript) -> Iterator[tuple[KeyPath, ScriptLine | str]]:
    """Every line of a script, with its path below the script."""
    pools: dict[KeyPath, ScriptLines] = {
        ("opening",): script.opening,
        ("lines",): script.lines,
        ("disturbed",): script.disturbed,
        ("closing",): script.closing,
        ("reflections",): script.reflections,
        **{("replies", name): lines for name, lines in script.replies.items()},
        **{("verdicts", name): lines for name, lines in script.verdicts.items()},
    }
    for path, lines in pools.items():
        for index, line in enumerate(lines):
            yield (*path, index), line


def _check_slots(document: Document, path: KeyPath, text: str, slots: tuple[str, ...]) -> None:
    """Check that a text uses only these placeholders (slots), as in `{goal}`, and is neither empty nor too long."""
    try:
        used = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError:
        document.add_error(path, "a single brace; write {{ and }} for braces")
        return
    for name in used:
        if name not in slots:
            document.add_error(path, f"{{{name}}} is not known here; known: {', '.join(f'{{{slot}}}' for slot in slots)}")
    if not text.strip() or len(text.encode()) > MAX_TEXT_BYTES:
        document.add_error(path, "the text must have 1 byte to 8 KiB")


def _check_competition(document: Document, scenario: StageScenario, names: tuple[str, ...]) -> None:
    competition, path = scenario.competition, ("competition",)
    if competition.kind != "none" and not scenario.judges:
        document.add_error(path, f"a contest ({competition.kind}) needs a judge among the cast")
    if bool(competition.teams) != (competition.kind == "versus"):
        document.add_error(path, "teams belong to kind versus, and versus needs two or more")
    if (competition.deal is not None) != (competition.kind == "hidden"):
        document.add_error(path, "a deal belongs to kind hidden, and hidden needs one")
    _check_teams(document, scenario, names)
    if competition.deal is not None:
        players = tuple(manifest.name for manifest in scenario.players)
        for index, name in enumerate(competition.deal.among):
            if name not in players:
                document.add_error((*path, "deal", "among", index), f"no player is named {name!r}; known: {', '.join(players)}")
        if len(set(competition.deal.among)) < 2:
            document.add_error((*path, "deal", "among"), "a hidden role is dealt among two or more")


def _check_teams(document: Document, scenario: StageScenario, names: tuple[str, ...]) -> None:
    team_by_member: dict[str, str] = {}
    for team, members in scenario.competition.teams.items():
        path: KeyPath = ("competition", "teams", team)
        if team in names:
            document.add_error(path, "has the name of an agent of the cast; a verdict could not distinguish them")
        if not members:
            document.add_error(path, "has no members")
        for name in members:
            if problem := _find_team_error(scenario, name, names, team_by_member):
                document.add_error(path, problem)
            team_by_member.setdefault(name, team)
    if len(scenario.competition.teams) == 1:
        document.add_error(("competition", "teams"), "one team alone is no contest")


def _find_team_error(scenario: StageScenario, name: str, names: tuple[str, ...], team_by_member: dict[str, str]) -> str | None:
    if name not in names:
        return f"no agent of the cast is named {name!r}; known: {', '.join(names)}"
    if name in team_by_member:
        return f"{name} is in {team_by_member[name]} already"
    role = scenario.find_agent(name).role
    if role in (JUDGE, OBSERVER):
        return f"{name} is {'a judge' if role == JUDGE else 'an observer'} and cannot be in a team"
    return None


def _check_limits(document: Document, scenario: StageScenario) -> None:
    limits = msgspec.structs.asdict(scenario.governor)
    limits |= {f"max_{name}": limit for name, limit in limits.pop("others").items()}
    for name, value in limits.items():
        if value is not None and not 0 < value < 1e9:
            document.add_error(("governor", name), "must be more than 0 and less than 1,000,000,000; omit it for the default")
