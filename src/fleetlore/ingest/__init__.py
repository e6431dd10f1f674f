"""What brings events in: files and streams of one record a line."""
