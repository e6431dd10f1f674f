"""Where a goal is worked on: its files, saved before each turn and put back as they were."""
