"""External tools: read-only database queries and Python programs, each with limits. They do not depend on the engine."""
