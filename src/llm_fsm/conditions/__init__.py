"""JsonLogic conditions, compiled once to closures and evaluated often.

A rule and data enter. A JSON value leaves, or a `ConditionError`. Evaluation is pure, total and
bounded. Open `compiler.py` first. `operators.py` computes values, `closures.py` holds the operators
that decide what to evaluate, and `nodes.py` the compiled parts. `coercion.py` converts between
kinds of values as JavaScript does, and `infix.py` writes rules as people write expressions.
"""

from llm_fsm.conditions.compiler import evaluate
from llm_fsm.conditions.nodes import ConditionError

__all__ = ["ConditionError", "evaluate"]
