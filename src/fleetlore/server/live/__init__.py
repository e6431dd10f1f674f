"""The live feed: one reading, shared by every stream."""
