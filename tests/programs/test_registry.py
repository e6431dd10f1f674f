"""Coding agents are found in the registry, and named nowhere else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlore.errors import Invalid
from fleetlore.programs import registry
from fleetlore.programs.base import Program, find_hook_agents

SOURCE = Path(registry.__file__).parents[1]
AGENT = re.compile(r"codex|claude(?!-(?:sonnet|opus|haiku))|gemini[-_]cli|qwen[-_]code|copilot|opencode|kimi[-_]code", re.IGNORECASE)
"""A coding agent. Names of models are none."""
HELP = re.compile(r"_EXAMPLES|_NOTES|_HELP|EXAMPLES|NOTES")
"""Names of texts for people. Examples may name what most readers use."""
EXEMPT = {
    "views/prices.py": "names of models",
    "views/prices_table.py": "names of models",
    "dialects/commands/flags.py": "shell commands with flags that matter, `claude` and `gemini` among them, whoever runs them",
    "views/outcomes/file_edits.py": "folders of coding agents in repositories, of agents that are not recorded, too",
    "cli/costs.py": "an example of an event, with the name of a model",
    "cli/goal/command.py": "an example of a goal's file",
    "cli/town/help.py": "an example of `lore town spawn`",
    "cli/uninstall.py": "an example in an error message",
    "process/sandbox.py": "folders with secrets that a confined program cannot read",
}
"""Modules outside `programs/` that name a coding agent in code, and why."""


def named_in(path: Path) -> Iterator[str]:
    """The strings and identifiers of a module that name a coding agent, without docstrings, comments and examples in help texts."""
    tree = ast.parse(path.read_text())
    skipped = {id(inner) for node in ast.walk(tree) if _is_text_for_people(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        for word in _words_of(node):
            if AGENT.search(word):
                yield f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}: {word[:80]}"


def _is_text_for_people(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # the docstring of a module, function, class or attribute
        return True
    return isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) and HELP.fullmatch(target.id) for target in node.targets)


def _words_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ImportFrom(module=str(module)):
            yield module


def test_no_module_outside_programs_names_a_coding_agent() -> None:
    modules = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in ("programs", "compat")]
    found = [each for path in modules if str(path.relative_to(SOURCE)) not in EXEMPT for each in named_in(path)]
    assert not found, "ask fleetlore.programs.registry instead:\n" + "\n".join(found)


@pytest.mark.parametrize("path", EXEMPT)
def test_what_is_exempt_needs_to_be(path: str) -> None:
    assert list(named_in(SOURCE / path)), f"{path} names no coding agent any more: remove it from EXEMPT"


@pytest.mark.parametrize("program", registry.load_programs(), ids=lambda program: program.name)
def test_a_built_in_program_is_read_and_its_tools_are_normalised(program: Program) -> None:
    assert registry.find_program(program.name) is program
    assert [each for each in registry.load_programs() if each.dialect == program.dialect] == [program]
    assert program.load_recording().name == program.dialect
    assert program.load_tool_calls() is not None
    assert (program.resume_command("5c1e") or ("",))[-1].endswith("5c1e") or program.name == registry.PROTOCOL_NAME
    assert program.deletes
    assert (program.load_harness() is not None) == (program.name in registry.DRIVEN_NAMES)


@pytest.mark.parametrize("name", registry.BUILTIN_NAMES)
def test_programs_with_state_files_of_running_sessions_are_known_without_loading_the_others(name: str) -> None:
    assert bool(registry.require_program(name).live_folders) == (name in registry.LIVE_NAMES)


@pytest.mark.parametrize("name", [name for name in registry.DRIVEN_NAMES if name != registry.PROTOCOL_NAME])
def test_a_program_that_is_driven_has_every_part(name: str) -> None:
    program = registry.require_program(name)
    assert program.load_hooks() is not None
    assert program.load_telemetry() is not None
    for folder in (None, "/work"):
        file = program.hook_file(folder)
        assert file is not None
        assert file.program == program.name


def test_a_program_keeps_its_files_where_its_variable_says() -> None:
    claude = registry.require_program("claude-code")
    assert claude.recording_folders({"CLAUDE_CONFIG_DIR": "/elsewhere"}) == ["/elsewhere/projects"]
    assert claude.recording_folders({}) == [str(Path("~/.claude/projects").expanduser())]


def test_a_program_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    assert registry.find_program("sprig") is None
    assert registry.find_hooks("sprig") is None
    with pytest.raises(Invalid, match="unknown program: sprig; choose from claude-code, codex, gemini-cli, "):
        registry.require_program("sprig")
    with pytest.raises(Invalid, match="pi, openhands, acp, forge, otlp"):
        registry.find_recording("sprig")


def test_a_dialect_that_is_not_known_here_may_be_a_program_of_another_machine() -> None:
    found = {dialect: registry.may_be_program(dialect) for dialect in (None, "fleetlore", "git", "otlp", "codex", "sprig")}
    assert found == {None: False, "fleetlore": False, "git": False, "otlp": False, "codex": True, "sprig": True}


def test_agents_of_a_hook_that_nobody_knows_are_named_by_their_sessions() -> None:
    record = {"session_id": "0123456789", "agent_id": "helper-1"}
    assert find_hook_agents("sprig", record) == [("sprig/01234567", "0123456789"), ("helper-1", "0123456789")]
    assert find_hook_agents("sprig", {"session_id": 5}) == []


def test_programs_are_known_by_name_without_loading_their_parts() -> None:
    code = """
import sys
from fleetlore.programs import registry
for program in registry.load_programs():
    program.recording_folders(), program.side_files, program.command
print(*sorted(name for name in sys.modules if name.startswith("fleetlore.programs.")))
"""
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    packages = sorted(name for each in registry.load_programs() for name in (each.dialect, f"{each.dialect}.program"))
    assert loaded == sorted(f"fleetlore.programs.{name}" for name in ("base", *packages, "registry"))
