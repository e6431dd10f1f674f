"""How a fleet shares work: tasks, missions, messages, and who takes what."""
