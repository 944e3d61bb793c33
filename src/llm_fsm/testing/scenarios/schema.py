"""The JSON Schema (2020-12) of a `*.test.json` file, generated from the models.

Descriptions are the models' attribute docstrings, so that each fact about a key is written once.
"""

from __future__ import annotations

from functools import cache

from llm_fsm._json import JsonDict, without
from llm_fsm.definition.schema import DRAFT, add_descriptions, first_line
from llm_fsm.testing.scenarios.models import Suite, Written

ID = "urn:llm-fsm:tests"


@cache
def suite_schema() -> JsonDict:
    """Return the JSON Schema of a file of conversation tests. Keys that begin with `x-` are
    free.
    """
    schema = Suite.model_json_schema(by_alias=True, mode="validation")
    shapes = {"Suite": schema, **schema.pop("$defs")}
    for model in Written.__subclasses__():
        if model.__name__ in shapes:
            add_descriptions(shapes[model.__name__], model)
            shapes[model.__name__]["patternProperties"] = {"^x-": {}}
    whole = shapes.pop("Suite")
    whole["properties"] = {**shapes["Case"]["properties"], **whole["properties"]}
    described = without(whole, {"title", "description"})
    return {
        "$schema": DRAFT,
        "$id": ID,
        "title": "LLM-FSM conversation tests",
        "description": first_line(Suite.__doc__),
        **described,
        "$defs": {name: _short(name, shape) for name, shape in shapes.items()},
    }


def _short(name: str, shape: JsonDict) -> JsonDict:
    """Return a shape together with its short form."""
    model = {model.__name__: model for model in Written.__subclasses__()}.get(name)
    if name == "CaseReply":
        return {
            "description": shape["description"],
            "anyOf": [{"type": "string"}, shape, {"type": "object"}],
        }
    if name == "ToolFixture":
        calls = shape["properties"]["calls"]
        result = calls["items"]
        return {
            "description": shape["description"],
            "anyOf": [shape, result, {"type": "array", "items": result}],
        }
    if model is None or not model.short:
        return shape
    other = without(shape["properties"][model.short], {"description"})
    return {"description": shape["description"], "anyOf": [other, shape]}
