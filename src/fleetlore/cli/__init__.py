"""The `lore` command: a module or package per command, loaded when it is called. Here are its exit codes."""

OK, FAILED, USAGE = 0, 1, 2
SOME_REJECTED = 3
"""Some lines or files were not imported."""
INTERRUPTED, BROKEN_PIPE = 130, 141
"""As a shell reports SIGINT and SIGPIPE."""
