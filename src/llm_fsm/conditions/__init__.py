"""JsonLogic conditions, compiled once to closures and evaluated often.

A rule and a context go in; a JSON value or a `ConditionError` comes out. Evaluation is pure, total and bounded.
Open `compiler.py` first. `operators.py` computes, `closures.py` holds the shapes of closures, `coercion.py` reads one
kind of value as another, and `infix.py` writes a rule as people say it.
"""

from llm_fsm.conditions.compiler import evaluate
from llm_fsm.conditions.nodes import ConditionError

__all__ = ["ConditionError", "evaluate"]
