"""The application as a process: uvicorn with the settings that this server needs."""

from __future__ import annotations

import uvicorn

from llm_fsm.server.connection import protocol
from llm_fsm.server.limits import Limits


def config_of(
    app: object, *, host: str = "127.0.0.1", port: int = 8000, limits: Limits | None = None, workers: int = 1
) -> uvicorn.Config:
    """How uvicorn runs an application, or one that it finds by a name such as `module:function`."""
    limits = limits or Limits()
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        host=host,
        port=port,
        workers=workers,
        factory=isinstance(app, str),
        http=protocol(limits.header_seconds),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(limits.shutdown_seconds) + 1,
        h11_max_incomplete_event_size=None,
    )
