"""The host's functions as tools and tasks, and the tools of MCP servers.

Functions with type hints and the configuration of servers enter. Tools with a JSON Schema and
results of calls as JSON leave. Open `registry.py` first. `schema.py` reads type hints, `formats.py`
writes tools as providers take them, `toolbox.py` joins functions and servers for one machine, and
`executor.py` performs a batch of calls. `task_functions.py` has functions for `execute` and for
checks, and `task_context.py` the `ctx` that they receive. `mcp/` calls MCP servers. An error of a
tool is a result.
"""
