"""The checks of a state's key results, as the engine calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from llm_fsm._json import JsonDict
from llm_fsm.tools.returns import Function
from llm_fsm.workflow.compile import CUSTOM
from llm_fsm.workflow.context import ExecutionContext, SharedContext
from llm_fsm.workflow.state import KeyResult, StateSpec
from llm_fsm.workflow.validation import UNJUDGED, LLMValidator, RuleValidator, Validator, verdict

Check: TypeAlias = tuple[JsonDict, Function | None]
"""A key result as the definition has it, and the function that it names."""


@dataclass
class Attempts:
    """The last attempt in each state, by the name of the state.

    Attributes:
        contexts: What its function received.
        met: The key results that the host's validator found met.
    """

    contexts: dict[str, ExecutionContext] = field(default_factory=dict)
    met: dict[str, dict[str, bool]] = field(default_factory=dict)


def checks_of(
    spec: StateSpec, validator: Validator | None, attempts: Attempts, *, judges: bool
) -> list[Check]:
    """Return the checks of a state.

    Args:
        spec: The state.
        validator: The validator of the workflow.
        attempts: The attempts, which the checks read.
        judges: True if a model judges key results without a check.
    """
    if isinstance(validator, RuleValidator | LLMValidator | None):
        judges = judges and not isinstance(validator, RuleValidator)
        return [_check(spec.name, result, attempts, judges) for result in spec.key_results]
    by_validator = _by_validator(spec, validator, attempts)
    return [({"name": CUSTOM}, by_validator)] if spec.key_results else []


def _check(state: str, result: KeyResult, attempts: Attempts, judges: bool) -> Check:
    row: JsonDict = {"name": result.name, "description": result.description}
    if isinstance(result.check, Mapping):
        return {**row, "check": dict(result.check)}, None
    if result.check is not None:
        return row, lambda output: verdict(result, output, attempts.contexts.get(state))
    if judges:
        return {**row, "check": {"judge": result.description or result.name}}, None
    return row, lambda _output: (False, UNJUDGED)


def _by_validator(
    spec: StateSpec, validator: Validator, attempts: Attempts
) -> Callable[[Any], tuple[bool, str]]:
    def judged(output: Any) -> tuple[bool, str]:
        given = attempts.contexts.get(spec.name) or ExecutionContext(None, SharedContext(), [])
        found = validator.validate(spec, output, given)
        attempts.met[spec.name] = dict(found.key_results)
        return found.passed is True, found.feedback or ""

    return judged
