"""Print the TypeScript types of the studio's API that its page names, made from its OpenAPI document.

python web/scripts/api_types.py > web/src/api/types.ts
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from llm_fsm.editor.app import create_studio
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio

_SOURCES = Path(__file__).parents[1] / "src"
# `T.Graph` of a whole import, or the names between the braces of another one.
_NAMED = re.compile(r"\bT\.(\w+)|import type \{([^}]*)\} from \"[./a-z]*/types\"")
_PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def types_text() -> str:
    """Return the module of types."""
    with tempfile.TemporaryDirectory() as folder:
        document = create_studio(Studio(folder=Folder(folder)), token="types").openapi()
    parts = [
        "// Made by web/scripts/api_types.py from the OpenAPI document of the studio. Do not edit."
    ]
    schemas = document["components"]["schemas"]
    for name in sorted(_needed(schemas)):
        parts.append(_declaration(name, schemas[name]))
    return "\n".join(parts)


def _needed(schemas: dict[str, Any]) -> set[str]:
    """Return the names of types that the page names, and of those that they are made of."""
    sources = " ".join(path.read_text() for path in sorted(_SOURCES.rglob("*.ts*")))
    named = " ".join(whole or braces for whole, braces in _NAMED.findall(sources))
    queue = [name for name in re.findall(r"\w+", named) if name in schemas]
    needed: set[str] = set()
    while queue:
        name = queue.pop()
        if name not in needed:
            needed.add(name)
            queue += re.findall(r"schemas/(\w+)", json.dumps(schemas[name]))
    return needed


def _declaration(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_type(schema)};"
    # The server sends every member; what it receives may leave out those with a default.
    is_sent = name.endswith("Body") or "do" in schema["properties"]
    required = schema.get("required", []) if is_sent else list(schema["properties"])
    members = []
    for key, value in schema["properties"].items():
        mark = "" if key in required else "?"
        members.append(f"{key}{mark}: {_type(value)};")
    whole = f"export interface {name} {{ {' '.join(members)} }}"
    if len(whole) <= 100:
        return whole
    return "\n".join([f"export interface {name} {{", *_filled(members), "}"])


def _filled(members: list[str]) -> list[str]:
    """Return members in lines of at most 100 characters, one or more a line."""
    lines = [""]
    for member in members:
        joined = f"{lines[-1]} {member}"
        if len(joined) > 99 and lines[-1]:
            lines.append(f" {member}")
        else:
            lines[-1] = joined
    return [f" {line}" for line in lines]


def _type(schema: dict[str, Any]) -> str:
    """Return the type of a schema; `unknown` if it allows anything."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " | ".join(dict.fromkeys(_type(one) for one in schema[word]))
    kind = schema.get("type")
    if kind == "array":
        return f"Array<{_type(schema.get('items', {}))}>"
    if kind == "object":
        return f"Record<string, {_type(_values(schema))}>"
    return _PLAIN.get(str(kind), "unknown")


def _values(schema: dict[str, Any]) -> dict[str, Any]:
    values = schema.get("additionalProperties")
    return values if isinstance(values, dict) else {}


if __name__ == "__main__":
    print(types_text())
