"""Keys and tools that are declared, collected or set, and used nowhere."""

from __future__ import annotations

from llm_fsm._json import grouped, step
from llm_fsm._text import listed, nearest
from llm_fsm.languages import LANGUAGE
from llm_fsm.lint.document import Document, texts_of_states
from llm_fsm.lint.facts.data_flow import data_flow, mapped
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import texts
from llm_fsm.lint.graph import reached_states
from llm_fsm.lint.logics import assignments_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("K306", "info")
def collected_never_read(document: Document) -> Faults:
    """A state collects a key that nothing in the file reads.

    Why it is bad:
    The state asks for a value that no condition, fixed reply, mapping or instruction uses. Perhaps the program reads
    it, or perhaps a transition should demand it.

    Example:
        "context_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Demand the key in the transition that it is collected for, or do not ask for it.
    """
    flow = data_flow(document)
    for key, places in flow.collected.items():
        if key in document.keys and key not in flow.read:
            yield Fault(
                f"{quoted(key)} is collected, but no condition, reply, mapping or instruction"
                " reads it",
                pointer=places[0][1],
                hint="demand it in a transition, unless the program reads it",
            )


@lint_rule("K307", "info", at_key=True)
def set_never_used(document: Document) -> Faults:
    """An output mapping or `set` writes a key that nothing in the file reads.

    Why it is bad:
    The result is stored, and nothing in the file uses it. Perhaps the key is misspelt.

    Example:
        "context_schema": {"type": "object", "properties": {"approved": {"type": "boolean", "x-source": "answer"}}},
        "states": {"hello": {"kind": "wait", "wait_for": "manager", "output": {"approved": "$.ok"},
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Use the key in a condition or a reply, or take the mapping out.
    """
    flow = data_flow(document)
    written: list[tuple[str, str]] = []
    for placed in (*document.states.values(), *document.root.members("tools")):
        written += mapped(placed)
    written += [(assigned.key, assigned.pointer) for assigned in assignments_of(document)]
    for key, pointer in written:
        if (not document.has_schema or key in document.keys) and key not in flow.read:
            yield Fault(
                f"{quoted(key)} is set here, but no condition, reply, mapping or instruction"
                " reads it",
                pointer=pointer,
            )


@lint_rule("K316", "info", at_key=True, needs_form=True)
def unused_key(document: Document) -> Faults:
    """A declared key appears nowhere else in the file.

    Why it is bad:
    No state, condition, reply or text asks for it or reads it. It takes room in every prompt.

    Example:
        "context_schema": {"type": "object", "properties": {"name": {"type": "string"}, "fax": {"type": "string"}}},
        "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["name"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Remove it, or collect it where it is needed. If only the program reads it, leave it as it is.
    """
    # Texts may name a key with blanks, or by its title.
    keys = document.keys
    if not keys:
        return
    flow = data_flow(document)
    used = flow.read | flow.collected.keys() | flow.outputs.keys()
    unused = [
        key
        for key, schema in keys.items()
        if key not in used
        and key != LANGUAGE
        and document.source_of(key) != "host"
        and schema.get("x-secret") is not True
    ]
    words = ""
    if unused:
        words = " ".join(dict.fromkeys(text for _, text in texts(document))).casefold()
    for key in unused:
        title = keys[key].get("title")
        names = [key, key.replace("_", " "), *([title] if isinstance(title, str) else [])]
        if not any(name.casefold() in words for name in names):
            yield Fault(
                f"the key {quoted(key)} appears nowhere else",
                pointer="/context_schema/properties" + step(key),
                hint="collect it in a state, or take it out",
            )


_GUESSED = 20


@lint_rule("T503", "warning", at_key=True)
def unused_tool(document: Document) -> Faults:
    """A tool is declared, and no state uses it.

    Why it is bad:
    A tool can be called only in states that list it under `tools`. So this one is never called.

    Example:
        "tools": {"search": {"registered": "search"}}, "states": {"hello": {"purpose": "Greet the user"}}

    Fix:
    List it in the states that need it, or remove it.
    """
    used = {name for _, _, name in texts_of_states(document, "tools")}
    declared = [tool.name for tool in document.root.members("tools")]
    misspelt = {nearest(name, declared) for name in sorted(used.difference(declared))[:_GUESSED]}
    for tool in document.root.members("tools"):
        if tool.name not in used and tool.name not in misspelt:
            yield Fault(
                f"tool {quoted(tool.name)} is used in no state",
                pointer=tool.pointer,
                hint='list it under "tools" of the states that need it, or remove it',
            )


@lint_rule("T504", "warning", at_key=True)
def tool_never_reachable(document: Document) -> Faults:
    """A tool is used only in states that no conversation reaches.

    Why it is bad:
    It is never called.

    Example:
        "tools": {"search": {"registered": "search"}},
        "states": {"hello": {"purpose": "Greet"}, "find": {"purpose": "Find it", "tools": ["search"]}}

    Fix:
    Lead a transition to one of the states.
    """
    users = grouped((name, state_id) for state_id, _, name in texts_of_states(document, "tools"))
    for tool in document.root.members("tools"):
        states = users.get(tool.name)
        if states and not reached_states(document).intersection(states):
            names = listed((quoted(state) for state in states), 4)
            yield Fault(
                f"tool {quoted(tool.name)} is used only where no conversation comes: {names}",
                pointer=tool.pointer,
                hint="lead a transition there",
            )
