"""Shown live: the HTTP API, the doors in, the feed, the control room and the notices."""
