"""The prompts of work: of a task, of the judge of its output, of the summariser.

The texts are in `prompts/task.j2`, `judge.j2` and `summary.j2`. Each has a block for the system
message and one for the user message. All that comes from people, models, tools and the context is
escaped JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Template

from llm_fsm._json import JsonDict, JsonMap, in_unicode
from llm_fsm._text import clean, escaped
from llm_fsm.session.messages import LLMMessage, ReplySchema
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import Check, CompiledMachine, CompiledState
from llm_fsm.turn.tool_results import shortened

MAX_INPUT_CHARS = 100_000
"""Characters of a task's input, as JSON, that a model reads. A longer one is shortened like a
tool's result.
"""
MOST_NAMES = 24
"""Names of key results in the form of every judge's reply, if a machine has no more."""

Messages = tuple[LLMMessage, ...]


def _messages(template: Template, system: JsonMap, user: JsonMap) -> Messages:
    context = template.new_context({**system, **user})

    def block(name: str) -> str:
        return "".join(template.blocks[name](context)).strip()

    return LLMMessage("system", block("system")), LLMMessage("user", block("user"))


def _shown(machine: CompiledMachine, session: Session, state: CompiledState) -> str:
    scope = state.definition.context_scope
    values = machine.keys.visible(session.context, None if scope is None else scope.read)
    return _json(values)


def _json(value: Any) -> str:
    """Return a value as escaped JSON; "" for an empty one, whose section is left out."""
    return escaped(value) if value else ""


def _input(session: Session) -> str:
    """Return the input of a task; "" if it follows a conversation."""
    # A task after a conversation works on the context, which has a section of its own.
    if session.input is None:
        return ""
    return escaped(shortened(session.input, MAX_INPUT_CHARS))


def buckets_of(session: Session) -> JsonDict:
    """Return the buckets of the working memory that hold something."""
    buckets: JsonDict = {}
    for key, text in session.memory.items():
        if key.isdecimal():
            buckets[f"bucket {key}"] = text
    return buckets


def task_messages(machine: CompiledMachine, session: Session, *, tools: bool) -> Messages:
    """Return the prompt of an attempt: the task, its means, and the failures so far."""
    plan = machine.states[session.state]
    definition, state = machine.definition, plan.definition
    criteria = []
    for check in plan.checks:
        criteria.append({"name": clean(check.name), "description": clean(check.criterion)})
    labels = []
    for move in plan.moves:
        # The default is for outputs without a label, so no model should name it.
        if move.on is not None and move.on != "default":
            labels.append({"on": clean(move.on), "description": clean(move.description)})
    system = {
        "name": clean(definition.name),
        "description": clean(definition.description),
        "persona": clean(definition.persona),
        "state": plan.words,
        "criteria": criteria,
        "labels": labels,
        "tools": tools,
        "memory": state.memory,
    }
    user = {
        "summary": _json(session.summary),
        "background": _json(session.memory.get("background")),
        "buckets": _json(buckets_of(session)) if state.memory else "",
        "context": _shown(machine, session, plan),
        "failures": "" if session.work is None else _json(list(session.work.feedback)),
        "input": _input(session),
    }
    return _messages(machine.prompts.task, system, user)


def judge_messages(
    machine: CompiledMachine, session: Session, checks: Sequence[Check], output: Any
) -> Messages:
    """Return the question whether an output meets the criteria of these checks."""
    state = machine.states[session.state]
    objective = state.definition.purpose or state.definition.description or state.id
    criteria = [{"name": check.name, "criterion": check.criterion} for check in checks]
    user = {
        "objective": escaped(objective),
        "criteria": escaped(criteria),
        "context": _shown(machine, session, state),
        "input": _input(session),
        "output": escaped(output),
    }
    return _messages(machine.prompts.judge, {}, user)


def verdict_schema(machine: CompiledMachine, checks: Sequence[Check]) -> ReplySchema:
    """Return the form of a judge's reply on these checks.

    It is the same for all tasks, because providers cache a prompt from its beginning, and the
    schema comes first. If the machine has many names, the form has only those of the checks.
    """
    judged: dict[str, None] = {}
    for state in machine.states.values():
        judged |= dict.fromkeys(check.name for check in state.checks if check.by == "judge")
    names = list(judged)
    if len(names) > MOST_NAMES:
        names = [check.name for check in checks]
    verdict = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": names},
            "reason": {"type": "string"},
            "passed": {"type": "boolean"},
        },
        "required": ["name", "reason", "passed"],
        "additionalProperties": False,
    }
    return _schema("verdicts", {"verdicts": {"type": "array", "items": verdict}})


def summary_messages(machine: CompiledMachine, session: Session, happened: Any) -> Messages:
    """Return the request for a summary of these events, on top of the summary before."""
    user = {
        "summary": _json(session.summary),
        "background": _json(session.memory.get("background")),
        "happened": escaped(happened),
    }
    return _messages(machine.prompts.summary, {}, user)


def _schema(name: str, properties: JsonMap) -> ReplySchema:
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
