from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Field

from llm_fsm.definition.json_schema.inline import flattened
from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.tools.schema import CallInfo, read_parameters
from llm_fsm.turn.tool_arguments import ArgumentsFault

INFO = CallInfo()


class Colour(enum.Enum):
    red = "r"
    blue = "b"


class Level(enum.IntEnum):
    low = 1
    high = 2


class Place(BaseModel):
    """Where it is."""

    city: str = Field(description="Name of the city")
    zip: str | None = None


@dataclass
class Span:
    start: int
    end: int = 9


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Even(BaseModel):
    odd: Odd | None = None


class Odd(BaseModel):
    even: Even | None = None


def properties(function: Any) -> dict[str, Any]:
    return dict(read_parameters(function).schema["properties"])


def plain(a: str, b: int, c: float, d: bool, e: list[str], f: dict[str, int]) -> None: ...  # noqa: PLR0917
def defaults(
    a: int = 3, b: str | None = None, c: tuple[int, ...] = (1, 2), d: object = object
) -> None: ...
def choices(a: Literal["x", "y"], b: Colour = Colour.red, c: Level = Level.low) -> None: ...
def described(
    a: Annotated[str, "An id"], b: Annotated[int, Field(description="How many", ge=1)] = 1
) -> None: ...
def fields(
    a: int = Field(3, description="Count"),
    b: list[str] = Field(default_factory=list),  # noqa: B008
) -> None: ...
def nothing() -> None: ...
def untyped(a, b=1) -> None: ...


@pytest.mark.parametrize(
    ("function", "wanted", "required"),
    [
        (
            plain,
            {
                "a": {"type": "string"},
                "b": {"type": "integer"},
                "c": {"type": "number"},
                "d": {"type": "boolean"},
                "e": {"type": "array", "items": {"type": "string"}},
                "f": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            list("abcdef"),
        ),
        (
            defaults,
            {
                "a": {"type": "integer", "default": 3},
                "b": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "c": {"type": "array", "items": {"type": "integer"}, "default": [1, 2]},
                "d": {},
            },
            None,
        ),
        (
            choices,
            {
                "a": {"type": "string", "enum": ["x", "y"]},
                "b": {"type": "string", "enum": ["r", "b"], "default": "r"},
                "c": {"type": "integer", "enum": [1, 2], "default": 1},
            },
            ["a"],
        ),
        (
            described,
            {
                "a": {"type": "string", "description": "An id"},
                "b": {"type": "integer", "description": "How many", "minimum": 1, "default": 1},
            },
            ["a"],
        ),
        (
            fields,
            {
                "a": {"type": "integer", "description": "Count", "default": 3},
                "b": {"type": "array", "items": {"type": "string"}},
            },
            None,
        ),
        (nothing, {}, None),
        (untyped, {"a": {}, "b": {"default": 1}}, ["a"]),
    ],
)
def test_hints_become_a_closed_schema(function, wanted, required):
    schema = dict(read_parameters(function).schema)
    assert schema["properties"] == wanted
    assert schema.get("required") == required
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    compile_shape(schema)


def test_nested_models_stand_in_the_schema_itself():
    def go(place: Place, span: Span, more: Place | None = None) -> None:
        """Optional is written in the old way on purpose."""

    city = {"type": "string", "description": "Name of the city"}
    made = properties(go)
    assert made["place"]["properties"]["city"] == city
    assert made["place"]["additionalProperties"] is False
    assert made["span"]["properties"]["end"] == {"type": "integer", "default": 9}
    assert made["more"]["anyOf"][0]["properties"]["city"] == city
    assert "$defs" not in read_parameters(go).schema


def test_recursive_models_keep_their_references():
    def go(node: Node, even: Even) -> None: ...

    schema = dict(read_parameters(go).schema)
    shape = compile_shape(schema)
    assert {"Node", "Even"} <= schema["$defs"].keys()
    assert shape.fault({"node": {"name": "a", "children": [{"name": "b"}]}, "even": {}}) is None
    assert shape.fault({"node": {"name": "a", "children": [{"nam": "b"}]}, "even": {}}) is not None


def test_types_of_the_place_where_a_tool_is_made_are_found():
    class Local(BaseModel):
        x: int

    def go(local: Local) -> int:
        return local.x

    positional, named = read_parameters(go).bind({"local": {"x": "5"}}, INFO)
    assert go(*positional, **named) == 5


@pytest.mark.parametrize(
    ("function", "arguments", "given"),
    [
        (
            plain,
            {"a": 7, "b": "3", "c": 1, "d": "yes", "e": [], "f": {}},
            {"a": "7", "b": 3, "d": True},
        ),
        (defaults, {}, {}),
        (choices, {"a": "x", "b": "b", "c": 2}, {"a": "x", "b": Colour.blue, "c": Level.high}),
        (fields, {}, {"a": 3, "b": []}),
        (described, {"a": "x", "b": 2.0}, {"a": "x", "b": 2}),
    ],
)
def test_arguments_are_coerced_and_defaults_stay_the_functions_own(function, arguments, given):
    positional, named = read_parameters(function).bind(arguments, INFO)
    assert positional == []
    assert {name: named[name] for name in given} == given
    assert named.keys() <= {*given, *arguments}


def test_positional_and_keyword_only_parameters_are_given_as_such():
    def go(a: int, b: int = 5, /, *, c: int, info: CallInfo) -> tuple[int, int, int, CallInfo]:
        return a, b, c, info

    parameters = read_parameters(go)
    assert list(parameters.schema["properties"]) == ["a", "b", "c"]
    positional, named = parameters.bind({"a": 1, "c": 2}, INFO)
    assert go(*positional, **named) == (1, 5, 2, INFO)


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        (described, {"a": "x", "b": 0}, "b: Input should be greater than or equal to 1"),
        (choices, {"a": "z"}, "a: Input should be 'x' or 'y'"),
        (choices, {"a": "x", "b": "green"}, "b: Input should be 'r' or 'b'"),
        (nothing, {"a": 1}, "a: there is no such argument; there are none"),
    ],
)
def test_arguments_that_do_not_fit_are_named(function, arguments, says):
    with pytest.raises(ArgumentsFault, match=says):
        read_parameters(function).bind(arguments, INFO)


