"""Goal files: what is parsed, what is filled in, and that all errors are reported at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fleetlore.errors import Invalid, InvalidGoal
from fleetlore.events import catalog
from fleetlore.events.driver_types import BudgetGuards, Custom, FileMatches, Goal, LlmJudge, ShellCommand
from fleetlore.events.goal_plan import Plan, read_plan
from fleetlore.goal.files import TOP_LEVEL_KEYS, Budget, load_goal, parse_goal, slugify_name
from fleetlore.redact import Redactor

EXAMPLES = sorted(path for path in (Path(__file__).parents[2] / "examples" / "goals").iterdir() if path.is_file())
DOCS = Path(__file__).parents[2] / "docs" / "goals.md"


def toml(text: str, folder: Path, name: str = "goal.toml") -> Goal:
    return parse_goal(text, name, folder=str(folder))


def problems(text: str, folder: Path, name: str = "goal.toml") -> list[str]:
    """The errors in a text, without the name of its file and the line."""
    return [re.sub(r"^:\d+: |^: ", "", problem.removeprefix(name)) for problem in located_problems(text, folder, name)]


def located_problems(text: str, folder: Path, name: str = "goal.toml") -> list[str]:
    with pytest.raises(InvalidGoal) as refused:
        toml(text, folder, name)
    return list(refused.value.problems)


# --- what is understood


def test_a_description_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "Fix The_Tests.toml"
    path.write_text('description = "Make the tests pass"\n')
    goal = load_goal(str(path))
    plan = read_plan(goal)
    assert (goal.description, goal.acceptance, goal.workspace) == ("Make the tests pass", (), str(tmp_path))
    assert goal.budget == BudgetGuards(max_turns=40, max_wall_time="4h", max_tokens=2_000_000, max_consecutive_denies=3)
    assert (plan.harness, plan.agent, plan.max_usd) == ("claude-code", "fix-the-tests", None)
    catalog.check_payload("driver.goal_started", {"goal": goal})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.name))
def test_the_examples_can_be_pursued(path: Path) -> None:
    goal = load_goal(str(path))
    assert goal.acceptance
    assert Path(goal.workspace or "").is_dir()


def test_two_goals_of_one_file_differ_in_the_beginning_of_their_ids(tmp_path: Path) -> None:
    """Branches and people go by it."""
    assert len({toml('description = "x"', tmp_path).id[:8] for _ in range(20)}) == 20


def test_criteria_are_understood_by_what_they_say(tmp_path: Path) -> None:
    goal = toml(
        """
        description = "x"
        judge = "openai:gpt-5-mini"
        [[acceptance]]
        command = "make test"
        [[acceptance]]
        path = "README.md"
        regex = "^# "
        [[acceptance]]
        name = "git_clean"
        [[acceptance]]
        criterion_text = "It is short."
        [[acceptance]]
        kind = "shell_command"
        command = "make lint"
        expected_exit = 1
        stdout_must_match = "ok"
        timeout_secs = 5
        """,
        tmp_path,
    )
    assert goal.acceptance == (
        ShellCommand(command="make test"),
        FileMatches(path="README.md", regex="^# "),
        Custom(name="git_clean", args={}),
        LlmJudge(criterion_text="It is short."),
        ShellCommand(command="make lint", expected_exit=1, stdout_must_match="ok", timeout_secs=5),
    )


def test_lengths_of_time_may_be_written_as_people_do(tmp_path: Path) -> None:
    text = 'description = "x"\nidle_timeout = "20m"\nturn_timeout = 90\n[budget]\nmax_wall_time = "1h 30m"\n[permissions]\npatience = "2m"'
    goal = toml(text, tmp_path)
    plan = read_plan(goal)
    assert (plan.idle_timeout, plan.turn_timeout, plan.permissions.patience) == (1200.0, 90.0, 120.0)
    assert goal.budget.max_wall_time == "1h 30m"


def test_yaml_says_the_same_as_toml(tmp_path: Path) -> None:
    id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    one = toml(f'description = "x"\nid = "{id}"\n[budget]\nmax_usd = 2\n[[acceptance]]\ncommand = "true"', tmp_path)
    other = toml(f"description: x\nid: {id.upper()}\nbudget: {{max_usd: 2}}\nacceptance: [{{command: 'true'}}]", tmp_path, "goal.yaml")
    assert one == other


def test_a_mind_that_is_named_does_the_work(tmp_path: Path) -> None:
    plan = read_plan(toml('description = "x"\nmind = "openai:gpt-5-mini"', tmp_path))
    assert (plan.harness, plan.mind) == ("mind", "openai:gpt-5-mini")


def test_a_command_may_be_written_as_in_a_shell(tmp_path: Path) -> None:
    plan = read_plan(toml("description = 'x'\nharness = 'command'\ncommand = \"agent --say 'two words'\"", tmp_path))
    assert plan.command == ("agent", "--say", "two words")


def test_the_workspace_is_found_from_the_file_on(tmp_path: Path) -> None:
    (tmp_path / "goals").mkdir()
    (tmp_path / "app").mkdir()
    path = tmp_path / "goals" / "g.toml"
    path.write_text('description = "x"\nworkspace = "../app"')
    assert load_goal(str(path)).workspace == str(tmp_path / "app")


@pytest.mark.parametrize(
    ("name", "agent"), [("Fix The Tests", "fix-the-tests"), ("a.b_c", "a-b-c"), ("...", "agent"), ("é" * 99, 60 * "é")]
)
def test_an_agent_is_called_like_its_file(name: str, agent: str) -> None:
    assert slugify_name(name) == agent


# --- what is complained of


def test_all_problems_are_reported_at_once_each_with_its_place(tmp_path: Path) -> None:
    found = problems(
        """
        descripton = "x"
        harness = "claude"
        max_turns = 3
        agent = 5
        idle_timeout = "20 parsecs"
        protect = ["../x"]
        [budget]
        turns = 4
        max_turns = 0
        max_usd = "5"
        [permissions]
        allow = ["Bash", 7]
        [[acceptance]]
        comand = "x"
        [[acceptance]]
        path = "/etc/passwd"
        regex = "("
        [[acceptance]]
        kind = "shell"
        [[acceptance]]
        kind = "llm_judge"
        [[acceptance]]
        command = "true"
        timeout = 5
        """,
        tmp_path,
    )
    assert sorted(found) == sorted(
        [
            "descripton: is not known here; did you mean description?",
            'description is missing; write what to do, as in description = "Make the tests pass"',
            "harness: 'claude' is none of claude-code, codex, acp, command, mind; did you mean claude-code?",
            "max_turns: belongs in a table: write it under [budget]",
            "agent: text in quotes is needed, not a whole number",
            "idle_timeout: not a duration: '20 parsecs'; write it like `1h 30m` or `250ms`",
            "protect[0]: '../x' is outside the workspace; give a path relative to the workspace, as in src/app.py",
            "budget.turns: is not known here; did you mean max_turns?",
            "budget.max_turns: at least 1 is needed",
            "budget.max_usd: a number is needed, not text in quotes",
            "permissions.allow[1]: text in quotes is needed, not a whole number",
            "acceptance[0]: has nothing to check; give a command, or a path and a regex",
            "acceptance[1].path: '/etc/passwd' is outside the workspace; give a path relative to the workspace, as in src/app.py",
            "acceptance[1].regex: is no regular expression: missing ), unterminated subpattern at position 0",
            "acceptance[2].kind: 'shell' is none of shell_command, file_matches, custom, llm_judge; did you mean shell_command?",
            "acceptance[3]: criterion_text is missing; a criterion of kind llm_judge needs it",
            "acceptance[4].timeout: is not known here; did you mean timeout_secs?",
        ]
    )


def test_errors_name_their_lines(tmp_path: Path) -> None:
    found = located_problems("description: x\nbudget:\n  max_turns: many\nbudget: {}\n", tmp_path, "g.yaml")
    assert found == ["g.yaml:4: budget: is there twice"]
    assert located_problems("description: x\nbudget:\n  max_turns: many\n", tmp_path, "g.yaml") == [
        "g.yaml:3: budget.max_turns: a whole number is needed, not text in quotes"
    ]
    text = "[budget]\nmax_turns = 'many'\n[[acceptance]]\ncommand = 'true'\n[[acceptance]]\ncommand = ''\n"
    assert located_problems(text, tmp_path, "g.toml") == [
        "g.toml:2: budget.max_turns: a whole number is needed, not text in quotes",
        "g.toml:6: acceptance[1].command: is empty",
        'g.toml: description is missing; write what to do, as in description = "Make the tests pass"',
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("description = ''", "description: is empty"),
        (f"description = '{'x' * 20_000}'", "description: is over 16 KiB"),
        ("description = 'x'\nharness = 'command'", "command: is missing: give the agent's program"),
        ("description = 'x'\nharness = 'mind'", "mind: is missing: give the model's address"),
        ("description = 'x'\nharness = 'mind'\nmind = 'scripted:'\ncommand = ['x']", "command: is for programs"),
        ("description = 'x'\nharness = 'command'\ncommand = \"a 'b\"", "command: cannot be split into arguments"),
        ("description = 'x'\nmind = 'gpt-5'", "mind: unknown model address 'gpt-5'"),
        ("description = 'x'\nid = '7'", "id: is no UUID; leave it out"),
        ("description = 'x'\nparent = '7'", "parent: is no UUID"),
        ("description = 'x'\nworkspace = 'absent'", "workspace: there is no folder"),
        ("description = 'x'\nbudget = 5", "budget: a table is needed, not a whole number"),
        ("description = 'x'\nacceptance = 'make test'", "acceptance: a list is needed"),
        ("description = 'x'\nacceptance = ['make test']", "acceptance[0]: a table is needed, as in [[acceptance]]"),
        ("description = 'x'\n[[acceptance]]\ncriterion_text = 'y'", "judge: is missing"),
        ("description = 'x'\n[memory]", "memory.mind: is missing"),
        ("description = 'x'\n[permissions]\nallow = ['a b c']", "permissions.allow[0]: not a rule for tools"),
        ("description = 'x'\n[budget]\nmax_usd = inf", "budget.max_usd: at most"),
        ("description = 'x'\n[budget]\nmax_wall_time = '0s'", "budget.max_wall_time: more than 0 is needed"),
        ("description = 'x'\n[budget]\nmax_consecutive_denies = 0", "budget.max_consecutive_denies: at least 1"),
        ("description = 'x'\n[compaction]\nat = 1.5", "compaction.at: at most 1 is needed"),
        ("description = 'x'\n[[acceptance]]\nname = 'git_cleen'", "acceptance[0].name: 'git_cleen' is none of no_paths_touched, git_clean"),
        ("description = 'x'\n[[acceptance]]\nname = 'no_paths_touched'", "acceptance[0].args: no_paths_touched needs"),
        ("description = ", "not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(text: str, problem: str, tmp_path: Path) -> None:
    assert any(each.startswith(problem) for each in problems(text, tmp_path)), problems(text, tmp_path)


@pytest.mark.parametrize("text", ["", "- 1\n- 2", "just words", "description: &a x\nworkspace: *a", "{" * 5000, "a: [" * 200])
def test_what_is_no_goal_at_all_is_refused(text: str, tmp_path: Path) -> None:
    assert problems(text, tmp_path, "g.yaml")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    [found] = problems("description = 'x'\n" + "# x\n" * 40_000, tmp_path)
    assert found.startswith("over 128 KiB")


def test_a_secret_is_refused_wherever_it_stands_and_not_repeated(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    [found] = problems(f"description = 'x'\n[[acceptance]]\ncommand = 'curl -H \"Authorization: Bearer {secret}\" x'", tmp_path)
    assert found.startswith("acceptance[0].command: looks like a secret")
    assert secret not in found
    with pytest.raises(InvalidGoal, match="description: looks like a secret"):
        parse_goal("description = 'badge-77'", "g.toml", folder=str(tmp_path), redactor=Redactor(["badge-[0-9]+"]))


@pytest.mark.parametrize("name", ["goal.md", "goal", "goal.json"])
def test_other_files_are_no_goals(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("description = 'x'")
    with pytest.raises(Invalid, match=r"must end in .toml, .yaml or .yml"):
        load_goal(str(tmp_path / name))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "g.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(Invalid, match="is not UTF-8 text"):
        load_goal(str(tmp_path / "g.toml"))


# --- the manual


def _keys(shape: Any) -> tuple[str, ...]:
    return tuple(shape.__struct_fields__)


def test_every_key_is_documented() -> None:
    text = DOCS.read_text()
    plan = {name for name in _keys(Plan) if name in TOP_LEVEL_KEYS}
    for name in sorted({*TOP_LEVEL_KEYS, *plan, *_keys(Budget)}):
        assert f"`{name}`" in text, f"docs/goals.md does not speak of {name}"
