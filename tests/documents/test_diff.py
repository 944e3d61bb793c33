from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from llm_fsm.definition.models import Definition
from llm_fsm.documents.diff import Difference, diff
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load, load_dict
from shop import SHOP, drop_count, keys

Edit = Callable[[dict[str, Any]], Any]


def definition(edit: Edit | None = None) -> Definition:
    document = copy.deepcopy(SHOP)
    if edit is not None:
        edit(document)
    return load_dict(document).definition


def told(edit: Edit) -> list[tuple[str, str, str, tuple[str, ...], str | None]]:
    return [
        (change.impact, change.subject, change.how, change.states, change.key)
        for change in diff(definition(), definition(edit))
    ]


def rename_count(document: dict[str, Any]) -> None:
    document["states"]["how_many"] = document["states"].pop("count")
    document["states"]["ask"]["transitions"][0]["target_state"] = "how_many"


def rename_item(document: dict[str, Any]) -> None:
    keys(document)["article"] = keys(document).pop("item")
    document["states"]["ask"]["required_context_keys"] = ["article"]
    document["states"]["ask"]["transitions"][0]["conditions"] = [
        {"requires_context_keys": ["article"]}
    ]


def redirect(state: str, target: str) -> Edit:
    """The first transition of a state leads elsewhere."""
    return lambda document: moves(document, state)[0].update(target_state=target)


def bonus(document: dict[str, Any], *, asked_in: str | None = None) -> None:
    """A new key that the way to the end demands, collected in a state or nowhere."""
    keys(document)["bonus"] = {"type": "string"}
    moves(document, "count")[0]["conditions"] = [{"requires_context_keys": ["bonus"]}]
    if asked_in is not None:
        document["states"][asked_in]["required_context_keys"].append("bonus")


ADDED = ("safe", "key", "added", (), None)
NEVER = [
    {"logic": {">": [{"var": "count"}, {"var": "count"}]}},
    {"logic": {"<": [{"var": "count"}, 1]}},
]


