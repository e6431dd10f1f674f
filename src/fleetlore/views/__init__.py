"""Views of the log: pure folds, each a module with `VERSION`, `initial()` and `apply(state, event)`."""
