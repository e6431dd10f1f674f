"""The built-in node implementations, one per module; each module has its `NODE`."""
