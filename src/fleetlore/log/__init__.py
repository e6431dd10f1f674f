"""Event log: backends (`sqlite`, `redis`, `nats`, `memory`) behind one contract, and the recorders that read and write them."""
