"""Chat agents as graphs: nodes connected by edges, and the sessions of users who talk to them."""
