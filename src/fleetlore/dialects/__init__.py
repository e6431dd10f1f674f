"""Foreign event formats: one pure module per dialect. `registry.py` finds them by name."""
