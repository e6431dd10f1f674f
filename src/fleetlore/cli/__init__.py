"""The `lore` command: one small module a command, loaded when its word is said."""