def moves(document: dict[str, Any], state: str) -> list[Any]:
    found: list[Any] = document["states"][state]["transitions"]
    return found


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda d: d["states"].update(help={"purpose": "Help"}), [("safe", "state", "added", (), None)]),
        (
            drop_count,
            [
                ("strands", "state", "removed", ("count",), None),
                ("safe", "transition", "removed", (), None),
                ("safe", "transition", "added", (), None),
            ],
        ),
        (rename_count, [("needs-map", "state", "renamed", ("count",), None)]),
        (lambda d: d["states"]["ask"].pop("transitions"), [
            ("strands", "state", "changed", ("ask",), None),
            ("safe", "transition", "removed", (), None),
        ]),
        (lambda d: d["states"]["ask"].update(kind="decide"), [("needs-map", "state", "changed", ("ask",), None)]),
        (lambda d: moves(d, "count").pop(0), [
            ("strands", "transition", "removed", ("count",), None),
            ("strands", "machine", "changed", ("ask",), None),
        ]),
        (lambda d: moves(d, "count").pop(1), [("safe", "transition", "removed", (), None)]),
        (lambda d: moves(d, "ask").append({"target_state": "done"}), [("safe", "transition", "added", (), None)]),
        (lambda d: moves(d, "count").reverse(), [("safe", "transition", "changed", (), None)]),
        (lambda d: moves(d, "ask")[0].update(priority=5), [("safe", "setting", "changed", (), None)]),
        (lambda d: moves(d, "ask")[0].update(description="new"), [("safe", "words", "changed", (), None)]),
        (lambda d: moves(d, "ask")[0].update(conditions=[]), [("safe", "condition", "changed", (), None)]),
        (
            lambda d: moves(d, "count")[0].update(conditions=[{"requires_context_keys": ["tier"]}]),
            [("needs-map", "condition", "changed", (), "tier")],
        ),
        (
            lambda d: moves(d, "count")[0].update(conditions=[{"requires_context_keys": ["count"]}]),
            [("safe", "condition", "changed", (), None)],
        ),
        (lambda d: moves(d, "count")[0].update(conditions=NEVER), [
            ("strands", "condition", "changed", ("count",), None),
            ("strands", "machine", "changed", ("ask",), None),
        ]),
        (redirect("count", "count"), [
            ("strands", "transition", "removed", ("count",), None),
            ("strands", "machine", "changed", ("ask",), None),
            ("safe", "transition", "added", (), None),
        ]),
        (bonus, [("needs-map", "condition", "changed", ("count",), "bonus"), ADDED]),
        (lambda d: bonus(d, asked_in="count"), [
            ("safe", "setting", "changed", (), None), ("safe", "condition", "changed", (), None), ADDED,
        ]),
        (lambda d: bonus(d, asked_in="ask"), [
            ("needs-map", "condition", "changed", ("count",), "bonus"),
            ("safe", "setting", "changed", (), None), ADDED,
        ]),
        (lambda d: moves(d, "count")[0].update(conditions=[{"requires_context_keys": ["bonus"]}]), [
            ("needs-map", "condition", "changed", (), "bonus"), ADDED,
        ]),
        (lambda d: keys(d).pop("item"), [("needs-map", "key", "changed", (), "item")]),
        (lambda d: d["context_schema"].update(required=["item"]), [("safe", "setting", "changed", (), None)]),
        (lambda d: keys(d).update(note={"type": "string"}), [("safe", "key", "added", (), None)]),
        (lambda d: keys(d).pop("tier"), [("needs-map", "key", "removed", (), "tier")]),
        (rename_item, [("needs-map", "key", "renamed", (), "item")]),
        (lambda d: keys(d)["item"].update(maxLength=5), [("needs-map", "key", "changed", (), "item")]),
        (lambda d: keys(d)["item"].update(maxLength=50), [("safe", "key", "changed", (), None)]),
        (lambda d: keys(d)["item"].pop("maxLength"), [("safe", "key", "changed", (), None)]),
        (lambda d: keys(d)["count"].update(type="number"), [("safe", "key", "changed", (), None)]),
        (lambda d: keys(d)["count"].update(type="string"), [("needs-map", "key", "changed", (), "count")]),
        (lambda d: keys(d)["tier"].update(enum=["blue", "gold", "red"]), [("safe", "key", "changed", (), None)]),
        (lambda d: keys(d)["tier"].update(enum=["gold"]), [("needs-map", "key", "changed", (), "tier")]),
        (lambda d: keys(d)["item"].update({"x-source": "host"}), [("needs-map", "key", "changed", (), "item")]),
        (lambda d: keys(d)["tier"].pop("x-source"), [("safe", "key", "changed", (), None)]),
        (lambda d: keys(d)["item"].update(title="article"), [("safe", "words", "changed", (), None)]),
        (lambda d: d["states"]["ask"].update(purpose="Ask"), [("safe", "words", "changed", (), None)]),
        (lambda d: d.update(persona="Kind"), [("safe", "words", "changed", (), None)]),
        (lambda d: d.update(limits={"llm_calls": 3}), [("safe", "setting", "changed", (), None)]),
        (lambda d: d.update(initial_state="count"), [("safe", "machine", "changed", (), None)]),
    ],
)  # fmt: skip
def test_what_a_change_means(edit: Edit, expected: list[Any]) -> None:
    assert told(edit) == expected


def referring(document: dict[str, Any], listed: list[str], **words: Any) -> None:
    document["context_schema"]["$defs"] = {"Size": {"enum": listed}}
    keys(document)["size"] = {"$ref": "#/$defs/Size", **words}


def object_of(document: dict[str, Any], **words: Any) -> None:
    members = {"city": {"type": "string"}, "description": {"type": "string"}}
    keys(document)["place"] = {
        "type": "object",
        "properties": members,
        "additionalProperties": False,
        **words,
    }
    document["states"]["count"]["required_context_keys"] = ["count", "place"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (lambda d: referring(d, ["s", "m"]), lambda d: referring(d, ["s"]), ("needs-map", "key", "size", "misfit")),
        (lambda d: referring(d, ["s"]), lambda d: referring(d, ["s", "m"]), ("safe", "key", None, "set")),
        (lambda d: referring(d, ["s"], minLength=1), lambda d: referring(d, ["m"], minLength=1),
         ("needs-map", "key", "size", "misfit")),
        (object_of, lambda d: object_of(d, properties={}), ("needs-map", "key", "place", "misfit")),
        (object_of, lambda d: object_of(d, properties={"city": {"type": "string"}}),
         ("needs-map", "key", "place", "misfit")),
        (object_of, lambda d: (object_of(d), keys(d)["place"].pop("properties")),
         ("needs-map", "key", "place", "misfit")),
        (object_of, lambda d: (object_of(d), keys(d)["place"].pop("additionalProperties")),
         ("safe", "key", None, "set")),
        (object_of, lambda d: (object_of(d), keys(d)["place"]["properties"]["city"].update(description="Where")),
         ("safe", "words", None, "set")),
        (lambda d: keys(d).update(list={"type": "array", "contains": {"type": "string"}, "minContains": 0}),
         lambda d: keys(d).update(list={"type": "array", "contains": {"type": "string"}}),
         ("needs-map", "key", "list", "misfit")),
        (lambda d: keys(d).update(one={"type": "object", "unevaluatedProperties": False, "maxProperties": 2}),
         lambda d: keys(d).update(one={"type": "object", "unevaluatedProperties": False}),
         ("needs-map", "key", "one", "misfit")),
    ],
)  # fmt: skip
def test_a_schema_is_compared_with_all_that_it_says(
    before: Edit, after: Edit, expected: Any
) -> None:
    [change] = diff(definition(before), definition(after))
    assert (change.impact, change.subject, change.key, change.when) == expected


