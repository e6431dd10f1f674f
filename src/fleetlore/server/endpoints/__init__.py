"""Endpoints that write: ingest of events, hooks, webhooks and OTLP, and commands to goals, towns, chats and stages."""
