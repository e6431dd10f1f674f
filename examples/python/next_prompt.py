"""Build the prompt of an agent's next turn from the log, and record that it was built.

python next_prompt.py sqlite:team.db upgrader 800
"""

import sys

from fleetlore import AgentPrompt, build_prompt, connect


def make_prompt(url: str, agent: str, budget: int) -> AgentPrompt:
    """What the agent should know now, in at most `budget` tokens. Private thoughts of other agents are never in it."""
    with connect(url).blocking() as log:
        return build_prompt(log, agent, budget=budget, record=True)


if __name__ == "__main__":
    prompt = make_prompt(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(prompt.text)
    print(f"{prompt.tokens} of {prompt.budget} tokens, from {len(prompt.events)} events", file=sys.stderr)
