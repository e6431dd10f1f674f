"""Town: how a fleet of agents shares tasks, missions and messages. Workers run the agents; one dispatcher assigns the work."""
