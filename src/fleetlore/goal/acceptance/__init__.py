"""Whether a goal is reached: criteria, checked out of the agent's reach."""
