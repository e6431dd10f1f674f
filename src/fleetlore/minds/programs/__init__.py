"""Programs that are run for a turn, watched, and ended with everything that they started."""
