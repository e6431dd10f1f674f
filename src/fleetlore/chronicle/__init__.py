"""Old import paths from version 0.1, kept until 0.3. Use `fleetlore.story` and `fleetlore.views.patterns` instead."""
