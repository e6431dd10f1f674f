"""Reads events into the log: transcripts, spooled hook calls, git history, files of records, and other logs."""
