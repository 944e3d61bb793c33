"""The published JSON Schema (2020-12) of a definition file, generated from the models.

Descriptions are the models' attribute docstrings, so that each fact about a key is written once.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from llm_fsm._json import JsonDict, JsonMap, without
from llm_fsm.definition import models as definition
from llm_fsm.definition.models import Definition, _Model
from llm_fsm.definition.names import ALIASES

DRAFT = "https://json-schema.org/draft/2020-12/schema"
ID = "urn:llm-fsm:definition"

_EXAMPLES: Mapping[str, Mapping[str, list[Any]]] = {
    "Definition": {
        "name": ["table_booking"],
        "persona": ["A friendly receptionist who keeps sentences short"],
        "language": ["en", "pt-BR"],
        "timezone": ["Europe/Berlin"],
        "initial_state": ["greeting"],
        "states": [{"greeting": {"purpose": "Greet the user"}}],
        "context_schema": [
            {
                "type": "object",
                "properties": {
                    "email": {"type": "string", "format": "email"},
                    "tier": {"enum": ["gold", "basic"], "x-source": "host"},
                    "pin": {"type": "string", "x-secret": True},
                },
            }
        ],
        "tools": [{"find_order": {"registered": "find_order", "output": {"order": "$.order"}}}],
        "properties": [{"never": "paid", "before": "confirmed"}],
    },
    "State": {
        "purpose": ["Learn when the user wants to come"],
        "required_context_keys": [["date", "time", "address.city"]],
        "example_dialogue": [[{"user": "A table for two"}, {"system": "Gladly! For which day?"}]],
        "reply": ["Your order {{ order_id }} is on its way."],
        "choices": [["small", {"label": "Large (1 l)", "value": "large"}]],
        "outcome": ["failed"],
        "context_scope": [{"read": ["name", "date"]}],
        "key_results": [
            [{"name": "long enough", "check": {">=": [{"len": [{"var": "output"}]}, 200]}}]
        ],
    },
    "Transition": {
        "target_state": ["confirm"],
        "description": ["The user has named day and time"],
        "conditions": [
            [{"description": "Both are known", "requires_context_keys": ["date", "time"]}]
        ],
    },
    "Condition": {
        "requires_context_keys": [["date", "time"]],
        "logic": [{">=": [{"var": "age"}, 18]}],
    },
    "KeyResult": {
        "check": [{"judge": "The answer names its sources"}, {"registered": "has_headings"}]
    },
    "ModelSettings": {"name": ["openai/gpt-4o-mini"]},
}


_TYPE = {"enum": ["string", "integer", "number", "boolean", "array", "object", "null"]}
_TYPES = {"anyOf": [_TYPE, {"type": "array", "items": _TYPE, "minItems": 1, "uniqueItems": True}]}
_NAMES = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}

_CONTEXT_KEY: JsonMap = {
    "description": "JSON Schema of a context key, with settings of its own.",
    "type": ["object", "boolean"],
    "properties": {
        "type": {
            "description": "What kind of value it has; a list where it may have several.",
            **_TYPES,
        },
        "title": {"type": "string", "description": "What users read in place of the key's name."},
        "description": {"type": "string", "description": "What the key means, for the model."},
        "enum": {"type": "array", "description": "The values that it may have."},
        "pattern": {
            "type": "string",
            "description": "A regular expression that a text must match.",
        },
        "format": {
            "type": "string",
            "description": "What a text must be, such as date, time, email or uri.",
        },
        **{
            key: {"type": "number"}
            for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        },
        **{
            key: {"type": "integer", "minimum": 0}
            for key in ("minLength", "maxLength", "minItems", "maxItems")
        },
        "uniqueItems": {"type": "boolean"},
        "required": {"description": "Members that an object must have.", **_NAMES},
        "properties": {"type": "object"},
        "$defs": {"type": "object"},
        "items": {"type": ["object", "boolean"]},
        "x-source": {
            "description": "Who may write the key.",
            "enum": ["model", "host", "tool", "answer", None],
            "default": "model",
        },
        "x-secret": {
            "description": "Kept from prompts, fixed replies and logs.",
            "type": ["boolean", "null"],
            "default": False,
        },
        "x-fast": {
            "description": "Taken without a model where the message is certain.",
            "type": ["boolean", "null"],
            "default": False,
        },
        "x-ask": {"description": "The question for this key alone.", "type": ["string", "null"]},
        "x-from": {
            "description": "The keys that this one is made of: when one of them changes, this one"
            " is cleared.",
            "type": ["array", "null"],
            "items": {"type": "string"},
        },
        "x-valid": {
            "description": "What must hold for the value, whoever writes it.",
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "properties": {
                    "logic": {
                        "description": "JsonLogic over the context with the new value in it."
                    },
                    "description": {
                        "type": "string",
                        "description": "What must hold, for user and model.",
                    },
                },
                "required": ["logic"],
            },
        },
        "x-said": {
            "description": "The proof that the user said the value: a quote of the user, or its digits in order. "
            "false: none, also for a date or a time.",
            "enum": ["quote", "digits", False, None],
        },
        "x-currency": {
            "description": "ISO 4217 code of an amount of money, in which replies show it.",
            "type": ["string", "null"],
            "pattern": "^[A-Z]{3}$",
        },
        "x-labels": {
            "description": "Value to the words for it, which choices show.",
            "type": ["object", "null"],
            "additionalProperties": {"type": "string"},
        },
    },
}


def definition_schema() -> JsonDict:
    """Return the JSON Schema of a definition file. It allows unknown keys, because the loader only
    warns about them.
    """
    schema = Definition.model_json_schema(by_alias=True, mode="validation")
    shapes = {"Definition": schema, **schema.get("$defs", {})}
    for model in _models():
        _dress(shapes[model.__name__], model)
    for choice in (
        schema["properties"]["states"],
        *schema["properties"]["states"].get("anyOf", ()),
    ):
        if "patternProperties" in choice:
            choice["additionalProperties"] = False
    for choice in schema["properties"]["context_schema"]["anyOf"]:
        if choice.get("type") == "object":
            choice["properties"] = {
                "type": _TYPES,
                "properties": {"type": "object", "additionalProperties": _CONTEXT_KEY},
                "required": _NAMES,
                "$defs": {"type": "object"},
            }
    schema["properties"] = {
        "$schema": {"type": "string", "description": "Allowed and ignored."},
        **schema["properties"],
    }
    del schema["title"], schema["description"]
    return {
        "$schema": DRAFT,
        "$id": ID,
        "title": "LLM-FSM definition",
        "description": first_line(Definition.__doc__),
        **schema,
    }


def _models() -> Iterator[type[_Model]]:
    for value in vars(definition).values():
        if isinstance(value, type) and issubclass(value, _Model) and value is not _Model:
            yield value


def add_descriptions(shape: JsonDict, model: type[BaseModel]) -> None:
    """Describe an object and its members in place, by the docstrings of its model."""
    texts = docstrings(model)
    properties = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        inner = without(shape["properties"][key], {"title", "default"})
        properties[key] = {"description": texts[name], **inner}
    shape["description"] = first_line(model.__doc__)
    shape["properties"] = properties


def first_line(text: str | None) -> str:
    """Return a docstring in one line."""
    return " ".join(inspect.cleandoc(text or "").split())


def _dress(shape: JsonDict, model: type[_Model]) -> None:
    """Add descriptions, examples, second names and null for optional keys, in place."""
    texts = docstrings(model)
    required = shape.get("required", ())
    properties: JsonDict = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        inner = without(shape["properties"][key], {"title", "default"})
        shown = inner if key in required else _nullable(inner)
        properties[key] = {"description": texts[name], **shown}
        if isinstance(field.default, str | int) and field.default != "":
            properties[key]["default"] = field.default
        if name in _EXAMPLES.get(model.__name__, {}):
            properties[key]["examples"] = _EXAMPLES[model.__name__][name]
    for alias, key in ALIASES.get(model.__name__, {}).items():
        properties[alias] = {**properties[key], "description": f"Another name of `{key}`."}
    shape["description"] = first_line(model.__doc__)
    shape["properties"] = properties
    shape["patternProperties"] = {"^x-": {}}


def _nullable(shape: JsonDict) -> JsonDict:
    """Return the shape that also accepts null, which means that the key is absent."""
    if not shape:
        return shape
    choices = shape.get("anyOf", [shape])
    if {"type": "null"} in choices:
        return shape
    return {"anyOf": [*choices, {"type": "null"}]}


def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return attribute name to the text below it in the class, or in one of its module that it
    extends.
    """
    own = [shape for shape in reversed(model.__mro__) if shape.__module__ == model.__module__]
    texts = {}
    for node in ast.parse("".join(map(inspect.getsource, own))).body:
        assert isinstance(node, ast.ClassDef)
        for field, below in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                texts[field.target.id] = first_line(below.value.value)
    return texts
