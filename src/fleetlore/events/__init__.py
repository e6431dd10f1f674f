"""The event format: envelope, known kinds with their payloads and beats, and the JSON codec."""
