"""A condition as logic and as an expression, tried against an example context."""

from __future__ import annotations

from llm_fsm.conditions import infix
from llm_fsm.conditions.coercion import truthy
from llm_fsm.conditions.compiler import collect_faults, evaluate
from llm_fsm.conditions.nodes import ConditionError
from llm_fsm.editor.models import ConditionAnswer, ConditionBody


def read_condition(body: ConditionBody) -> ConditionAnswer:
    """Read a condition, and try it if there is a context.

    Args:
        body: The condition and the context.

    Returns:
        The condition in both forms, and whether it holds.
    """
    logic = body.logic
    if body.expression is not None:
        try:
            logic = infix.read(body.expression, bare=True)
        except ValueError as error:
            return ConditionAnswer(logic=None, expression=body.expression, faults=[str(error)])
    answer = ConditionAnswer(logic=logic, expression=None, faults=[])
    if logic is None:
        return answer
    answer.expression = infix.write(logic)
    answer.faults = [str(fault) for fault in collect_faults(logic)]
    if body.context is not None and not answer.faults:
        try:
            answer.holds = truthy(evaluate(logic, body.context))
        except ConditionError as error:
            answer.error = str(error)
            answer.holds = False
    return answer
