"""Results of cases: frozen values, for reports."""

from __future__ import annotations

from dataclasses import dataclass

from llm_fsm.engine.conversation import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFailure:
    """One miss of a case. `step`: "start", "step 3" or "end"; `line` and `column` are those of the
    expectation.
    """

    step: str
    message: str
    pointer: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A step for reports: the messages, and the state after it."""

    heard: str | None
    text: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a case.

    `line`: its line, 0 if nobody asked; `seconds`: its duration; `turns`: its turns, for coverage.
    With a live model, `runs`: number of times that it was played; `passes`: number of these that
    passed; `threshold`: the share that must.
    """

    name: str
    pointer: str
    line: int = 0
    failures: tuple[CaseFailure, ...] = ()
    skipped: str | None = None
    seconds: float = 0.0
    said: tuple[StepReport, ...] = ()
    turns: tuple[Turn, ...] = ()
    runs: int = 1
    passes: int = 0
    threshold: float = 1.0

    @property
    def passed(self) -> bool:
        """True if nothing differs, or enough runs passed."""
        if self.runs == 1:
            return not self.failures
        return self.passes >= self.threshold * self.runs
