"""States and tools that are named and do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import steps
from llm_fsm.lint.document import Document, texts_of_states
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.logics import transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule


def _targets(document: Document) -> Iterator[tuple[str, object]]:
    """Yield (pointer, value) for everything that names a target state."""
    for _, transition in transitions_of(document):
        yield transition.pointer + "/target_state", transition.get("target_state")
    rule = document.root.at("on_function_error")
    yield rule.pointer + "/target_state", rule.get("target_state")
    for state in document.states.values():
        yield state.pointer + "/on_timeout", state.get("on_timeout")
        exhausted = state.get("on_exhausted")
        if exhausted not in ("raise", "continue"):
            yield state.pointer + "/on_exhausted", exhausted


@lint_rule("F101", "error")
def unknown_target(document: Document) -> Faults:
    """A transition, `on_timeout`, `on_exhausted` or `on_function_error` names a state that does not exist.

    Why it is bad:
    The machine cannot be started, because the move would lead nowhere.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "by"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Correct the name, or add the state.
    """
    for pointer, target in _targets(document):
        if isinstance(target, str) and target not in document.ids:
            way = "transition" if pointer.endswith("/target_state") else quoted(steps(pointer)[-1])
            hint = document.speller.hint(target, document.ids, "states")
            yield Fault(f"{way} to unknown state {quoted(target)}", pointer=pointer, hint=hint)


@lint_rule("F102", "error")
def unknown_initial_state(document: Document) -> Faults:
    """`initial_state` names a state that does not exist.

    Why it is bad:
    No conversation could begin.

    Example:
        "initial_state": "helo", "states": {"hello": {"purpose": "Greet the user"}}

    Fix:
    Name one of the states.
    """
    initial = document.root.get("initial_state")
    if document.ids and isinstance(initial, str) and initial not in document.ids:
        yield Fault(
            f"initial state {quoted(initial)} is not among the states",
            pointer="/initial_state",
            hint=document.speller.hint(initial, document.ids, "states"),
        )


@lint_rule("T501", "error")
def unknown_tool(document: Document) -> Faults:
    """A state uses a tool that is not declared under `tools`.

    Why it is bad:
    The tool cannot be called, so the machine cannot be started.

    Example:
        "tools": {"search": {"registered": "search"}},
        "states": {"find": {"kind": "task", "purpose": "Find it", "tools": ["serch"],
                            "key_results": [{"name": "found", "description": "Something was found"}]}}

    Fix:
    Correct the name, or declare the tool.
    """
    known = frozenset(document.root.at("tools").value)
    for state_id, pointer, name in texts_of_states(document, "tools"):
        if name not in known:
            yield Fault(
                f"state {quoted(state_id)} uses the unknown tool {quoted(name)}",
                pointer=pointer,
                hint=document.speller.hint(name, known, 'tools under "tools"'),
            )


@lint_rule("T502", "warning")
def unknown_state(document: Document) -> Faults:
    """The `scope` of a tool names a state that does not exist.

    Why it is bad:
    The tool may not be called in the intended state.

    Example:
        "tools": {"search": {"registered": "search", "scope": ["fnd"]}},
        "states": {"find": {"kind": "task", "purpose": "Find it", "tools": ["search"],
                            "key_results": [{"name": "found", "description": "Something was found"}]}}

    Fix:
    Correct the name.
    """
    for tool in document.root.members("tools"):
        for pointer, state in tool.texts("scope"):
            if state not in document.ids:
                yield Fault(
                    f"tool {quoted(tool.name)} is offered in unknown state {quoted(state)}",
                    pointer=pointer,
                    hint=document.speller.hint(state, document.ids, "states"),
                )
