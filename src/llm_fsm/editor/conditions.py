"""A condition as logic, as an expression and in words, tried against an example context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llm_fsm._json import JsonMap, as_list, step
from llm_fsm.conditions import infix
from llm_fsm.conditions.coercion import look_up, truthy
from llm_fsm.conditions.compiler import collect_faults, compile_rule, evaluate
from llm_fsm.conditions.nodes import ConditionError
from llm_fsm.conditions.words import in_words, known
from llm_fsm.editor.models import ConditionAnswer, ConditionBody, ConditionPart

MOST = 50
"""Parts of a condition that are tried one by one."""


def read_condition(body: ConditionBody) -> ConditionAnswer:
    """Read a condition, and try it if there is a context.

    Args:
        body: The condition and the context.

    Returns:
        The condition in all forms, and its value.
    """
    logic = body.logic
    if body.expression is not None:
        try:
            logic = infix.read(body.expression, bare=True)
        except ValueError as error:
            return ConditionAnswer(
                logic=None, expression=body.expression, words="", faults=[str(error)], reads=[]
            )
    faults = [] if logic is None else [str(fault) for fault in collect_faults(logic)]
    said = [known(body.keys)] if body.keys else []
    if logic is not None:
        said.append(in_words(logic))
    answer = ConditionAnswer(
        logic=logic,
        expression=None if logic is None else infix.write(logic),
        words=" and ".join(said),
        faults=faults,
        reads=sorted({*body.keys, *_reads(logic, faults)}),
    )
    if body.context is not None and not faults:
        _try(answer, body.keys, body.context)
    return answer


def _reads(logic: Any, faults: list[str]) -> frozenset[str]:
    return frozenset() if logic is None or faults else compile_rule(logic).reads


def _try(answer: ConditionAnswer, keys: list[str], context: JsonMap) -> None:
    answer.missing = [key for key in keys if look_up(context, key) is None]
    holds = not answer.missing
    if answer.logic is not None:
        answer.parts = [_tried(pointer, part, context) for pointer, part in _parts(answer.logic)]
        whole = answer.parts[0]
        answer.value = whole.value
        answer.error = whole.error
        holds = holds and whole.error is None and truthy(whole.value)
    answer.holds = holds


def _parts(logic: Any) -> Iterator[tuple[str, Any]]:
    """Yield a condition and its parts under and, or and not, outermost first."""
    waiting: list[tuple[str, Any]] = [("", logic)]
    count = 0
    while waiting and count < MOST:
        pointer, part = waiting.pop(0)
        count += 1
        yield pointer, part
        if not isinstance(part, dict) or len(part) != 1:
            continue
        [(operator, given)] = part.items()
        if operator in ("and", "or", "!"):
            place = pointer + step(operator)
            waiting += [(f"{place}/{index}", one) for index, one in enumerate(as_list(given))]


def _tried(pointer: str, part: Any, context: JsonMap) -> ConditionPart:
    try:
        return ConditionPart(pointer=pointer, words=in_words(part), value=evaluate(part, context))
    except ConditionError as error:
        return ConditionPart(pointer=pointer, words=in_words(part), error=str(error))
