"""The JSON Schema (2020-12) of a release file, generated from its models."""

from __future__ import annotations

from llm_fsm._json import JsonDict
from llm_fsm.definition.schema import DRAFT, add_descriptions
from llm_fsm.releases.file import Release, ReleaseGuard


def release_schema() -> JsonDict:
    """Return the JSON Schema of a release file."""
    schema = Release.model_json_schema()
    add_descriptions(schema, Release)
    add_descriptions(schema["$defs"]["ReleaseGuard"], ReleaseGuard)
    return {"$schema": DRAFT, "$id": "urn:llm-fsm:release", **schema}
