"""`/why` on the screen: an explanation as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.run_report import line_of
from llm_fsm.cli.terminal import escape
from llm_fsm.definition.names import PATTERNS
from llm_fsm.definition.subflows import read_document
from llm_fsm.engine.bundled import pattern_piece, shipped_prompts
from llm_fsm.records import explain as why
from llm_fsm.session import events as ev
from llm_fsm.session.redaction import DOTS
from llm_fsm.session.turn_record import Records
from llm_fsm.turn.compile import compile_flows

_REPLY_CHARS = 400
_VALUE_CHARS = 80
_SIGNS = {True: "✓", False: "✗", None: "?"}
_ANSWERS = {
    "moved": "to {target}",
    "stayed": "stays",
    "refused": "to {target}: refused, {reason}",
    "unreadable": "no usable reply: {reason}",
    "stuck": "nothing holds, so the run is stuck",
}
_WHO = {
    "model": "The model's pick",
    "auto": "Taken without asking",
    "known": "Gone on, as all that is asked for is known,",
    "decide": "Decided by conditions",
    "host": "Moved by the program",
    "flow": "Led on by a flow that came back",
    "task": "Led on by a task",
    "answer": "Led on by an answer",
    "timeout": "Nobody answered in time",
    "error": "Led on because a function failed",
    **dict.fromkeys(PATTERNS, "Moved by a repair pattern"),
}


def lines(explanation: why.Explanation) -> Iterator[str]:
    """Yield the lines of an explanation."""
    way = explanation.state
    if explanation.arrived != explanation.state:
        way += f" → {explanation.arrived}"
    yield f"Turn {explanation.turn}: {way}"
    for noted in explanation.notes:
        yield from _note(noted)
    if explanation.fallback:
        yield "No reply was usable, so the fallback text was shown."
    if explanation.outcome is not None:
        yield f"The conversation ended: {explanation.outcome}"


def of_turns(
    definition: str | None, conversation_id: str, records: Records
) -> list[why.Explanation]:
    """Explain all turns of a conversation that were not undone.

    Args:
        definition: The definition of the conversation, as its store keeps it.
        conversation_id: The id of the conversation.
        records: All its turn records.

    Raises:
        Failure: The store does not have the definition.
    """
    if definition is None:
        raise Failure(f"the definition of conversation {conversation_id} is not in this store")
    program = compile_flows(read_document(definition), shipped_prompts(), pattern_piece)
    return list(why.explain_each(program, conversation_id, records))


def shown(value: object, chars: int = _VALUE_CHARS) -> str:
    """A value on one line, shortened; dots that hide one stay as they are."""
    return escape.shortened(DOTS if value == DOTS else escape.as_json(value, None), chars)


def _way(event: ev.FlowPushed | ev.FlowReturned) -> str:
    name = f"the flow {event.flow}" if event.kind == "subflow" else "a digression"
    if isinstance(event, ev.FlowPushed):
        return f"Into {name}: {event.state} → {event.entered}"
    how = {"final": "", "cancelled": ", cancelled", "resumed": ", as the user chose"}.get(
        event.how, f", {event.how}"
    )
    return f"Back from {name}{how}: {event.ended} → {event.state}"


def _note(noted: why.Noted) -> Iterator[str]:
    match noted:
        case why.MoveDecision():
            yield from _decision(noted)
        case ev.ModelReplied():
            who = noted.model or "the model"
            yield f"{who} said ({noted.asked_for}): {escape.shortened(noted.text, _REPLY_CHARS)}"
        case ev.FlowPushed() | ev.FlowReturned():
            yield _way(noted)
        case ev.ContextSet():
            for key, value in noted.values.items():
                place = noted.quotes.get(key)
                said = ""
                if place is not None:
                    said = f" (said in message {place[0]}, characters {place[1] + 1} to {place[2]})"
                yield f"  set by {noted.source}: {key} = {shown(value)}{said}"
            for key in noted.removed:
                yield f"  removed by {noted.source}: {key}"
        case ev.ContextRefused():
            kept = f" (kept in {noted.kept_in})" if noted.kept_in else ""
            yield f"  not stored: {noted.key}: {noted.reason}{kept}"
        case ev.Agreed():
            agreed = [f"{key} = {shown(noted.values.get(key))}" for key in noted.keys]
            who = "The program" if noted.by == "host" else "The user"
            words = f' with "{noted.words}"' if noted.words else ""
            yield f"{who} agreed to {', '.join(agreed)}{words}"
        case ev.FunctionFailed():
            code = f" ({noted.file}:{noted.line})" if noted.file else ""
            yield f"  {noted.kind} {noted.name} failed: {noted.error}{code}"
        case ev.LimitReached():
            whose = f" of this {noted.per}" if noted.per else ""
            yield f"  stopped by the limit {noted.limit} = {noted.value:g}{whose}"
        case _:
            yield from _repair_or_task(noted)


def _repair_or_task(event: ev.Event) -> Iterator[str]:
    match event:
        case ev.Corrected():
            back = f", so back to {event.back_to}" if event.back_to else ""
            dropped = f", without {', '.join(event.dropped)}" if event.dropped else ""
            yield f"Repair pattern correct: {', '.join(event.keys)}{back}{dropped}"
        case ev.Missed():
            yield f"Repair pattern cannot_handle: not understood {event.count} times in a row"
        case ev.KeysSkipped():
            yield f"Repair pattern skip: not asked for any more: {', '.join(event.keys)}"
        case ev.Acted():
            yield f"  done: {event.act} = {shown(event.result)} (key {event.key})"
        case ev.Repaired():
            how = f": {event.how}" if event.how else ""
            yield f"Repair pattern {event.pattern}{how}"
        case _:
            if (line := line_of(event)) is not None:
                yield line[1]


def _decision(decision: why.MoveDecision) -> Iterator[str]:
    answer = _ANSWERS[decision.outcome].format(target=decision.target, reason=decision.reason)
    yield f"{_WHO.get(decision.by, decision.by)} in {decision.state}: {answer}"
    for number, candidate in enumerate(decision.candidates, start=1):
        yield from _candidate(number, candidate)


def _candidate(number: int, candidate: why.Candidate) -> Iterator[str]:
    marks = [] if candidate.priority == 100 else [f"priority {candidate.priority}"]
    if candidate.auto:
        marks.append("auto")
    if candidate.taken:
        marks.append("taken")
    mark = f" ({', '.join(marks)})" if marks else ""
    words = (
        f" — {escape.shortened(candidate.description, _VALUE_CHARS)}"
        if candidate.description
        else ""
    )
    yield f"  {number}. {_SIGNS[candidate.holds]} {candidate.target}{mark}{words}"
    if not candidate.checks:
        yield "       no conditions: open to be picked"
    for check in candidate.checks:
        yield f"       {_check(check)}"


def _check(check: why.ConditionCheck) -> str:
    values = [f"{name} = {shown(value)}" for name, value in check.values.items()]
    values += [f"{name} is not known" for name in check.unset]
    what = escape.shortened(check.description, _VALUE_CHARS) or "condition"
    if check.holds is None:
        return f"? {what}: for the model to judge"
    verdict = "holds" if check.holds else "does not hold"
    if check.error is not None:
        verdict = f"cannot be evaluated: {check.error}"
    return f"{_SIGNS[check.holds]} {what}: {verdict}" + (
        f" ({', '.join(values)})" if values else ""
    )
