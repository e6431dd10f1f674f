"""The prompt of an agent's turn, as written for the stage. Only the import has changed.

python stage_prompt.py
"""

from fleetlore.compat.stage import ContextBuilder, Event, rebuild_stage


def build_prompts() -> tuple[str, str]:
    """The prompts of a worker and of a judge in a short debate."""
    events = [
        Event("run-1", 0, "run.started", "conductor", {"seed": "a flaky test", "goal": "Find out why the test fails"}),
        Event("run-1", 1, "agent.spoke", "ada", {"text": "It fails only on Mondays."}),
        Event("run-1", 1, "agent.thought", "ada", {"text": "I broke it on Monday."}),
        Event("run-1", 2, "user.injected", "visitor", {"text": "The clock of the runner is wrong."}),
    ]
    builder, stage = ContextBuilder(), rebuild_stage(events)
    worker = builder.build(agent_name="bo", persona="You are Bo.", projection=stage, all_events=events)
    judge = builder.build(agent_name="cy", persona="You judge.", projection=stage, all_events=events, role="judge")
    return worker, judge


if __name__ == "__main__":
    for prompt in build_prompts():
        print(prompt, end="\n\n=====\n\n")
