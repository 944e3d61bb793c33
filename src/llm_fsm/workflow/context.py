"""The values that a state of a workflow is given, and those that a workflow remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from llm_fsm.tools.task_context import Shared

if TYPE_CHECKING:
    from llm_fsm.tools.task_context import Workbench
    from llm_fsm.workflow.bound_llm import BoundLLM


class SharedContext(Shared):
    """Values that all states share, any JSON value under a name."""

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data or {})

    @property
    def data(self) -> dict[str, Any]:
        """A copy of all values."""
        return self.to_dict()

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Return the values of a JSON object."""
        return cls(d)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shared) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SharedContext({self.to_dict()!r})"


@dataclass
class StateOutput:
    """The output of a state. `key_results_met`: name of a key result to true if it passed."""

    state_name: str
    output: Any
    key_results_met: dict[str, bool] = field(default_factory=dict)


@dataclass
class ExecutionContext:
    """The values that the function of a state is given.

    Args:
        input: What the state before put out, or what the run was given.
        shared: Values that all states share. What a failed attempt changes is taken back.
        history: What the states before put out, oldest first.
        llm: The model with the tools of this state.
        retry_count: 0 in the first attempt.
        feedback: What failed in the attempt before; None in the first.
        task: The engine's own context of the attempt, for `ask`, `emit` and `memory`.
    """

    input: Any
    shared: Shared
    history: list[StateOutput]
    llm: BoundLLM | None = None
    retry_count: int = 0
    feedback: str | None = None
    task: Workbench | None = None


@dataclass
class WorkflowContext:
    """The progress of a workflow. `to_dict` and `from_dict` carry it to another process.

    Args:
        objective: What the workflow is for.
        shared: Values that all states share.
        history: What the states put out so far, oldest first.
        current_state: The state whose turn it is; None: the initial one.
        finished: True after the last state.
        run_id: The id of the run in the store.
        pause: A run that waits for an answer, as JSON data; None where none does.
    """

    objective: str
    shared: SharedContext = field(default_factory=SharedContext)
    history: list[StateOutput] = field(default_factory=list)
    current_state: str | None = None
    finished: bool = False
    run_id: str | None = None
    pause: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "objective": self.objective,
            "shared": self.shared.to_dict(),
            "history": [
                {"state_name": one.state_name, "output": one.output, "key_results_met": dict(one.key_results_met)}
                for one in self.history
            ],
            "current_state": self.current_state,
            "finished": self.finished,
            "run_id": self.run_id,
            "pause": self.pause,
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Return the context of a JSON form.

        Raises:
            ValueError: It is none.
        """
        try:
            history = [
                StateOutput(one["state_name"], one["output"], dict(one.get("key_results_met", {})))
                for one in d.get("history", [])
            ]
            return cls(
                objective=d["objective"],
                shared=SharedContext.from_dict(d.get("shared", {})),
                history=history,
                current_state=d.get("current_state"),
                finished=bool(d.get("finished", False)),
                run_id=d.get("run_id"),
                pause=d.get("pause"),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no saved context of a workflow: {error!r}") from error
