"""The fault tests, for long."""
