"""How one agent thinks: nodes, wired by a graph, and the session of whoever talks to it."""
