"""Sessions whose outcome is known, and the figures that Fleetlore reaches on them (`make truth`)."""
