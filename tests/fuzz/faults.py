"""Faults that authors make, each as a function that plants one into a definition.

A plant changes a document in place, at a place that chance chooses, and says where; it gives None
when the document has no such place. What it changes, it changes once: the rest of the document
stays right.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

Document = dict[str, Any]
Plant = Callable[[Document, Random], str | None]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault: how it is planted, and the names of the rules of which one has to find it."""

    name: str
    plant: Plant
    rules: tuple[str, ...]


def typo(word: str, chance: Random) -> str:
    """A slip of the fingers: two letters swapped, one left out, or one doubled."""
    at = chance.randrange(1, max(2, len(word) - 1))
    how = chance.randrange(3)
    if how == 0 and len(word) > at + 1 and word[at] != word[at + 1]:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if how == 1 and len(word) > 4:
        return word[:at] + word[at + 1 :]
    return word[: at + 1] + word[at] + word[at + 1 :]


def pick(items: Sequence[Item], chance: Random) -> Item | None:
    return chance.choice(items) if items else None


def moves(document: Document) -> list[tuple[str, Document]]:
    """(place, transition) of every transition of a state."""
    return [
        (f"{name}/{index}", move)
        for name, state in document["states"].items()
        for index, move in enumerate(state.get("transitions", ()))
    ]


def asking(document: Document) -> list[str]:
    """States with transitions in which the user is asked."""
    states = document["states"].items()
    return [
        name for name, state in states if state.get("transitions") and state.get("kind") != "decide"
    ]


