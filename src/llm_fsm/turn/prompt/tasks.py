"""The prompts of work: the brief of a task, of the judge of its output, of the summariser.

The words are in `prompts/task.j2`, `judge.j2` and `summary.j2`. Each has a block for the system message and
one for the user message. Whatever comes from people, models, tools and context stands as escaped JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Template

from llm_fsm._json import in_unicode
from llm_fsm._text import clean, escaped
from llm_fsm.session.messages import LLMMessage, ReplySchema
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import Check, CompiledMachine, CompiledState
from llm_fsm.turn.tool_results import shortened

MAX_INPUT_CHARS = 100_000
"""Characters of a task's input, as JSON, that a model is shown; more is shortened as results of tools are."""
MOST_NAMES = 24
"""Names of key results in the form of every judge's reply, where a machine has no more."""

Messages = tuple[LLMMessage, ...]


def _messages(template: Template, system: Mapping[str, Any], user: Mapping[str, Any]) -> Messages:
    context = template.new_context({**system, **user})

    def block(name: str) -> str:
        return "".join(template.blocks[name](context)).strip()

    return LLMMessage("system", block("system")), LLMMessage("user", block("user"))


def _shown(machine: CompiledMachine, session: Session, state: CompiledState) -> str:
    scope = state.definition.context_scope
    found = machine.keys.visible(session.context, None if scope is None else scope.read)
    return escaped(found) if found else ""


def _given(session: Session) -> str:
    """Return what a task was given: nothing where it follows a conversation."""
    return "" if session.input is None else escaped(shortened(session.input, MAX_INPUT_CHARS))


def _background(session: Session) -> str:
    found = session.memory.get("background")
    return escaped(found) if found else ""


def buckets_of(session: Session) -> dict[str, Any]:
    """Return what a prompt shows of the working memory: the buckets that hold something."""
    return {f"bucket {key}": text for key, text in session.memory.items() if key.isdecimal()}


def task_messages(machine: CompiledMachine, session: Session, *, tools: bool) -> Messages:
    """Return the brief of an attempt: what is to be done, with what, and what failed before."""
    plan = machine.states[session.state]
    definition, state = machine.definition, plan.definition
    feedback = () if session.work is None else session.work.feedback
    buckets = buckets_of(session) if state.memory else {}
    return _messages(
        machine.prompts.task,
        {
            "name": clean(definition.name),
            "description": clean(definition.description),
            "persona": clean(definition.persona),
            "state": plan.words,
            "criteria": [
                {"name": clean(check.name), "description": clean(check.criterion)} for check in plan.checks
            ],
            "labels": [
                {"on": clean(move.on), "description": clean(move.description)}
                for move in plan.moves
                if move.on is not None and move.on != "default"
            ],
            "tools": tools,
            "memory": state.memory,
        },
        {
            "summary": escaped(session.summary) if session.summary else "",
            "background": _background(session),
            "buckets": escaped(buckets) if buckets else "",
            "context": _shown(machine, session, plan),
            "failures": escaped(list(feedback)) if feedback else "",
            "input": _given(session),
        },
    )


def judge_messages(machine: CompiledMachine, session: Session, checks: Sequence[Check], output: Any) -> Messages:
    """Return the question whether an output meets the criteria of these checks."""
    state = machine.states[session.state]
    objective = state.definition.purpose or state.definition.description or state.id
    return _messages(
        machine.prompts.judge,
        {},
        {
            "objective": escaped(objective),
            "criteria": escaped([{"name": check.name, "criterion": check.criterion} for check in checks]),
            "context": _shown(machine, session, state),
            "input": _given(session),
            "output": escaped(output),
        },
    )


def verdict_schema(machine: CompiledMachine, checks: Sequence[Check]) -> ReplySchema:
    """Return the form of a judge's reply on these checks.

    It is the same for all tasks, as it stands before all that is cached. Of many names it has only those of the checks.
    """
    judged = (check.name for state in machine.states.values() for check in state.checks if check.by == "judge")
    names = list(dict.fromkeys(judged))
    verdict = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": names if len(names) <= MOST_NAMES else [check.name for check in checks]},
            "reason": {"type": "string"},
            "passed": {"type": "boolean"},
        },
        "required": ["name", "reason", "passed"],
        "additionalProperties": False,
    }
    return _schema("verdicts", {"verdicts": {"type": "array", "items": verdict}})


def summary_messages(machine: CompiledMachine, session: Session, happened: Any) -> Messages:
    """Return the request for a summary of what happened, on top of the one that there is."""
    return _messages(
        machine.prompts.summary,
        {},
        {
            "summary": escaped(session.summary) if session.summary else "",
            "background": _background(session),
            "happened": escaped(happened),
        },
    )


def _schema(name: str, properties: Mapping[str, Any]) -> ReplySchema:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return ReplySchema(name=name, schema=schema, text=in_unicode(schema))


SUMMARY_SCHEMA = _schema(
    "summary",
    {
        **{step: {"type": "string"} for step in ("observe", "orient", "decide", "act", "summary")},
        "todo_list": {"type": ["array", "null"], "items": {"type": "string"}},
    },
)
"""The form of a summary."""
