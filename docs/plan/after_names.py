"""What the codemod cannot see after docs/plan/names.txt: quoted annotations and lines that became too long. Temporary."""


def sub(p, *pairs):
    s = open(p).read()
    for a, b in pairs:
        assert a in s, (p, a)
        s = s.replace(a, b)
    open(p, "w").write(s)


sub("src/fleetlore/cli/goal/lines.py", ("\"State | Literal['stopped']\"", "\"GoalStatus | Literal['stopped']\""))
s = open("src/fleetlore/cli/goal/lines.py").read()
s = s.replace(
    "from fleetlore.views.goal_state import GoalState, elapsed_seconds",
    "from fleetlore.views.goal_state import GoalState, GoalStatus, elapsed_seconds",
)
open("src/fleetlore/cli/goal/lines.py", "w").write(s)
sub("src/fleetlore/models/scripted.py", ("Callable[[Ask], ", "Callable[[ModelRequest], "))
sub("src/fleetlore/prompts/parts.py", ('"Part | None"', '"PromptPart | None"'))
sub("src/fleetlore/server/view_table.py", ('cast("tuple[Dimension, ...]", named)', 'cast("tuple[CostDimension, ...]", named)'))
sub(
    "src/fleetlore/goal/memory/dream.py",
    (
        'f"{text_safety.RECORD_MARK}{text_safety.sanitize_line(_note_heading(note), 300)}\\n{text_safety.quote_record(note.content, MAX_CONTENT_CHARS)}"',
        'f"{text_safety.RECORD_MARK}{text_safety.sanitize_line(_note_heading(note), 300)}\\n"\n        f"{text_safety.quote_record(note.content, MAX_CONTENT_CHARS)}"',
    ),
)
sub(
    "src/fleetlore/goal/prompts.py",
    (
        'f"- {text_safety.sanitize_line(failure.criterion_label, MAX_LINE_CHARS)}: {text_safety.sanitize_line(failure.message, MAX_LINE_CHARS)}"',
        'f"- {text_safety.sanitize_line(failure.criterion_label, MAX_LINE_CHARS)}: "\n            f"{text_safety.sanitize_line(failure.message, MAX_LINE_CHARS)}"',
    ),
)
sub(
    "src/fleetlore/graph/nodes/critic.py",
    (
        'prompt=f"{USER_HEADING}\\n{text_safety.quote_record(step.turn.said, 4000)}\\n\\n{NOTES_HEADING}\\n{text_safety.quote_record(thought.response, 4000)}"',
        'prompt=f"{USER_HEADING}\\n{text_safety.quote_record(step.turn.said, 4000)}\\n\\n"\n            f"{NOTES_HEADING}\\n{text_safety.quote_record(thought.response, 4000)}"',
    ),
)
sub(
    "src/fleetlore/server/endpoints/goals.py",
    (
        """f'is what to raise, and to what, each once, as in {{"turns": 60, "wall_time": "6h"}}; known are {", ".join(commands.BUDGET_AXES)}\'""",
        '''f'is what to raise, and to what, each once, as in {{"turns": 60, "wall_time": "6h"}}; '
    f"known are {', '.join(commands.BUDGET_AXES)}"''',
    ),
)
sub(
    "src/fleetlore/stage/agent_turn.py",
    (
        'f"One JSON object: {_verdict_example(scenario)}. `text` is your ruling, two or three sentences.{_describe_verdict_names(scenario)}"',
        '(\n            f"One JSON object: {_verdict_example(scenario)}. `text` is your ruling, two or three sentences."\n            f"{_describe_verdict_names(scenario)}"\n        )',
    ),
    (
        'f"`text` is what you say aloud, one to three sentences; `thought` is what you think, and nobody else sees it.{kind}{use} {_PASS_INSTRUCTION}"',
        'f"`text` is what you say aloud, one to three sentences; `thought` is what you think, and nobody else sees it."\n        f"{kind}{use} {_PASS_INSTRUCTION}"',
    ),
)
sub(
    "src/fleetlore/views/town_rules.py",
    (
        'f"{task.id} was given out {_format_times(task.epoch)}, and what comes with epoch {epoch} is refused; the lease is another\'s by now"',
        '(\n            f"{task.id} was given out {_format_times(task.epoch)}, and what comes with epoch {epoch} is refused; "\n            "the lease is another\'s by now"\n        )',
    ),
)
