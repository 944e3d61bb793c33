"""Tools of MCP servers.

Open `servers.py` first: it reads the host's configuration and keeps the sessions. `client.py` is
one session with one server, over the official SDK. `messages.py` cleans each message before the SDK
checks it, so that one bad tool or answer affects no other.
"""
