"""The options of a reply as a prompt shows them: the entries of <transitions>, and those of
<goes_on_to>.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from llm_fsm._text import escaped, estimate
from llm_fsm.turn.available import AvailableMoves, Branch, Option
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.prompt.regions import REGION_TOKENS
from llm_fsm.turn.prompt.render import checked, transition_item
from llm_fsm.turn.prompt.state_summary import in_words


def menu_items(
    machine: CompiledMachine,
    state: CompiledState,
    available: AvailableMoves,
    data: Mapping[str, Any],
    *,
    goes_on: bool = False,
) -> tuple[str, ...]:
    """Return the entries of <transitions> as JSON.

    If the system message has all transitions, only those are shown of which it does not say
    everything.

    Args:
        machine: The machine at work.
        state: The current state.
        available: What a reply may do there.
        data: The values that conditions read.
        goes_on: True for the moves that the program makes by itself, of which a reply picks none.
    """
    items: list[str] = []
    shown: set[tuple[str, str | None]] = set()
    for option in available.options:
        if option.goes_on != goes_on or (goes_on and not option.is_open):
            continue
        if option.kind == "left_open":
            items.append(_open_item(option, _target_summary(state, option.target)))
        elif option.kind == "beside":
            if option.is_open:
                items.append(_item_beside(option, state))
        elif not option.is_open:
            if not machine.prompts.whole:
                items.append(state.items[option.move.pointer].closed)
        else:
            plain = _is_plain(machine, state, option)
            if machine.prompts.whole and (plain or option.back_to is None):
                continue
            place = (option.target.id, None if option.back_to is None else option.back_to.id)
            again = place in shown
            if again or plain:
                items.append(state.items[option.move.pointer].shown(data, again=again))
            else:
                items.append(_item(state, option, data))
            shown.add(place)
    return tuple(items)


def stay_item(state: CompiledState, *, has_patterns: bool, goes_on: bool = False) -> str:
    """Return the entry of the current state, so that each name that a reply may write has a line.

    `goes_on`: True if the program makes the move by itself that an answer opens.
    """
    if goes_on:
        return escaped(
            {"to": state.id, "desc": "stay: an answer to the question, or nothing else fits"}
        )
    if has_patterns:
        return escaped({"to": state.id, "desc": "stay: something is missing, or nothing else fits"})
    return escaped(
        {
            "to": state.id,
            "desc": "stay: the user asks or changes something, or something is missing",
        }
    )


def _is_plain(machine: CompiledMachine, state: CompiledState, option: Option) -> bool:
    """Return true if an entry needs to say nothing of what follows on arrival."""
    target = option.target
    stops = target.kind in ("converse", "wait", "final") and not target.autos
    comes_back = option.back_to is not None and target.kind == "final"
    if stops and not comes_back:
        return True
    if not option.move.returns:
        return False
    # A menu of digressions alone would look complete to the model.
    return target.answers if machine.prompts.whole else state.knows(target)


def _target_summary(here: CompiledState, target: CompiledState) -> Mapping[str, Any]:
    """Return what a prompt in `here` still has to show of a state."""
    return {} if target.id in here.around else target.target_summary


def _item(here: CompiledState, option: Option, data: Mapping[str, Any]) -> str:
    """Return the entry of an open move whose target does not simply wait."""
    target = option.target
    there = dict(_target_summary(here, target))
    then = _branch_items(here, option.branches)
    if then:
        if target.kind == "decide" and "notes" not in there:
            there |= _said_once(then)
        there["leads_on_to"] = then
    if option.back_to is not None and target.kind == "final":
        there.pop("final", None)
        there["then_back_to"] = _back(option.back_to)  # an item of its own says what is there
    speaks = target.fixed is not None or target.definition.tools_first
    return transition_item(option.move, there, is_open=True, data=data, speaks=speaks)


def _branch_items(here: CompiledState, branches: tuple[Branch, ...]) -> list[dict[str, Any]]:
    """Return what a prompt says of the moves that may follow. A state is shown with the first move
    that leads to it.
    """
    items: list[dict[str, Any]] = []
    for branch in branches:
        move = branch.move
        if move.description:
            when: dict[str, Any] = {"if": move.description}
        else:
            when = {} if branch.certain else checked(move)
        item: dict[str, Any] = {"to": move.target, **when}
        if all(other["to"] != move.target for other in items):
            item |= _target_summary(here, branch.target)
            then = _branch_items(here, branch.then)
            if then:
                item["leads_on_to"] = then
        items.append(item)
    return items


def _said_once(then: list[dict[str, Any]]) -> dict[str, str]:
    """Take the instructions that most of several branches have in common out of them, and return
    these.

    {}: no two branches share any, or one branch shows none. A reader would take the shared ones as
    its own, too.
    """
    having = Counter(branch["notes"] for branch in then if "notes" in branch)
    words, number = having.most_common(1)[0] if having else ("", 0)
    if number < 2 or having.total() < len({branch["to"] for branch in then}):
        return {}
    for branch in then:
        if branch.get("notes") == words:
            del branch["notes"]
    return {"notes": words}


def _back(state: CompiledState) -> Mapping[str, Any]:
    """Return the note that an end comes back to a state. The reply asks its question, unless it has
    a fixed reply.
    """
    if state.fixed is not None:
        return {"state": state.id}
    return {"state": state.id, "ask_its_question_again": True}


def _item_beside(option: Option, here: CompiledState) -> str:
    target = option.target
    there = dict(target.target_summary)
    if option.move.place is not None:
        return _open_item(option, there)
    if target.kind == "final":
        there.pop("final", None)
        if "notes" in there and estimate(target.words.instructions) <= REGION_TOKENS:
            # the reply answers from them at once
            there["notes"] = " ".join(target.words.instructions.split())
        there["then_back_to"] = _back(here)
    return transition_item(option.move, there, is_open=True)


def _open_item(option: Option, there: Mapping[str, Any]) -> str:
    """Return the entry of a place that was left open."""
    behind = {"there": in_words(there)} if there else {}
    return escaped({"to": option.target.id, "desc": "back to what was left open", **behind})
