"""The definitions that a document calls, and the keys that mappings may carry between them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from llm_fsm._json import JsonMap, Schemas, member, object_at
from llm_fsm._text import nearest
from llm_fsm.definition.names import declared_key, root_of
from llm_fsm.lint.document import Called, Document, FlowReader, Placed, once
from llm_fsm.lint.graph import states_of_kind

_ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:|[a-z]+://")


def is_path(flow: str) -> bool:
    """Return true for a path. Other names belong to definitions that the host registers."""
    return "/" in flow or "\\" in flow or flow.endswith((".json", ".jsonc"))


def is_absolute(flow: str) -> bool:
    """Return true for a path that is not relative to the file that names it."""
    return _ABSOLUTE.match(flow) is not None


def leads_out(flow: str) -> bool:
    """Return true for a relative path that leaves the folder of the file that names it."""
    return posixpath.normpath(flow.replace("\\", "/")).split("/")[0] == ".."


def flow_paths(document: JsonMap | None) -> Iterator[str]:
    """Yield the relative paths that a document's states name under `flow`."""
    for state in object_at(document, "states").values():
        flow = member(state, "flow")
        if isinstance(flow, str) and is_path(flow) and not is_absolute(flow):
            yield flow


class Side(NamedTuple):
    """One of the two definitions of a mapping. `keys`: its declared keys; None: any."""

    name: str
    keys: Schemas | None

    def is_secret(self, key: str) -> bool:
        """Return true if the value of a key, or of a dotted name, must not be shown."""
        keys = self.keys or {}
        return any(keys.get(name, {}).get("x-secret") is True for name in (key, root_of(key)))


def mapping_fault(key: str, source_key: str, taker: Side, giver: Side) -> tuple[str, str] | None:
    """Return the fault of one entry of a mapping, and its correction; None if there is none."""
    if giver.keys is not None and declared_key(source_key, giver.keys) is None:
        guess = nearest(source_key, giver.keys)
        return (
            f"{giver.name!r} has no key {source_key!r}",
            f"did you mean {guess!r}?" if guess else "name one of its keys",
        )
    if taker.keys is not None and key not in taker.keys:
        guess = nearest(key, taker.keys)
        return (
            f"{taker.name!r} has no key {key!r}",
            f"did you mean {guess!r}?" if guess else "declare it in its context_schema",
        )
    if key.startswith("_"):
        return f"the key {key!r} belongs to the system", "names of keys do not begin with _"
    if giver.is_secret(source_key) and not taker.is_secret(key):
        return (
            f"{source_key!r} is secret in {giver.name!r}, and {key!r} is not in {taker.name!r}",
            f"declare {key!r} there with x-secret",
        )
    return None


@once
def called(document: Document) -> Mapping[str, Document]:
    """Return the id of each subflow state to the definition in the file that it names."""
    found = {}
    for name, state in states_of_kind(document, "subflow"):
        flow = state.get("flow")
        if document.read_flow is None or not isinstance(flow, str):
            continue
        if not is_path(flow) or is_absolute(flow):
            continue
        file, inner, _ = document.read_flow(flow, None)
        if inner is not None:
            reader = partial(_read_from, document.read_flow, file)
            found[name] = Document(Placed("", inner), file=file, read_flow=reader)
    return found


def _read_from(read: FlowReader, home: str, path: str, file: str | None) -> Called:
    """Read what a called definition calls: its paths are relative to its own file."""
    return read(path, file or home)


def side(document: Document) -> Side:
    """Return one side of a call, for mappings."""
    name = document.root.get("name")
    keys = document.keys if document.has_schema else None
    return Side(name if isinstance(name, str) else "", keys)