def test_a_schema_that_comes_or_goes_as_a_whole_is_told() -> None:
    bare = definition(lambda d: d.pop("context_schema"))
    declared = definition(lambda d: keys(d).update(item={"type": "string", "x-secret": True}))
    come = {
        (change.key, change.when): change.message for change in diff(bare, declared) if change.key
    }
    assert come == {
        ("count", "misfit"): 'key "count" is now declared (type "integer", minimum 1)',
        ("item", "misfit"): 'key "item" is now declared (type "string")',
        ("tier", "misfit"): 'key "tier" is now declared (enum ["gold", "blue"])',
        ("tier", "unset"): 'key "tier" is written by the host instead of the model',
    }
    gone = {change.message: change.impact for change in diff(declared, bare)}
    assert gone == {
        'key "item" is no longer declared, and was secret': "needs-map",
        'key "count" is no longer declared: the model may write it, and any value will do': "safe",
        'key "tier" removed': "needs-map",
    }


def test_order_of_transitions_counts_where_no_priority_says_it() -> None:
    def first(document: dict[str, Any]) -> None:
        moves(document, "count")[1]["priority"] = 50

    def turned(document: dict[str, Any]) -> None:
        first(document)
        moves(document, "count").reverse()

    assert diff(definition(first), definition(turned)) == ()
    [change] = diff(definition(), definition(lambda document: moves(document, "count").reverse()))
    assert change.message == 'order of the transitions from "count" changed: ask, done'


def test_a_condition_on_a_part_of_a_key_asks_for_what_its_state_collects() -> None:
    def demanding(*conditions: dict[str, Any]) -> Edit:
        return lambda d: (object_of(d), moves(d, "count")[0].update(conditions=list(conditions)))

    dotted = {"a.b": {"type": "string"}}
    for rule in (
        {"requires_context_keys": ["place.city"]},
        {"logic": {"has_context": "place.city"}},
    ):
        assert [
            change.impact for change in diff(definition(object_of), definition(demanding(rule)))
        ] == ["safe"]
    exact = {"logic": {"==": [{"var": "a.b"}, "x"]}}
    [change] = diff(
        definition(lambda d: (object_of(d), keys(d).update(dotted))),
        definition(lambda d: (keys(d).update(dotted), demanding(exact)(d))),
    )
    assert (change.key, change.states) == ("a.b", ("count",))
    assert not change.touches("count", {"a.b": "y"})
    assert not change.touches("count", {"a": {"b": "y"}})


def test_a_renamed_key_is_renamed_in_its_parts() -> None:
    def moved(document: dict[str, Any], key: str) -> None:
        object_of(document)
        keys(document)[key] = keys(document).pop("place")
        document["states"]["count"]["required_context_keys"] = ["count", key]
        moves(document, "count")[0]["conditions"] = [
            {"logic": {"==": [{"var": f"{key}.city"}, "Rome"]}}
        ]

    changes = diff(
        definition(lambda d: moved(d, "place")), definition(lambda d: moved(d, "places"))
    )
    assert [(change.how, change.key) for change in changes] == [("renamed", "place")]


def test_keys_are_told_in_the_order_of_the_file() -> None:
    names = [f"{letter}_key" for letter in "qxbzmaywcn"]
    every, first = names[3:], names[:3]
    rule = {"or": [{"==": [{"var": name}, 1]} for name in every]}

    def undeclared(conditions: list[Any]) -> Definition:
        states = {
            "ask": {
                "purpose": "What?",
                "transitions": [{"target_state": "end", "conditions": conditions}],
            },
            "end": {"purpose": "Goodbye"},
        }
        return load_dict({"name": "shop", "initial_state": "ask", "states": states}).definition

    asking = [{"requires_context_keys": first}, {"logic": rule}]
    found = diff(undeclared([]), undeclared(asking))
    assert [change.message for change in found if change.subject == "key"] == [
        f'key "{name}" added' for name in names
    ]