def comparisons(document: Document) -> list[tuple[str, list[Any]]]:
    """(place, arguments) of every `{"==": [{"var": key}, value]}`."""

    def inside(value: Any) -> Iterator[list[Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if (
                    key == "=="
                    and isinstance(inner, list)
                    and isinstance(inner[0], dict)
                    and "var" in inner[0]
                ):
                    yield inner
                yield from inside(inner)
        elif isinstance(value, list):
            for item in value:
                yield from inside(item)

    return [
        (place, arguments)
        for place, move in moves(document)
        for arguments in inside(
            [condition.get("logic") for condition in move.get("conditions", ())]
        )
    ]


def schemas(document: Document) -> dict[str, Document]:
    found: dict[str, Document] = document["context_schema"]["properties"]
    return found


def _list_of_keys(document: Document, key: str) -> list[tuple[str, list[str]]]:
    """(place, names) of every list of keys that states collect, or that conditions require."""
    if key == "required_context_keys":
        return [(name, state[key]) for name, state in document["states"].items() if state.get(key)]
    conditions = (
        (place, one) for place, move in moves(document) for one in move.get("conditions", ())
    )
    return [(place, one[key]) for place, one in conditions if one.get(key)]


def misspelt_target(document: Document, chance: Random) -> str | None:
    """A transition to a state whose name has a typo."""
    place, move = chance.choice(moves(document))
    move["target_state"] = typo(move["target_state"], chance)
    return f"{place} {move['target_state']}"


def misspelt_initial_state(document: Document, chance: Random) -> str | None:
    """An initial state with a typo."""
    document["initial_state"] = typo(document["initial_state"], chance)
    return str(document["initial_state"])


def misspelt_key(document: Document, chance: Random) -> str | None:
    """A key of a state with a typo."""
    name = chance.choice(list(document["states"]))
    state = document["states"][name]
    key = pick([key for key in state if len(key) > 3], chance)
    if key is None:
        return None
    wrong = typo(key, chance)
    document["states"][name] = {wrong if one == key else one: value for one, value in state.items()}
    return f"{name} {wrong}"


def wrong_type(document: Document, chance: Random) -> str | None:
    """A value in quotes, or a text where a list belongs."""
    place, move = chance.choice(moves(document))
    key, value = chance.choice(
        [("priority", "10"), ("auto", "yes"), ("conditions", 3), ("description", 7)]
    )
    move[key] = value
    return f"{place} {key}"


def missing_target(document: Document, chance: Random) -> str | None:
    """A transition without a target."""
    place, move = chance.choice(moves(document))
    del move["target_state"]
    return place


def unknown_kind(document: Document, chance: Random) -> str | None:
    """A kind that does not exist."""
    name = chance.choice(list(document["states"]))
    document["states"][name]["kind"] = chance.choice(
        ["end", "Final", "chat", "decision", "conversation"]
    )
    return f"{name} {document['states'][name]['kind']}"


def unknown_operator(document: Document, chance: Random) -> str | None:
    """An operator that JsonLogic does not have."""
    place, move = chance.choice(moves(document))
    operator = chance.choice(["equals", "has_contex", "containz", "=>", "is", "gt", "AND"])
    move.setdefault("conditions", []).append(
        {"description": "x", "logic": {operator: [{"var": "x"}, 1]}}
    )
    return f"{place} {operator}"


def misspelt_condition_key(document: Document, chance: Random) -> str | None:
    """A condition that compares a key with a typo."""
    found = pick(comparisons(document), chance)
    if found is None:
        return None
    found[1][0] = {"var": typo(found[1][0]["var"], chance)}
    return f"{found[0]} {found[1][0]}"


def misspelt_collected_key(document: Document, chance: Random) -> str | None:
    """A state that collects a key with a typo."""
    found = pick(_list_of_keys(document, "required_context_keys"), chance)
    if found is None:
        return None
    at = chance.randrange(len(found[1]))
    found[1][at] = typo(found[1][at], chance)
    return f"{found[0]} {found[1][at]}"


def misspelt_demanded_key(document: Document, chance: Random) -> str | None:
    """A condition that demands a key with a typo."""
    found = pick(_list_of_keys(document, "requires_context_keys"), chance)
    if found is None:
        return None
    at = chance.randrange(len(found[1]))
    found[1][at] = typo(found[1][at], chance)
    return f"{found[0]} {found[1][at]}"


def value_outside_enum(document: Document, chance: Random) -> str | None:
    """A comparison with a value that the key can never have."""
    declared = schemas(document)
    places = [
        (place, one)
        for place, one in comparisons(document)
        if "enum" in declared.get(one[0]["var"], {})
    ]
    found = pick(places, chance)
    if found is None:
        return None
    found[1][1] = typo(str(found[1][1]), chance)
    return f"{found[0]} {found[1][1]}"


def other_type(document: Document, chance: Random) -> str | None:
    """A comparison with a value of another type."""
    found = pick(comparisons(document), chance)
    if found is None:
        return None
    found[1][1] = {"true": 1} if isinstance(found[1][1], str) else "perhaps"
    if isinstance(found[1][1], dict):
        found[1][1] = 17
    return f"{found[0]} {found[1]}"


def contradiction(document: Document, chance: Random) -> str | None:
    """A condition that demands two values of one key at once."""
    place, move = chance.choice(moves(document))
    enums = {
        key: schema["enum"]
        for key, schema in schemas(document).items()
        if len(schema.get("enum", ())) > 1
    }
    key = pick(list(enums), chance)
    if key is None:
        return None
    both = [{"==": [{"var": key}, value]} for value in enums[key][:2]]
    move.setdefault("conditions", []).append({"description": "both", "logic": {"and": both}})
    return f"{place} {key}"


def broken_template(document: Document, chance: Random) -> str | None:
    """A fixed reply in which a delimiter is not closed."""
    names = [
        name for name, state in document["states"].items() if "}}" in str(state.get("reply", ""))
    ]
    name = pick(names, chance)
    if name is None:
        return None
    reply = document["states"][name]["reply"]
    lines = reply if isinstance(reply, list) else [reply]
    at = chance.choice([number for number, line in enumerate(lines) if "}}" in line])
    lines[at] = lines[at].replace("}}", "}", 1)
    document["states"][name]["reply"] = lines
    return f"{name} {at}"


def misspelt_reply_key(document: Document, chance: Random) -> str | None:
    """A fixed reply that names a key with a typo."""
    keys = schemas(document)
    places = [
        (name, key)
        for name, state in document["states"].items()
        for key in keys
        if f"{{{{ {key} }}}}" in str(state.get("reply", ""))
    ]
    found = pick(places, chance)
    if found is None:
        return None
    state, wrong = document["states"][found[0]], typo(found[1], chance)
    reply = "\n".join(state["reply"]) if isinstance(state["reply"], list) else state["reply"]
    state["reply"] = reply.replace(f"{{{{ {found[1]} }}}}", f"{{{{ {wrong} }}}}", 1)
    return f"{found[0]} {wrong}"


def secret_reply(document: Document, chance: Random) -> str | None:
    """A fixed reply that shows a key which is now a secret."""
    said = str([state.get("reply", "") for state in document["states"].values()])
    key = pick([key for key in schemas(document) if f"{{{{ {key} }}}}" in said], chance)
    if key is None:
        return None
    schemas(document)[key]["x-secret"] = True
    return key


def lost_state(document: Document, chance: Random) -> str | None:
    """A state that nothing leads to any more."""
    names = [name for name in document["states"] if name != document["initial_state"]]
    name = chance.choice(names)
    for state in document["states"].values():
        if "transitions" in state:
            state["transitions"] = [
                move for move in state["transitions"] if move["target_state"] != name
            ]
    shared = document.get("global_transitions", [])
    document["global_transitions"] = [move for move in shared if move["target_state"] != name]
    return name


def forgotten_transitions(document: Document, chance: Random) -> str | None:
    """A state that asks for something and has lost its transitions."""
    names = [
        name for name in asking(document) if document["states"][name].get("required_context_keys")
    ]
    name = pick(names, chance)
    if name is not None:
        del document["states"][name]["transitions"]
    return name


def silent_transition(document: Document, chance: Random) -> str | None:
    """A transition that does not say when it is to be taken, beside others that do."""
    names = [
        name
        for name in asking(document)
        if len({m["target_state"] for m in document["states"][name]["transitions"]}) > 1
    ]
    name = pick(names, chance)
    if name is None:
        return None
    at = chance.randrange(len(document["states"][name]["transitions"]))
    move = document["states"][name]["transitions"][at]
    move.pop("description", None)
    move.pop("conditions", None)
    return f"{name}/{at}"


def copied_description(document: Document, chance: Random) -> str | None:
    """Two transitions of a state with the same description."""
    pairs = [
        (name, first, second)
        for name in asking(document)
        for first in document["states"][name]["transitions"]
        for second in document["states"][name]["transitions"]
        if first["target_state"] != second["target_state"]
    ]
    found = pick(pairs, chance)
    if found is None:
        return None
    found[2]["description"] = found[1]["description"]
    found[2].pop("conditions", None)
    found[1].pop("conditions", None)
    return f"{found[0]} {found[1]['target_state']} {found[2]['target_state']}"


def silent_state(document: Document, chance: Random) -> str | None:
    """A state has neither a purpose nor instructions."""
    name = chance.choice(asking(document))
    for key in ("purpose", "description", "instructions", "reply"):
        document["states"][name].pop(key, None)
    return name


def closed_circle(document: Document, chance: Random) -> str | None:
    """Two states that lead only to each other."""
    name = chance.choice(asking(document))
    document.pop("global_transitions", None)
    for one, other in (("more", "even_more"), ("even_more", "more")):
        document["states"][one] = {
            "purpose": "Tell more",
            "transitions": [_to(other, "The user wants more")],
        }
    document["states"][name]["transitions"].append(_to("more", "The user wants to know more"))
    return name


def endless_decision(document: Document, chance: Random) -> str | None:
    """Two deciding states that go on to each other."""
    name = chance.choice(asking(document))
    for one, other in (("sort", "sort_again"), ("sort_again", "sort")):
        document["states"][one] = {"kind": "decide", "transitions": [_to(other, "in any case")]}
    document["states"][name]["transitions"].append(_to("sort", "The user wants it sorted"))
    return name


def _to(target: str, description: str) -> Document:
    return {"target_state": target, "description": description}


def host_key_collected(document: Document, chance: Random) -> str | None:
    """A state that collects a key which only the host may write."""
    found = pick(_list_of_keys(document, "required_context_keys"), chance)
    if found is None:
        return None
    key = chance.choice(found[1])
    schemas(document)[key]["x-source"] = "host"
    return f"{found[0]} {key}"


def gap(document: Document, chance: Random) -> str | None:
    """A deciding state that has lost the transition for everything else."""
    names = [name for name, state in document["states"].items() if state.get("kind") == "decide"]
    name = pick(names, chance)
    if name is None:
        return None
    own = document["states"][name]["transitions"]
    kept = [move for move in own if move.get("conditions")]
    document["states"][name]["transitions"] = kept if len(kept) < len(own) else kept[:-1]
    return name


def empty_decision(document: Document, chance: Random) -> str | None:
    """A deciding state without transitions."""
    name = chance.choice(asking(document))
    document["states"]["sort"] = {"kind": "decide"}
    document["states"][name]["transitions"].append(_to("sort", "The user wants it sorted"))
    return name


def misspelt_schema_type(document: Document, chance: Random) -> str | None:
    """A type that JSON Schema does not have."""
    key = chance.choice([key for key, schema in schemas(document).items() if "type" in schema])
    schemas(document)[key]["type"] = typo(schemas(document)[key]["type"], chance)
    return f"{key} {schemas(document)[key]['type']}"


def twin_key(document: Document, chance: Random) -> str | None:
    """A second context key that differs by its spelling only."""
    key = chance.choice(list(schemas(document)))
    twin = key.replace("_", "") if "_" in key else key[0].upper() + key[1:]
    schemas(document)[twin] = dict(schemas(document)[key])
    return twin


def final_with_transitions(document: Document, chance: Random) -> str | None:
    """A state that is called final and leads on."""
    name = chance.choice(asking(document))
    document["states"][name]["kind"] = "final"
    return name


def self_transition(document: Document, chance: Random) -> str | None:
    """A transition back to the same state."""
    name = chance.choice(asking(document))
    document["states"][name]["transitions"].append(_to(name, "The user is not sure"))
    return name


def unknown_tool(document: Document, chance: Random) -> str | None:
    """A state that uses a tool under a misspelt name."""
    name = chance.choice(asking(document))
    document["tools"] = {"catalogue": {"registered": "catalogue"}}
    document["states"][name]["tools"] = [typo("catalogue", chance)]
    return f"{name} {document['states'][name]['tools']}"


def endless_wait(document: Document, chance: Random) -> str | None:
    """A wait that nothing ends."""
    name = chance.choice(asking(document))
    document["states"]["approval"] = {"kind": "wait", "wait_for": "manager"}
    document["states"][name]["transitions"].append(_to("approval", "The user wants it approved"))
    return name


def missing_kind(document: Document, chance: Random) -> str | None:
    """Key results in a state that is no task."""
    name = chance.choice(asking(document))
    document["states"][name]["key_results"] = [
        {"name": "done", "check": {"has_context": "output.done"}}
    ]
    return name


def broken_promise(document: Document, chance: Random) -> str | None:
    """A statement of the author's that a path breaks."""
    names = [name for name in document["states"] if name != document["initial_state"]]
    name = chance.choice(names)
    document["properties"] = [{"never": name}]
    return name


def repeated_transition(document: Document, chance: Random) -> str | None:
    """A deciding state in which a transition comes too late: the one before it takes everything."""
    deciding = [name for name, state in document["states"].items() if state.get("kind") == "decide"]
    names = [name for name in deciding if len(document["states"][name]["transitions"]) > 1]
    name = pick(names, chance)
    if name is None:
        return None
    own = document["states"][name]["transitions"]
    at = chance.randrange(len(own) - 1)
    own[at] = {**own[at], "conditions": [], "priority": 1}
    return f"{name}/{at}"


_KINDS: tuple[Fault, ...] = (
    Fault("target with a typo", misspelt_target, ("unknown-target",)),
    Fault("initial state with a typo", misspelt_initial_state, ("unknown-initial-state",)),
    Fault("key of a state with a typo", misspelt_key, ("unknown-key",)),
    Fault("value of another type", wrong_type, ("wrong-type",)),
    Fault("transition without target", missing_target, ("missing-key",)),
    Fault("unknown kind", unknown_kind, ("bad-value",)),
    Fault("unknown operator", unknown_operator, ("bad-condition",)),
    Fault("key of a condition with a typo", misspelt_condition_key, ("unknown-condition-key",)),
    Fault("collected key with a typo", misspelt_collected_key, ("undeclared-key",)),
    Fault(
        "demanded key with a typo",
        misspelt_demanded_key,
        ("unknown-condition-key", "unobtainable-key"),
    ),
    Fault("value outside an enum", value_outside_enum, ("value-outside-enum", "case-mismatch")),
    Fault("comparison across types", other_type, ("type-mismatch", "value-outside-enum")),
    Fault("contradiction", contradiction, ("never-holds",)),
    Fault("template not closed", broken_template, ("bad-template",)),
    Fault("key of a reply with a typo", misspelt_reply_key, ("unknown-key-in-reply",)),
    Fault("secret in a reply", secret_reply, ("secret-in-reply",)),
    Fault("state that nothing leads to", lost_state, ("unreachable-state", "no-way-to-an-end")),
    Fault("transitions forgotten", forgotten_transitions, ("collects-at-the-end",)),
    Fault("transition without words", silent_transition, ("missing-description",)),
    Fault("description copied", copied_description, ("identical-descriptions",)),
    Fault("state without words", silent_state, ("missing-purpose",)),
    Fault("closed circle of states", closed_circle, ("trap", "no-way-to-an-end")),
    Fault("endless decision", endless_decision, ("auto-loop",)),
    Fault("key of the host collected", host_key_collected, ("unwritable-key",)),
    Fault("gap in a decision", gap, ("decide-gap", "stuck-decide")),
    Fault("decision without transitions", empty_decision, ("decide-without-transitions",)),
    Fault("type of a key with a typo", misspelt_schema_type, ("bad-context-schema",)),
    Fault("keys that look alike", twin_key, ("confusable-ids",)),
    Fault("final state with transitions", final_with_transitions, ("final-with-transitions",)),
    Fault("transition to itself", self_transition, ("self-transition",)),
    Fault("tool with a typo", unknown_tool, ("unknown-tool",)),
    Fault("wait without end", endless_wait, ("wait-without-way-out",)),
    Fault("key results without a task", missing_kind, ("setting-without-effect",)),
    Fault("broken promise", broken_promise, ("property-violated",)),
    Fault("transition that comes too late", repeated_transition, ("shadowed-transition",)),
)
"""Every kind that is planted into documents."""


def _keys(document: Document, fits: Callable[[Document], bool]) -> list[str]:
    return [key for key, schema in schemas(document).items() if fits(schema)]


def crossed_bounds(document: Document, chance: Random) -> str | None:
    """A key whose lower bound lies above its upper one."""
    key = pick(_keys(document, lambda schema: schema.get("type") in ("string", "integer")), chance)
    if key is None:
        return None
    schema = schemas(document)[key]
    low, high = ("minLength", "maxLength") if schema["type"] == "string" else ("minimum", "maximum")
    schema.pop("enum", None)
    schema[low], schema[high] = 9, 3
    return key


def refused_default(document: Document, chance: Random) -> str | None:
    """A default of another type."""
    key = pick(
        _keys(document, lambda schema: schema.get("type") in ("string", "integer", "boolean")),
        chance,
    )
    if key is None:
        return None
    schemas(document)[key]["default"] = {"string": 7, "integer": "seven", "boolean": "no"}[
        schemas(document)[key]["type"]
    ]
    return key


def repeated_value(document: Document, chance: Random) -> str | None:
    """A value that is listed twice."""
    key = pick(_keys(document, lambda schema: len(schema.get("enum", ())) > 1), chance)
    if key is None:
        return None
    schemas(document)[key]["enum"].append(schemas(document)[key]["enum"][0])
    return key


def misspelt_schema_word(document: Document, chance: Random) -> str | None:
    """A word of JSON Schema with a typo, or in another spelling."""
    words = (
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "pattern",
        "format",
        "enum",
        "x-source",
        "x-secret",
    )
    places = [
        (key, word) for key, schema in schemas(document).items() for word in words if word in schema
    ]
    found = pick(places, chance)
    if found is None:
        return None
    schema = schemas(document)[found[0]]
    wrong = typo(found[1], chance) if len(found[1]) > 4 else "values"
    schema[wrong] = schema.pop(found[1])
    return f"{found[0]} {wrong}"


def unknown_format(document: Document, chance: Random) -> str | None:
    """A format that JSON Schema calls otherwise."""
    key = pick(_keys(document, lambda schema: schema.get("type") == "string"), chance)
    if key is None:
        return None
    schemas(document)[key]["format"] = chance.choice(
        ["e-mail", "datetime", "Date", "url", "guid", "date_time"]
    )
    return f"{key} {schemas(document)[key]['format']}"


def _replies(document: Document) -> list[tuple[str, str]]:
    """(state, text) of every fixed reply."""
    said = ((name, state.get("reply")) for name, state in document["states"].items())
    return [
        (name, "\n".join(text) if isinstance(text, list) else text) for name, text in said if text
    ]


def _say(document: Document, chance: Random, addition: str) -> str | None:
    """A fixed reply with something added."""
    found = pick(_replies(document), chance)
    if found is None:
        return None
    document["states"][found[0]]["reply"] = f"{found[1]} {addition}"
    return f"{found[0]} {addition}"


def foreign_placeholder(document: Document, chance: Random) -> str | None:
    """A placeholder in the notation of another language."""
    key = chance.choice(list(schemas(document)))
    return _say(document, chance, chance.choice(["{%s}", "${%s}", "$%s", "%%(%s)s", "<%s>"]) % key)


def failing_reply(document: Document, chance: Random) -> str | None:
    """Something that a reply cannot do."""
    wrong = [
        "{{ 'a' + 1 }}",
        "{{ 7 | length }}",
        "{{ 'abc' | join(', ') }}",
        "{% for letter in 'abc' %}{{ letter }}{% endfor %}",
    ]
    return _say(document, chance, chance.choice(wrong))


def wrong_member(document: Document, chance: Random) -> str | None:
    """A condition that looks into a text or a number."""
    place, move = chance.choice(moves(document))
    key = pick(_keys(document, lambda schema: schema.get("type") in ("string", "integer")), chance)
    if key is None:
        return None
    move.setdefault("conditions", []).append(
        {"description": "x", "requires_context_keys": [f"{key}.name"]}
    )
    return f"{place} {key}"


def _guard(document: Document, chance: Random, logic: Any) -> str:
    place, move = chance.choice(moves(document))
    move.setdefault("conditions", []).append({"description": "x", "logic": logic})
    return f"{place} {logic}"


def refused_literal(document: Document, chance: Random) -> str | None:
    """A comparison with a text that the key's pattern or format refuses."""
    key = pick(_keys(document, lambda schema: "pattern" in schema or "format" in schema), chance)
    return None if key is None else _guard(document, chance, {"==": [{"var": key}, "?"]})


def unknown_current_state(document: Document, chance: Random) -> str | None:
    """A condition about a state whose name has a typo."""
    name = typo(chance.choice(list(document["states"])), chance)
    return _guard(document, chance, {"==": [{"var": "_previous_state"}, name]})


def milliseconds(document: Document, chance: Random) -> str | None:
    """A moment in milliseconds, or as text."""
    return _guard(
        document, chance, {"<": [{"now": []}, chance.choice([1893456000000, "2030-01-01"])]}
    )


def negative_length(document: Document, chance: Random) -> str | None:
    """A length that is asked to be negative."""
    key = chance.choice(list(schemas(document)))
    return _guard(document, chance, {"<": [{"len": [{"var": key}]}, 0]})


def unknown_place(document: Document, chance: Random) -> str | None:
    """Instructions that send the model where there is nothing."""
    name = chance.choice(asking(document))
    words = chance.choice(
        ["Then go to state `limbo`.", "Use the tool find_nothing.", "Move to the `limbo` state."]
    )
    state = document["states"][name]
    text = state.get("instructions", "")
    state["instructions"] = [*text, words] if isinstance(text, list) else f"{text}\n{words}"
    return f"{name} {words}"


def _write(document: Document, chance: Random, key: str, words: str) -> str:
    name = chance.choice(list(document["states"]))
    document["states"][name][key] = words
    return f"{name} {words!r}"


def note_to_self(document: Document, chance: Random) -> str | None:
    """A text that was to be written later."""
    return _write(
        document,
        chance,
        "purpose",
        chance.choice(["tbd", "TODO", "Lorem ipsum dolor sit amet", "FIXME: words"]),
    )


def leaked_key(document: Document, chance: Random) -> str | None:
    """A key of a service in the words for the model."""
    keys = [
        "sk-proj-Zk3vQ9xT7bLmN2pRs8wY",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "AKIAIOSFODNN7EXAMPLE",
    ]
    return _write(document, chance, "description", f"Call the API with {chance.choice(keys)}.")


def hidden_character(document: Document, chance: Random) -> str | None:
    """A character that nobody sees."""
    name = chance.choice(list(document["states"]))
    words = str(document["states"][name].get("purpose", "Talk"))
    return _write(
        document, chance, "purpose", words[:2] + chance.choice("\u200b\u202e\ufeff") + words[2:]
    )


def copied_transition(document: Document, chance: Random) -> str | None:
    """A transition that stands twice."""
    name = chance.choice(asking(document))
    own = document["states"][name]["transitions"]
    own.append(copy.deepcopy(chance.choice(own)))
    return f"{name}/{len(own) - 1}"


def copied_condition(document: Document, chance: Random) -> str | None:
    """A condition that stands twice in its transition."""
    found = pick(
        [(place, move) for place, move in moves(document) if move.get("conditions")], chance
    )
    if found is None:
        return None
    found[1]["conditions"].append(copy.deepcopy(chance.choice(found[1]["conditions"])))
    return found[0]


def empty_condition(document: Document, chance: Random) -> str | None:
    """A condition without content."""
    place, move = chance.choice(moves(document))
    move.setdefault("conditions", []).append({})
    return place


def no_room(document: Document, chance: Random) -> str | None:
    """A setting that leaves no room."""
    owner, key, value = chance.choice(
        [
            ("model", "temperature", 5),
            ("model", "max_tokens", 4),
            ("history", "max_exchanges", 0),
            ("history", "max_tokens", 5),
        ]
    )
    document.setdefault(owner, {})[key] = value
    return f"{owner} {key}"


def begins_at_the_end(document: Document, chance: Random) -> str | None:
    """A conversation that begins in a final state."""
    ends = [name for name, state in document["states"].items() if not state.get("transitions")]
    name = pick(
        [name for name in ends if document["states"][name].get("kind", "final") == "final"], chance
    )
    if name is not None:
        document["initial_state"] = name
    return name


def words_for_nobody(document: Document, chance: Random) -> str | None:
    """A deciding state whose first transition has a condition of words alone."""
    name = chance.choice(asking(document))
    target = chance.choice(list(document["states"]))
    said = [{"description": "The user is in a hurry"}]
    hurried = {"target_state": target, "conditions": said, "description": "hurry"}
    others = {"target_state": name, "description": "otherwise"}
    document["states"]["weigh"] = {"kind": "decide", "transitions": [hurried, others]}
    document["states"][name]["transitions"].append(
        {"target_state": "weigh", "description": "The user is weighing it up"}
    )
    return name


_SLIPS = (
    Fault("bounds that cross", crossed_bounds, ("impossible-schema",)),
    Fault("default that is refused", refused_default, ("refused-by-schema",)),
    Fault("value listed twice", repeated_value, ("refused-by-schema",)),
    Fault("word of a schema with a typo", misspelt_schema_word, ("idle-schema-word",)),
    Fault("unknown format", unknown_format, ("idle-schema-word",)),
    Fault("placeholder of another language", foreign_placeholder, ("unfilled-placeholder",)),
    Fault("reply that fails", failing_reply, ("reply-fails", "bad-template")),
    Fault("member of a text", wrong_member, ("unknown-condition-key",)),
    Fault("literal that is refused", refused_literal, ("value-outside-enum",)),
    Fault("unknown state in a condition", unknown_current_state, ("unknown-state-in-condition",)),
    Fault("milliseconds", milliseconds, ("impossible-comparison",)),
    Fault("negative length", negative_length, ("impossible-comparison",)),
    Fault(
        "unknown place in words", unknown_place, ("unknown-place-in-words", "unknown-name-in-words")
    ),
    Fault("note to self", note_to_self, ("unfinished-words",)),
    Fault("key of a service", leaked_key, ("secret-literal",)),
    Fault("hidden character", hidden_character, ("hidden-characters",)),
    Fault("transition copied", copied_transition, ("repeated-transition",)),
    Fault("condition copied", copied_condition, ("repeated-entry",)),
    Fault("condition without content", empty_condition, ("empty-condition",)),
    Fault("setting without room", no_room, ("hopeless-setting",)),
    Fault("beginning at the end", begins_at_the_end, ("unreachable-state",)),
    Fault("words that nobody judges", words_for_nobody, ("unjudged-words",)),
)
"""Every kind that is planted into documents beside those of `faults`."""

KINDS = (*_KINDS, *_SLIPS)
"""Every kind that is planted into documents."""