def test_faults_inside_nested_values_say_where():
    def go(places: list[Place]) -> None: ...

    with pytest.raises(ArgumentsFault, match=r"places\.1\.city: Field required"):
        read_parameters(go).bind({"places": [{"city": "a"}, {}]}, INFO)


def stars(*numbers: int) -> None: ...
def more_stars(**options: int) -> None: ...
def unknown(a: NoSuchType) -> None: ...  # noqa: F821


class Opaque:
    pass


def opaque(a: Opaque) -> None: ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (stars, r"tool 'stars': \*numbers tells a model nothing; name every parameter"),
        (more_stars, r"tool 'more_stars': \*\*options tells a model nothing"),
        (
            unknown,
            "tool 'unknown': a type hint cannot be resolved: name 'NoSuchType' is not defined",
        ),
        (opaque, "tool 'opaque': no JSON can be made of a parameter's type"),
    ],
)
def test_parameters_that_no_schema_can_be_made_of_are_refused(function, says):
    with pytest.raises(ValueError, match=says):
        read_parameters(function)


def test_names_that_look_like_keywords_stay_what_they_are():
    def go(title: str, properties: int = 1, schema: str = "", model_config: str = "") -> None: ...

    assert set(properties(go)) == {"title", "properties", "schema", "model_config"}
    assert properties(go)["title"] == {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "flat"),
    [
        ({"type": "object"}, {"type": "object"}),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/A", "description": "d"}},
                "$defs": {"A": {"type": "string"}},
            },
            {"properties": {"a": {"type": "string", "description": "d"}}},
        ),
        (
            {"properties": {"a": {"default": {"$ref": "#/$defs/A"}}}, "$defs": {"A": {}}},
            {"properties": {"a": {"default": {"$ref": "#/$defs/A"}}}},
        ),
        (
            {
                "items": {"$ref": "#/$defs/B"},
                "$defs": {"A": {"type": "null"}, "B": {"anyOf": [{"$ref": "#/$defs/A"}]}},
            },
            {"items": {"anyOf": [{"type": "null"}]}},
        ),
        ({"items": {"$ref": "#/other"}, "$defs": {"A": {}}}, {"items": {"$ref": "#/other"}}),
        ({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": True}}, {"items": True}),
    ],
)
def test_references_are_replaced_by_what_they_refer_to(schema, flat):
    assert flattened(schema) == flat


def test_a_schema_that_would_explode_stays_as_it_is():
    defs: dict[str, Any] = {
        f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}, {"$ref": f"#/$defs/D{n + 1}"}]}
        for n in range(30)
    }
    schema = {"items": {"$ref": "#/$defs/D0"}, "$defs": {**defs, "D30": {"type": "null"}}}
    assert flattened(schema) == schema


def test_a_validator_of_the_host_that_raises_anything_says_why_the_arguments_do_not_fit() -> None:
    def find(name: Annotated[str, BeforeValidator(lambda given: given.strip())]) -> None: ...

    parameters = read_parameters(find)
    assert parameters.fault({"name": " Ada"}) is None
    assert parameters.fault({"name": True}) == (
        "AttributeError: 'bool' object has no attribute 'strip'"
    )


def charge(euros: int, account: str = "nobody") -> str:
    return f"{euros} from {account}"


class Till:
    def charge(self, euros: int, account: str) -> str:
        return charge(euros, account)

    house = functools.partialmethod(charge, account="house")


def wrapped() -> Any:
    bound = functools.partial(charge, account="customer-7")

    @functools.wraps(bound)
    def call(*given: Any, **named: Any) -> str:
        return bound(*given, **named)

    return call


@pytest.mark.parametrize(
    "function",
    [
        functools.partial(charge, account="customer-7"),
        functools.partial(functools.partial(charge, account="customer-7"), euros=5),
        functools.partial(Till().charge, account="customer-7"),
        Till().house,
        wrapped(),
    ],
    ids=["function", "twice", "method", "partialmethod", "wrapped"],
)
def test_no_model_can_set_or_see_what_the_host_has_bound(function):
    parameters = read_parameters(function)
    assert "account" not in parameters.schema["properties"]
    assert "customer-7" not in str(parameters.schema)
    with pytest.raises(ArgumentsFault, match="account: there is no such argument"):
        parameters.bind({"account": "customer-8"}, INFO)
    assert "account" in (parameters.fault({"account": "customer-8"}) or "")
