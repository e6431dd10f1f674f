"""The workspace of a goal: a worktree or folder whose files are saved before each turn and can be rolled back."""
