"""Stage: a cast of agents plays a scenario in turns, recorded on the log."""
