"""Import paths of 0.1 that docs/extending.md named, until 0.3: see `fleetlore.story` and `fleetlore.views.patterns`."""