def test_another_name_says_that_nothing_is_carried_over() -> None:
    [change] = diff(definition(), definition(lambda d: d.update(name="store")))
    assert change.reason == "conversations under the old name cannot be carried over"


def test_a_final_state_strands_nobody() -> None:
    def without_done(document: dict[str, Any]) -> None:
        document["states"]["bye"] = {"purpose": "Nothing in common"}
        del document["states"]["done"]
        document["states"]["count"]["transitions"][0]["target_state"] = "bye"

    assert {change.impact for change in diff(definition(), definition(without_done))} == {"safe"}


def test_messages_say_what_changed_from_what() -> None:
    [change] = diff(definition(), definition(lambda d: keys(d)["item"].update(maxLength=5)))
    assert change.message == 'schema of key "item" changed (maxLength from 20 to 5)'
    assert change.reason == "stored values may not fit any more"
    assert change.pointer == "/context_schema/properties/item"


@pytest.mark.parametrize("name", definition_paths())
def test_a_definition_does_not_differ_from_itself(name: str) -> None:
    assert diff(load(definition_paths()[name]), load(definition_paths()[name])) == ()


def test_any_two_definitions_can_be_compared() -> None:
    loaded = [load(path) for path in definition_paths().values()]
    for old, new in itertools.permutations(loaded[:6], 2):
        assert diff(old, new)


@pytest.mark.parametrize(
    ("change", "state", "context", "touched"),
    [
        ({"states": ("a",)}, "a", {}, True),
        ({"states": ("a",)}, "b", {}, False),
        ({"key": "k"}, "a", {"k": 1}, True),
        ({"key": "k"}, "a", {"k": None}, False),
        ({"key": "k", "when": "unset"}, "a", {}, True),
        ({"key": "k", "when": "misfit", "schema": {"type": "string"}}, "a", {"k": 1}, True),
        ({"key": "k", "when": "misfit", "schema": {"type": "string"}}, "a", {"k": "x"}, False),
        ({"impact": "safe"}, "a", {}, False),
    ],
)
def test_which_conversations_a_change_touches(
    change: dict[str, Any], state: str, context: dict[str, Any], touched: bool
) -> None:
    values = {
        "subject": "key",
        "how": "changed",
        "impact": "needs-map",
        "message": "",
        "pointer": "",
        **change,
    }
    assert Difference(**values).touches(state, context) is touched


def test_a_transition_that_never_comes_is_told_as_such() -> None:
    [found, *_] = diff(
        definition(), definition(lambda d: moves(d, "count")[0].update(conditions=NEVER))
    )
    assert "they can never hold now" in found.reason
    assert "from count no end can be reached" in found.reason


def test_a_removed_transition_says_what_is_out_of_reach() -> None:
    [found] = diff(definition(), definition(lambda d: moves(d, "count").pop(1)))
    assert (found.impact, found.reason) == (
        "safe",
        'from "count" conversations do not come to ask any more',
    )


def test_a_machine_without_an_end_strands_where_it_cannot_go_on() -> None:
    states = {
        "a": {"purpose": "x", "transitions": [{"target_state": "b"}]},
        "b": {"purpose": "y", "transitions": [{"target_state": "a"}]},
    }
    old = load_dict({"name": "n", "initial_state": "a", "states": states}).definition
    loop = {**states, "b": {"purpose": "y", "transitions": [{"target_state": "b"}]}}
    new = load_dict({"name": "n", "initial_state": "a", "states": loop}).definition
    assert [(one.impact, one.states) for one in diff(old, new)] == [
        ("strands", ("b",)),
        ("safe", ()),
    ]


@pytest.mark.parametrize(
    ("before", "after", "impact"),
    [
        ([], ["item"], "needs-map"),
        (["item"], ["item", "count"], "needs-map"),
        (["item", "count"], ["item"], "safe"),
        (["item", "count"], ["count", "item"], "safe"),
    ],
)
def test_who_has_not_heard_a_value_is_touched_where_it_is_confirmed(
    before: list[str], after: list[str], impact: str
) -> None:
    def confirms(names: list[str]) -> Edit:
        return lambda document: document["states"]["ask"].update(confirms=names)

    (change,) = diff(definition(confirms(before)), definition(confirms(after)))
    assert change.impact == impact
    assert change.touches("ask", {}) == (impact == "needs-map")
    assert not change.touches("count", {})
