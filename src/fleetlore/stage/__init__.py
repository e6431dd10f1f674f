"""Stage: a cast of agents plays a scenario in turns, recorded in the log."""
