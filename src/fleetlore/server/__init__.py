"""The HTTP server: API, ingest endpoints, live feed, MCP, control room pages and notifications."""
