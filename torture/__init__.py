"""Long versions of the fault tests."""
