"""Tools of MCP servers. `servers.py` reads the host's configuration, `client.py` is one session with one server."""
