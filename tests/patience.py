"""How long a test waits for what has to come: long enough for a machine with ten other jobs. No test passes by waiting it out."""

PATIENCE = 150.0
