"""Gestures on a definition or a workflow: changes of its text that keep all other bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llm_fsm._json import JsonDict, object_at, step, steps, unescape, value_at
from llm_fsm._text import unused
from llm_fsm.definition.json_source import parse
from llm_fsm.documents import patch
from llm_fsm.documents.patch import PatchError
from llm_fsm.documents.renaming import Renaming, references, renamed
from llm_fsm.editor import models as gesture
from llm_fsm.editor.checked import branches, kind_of_value

_TASK: JsonDict = {"objective": "", "key_results": [], "tools": []}
"""A new state of a workflow."""
_LISTS = frozenset({"transitions", "global_transitions"})
_OPTIONS = frozenset({"on_timeout", "on_exhausted"})
_POSITIONS = ("/ui/positions", "/graph_layout", "/graph_layout/positions")


def perform(text: str, given: gesture.Gesture, path: str) -> str:
    """Make one gesture.

    Args:
        text: The text of the file.
        given: The gesture.
        path: The path of the file, by which its kind is told.

    Returns:
        The new text.

    Raises:
        PatchError: The text does not allow it.
    """
    match given:
        case gesture.SetValue():
            return patch.set_value(text, given.pointer, given.value)
        case gesture.DeleteValue():
            return patch.delete_values(text, [given.pointer])
        case gesture.InsertValue():
            above, _, index = given.pointer.rpartition("/")
            if not index.isdecimal():
                raise PatchError(f"{given.pointer!r} does not end with an index of a list")
            return patch.insert_items(text, above, int(index), [given.value])
        case gesture.MoveValue():
            return patch.move(text, given.pointer, given.to)
        case gesture.RenameKey():
            above, _, key = given.pointer.rpartition("/")
            if above == "/context_schema/properties":
                return renamed(text, [Renaming("key", unescape(key), given.to)])
            return patch.rename_keys(text, [(given.pointer, given.to)])
    document = patch.read(text).scan.value
    if not isinstance(document, dict):
        raise PatchError("the file is no JSON object, so it has no states")
    if isinstance(document.get("states"), list):
        raise PatchError(
            "the states are a list, as in an older form: `llm-fsm convert` writes today's form"
        )
    if kind_of_value(document, path) == "workflow":
        return _on_workflow(text, document, given)
    return _on_definition(text, document, given)


def _pointer(state: str) -> str:
    return "/states" + step(state)


def _known(document: JsonDict, state: str) -> None:
    if state not in object_at(document, "states"):
        raise PatchError(f"there is no state {state!r}")


def _fresh(document: JsonDict, state: str) -> None:
    if not state:
        raise PatchError("a state needs an id")
    if state in object_at(document, "states"):
        raise PatchError(f"there is a state {state!r} already")


def _with_state(text: str, document: JsonDict, state: str, value: Any, after: str | None) -> str:
    _fresh(document, state)
    if not isinstance(document.get("states"), dict):
        return patch.set_value(text, "/states", {state: value})
    return patch.add_member(text, "/states", state, value, after=after)


# -- definitions


def _on_definition(text: str, document: JsonDict, given: gesture.Gesture) -> str:
    match given:
        case gesture.AddState():
            return _add_state(text, document, given)
        case gesture.RenameState():
            return _rename(text, document, given.id, given.to)
        case gesture.DeleteState():
            return _delete_state(text, document, given)
        case gesture.DuplicateState():
            _known(document, given.id)
            value = dict(object_at(document["states"], given.id))
            if value.get("id") == given.id:
                value["id"] = given.to
            return _with_state(text, document, given.to, value, given.id)
        case gesture.AddTransition():
            value = {"target_state": given.target, **given.value}
            return _add_transition(text, document, given.source, value, given.index)
        case gesture.DeleteTransition():
            _transition(document, given.pointer)
            return patch.delete_values(text, [given.pointer])
        case gesture.Repoint():
            return _repoint(text, document, given)
        case gesture.InsertState():
            return _insert_state(text, document, given)
    raise PatchError(f"a definition has no gesture {given.do!r}")


def _add_state(text: str, document: JsonDict, given: gesture.AddState) -> str:
    text = _with_state(text, document, given.id, given.value, given.after)
    if not document.get("initial_state"):
        text = patch.set_value(text, "/initial_state", given.id)
    return text


def _rename(text: str, document: JsonDict, state: str, to: str) -> str:
    _known(document, state)
    if state == to:
        return text
    _fresh(document, to)
    return renamed(text, [Renaming("state", state, to)])


def _places(document: JsonDict, state: str) -> list[str]:
    """Return the pointers of a state that exists and of its positions in the file itself."""
    _known(document, state)
    positions = [place + step(state) for place in _POSITIONS]
    return [_pointer(state), *(one for one in positions if value_at(document, one) is not None)]


def _delete_state(text: str, document: JsonDict, given: gesture.DeleteState) -> str:
    gone = _places(document, given.id)
    if not given.keep_transitions:
        gone += _leading_to(document, given.id)
    return patch.delete_values(text, gone)


def _leading_to(document: JsonDict, state: str) -> Iterator[str]:
    """Yield the pointers of transitions and options that lead to a state."""
    for place in references(document):
        pointer = place.pointer
        above, _, key = pointer.rpartition("/")
        if place.at_key or value_at(document, pointer) != state:
            continue
        if key in _OPTIONS:
            yield pointer
        elif key == "target_state" and pointer != "/on_function_error/target_state":
            yield above


def _add_transition(
    text: str, document: JsonDict, source: str | None, value: Any, index: int | None = None
) -> str:
    place = "/global_transitions"
    if source is not None:
        _known(document, source)
        place = f"{_pointer(source)}/transitions"
    found = value_at(document, place)
    if not isinstance(found, list):
        return patch.set_value(text, place, [value])
    return patch.insert_items(text, place, len(found) if index is None else index, [value])


def _transition(document: JsonDict, pointer: str) -> str | JsonDict:
    """Return a transition, or the target of a time-out. Raises PatchError for anything else."""
    written = value_at(document, pointer)
    parts = steps(pointer)
    match written:
        case dict() if len(parts) > 1 and parts[-2] in _LISTS:
            return written
        case str() if parts and parts[-1] in _OPTIONS:
            return written
    raise PatchError(f"there is no transition at {pointer!r:.200}")


def _repoint(text: str, document: JsonDict, given: gesture.Repoint) -> str:
    written = _transition(document, given.pointer)
    is_option = isinstance(written, str)  # a time-out, or what follows after all retries
    if given.target is not None:
        place = given.pointer if is_option else f"{given.pointer}/target_state"
        text = patch.set_value(text, place, given.target)
    if given.source is None or is_option:
        return text
    if given.pointer.startswith(f"{_pointer(given.source)}/transitions/"):
        return text
    value = {"target_state": "", **value_at(parse(text), given.pointer)}
    text = patch.delete_values(text, [given.pointer])
    return _add_transition(text, parse(text), given.source, value)


def _insert_state(text: str, document: JsonDict, given: gesture.InsertState) -> str:
    """The transition leads to the new state, and keeps its conditions; one without any leads on."""
    written = _transition(document, given.pointer)
    place = given.pointer
    if isinstance(written, dict):
        place = f"{given.pointer}/target_state"
    target = value_at(document, place)
    if not isinstance(target, str):
        raise PatchError(f"the transition at {given.pointer!r:.200} leads nowhere yet")
    parts = steps(given.pointer)
    after = parts[1] if parts[0] == "states" else None
    text = patch.replace_scalars(text, [(place, given.id)])
    value = {**given.value, "transitions": [{"target_state": target}]}
    return _with_state(text, document, given.id, value, after)


# -- workflows of version 2.0


def _on_workflow(text: str, document: JsonDict, given: gesture.Gesture) -> str:
    match given:
        case gesture.AddState():
            value = {**_TASK, **given.value}
            if not object_at(document, "states"):
                value.setdefault("is_initial", True)
            return _with_state(text, document, given.id, value, given.after)
        case gesture.RenameState():
            return _rename_in_workflow(text, document, given)
        case gesture.DeleteState():
            return _delete_in_workflow(text, document, given)
        case gesture.DuplicateState():
            _known(document, given.id)
            value = dict(object_at(document["states"], given.id))
            value.pop("is_initial", None)
            text = _with_state(text, document, given.to, value, given.id)
            way = object_at(document, "transitions").get(given.id)
            return text if way is None else patch.set_value(text, _way(given.to), way)
        case gesture.AddTransition():
            return _add_branch(text, document, given.source, given.target, given.label)
        case gesture.DeleteTransition():
            return _delete_branches(text, document, [given.pointer])
        case gesture.Repoint():
            return _repoint_branch(text, document, given)
        case gesture.InsertState():
            target = _branch(document, given.pointer)
            text = patch.replace_scalars(text, [(given.pointer, given.id)])
            value = {**_TASK, **given.value}
            text = _with_state(text, document, given.id, value, steps(given.pointer)[1])
            return patch.set_value(text, _way(given.id), target)
    raise PatchError(f"a workflow has no gesture {given.do!r}")


def _way(state: str) -> str:
    return "/transitions" + step(state)


def _branch(document: JsonDict, pointer: str) -> str:
    """Return the target of a branch. Raises PatchError if there is none at the pointer."""
    for edge in branches(document):
        if edge.pointer == pointer:
            return edge.target
    raise PatchError(f"there is no transition at {pointer!r:.200}")


def _branches_to(document: JsonDict, state: str) -> list[str]:
    return [edge.pointer for edge in branches(document) if edge.target == state]


def _keys_of(document: JsonDict, state: str) -> list[str]:
    """Return the pointers of all members that have the name of a state as their key."""
    places = _places(document, state)
    return [*places, _way(state)] if state in object_at(document, "transitions") else places


def _rename_in_workflow(text: str, document: JsonDict, given: gesture.RenameState) -> str:
    names = [(place, given.to) for place in _keys_of(document, given.id)]
    if given.id == given.to:
        return text
    _fresh(document, given.to)
    named = [(pointer, given.to) for pointer in _branches_to(document, given.id)]
    return patch.rename_keys(patch.replace_scalars(text, named), names)


def _delete_in_workflow(text: str, document: JsonDict, given: gesture.DeleteState) -> str:
    text = patch.delete_values(text, _keys_of(document, given.id))
    if given.keep_transitions:
        return text
    document = parse(text)
    return _delete_branches(text, document, _branches_to(document, given.id))


def _delete_branches(text: str, document: JsonDict, pointers: Sequence[str]) -> str:
    """Delete branches. A state that loses its last one has null, as a state without a way on."""
    for source, way in object_at(document, "transitions").items():
        own = [
            pointer
            for pointer in pointers
            if pointer == _way(source) or pointer.startswith(_way(source) + "/")
        ]
        if not own:
            continue
        if isinstance(way, dict) and len(own) < len(way) and own != [_way(source)]:
            text = patch.delete_values(text, own)
        else:
            text = patch.set_value(text, _way(source), None)
    return text


def _add_branch(
    text: str, document: JsonDict, source: str | None, target: str, label: str | None
) -> str:
    if source is None:
        raise PatchError("a workflow has no transitions from everywhere")
    _known(document, source)
    way = object_at(document, "transitions").get(source)
    if way is None and label is None:
        return patch.set_value(text, _way(source), target)
    if not isinstance(way, str | dict | None):
        raise PatchError(f"the way on from {source!r} is neither a state nor branches")
    known = {"default": way} if isinstance(way, str) else way or {}
    branch = unused(label or target, known)
    return patch.set_value(text, _way(source), {**known, branch: target})


def _repoint_branch(text: str, document: JsonDict, given: gesture.Repoint) -> str:
    target = _branch(document, given.pointer)
    target = target if given.target is None else given.target
    if given.source is None:
        return patch.replace_scalars(text, [(given.pointer, target)])
    text = _delete_branches(text, document, [given.pointer])
    label = next(iter(steps(given.pointer)[2:]), None)
    return _add_branch(text, parse(text), given.source, target, label)
