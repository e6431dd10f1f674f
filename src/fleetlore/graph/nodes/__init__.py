"""The implementations that come with Fleetlore, one a module; each module has its `NODE`."""
