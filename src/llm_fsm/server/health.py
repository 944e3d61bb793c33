"""Health checks: the server is alive, and it can work."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from llm_fsm import LLMFSMError
from llm_fsm.server.encoding import Json
from llm_fsm.server.faults import report
from llm_fsm.server.problems import Problem
from llm_fsm.server.service import Service
from llm_fsm.stores.base import ListQuery

_TIMEOUT = 3.0


def router(service: Service) -> APIRouter:
    """Return `/healthz`: the process answers; and `/readyz`: its stores answer, too, and it is not
    ending.
    """
    made = APIRouter()

    @made.get("/healthz")
    async def health() -> Response:
        return Json({"status": "ok"})

    @made.get("/readyz")
    async def ready() -> Response:
        if service.is_closing:
            raise Problem("unavailable", "the server is ending", extra={"state": "ending"})
        for store in service.machines.stores:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    await store.list(ListQuery(limit=1))
            except (LLMFSMError, OSError) as error:
                report("a store does not answer", error)
                raise Problem("store-unavailable", "a store does not answer") from error
        return Json({"status": "ready", "definitions": len(service.machines.every())})

    return made
