"""The live feed: one reader of the log, shared by all streams."""
