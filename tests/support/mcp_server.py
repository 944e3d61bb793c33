"""A real MCP server in a process of its own, over stdio or HTTP: `python mcp_server.py stdio | http
[PORT]`.

Over HTTP it prints the port it listens on as its first line.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import uvicorn
from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("things")
CALLS: list[str] = []


@server.tool()
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    CALLS.append("add")
    return a + b


@server.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=True))
def order(order_id: str) -> dict[str, object]:
    """Look up an order."""
    return {"order_id": order_id, "state": "sent", "lines": [{"item": "tea", "count": 2}]}


@server.tool(structured_output=False)
def words(text: str) -> str:
    """Say it back."""
    return text


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
def fail(reason: str) -> str:
    """Always fails."""
    raise ValueError(reason)


@server.tool()
async def slow(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def die() -> str:
    """End the process in the middle of the call."""
    os._exit(3)


@server.tool()
def refuse(code: int) -> str:
    """Answer with an error of the protocol."""
    raise MCPError(code, "no")


@server.tool()
def process() -> int:
    """The id of the process, and so whether it is the same one."""
    return os.getpid()


@server.tool()
def setting(name: str) -> str:
    """A variable of the environment."""
    return os.environ.get(name, "")


def serve_http(port: int) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        serve_http(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    else:
        print("things: ready", file=sys.stderr, flush=True)
        server.run("stdio")
