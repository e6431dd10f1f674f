"""Fleetlore compared with other libraries: ratios, measured in one run on one machine."""
