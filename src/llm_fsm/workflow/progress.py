"""The progress of a run, as the events of the engine tell it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from llm_fsm._json import TextMap, of_kind, without
from llm_fsm.session import events as ev
from llm_fsm.workflow.checks import Attempts
from llm_fsm.workflow.compile import CUSTOM
from llm_fsm.workflow.context import SharedContext, StateOutput, WorkflowContext


def run_id(context: WorkflowContext) -> str:
    """Return the id of the run. A run without one gets it now."""
    context.run_id = context.run_id or uuid.uuid4().hex
    return context.run_id


def take_up(
    context: WorkflowContext,
    known: Sequence[ev.Event],
    names: TextMap,
    attempts: Attempts,
    *,
    waits: bool,
) -> None:
    """Read the progress of a run from the store. Outputs of an earlier run in the context stay."""
    passed = len(of_kind(known, ev.TaskPassed))
    context.history = context.history[: max(0, len(context.history) - passed)]
    follow(context, known, names, attempts)
    if waits and context.pause is None:
        context.pause = {}
    if not waits:
        context.pause = None


def follow(context: WorkflowContext, events: ev.Events, names: TextMap, attempts: Attempts) -> None:
    """Update the context by events of the engine. `names`: the names of states by their ids."""
    shared = kept = context.shared.to_dict()
    met: dict[str, bool] = {}
    for event in events:
        match event:
            case ev.Started():
                shared = kept = dict(event.shared)
                context.current_state = names.get(event.state, event.state)
            case ev.AttemptBegun():
                kept, met = shared, {}
            case ev.SharedSet():
                shared = without(shared, event.removed) | dict(event.values)
            case ev.KeyResultChecked():
                met[event.name] = event.passed
            case ev.AttemptFailed():
                shared = kept
            case ev.TaskPassed():
                name = names[event.state]
                found = attempts.met.pop(name, met) if CUSTOM in met else met
                context.history.append(StateOutput(name, event.output, found))
            case ev.StateEntered():
                context.current_state = names.get(event.state, context.current_state)
            case ev.Ended():
                context.finished = event.outcome in ("final", "passed")
    context.shared = SharedContext(shared)
