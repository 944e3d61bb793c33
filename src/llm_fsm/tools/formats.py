"""Tools as the providers' own interfaces take them.

Sources: OpenAI "Function calling" (chat completions), Anthropic "Tool use" (messages), Google
"Function calling" (Gemini API). Schemas of the last are a part of OpenAPI 3.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

from llm_fsm._json import JsonDict, JsonMap, is_list_of, only
from llm_fsm.session.messages import ToolSpec
from llm_fsm.session.reply_schema import type_of

Format: TypeAlias = Literal["openai", "anthropic", "google"]

_GOOGLE_KEYS = frozenset(
    {
        "description",
        "nullable",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "minProperties",
        "maxProperties",
        "required",
    }
)
_GOOGLE_FORMATS = frozenset({"date-time", "float", "double", "int32", "int64"})


def to_openai(spec: ToolSpec) -> JsonDict:
    """Return one entry of `tools` of a chat completion."""
    return spec.to_dict()


def to_anthropic(spec: ToolSpec) -> JsonDict:
    """Return one entry of `tools` of a message."""
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def to_google(spec: ToolSpec) -> JsonDict:
    """Return one function declaration. A function without parameters has no `parameters`."""
    declaration: JsonDict = {"name": spec.name, "description": spec.description}
    if spec.parameters.get("properties"):
        declaration["parameters"] = google_schema(spec.parameters)
    return declaration


def formatted(specs: Iterable[ToolSpec], form: Format) -> list[JsonDict]:
    """Return what a provider's `tools` parameter takes. Raises ValueError for an unknown format."""
    render: Callable[[ToolSpec], JsonDict] | None = {
        "openai": to_openai,
        "anthropic": to_anthropic,
        "google": to_google,
    }.get(form)
    if render is None:
        raise ValueError(
            f"unknown tool format {form!r}; the formats are openai, anthropic and google"
        )
    rendered = [render(spec) for spec in specs]
    return [{"function_declarations": rendered}] if form == "google" and rendered else rendered


def google_schema(schema: JsonMap) -> JsonDict:
    """Return a JSON Schema in the words that Google's interface knows; what it cannot say is left
    out.

    References that are left, which are recursive ones, become plain objects.
    """
    branches = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(branches, list):
        return _google_union(schema, [branch for branch in branches if isinstance(branch, Mapping)])
    made = only(schema, _GOOGLE_KEYS)
    kind = schema.get("type", "object" if "$ref" in schema or "properties" in schema else None)
    if isinstance(kind, list):
        plain = [item for item in kind if item != "null"]
        made |= {"nullable": True} if len(plain) < len(kind) else {}
        kind = plain[0] if plain else None
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices and is_list_of(choices, str):
        made["enum"], kind = choices, "string"
    elif isinstance(choices, list) and choices:
        kind = kind or type_of(choices[0])
        _note(made, f"one of {', '.join(map(str, choices))}")
    made["type"] = str(kind or "string").upper()
    wanted = schema.get("format")
    if wanted in _GOOGLE_FORMATS:
        made["format"] = wanted
    elif isinstance(wanted, str):
        _note(made, f"format {wanted}")
    if made["type"] == "ARRAY":
        items = schema.get("items")
        made["items"] = google_schema(items) if isinstance(items, Mapping) else {"type": "STRING"}
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        made["properties"] = {name: google_schema(item) for name, item in properties.items()}
    elif "required" in made:
        del made["required"]
    return made


def _google_union(schema: JsonMap, branches: list[JsonMap]) -> JsonDict:
    plain = [google_schema(branch) for branch in branches if branch.get("type") != "null"]
    if len(plain) == 1:
        made = plain[0]
    elif plain:
        made = {"anyOf": plain}
    else:
        made = {"type": "STRING"}
    if isinstance(schema.get("description"), str):
        made["description"] = schema["description"]
    return {**made, "nullable": True} if len(plain) < len(branches) else made


def _note(made: JsonDict, words: str) -> None:
    said = made.get("description")
    made["description"] = f"{said} ({words})" if said else words
