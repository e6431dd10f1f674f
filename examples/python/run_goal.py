"""Run a goal until its criteria are met, and print the verdict. The exit code is 0 only if they are.

python run_goal.py sqlite:team.db ../goals/first.toml
"""

import asyncio
import sys

from fleetlore import Event, GoalResult, load_goal, open_context, run_goal


def show_event(event: Event) -> None:
    """Called with each event of the goal as it is stored."""
    if event.kind == "driver.attempt_started":
        print("turn", event.data["turn_index"], flush=True)


def pursue(url: str, path: str) -> GoalResult:
    """Run the goal of a file. Stopped half-way, the same call resumes it if the file has an `id`."""
    with open_context(log=url, actor="release-bot") as context:
        return asyncio.run(run_goal(context, load_goal(path), on_event=show_event))


if __name__ == "__main__":
    result = pursue(*sys.argv[1:3])
    for criterion in result.criteria:
        print("met" if criterion.met else "NOT met", criterion.label, sep=": ")
    print(f"{result.outcome} after {result.turns} turns, {result.tokens} tokens; the work: {result.branch or result.path}")
    sys.exit(0 if result.is_done else 1)
