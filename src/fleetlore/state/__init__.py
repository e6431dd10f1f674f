"""Where folds are kept warm, and what the users of a log share beside its events."""
