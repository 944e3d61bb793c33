"""The socket that a command of a server listens on."""

from __future__ import annotations

import socket

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.errors import os_reason


def listening_socket(host: str, port: int) -> socket.socket:
    """Return the socket, which child processes inherit. Raises Failure, which names the option."""
    try:
        place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        made = socket.create_server(place[4][:2], family=place[0], backlog=2048)
        made.set_inheritable(True)
    except OSError as error:
        said = os_reason(error).partition(" (")[0]
        wrong = f"cannot listen on {host}:{port}: {said}; choose another --port"
        raise Failure(wrong, exits.USAGE) from error
    return made
