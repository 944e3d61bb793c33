"""The host's functions as tools and tasks, and the tools of MCP servers.

A function goes in; a named tool with a JSON Schema comes out, and calls by name go to the right one. Open `registry.py`
first. `schema.py` reads type hints, `executor.py` performs a batch of calls, `mcp/` speaks to MCP servers.
"""
