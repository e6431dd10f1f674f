"""MCP server: lets agents ask what the fleet is doing, over stdio (`lore mcp`) and at `/mcp` of the HTTP server."""
