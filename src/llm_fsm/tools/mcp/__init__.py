"""Tools of MCP servers.

`servers.py` reads the host's configuration and keeps the sessions; open it first. `client.py` is one session with one
server, over the official SDK. `messages.py` tidies each message before the SDK checks it, so that one bad tool or
answer takes nothing else away.
"""
