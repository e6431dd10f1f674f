"""What anyone can ask or do, each defined once: `table.py` lists the operations, the other modules define them.

CLI, HTTP and MCP derive their parsers, routes, schemas and tools from here. Python programs call the functions with an
`OperationContext` (`context.py`).
"""
