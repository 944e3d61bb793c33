"""The exceptions of a workflow, beside the errors of models and stores.

ExecutionBreak      not an error: the run waits for an answer
└── WaitForInput    the same, for a tool that asks the user
WorkflowError       the workflow cannot continue as it is written
└── MaxRetriesExceeded  no attempt of a state passed its key results
"""

from __future__ import annotations

from typing import Any, Self

from llm_fsm._json import JsonMap
from llm_fsm.errors import LLMFSMError


class ExecutionBreak(Exception):
    """A breaking tool was called: the run is saved and waits for an answer.

    Args:
        message: The message; None makes one.
        tool_name: The tool, or the question.
        result: The result of the tool.
        state: The state that waits.
        call: The call, {"id", "name", "arguments", "result"}.
        resumable: False if no answer can resume it. The message says why.
    """

    def __init__(
        self,
        tool_name: str = "",
        result: Any = None,
        *,
        state: str = "",
        call: JsonMap | None = None,
        resumable: bool = True,
        message: str | None = None,
    ) -> None:
        self.tool_name = tool_name
        self.result = result
        self.state = state
        self.call = call
        self.resumable = resumable
        where = f" in state {state!r}" if state else ""
        super().__init__(message or f"the run waits for an answer to {tool_name!r}{where}")

    @classmethod
    def of(cls, what: str, call: JsonMap | None, state: str = "") -> Self:
        """Return the break of a tool's call, or of a question without a call.

        Args:
            what: The tool, or the question.
            call: The call, {"id", "name", "arguments", "result"}; None for a question.
            state: The state that waits.

        Returns:
            The break.
        """
        known = dict(call or {})
        return cls(what, known.get("result"), state=state, call=known or None)


class WaitForInput(ExecutionBreak):
    """A waiting tool was called: the run waits for the user."""


class WorkflowError(LLMFSMError):
    """The workflow cannot continue as it is written. The message says what would be right."""


class MaxRetriesExceeded(WorkflowError):
    """No attempt of a state passed its key results.

    Args:
        state_name: The state.
        max_retries: The number of retries.
        feedback: The reason why the last attempt failed.
    """

    def __init__(self, state_name: str, max_retries: int, feedback: str | None = None) -> None:
        self.state_name = state_name
        self.max_retries = max_retries
        self.feedback = feedback
        attempts = "1 attempt" if max_retries == 0 else f"{max_retries + 1} attempts"
        super().__init__(
            f"state {state_name!r} did not pass in {attempts}: {feedback or 'no reason given'}"
        )


class OwnError(LLMFSMError):
    """Carries an exception of a host's function through the engine, unchanged, as its cause."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(str(error))
