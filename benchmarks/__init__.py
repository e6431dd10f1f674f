"""Fleetlore against its peers, always as ratios taken in one run on one machine."""
