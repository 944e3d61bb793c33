"""Changes of context keys and their schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap, as_list, json_text, object_at, step
from llm_fsm.definition.models import Definition
from llm_fsm.documents.diff.change import Difference, Differences, from_to
from llm_fsm.documents.diff.renames import bare, collected, head_of

_OTHERS_BOUND = {
    "properties": "additionalProperties",
    "patternProperties": "additionalProperties",
    "prefixItems": "items",
    "minContains": "contains",
}
"""Keywords whose absence lets another keyword refuse more."""
_LIFTED = {
    "minimum": min,
    "minLength": min,
    "minItems": min,
    "maximum": max,
    "maxLength": max,
    "maxItems": max,
}


def key_changes(old: Definition, new: Definition, renames: TextMap) -> Differences:
    was = collected(old)
    now = collected(new)
    yield from _frame(old, new)
    for key in was:
        place = "/context_schema/properties" + step(key)
        if key in renames:
            yield Difference(
                subject="key",
                how="renamed",
                impact="needs-map",
                pointer=place,
                key=key,
                message=f'key "{key}" is now called "{renames[key]}" (guessed from its schema and'
                " place)",
                reason="stored values have the old name",
            )
        elif key not in now:
            yield Difference(
                subject="key",
                how="removed",
                impact="needs-map",
                message=f'key "{key}" removed',
                pointer=place,
                key=key,
                reason="stored values stay in the context, where nothing names them",
            )
        elif _writable(key, old) and not _writable(key, new):
            states = tuple(sorted(now[key]))
            yield Difference(
                subject="key",
                impact="needs-map",
                pointer="/context_schema",
                key=key,
                when="unset",
                message=f'key "{key}" is no longer declared, but still'
                f" {'collected' if states else 'demanded'}",
                reason='with a "context_schema" only its keys can be written, so what the user'
                " says is not stored",
            )
        if (current := renames.get(key, key)) in new.key_schemas:
            yield from _schema(key, old, new, current)
        elif key in old.key_schemas and key in now:
            yield from _undeclared(key, old, new)
    for key in now:
        if key not in was and key not in renames.values():
            if old.context_schema is None and key in new.key_schemas:  # any key could be written
                yield from _schema(key, old, new, key)
                continue
            place = "/context_schema/properties" + step(key)
            yield Difference(
                subject="key", how="added", message=f'key "{key}" added', pointer=place
            )


def _writable(key: str, definition: Definition) -> bool:
    """Return true if a reply may write the key, or look into it by its name."""
    if definition.context_schema is None:
        return True
    return head_of(key, definition.key_schemas) in definition.key_schemas


def _undeclared(key: str, old: Definition, new: Definition) -> Differences:
    """Yield a key that is used as before, and has lost its schema."""
    place = "/context_schema/properties" + step(key)
    text = f'key "{key}" is no longer declared'
    if old.is_secret(key) and not new.is_secret(key):
        yield Difference(
            subject="key",
            impact="needs-map",
            message=f"{text}, and was secret",
            pointer=place,
            key=key,
            reason="what is stored is dropped, and what comes is shown in prompts",
        )
    elif new.context_schema is None:
        text = f"{text}: the model may write it, and any value will do"
        yield Difference(subject="key", message=text, pointer=place)


def _frame(old: Definition, new: Definition) -> Differences:
    """Yield changes of `context_schema` besides its keys. They affect no stored values."""
    was = old.context_schema
    now = new.context_schema
    if was is None or now is None:
        return
    for word in dict.fromkeys((*was, *now)):
        if word not in ("properties", "$defs") and was.get(word) != now.get(word):
            text = f'"{word}" of "context_schema" changed{from_to(was.get(word), now.get(word))}'
            yield Difference(
                subject="setting", message=text, pointer="/context_schema" + step(word)
            )


def _schema(key: str, old: Definition, new: Definition, current: str) -> Differences:
    """Yield changes of the schema of a key. An undeclared key has an empty one."""
    declared = key in old.key_schemas
    now = new.key_schemas[current]
    was = old.key_schemas.get(key, {})
    place = "/context_schema/properties" + step(current)
    known = declared or old.context_schema is None
    before = old.source_of(key) if known else new.source_of(current)
    after = new.source_of(current)
    if before != after:
        text = f'key "{current}" is written by the {after} instead of the {before}'
        if after == "model":
            yield Difference(subject="key", message=text, pointer=place + "/x-source")
        else:
            yield Difference(
                subject="key",
                impact="needs-map",
                message=text,
                pointer=place + "/x-source",
                key=key,
                when="unset",
                reason="conversations that lack it cannot be asked for it any more",
            )
    one = _meaning(was, old)
    other = _meaning(now, new)
    if one != other or not declared:
        told = ", ".join(_told(one, other))
        text = (
            f'schema of key "{current}" changed ({told})'
            if declared
            else f'key "{current}" is now declared'
        )
        if _wider(one, other):
            yield Difference(subject="key", message=text, pointer=place)
        else:
            yield Difference(
                subject="key",
                impact="needs-map",
                message=text if declared else f"{text} ({told})",
                pointer=place,
                key=key,
                when="misfit",
                reason="stored values may not fit any more",
                schema={**now, "$defs": _definitions(new)},
            )
    elif was != now and before == after:
        text = f'words or secrecy of key "{current}" changed'
        yield Difference(subject="words", message=text, pointer=place)


def _definitions(definition: Definition) -> JsonMap:
    return object_at(definition.context_schema, "$defs")


def _meaning(schema: JsonMap, definition: Definition) -> JsonDict:
    """Return the part of a schema that restricts values, with the schemas that it refers to."""
    every = _definitions(definition)
    found = bare(schema)
    for _ in every:
        if found.keys() != {"$ref"} or _referred(found) & every.keys() == set():
            break
        [name] = _referred(found)
        found = bare(every[name])
    used: JsonDict = {}
    left = [found]
    while left:
        for name in _referred(left.pop()) & every.keys() - used.keys():
            used[name] = bare(every[name])
            left.append(used[name])
    return {**found, "$defs": used} if used else found


def _referred(schema: JsonMap) -> set[str]:
    """Return the names in `$defs` that a schema refers to."""
    return set(re.findall(r'"\$ref": "#/\$defs/([^"/]+)', json_text(schema)))


def _told(old: JsonMap, new: JsonMap) -> Iterator[str]:
    """Describe a change keyword by keyword, as `maxLength from 3 to 5`."""
    for key in dict.fromkeys((*old, *new)):
        if key not in new:
            yield f"{key} dropped"
        elif key not in old:
            yield (f"{key} {short}" if len(short := json_text(new[key])) <= 60 else f"{key} added")
        elif old[key] != new[key]:
            yield f"{key}{from_to(old[key], new[key])}"


def _wider(old: JsonMap, new: JsonMap) -> bool:
    """Return true if every old value surely fits: bounds are looser or gone, types or values are
    added.
    """
    if old != new and any(word.startswith("unevaluated") for word in new):
        return False
    if any(_OTHERS_BOUND.get(word) in new for word in old.keys() - new.keys()):
        return False
    return all(key in old and _covers(key, old[key], value) for key, value in new.items())


def _covers(key: str, was: Any, now: Any) -> bool:
    if was == now:
        return True
    if key == "type":
        before = _types(was)
        after = _types(now)
        return before <= after or (before - after == {"integer"} and "number" in after)
    if key == "enum":
        return isinstance(was, list) and isinstance(now, list) and all(one in now for one in was)
    numbers = isinstance(was, int | float) and isinstance(now, int | float)
    return bool(numbers and key in _LIFTED and _LIFTED[key](was, now) == now)


def _types(value: Any) -> set[str]:
    return set(map(str, as_list(value)))
