"""What the log adds up to: pure folds, each a module with `VERSION`, `initial()` and `apply(state, event)`."""
