"""The OpenAPI document: what the framework cannot know of problems, streams, tokens and names."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.routing import APIRoute

from llm_fsm._json import JsonDict
from llm_fsm.server import stream_events
from llm_fsm.server.guard import OPEN
from llm_fsm.server.problems import CHANNELS, KINDS, MEDIA_TYPE, type_of
from llm_fsm.server.stream_events import Responses

_TOKEN = "token"
_SCHEMES = {
    _TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the server, or a JSON Web Token. Its rights say what it may do.",
    }
}


def operation_id(route: APIRoute) -> str:
    """Return the name of an operation for generated clients: that of its function, after that of
    its channel.
    """
    if not route.path_format.startswith(CHANNELS):
        return route.name
    channel = route.path_format.removeprefix(CHANNELS).partition("/")[0]
    return f"{channel}_{route.name}"


PROBLEMS: Responses = {
    "default": {
        "description": "A problem document (RFC 9457)",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}
SETTINGS: JsonDict = {
    "docs_url": None,
    "redoc_url": None,
    "openapi_url": "/openapi.json",
    "separate_input_output_schemas": False,
    "responses": PROBLEMS,
    "generate_unique_id_function": operation_id,
}
"""Settings of every application."""


def describe(app: FastAPI, *, needs_token: bool) -> None:
    """Complete the document of an application. `needs_token`: callers without a token are refused."""
    made = app.openapi

    def openapi() -> JsonDict:
        document = made()
        components = document.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        schemas["Problem"] = _PROBLEM
        for name, schema in stream_events.schemas().items():
            schemas.setdefault(name, schema)
        components["securitySchemes"] = _SCHEMES
        document["security"] = [{_TOKEN: []}] if needs_token else []
        for path, operations in document.get("paths", {}).items():
            for operation in operations.values():
                operation.get("responses", {}).pop("422", None)
                if path in OPEN or path.startswith(CHANNELS):
                    operation["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign]


_PROBLEM = {
    "title": "Problem",
    "description": "A problem document (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "enum": list(map(type_of, KINDS))},
        "title": {"type": "string"},
        "status": {"type": "integer", "enum": sorted({row.status for row in KINDS.values()})},
        "detail": {"type": "string"},
        "retry_after": {"type": "integer", "description": "Seconds after which it may succeed"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "pointer": {"type": "string", "description": "JSON pointer (RFC 6901)"},
                    "in": {"type": "string"},
                    "detail": {"type": "string"},
                },
            },
        },
    },
}
