# ruff: noqa: E501
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.documents.check import check
from llm_fsm.lint.rules.format.malformed import schema_faults

VALUES = st.one_of(
    st.sampled_from(["string", "number", "text", "object", "", "date", "email"]),
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.floats(-2, 3),
    st.lists(st.sampled_from(["a", "b", 1]), max_size=3),
)
WORDS = st.sampled_from(
    [
        *(
            "type",
            "title",
            "description",
            "enum",
            "const",
            "default",
            "examples",
            "minimum",
            "maximum",
        ),
        *(
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "required",
            "additionalProperties",
            "x-secret",
        ),
        *("pattern", "format", "multipleOf", "uniqueItems", "allOf", "not", "made-up"),
    ]
)
LEAVES = st.dictionaries(WORDS, VALUES, max_size=4)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.tuples(
        LEAVES,
        st.dictionaries(st.sampled_from(["items", "not"]), inner, max_size=2),
        st.dictionaries(
            st.just("properties"), st.dictionaries(st.sampled_from("ab"), inner), max_size=1
        ),
    ).map(lambda parts: {**parts[0], **parts[1], **parts[2]}),
    max_leaves=6,
)


@given(SCHEMAS)
def test_a_schema_is_faulty_exactly_when_it_cannot_be_compiled(schema):
    try:
        jsonschema_rs.validator_for(schema, validate_formats=True)
        sound = True
    except jsonschema_rs.ValidationError:
        sound = False
    assert (list(schema_faults(schema, None, "")) == []) is sound


@pytest.mark.parametrize(
    ("schema", "pointer", "message", "hint"),
    [
        ({"type": "text"}, "/type", 'not a JSON Schema: "text" is no type', None),
        ({"type": "sting"}, "/type", 'not a JSON Schema: "sting" is no type', 'did you mean "string"?'),
        ({"type": "array", "items": {"type": "numbr"}}, "/items/type", 'not a JSON Schema: "numbr" is no type', 'did you mean "number"?'),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_place(schema, pointer, message, hint):
    [(place, words, better)] = schema_faults(schema, None, "/at")
    assert (place, words) == ("/at" + pointer, message)
    assert better == (hint or "types are string, number, integer, boolean, array, object, null")


def test_faulty_definitions_beside_a_plain_schema_are_found():
    assert list(schema_faults({"type": "string"}, {"x": {"type": "nothing"}}, "")) != []


def test_the_fault_of_a_shared_schema_is_told_once_and_where_it_stands() -> None:
    keys = {name: {"$ref": "#/$defs/Age"} for name in ("age", "years")}
    schema = {"$defs": {"Age": {"type": "interger"}}, "properties": keys}
    states = {"a": {"purpose": "A?", "required_context_keys": ["age", "years"]}}
    found = check({"name": "n", "initial_state": "a", "context_schema": schema, "states": states})
    assert [
        (one.pointer, one.message, one.hint) for one in found if one.name == "bad-context-schema"
    ] == [
        (
            "/context_schema/$defs/Age/type",
            'not a JSON Schema: "interger" is no type',
            'did you mean "integer"?',
        )
    ]
