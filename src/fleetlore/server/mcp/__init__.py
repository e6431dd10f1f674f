"""The fleet over MCP, so that any agent can ask what its peers are doing: over standard input and output, and at `/mcp` of the server."""
