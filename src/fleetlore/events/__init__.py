"""What happened: the envelope, the known kinds with their payloads and beats, and the JSON codec."""
