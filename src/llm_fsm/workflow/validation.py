"""Check a state's output for its key results: by code, by a model, or by your own class."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from llm_fsm._text import escaped
from llm_fsm.conditions.compiler import compile_rule, test
from llm_fsm.errors import ReplyError, told
from llm_fsm.llm.clients.messages import Message
from llm_fsm.session.values import to_json_or_text
from llm_fsm.tools.returns import check_ran
from llm_fsm.tools.task_functions import is_pair
from llm_fsm.turn.reply.parser import document
from llm_fsm.workflow.state import KeyResult, StateSpec

if TYPE_CHECKING:
    from llm_fsm.workflow.context import ExecutionContext

_AWAITED = "the check is async, so its verdict is not known; give a plain function"
UNJUDGED = "no model judges it: give validator_llm=, or a check"


@dataclass
class ValidationResult:
    """The result of a check.

    Attributes:
        passed: True if the output passed.
        feedback: The reason why it failed, for the next attempt.
        key_results: Name of a key result to true if it passed.
    """

    passed: bool
    feedback: str | None = None
    key_results: dict[str, bool] = field(default_factory=dict)


@runtime_checkable
class Validator(Protocol):
    """Decides if an output passed. A workflow calls it for each attempt of a state with key
    results.
    """

    def validate(
        self, state: StateSpec, output: Any, context: ExecutionContext
    ) -> ValidationResult:
        """Judge an output. An exception counts as a failed attempt.

        Args:
            state: The state.
            output: Its output.
            context: The context of the attempt.

        Returns:
            The result.
        """


class RuleValidator:
    """Judges by code alone, and ignores key results without a check. In a workflow, such key
    results do not pass.
    """

    def validate(
        self, state: StateSpec, output: Any, context: ExecutionContext | None = None
    ) -> ValidationResult:
        """Run the checks of a state's key results.

        Args:
            state: The state.
            output: Its output.
            context: The context of the attempt, for checks that read it.

        Returns:
            The result.
        """
        found = _by_code(state, output, context)
        return _result(found, [one for one in state.key_results if one.name in found])


class LLMValidator:
    """Judges by code if there is a check, and asks a model about the other key results.

    Args:
        llm: A client with `chat`. Inside a workflow it may be any model, and its calls are on
            record.
    """

    def __init__(self, llm: Any) -> None:
        self.llm = llm

    def validate(
        self, state: StateSpec, output: Any, context: ExecutionContext | None = None
    ) -> ValidationResult:
        """Run the checks, and ask the model about key results without one.

        Args:
            state: The state.
            output: Its output.
            context: The context of the attempt, for checks that read it.

        Returns:
            The result.

        Raises:
            Exception: The model's client failed.
        """
        found = _by_code(state, output, context)
        asked = [one for one in state.key_results if one.check is None]
        if asked:
            found |= self._judged(state, output, asked)
        return _result(found, state.key_results)

    def _judged(
        self, state: StateSpec, output: Any, asked: list[KeyResult]
    ) -> dict[str, tuple[bool, str]]:
        wanted = {one.name: one.description or one.name for one in asked}
        example = escaped(dict.fromkeys(wanted, True))
        prompt = (
            "Judge whether the output meets each criterion. Answer with one JSON object: the name of each criterion, "
            f"and true or false, such as {example}.\n\n"
            f"Objective: {escaped(state.objective)}\nCriteria: {escaped(wanted)}\n"
            f"Output: {escaped(to_json_or_text(output))}"
        )
        answer = self.llm.chat([Message(role="user", content=prompt)], temperature=0.0)
        try:
            said = document(str(getattr(answer, "content", answer) or ""))
        except ReplyError as error:
            return dict.fromkeys(wanted, (False, f"the judge gave no verdict: {error}"))
        return {name: (said.get(name) is True, text) for name, text in wanted.items()}


def _by_code(
    state: StateSpec, output: Any, context: ExecutionContext | None
) -> dict[str, tuple[bool, str]]:
    """Return the verdicts on the key results that have a check."""
    return {
        one.name: verdict(one, output, context)
        for one in state.key_results
        if one.check is not None
    }


def verdict(
    result: KeyResult, output: Any, context: ExecutionContext | None = None
) -> tuple[bool, str]:
    """Check an output by a key result. Return true and "" if it passes, else false and the reason."""
    check = result.check
    try:
        if check is None:
            return False, UNJUDGED
        if isinstance(check, Mapping):
            data = {
                "output": output,
                "context": {},
                "input": None if context is None else context.input,
            }
            found = test(compile_rule(dict(check)), data)
            passed, why = found.holds, "" if found.error is None else str(found.error)
        else:
            said = check(output)
            if inspect.isawaitable(said):
                if inspect.iscoroutine(said):
                    said.close()
                return False, _AWAITED
            check_ran(said, "the check")
            passed, why = (bool(said[0]), str(said[1])) if is_pair(said) else (bool(said), "")
    except Exception as error:  # the error of the host's check is the feedback
        return False, f"the check raised {told(error)}"
    return passed, "" if passed else why or result.description or "it does not hold"


def _result(
    found: Mapping[str, tuple[bool, str]], results: Sequence[KeyResult]
) -> ValidationResult:
    failed = [f"{one.name}: {found[one.name][1]}" for one in results if not found[one.name][0]]
    met = {name: passed for name, (passed, _) in found.items()}
    return ValidationResult(not failed, "; ".join(failed) or None, met)
