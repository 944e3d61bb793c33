"""The values that a state of a workflow receives, and those that a workflow remembers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.tools.task_context import Shared

if TYPE_CHECKING:
    from llm_fsm.tools.task_context import Workbench
    from llm_fsm.workflow.bound_llm import BoundLLM


class SharedContext(Shared):
    """Values that all states share, any JSON value by name.

    Args:
        data: The first values.
    """

    def __init__(self, data: JsonMap | None = None) -> None:
        super().__init__(data or {})

    @property
    def data(self) -> JsonDict:
        """A copy of all values."""
        return self.to_dict()

    @classmethod
    def from_dict(cls, d: JsonMap) -> Self:
        """Return the values of a JSON object.

        Args:
            d: The object, as `data` returns it.

        Returns:
            The values.
        """
        return cls(d)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shared) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SharedContext({self.to_dict()!r})"


@dataclass
class StateOutput:
    """The output of a state.

    Attributes:
        state_name: The name of the state.
        output: Its output.
        key_results_met: Name of a key result to true if it passed.
    """

    state_name: str
    output: Any
    key_results_met: dict[str, bool] = field(default_factory=dict)


@dataclass
class ExecutionContext:
    """The values that the function of a state receives.

    Attributes:
        input: The output of the state before, or the input of the run.
        shared: Values that all states share. Changes of a failed attempt are undone.
        history: The outputs of the states before, oldest first.
        llm: The model with the tools of this state.
        retry_count: 0 in the first attempt.
        feedback: The reason why the attempt before failed; None in the first.
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

    Attributes:
        objective: The objective of the workflow.
        shared: Values that all states share.
        history: The outputs of the states so far, oldest first.
        current_state: The state that runs next; None: the initial one.
        finished: True after the last state.
        run_id: The id of the run in the store.
        pause: A run that waits for an answer, as JSON data; None if it does not wait.
    """

    objective: str
    shared: SharedContext = field(default_factory=SharedContext)
    history: list[StateOutput] = field(default_factory=list)
    current_state: str | None = None
    finished: bool = False
    run_id: str | None = None
    pause: JsonDict | None = None

    def to_dict(self) -> JsonDict:
        """Return the JSON form.

        Returns:
            A JSON object that `from_dict` reads.
        """
        history = [asdict(output) for output in self.history]
        return {**vars(self), "shared": self.shared.to_dict(), "history": history}

    @classmethod
    def from_dict(cls, d: JsonMap) -> Self:
        """Return the context of a JSON form.

        Args:
            d: The object, as `to_dict` returns it.

        Returns:
            The context.

        Raises:
            ValueError: The object is no such form.
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
