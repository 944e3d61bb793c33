"""The REST door for releases: read one with the figures of both arms, and replace it."""

from __future__ import annotations

from fastapi import APIRouter, Request

from llm_fsm.definition.models import JsonObject
from llm_fsm.engine.releases import LiveRelease
from llm_fsm.errors import ConfigurationError, DefinitionError, os_reason
from llm_fsm.server.http_rules import PathText
from llm_fsm.server.problems import Problem
from llm_fsm.server.rest import caller_of
from llm_fsm.server.rights import check
from llm_fsm.server.service import Service


def releases(service: Service) -> APIRouter:
    """Return the routes of releases over a service."""
    router = APIRouter(prefix="/releases", tags=["releases"])

    def found(request: Request, name: str) -> LiveRelease:
        caller = caller_of(request)
        check(caller, "manage", "manage releases")
        for machine in service.machines.all(caller):
            live = machine.release
            if live is not None and live.release.release == name:
                return live
        raise Problem("not-found", f"there is no release {name!r:.200}")

    @router.get("/{name}", summary="Read a release, with the figures of both arms")
    async def read_release(request: Request, name: PathText) -> JsonObject:
        return await found(request, name).status()

    @router.put("/{name}", summary="Replace a release")
    async def replace_release(request: Request, name: PathText, wish: JsonObject) -> JsonObject:
        live = found(request, name)
        await live.refresh()
        if wish.pop("version", live.version) != live.version:
            raise Problem("conflict", f"the release has changed: it is version {live.version}")
        before = dict.fromkeys(live.release.model_fields_set)
        try:
            await live.change(**{**before, **wish, "release": name})
        except (ConfigurationError, DefinitionError) as error:
            raise Problem("invalid", str(error)) from error
        except OSError as error:
            said = f"the file of the release cannot be written: {os_reason(error)}"
            raise Problem("forbidden", said) from error
        return await live.status()

    return router
