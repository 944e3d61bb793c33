"""The names in a file of JSON, found by the marks on the fields of its models.

`Annotated[str, Naming.STATE]` says that a field holds the id of a state. `places_in` walks over the
plain JSON beside the model, so it finds the names of a file with faults, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, ClassVar, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue

from llm_fsm._json import JsonMap, step
from llm_fsm.definition.naming import NamePlace, Naming, named_in

NamedState = Annotated[str, Naming.STATE]
NamedKey = Annotated[str, Naming.KEY]
NamedRule = Annotated[JsonValue, Naming.RULE]


class WrittenAs(NamedTuple):
    """The shape that a value of any form may have. It is not checked; its names are found by it."""

    shape: type[MarkedModel]


class MarkedModel(BaseModel):
    """The base of every model whose fields are marked."""

    short: ClassVar[str] = ""
    """The key that a value which is not an object is given to."""
    exact: ClassVar[str] = ""
    """The key that a value with other keys than these is given to, unchanged."""
    others: ClassVar[Mapping[str, Naming]] = {}
    """Keys beside the fields that name something of the definition."""


def places_in(model: type[MarkedModel], value: Any, pointer: str = "") -> Iterator[NamePlace]:
    """Yield the places of all names in an object of a file, or in its short form.

    Args:
        model: The model of the object.
        value: The plain JSON, which need not fit the model.
        pointer: Its JSON pointer.

    Yields:
        Each place.
    """
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    members: JsonMap = {}
    whole = model.short
    if isinstance(value, dict):
        members = value
        whole = ""
    if not (members and members.keys() <= fields.keys()):
        whole = whole or model.exact
    if whole:
        field = fields[whole]
        yield from _in_field(field.annotation, field.metadata, value, pointer)
    for key, item in members.items():
        place = pointer + step(key)
        if key in fields:
            field = fields[key]
            yield from _in_field(field.annotation, field.metadata, item, place)
        elif key in model.others:
            yield from named_in(item, place, model.others[key])


def _in_field(
    annotation: Any, marks: Sequence[Any], value: Any, pointer: str
) -> Iterator[NamePlace]:
    """Yield the places in the value of a field, by the type and the marks of the field."""
    if value is None:
        return
    for mark in marks:
        if isinstance(mark, Naming):
            yield from named_in(value, pointer, mark)
            return
        if isinstance(mark, WrittenAs):
            yield from places_in(mark.shape, value, pointer)
            return
    yield from _in_type(annotation, value, pointer)


def _in_type(annotation: Any, value: Any, pointer: str) -> Iterator[NamePlace]:
    origin = get_origin(annotation)
    parts = get_args(annotation)
    if origin is Annotated:
        yield from _in_field(parts[0], parts[1:], value, pointer)
    elif origin in (Union, UnionType):
        for part in parts:
            yield from _in_type(part, value, pointer)
    elif origin is list and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _in_type(parts[0], item, f"{pointer}/{number}")
    elif origin is list:  # a single item may be written without its list
        yield from _in_type(parts[0], value, pointer)
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            place = pointer + step(key)
            for mark in get_args(parts[0])[1:]:
                if isinstance(mark, Naming):
                    yield NamePlace(place, mark, at_key=True)
            yield from _in_type(parts[1], item, place)
    elif isinstance(annotation, type) and issubclass(annotation, MarkedModel):
        yield from places_in(annotation, value, pointer)
