"""Who lets an agent use a tool: rules, then a person."""
