"""More faults that authors make: in schemas, in fixed words, in settings, and by copying.

As in `faults`, a plant changes a document in place and says where, or gives None.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks.faults import Document, Fault, asking, moves, pick, schemas, typo


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
    key = pick(_keys(document, lambda schema: schema.get("type") in ("string", "integer", "boolean")), chance)
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
    places = [(key, word) for key, schema in schemas(document).items() for word in words if word in schema]
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
    return [(name, "\n".join(text) if isinstance(text, list) else text) for name, text in said if text]


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
        "{% include 'footer' %}",
        "{{ 9**9**9 }}",
        "{% for i in range(3) %}{{ i }}{% endfor %}",
        "{{ 'a' + 1 }}",
    ]
    return _say(document, chance, chance.choice(wrong))


def wrong_member(document: Document, chance: Random) -> str | None:
    """A condition that looks into a text or a number."""
    place, move = chance.choice(moves(document))
    key = pick(_keys(document, lambda schema: schema.get("type") in ("string", "integer")), chance)
    if key is None:
        return None
    move.setdefault("conditions", []).append({"description": "x", "requires_context_keys": [f"{key}.name"]})
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
    return _guard(document, chance, {"<": [{"now": []}, chance.choice([1893456000000, "2030-01-01"])]})


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
    return _write(document, chance, "purpose", words[:2] + chance.choice("\u200b\u202e\ufeff") + words[2:])


def copied_transition(document: Document, chance: Random) -> str | None:
    """A transition that stands twice."""
    name = chance.choice(asking(document))
    own = document["states"][name]["transitions"]
    own.append(copy.deepcopy(chance.choice(own)))
    return f"{name}/{len(own) - 1}"


def copied_condition(document: Document, chance: Random) -> str | None:
    """A condition that stands twice in its transition."""
    found = pick([(place, move) for place, move in moves(document) if move.get("conditions")], chance)
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
    name = pick([name for name in ends if document["states"][name].get("kind", "final") == "final"], chance)
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


KINDS = (
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
    Fault("unknown place in words", unknown_place, ("unknown-place-in-words", "unknown-name-in-words")),
    Fault("note to self", note_to_self, ("unfinished-words",)),
    Fault("key of a service", leaked_key, ("secret-literal",)),
    Fault("hidden character", hidden_character, ("hidden-characters",)),
    Fault("transition copied", copied_transition, ("repeated-transition",)),
    Fault("condition copied", copied_condition, ("repeated-entry",)),
    Fault("condition without content", empty_condition, ("empty-condition",)),
    Fault("setting without room", no_room, ("hopeless-setting",)),
    Fault("beginning at the end", begins_at_the_end, ("ends-at-once",)),
    Fault("words that nobody judges", words_for_nobody, ("unjudged-words",)),
)
"""Every kind that is planted into documents beside those of `faults`."""
