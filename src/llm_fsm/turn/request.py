"""The question to the model about a message, or for words alone: its sections are made here and
rendered once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from llm_fsm._text import INTERRUPTED, each_escaped, escaped
from llm_fsm.definition.models import Scope
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMMessage, LLMRequest
from llm_fsm.session.redaction import is_foreign_name, redacted
from llm_fsm.session.reducer import KEPT_TURNS
from llm_fsm.session.reply_schema import with_targets
from llm_fsm.turn import tool_loop
from llm_fsm.turn.available import AvailableMoves, available_here
from llm_fsm.turn.backtracking import holds
from llm_fsm.turn.next_step import lacking
from llm_fsm.turn.prompt.menu import menu_items, stay_item
from llm_fsm.turn.prompt.render import (
    history_text,
    is_whole,
    moment,
    section,
    turn_prompt,
    with_day,
)
from llm_fsm.turn.prompt.tasks import buckets_of
from llm_fsm.turn.tool_results import shortened
from llm_fsm.turn.turn_state import TurnState


def turn_request(
    turn: TurnState,
    available: AvailableMoves,
    *,
    words_only: bool,
    greeting: bool = False,
    heard: tool_loop.Heard | None = None,
) -> LLMRequest:
    machine, session, state = turn.machine, turn.session, turn.state
    further_states = _further(turn) if words_only and session.stack else available.further
    asked = machine.question(state.id, turn.host.form_of(state.model.name))
    zone = session.timezone
    told = with_day(asked.messages[0].content, session.time, zone, calendar=machine.tells_dates)
    system = LLMMessage("system", told)
    heard = heard or tool_loop.Heard(session.user_input, session.window)
    shown = _sections(turn, heard, available, words_only=words_only)
    shown["now"] = moment(session.time, zone) if machine.tells_time else ""
    shown["valid_states"] = (
        ", ".join(available.valid) if machine.prompts.whole and not words_only else ""
    )
    shown["open_patterns"] = (
        "" if words_only else ", ".join(open_patterns(turn, available.patterns))
    )
    user, sizes = turn_prompt(
        machine.prompts,
        asked.sizes,
        state.prompt_words,
        shown,
        missing=_to_collect(turn),
        reads_back=state.definition.confirms if state.fixed is None else (),
        speaks=state.fixed is not None,
        words_only=words_only,
        greeting=greeting,
    )
    return replace(
        asked,
        messages=(system, LLMMessage("user", user)),
        schema=asked.schema and with_targets(asked.schema, further_states),
        conversation_id=session.conversation_id,
        tools=() if words_only else tool_loop.offered(turn),
        sizes=sizes,
        targets=(state.id,) if words_only else (*available.valid, *available.patterns),
        clearable=() if words_only else _clearable(turn),
        asked=tuple(dict.fromkeys(name.partition(".")[0] for name in state.collects)),
    )


def _clearable(turn: TurnState) -> tuple[str, ...]:
    """Return the keys that a reply may write and that have a value."""
    keys, session = turn.machine.keys, turn.session
    known = [key for key in session.context if keys.is_free(key) and not key.startswith("_")]
    parts: list[str] = []
    for key in known:
        value = session.context[key]
        if isinstance(value, Mapping):
            parts += [f"{key}.{part}" for part in value]
    return (*known, *parts)


def _to_collect(turn: TurnState) -> tuple[str, ...]:
    """Return the names of what the state still collects. Of an object it names the parts that are
    needed.
    """
    names: list[str] = []
    for key in lacking(turn.session, turn.state):
        schema = turn.machine.keys.offered.get(key, {})
        properties, required = schema.get("properties"), schema.get("required")
        parts = required if isinstance(required, list) and isinstance(properties, Mapping) else ()
        begun = turn.session.begun.get(key)
        known = begun if isinstance(begun, Mapping) else {}
        absent = [f"{key}.{part}" for part in parts if part not in known]
        names += absent or [key]
    return tuple(names)


def _sections(
    turn: TurnState, heard: tool_loop.Heard, available: AvailableMoves, *, words_only: bool
) -> dict[str, str]:
    """Return the sections of a prompt that show the conversation, what is known and where it leads,
    by name.
    """
    session, scope = turn.session, turn.state.definition.context_scope
    secrets = turn.secrets()
    known = turn.machine.keys.shown(session.context, None if scope is None else scope.read)
    context: dict[str, Any] = redacted(secrets, known, foreign=is_foreign_name)
    further = _further_lines(turn, context)
    if further and scope is None:
        context = {key: value for key, value in context.items() if key not in further}
    user = _heard(turn, heard.user, words_only=words_only)
    is_cut = any(said.endswith(INTERRUPTED) for _, said in heard.window)
    return {
        "history_summary": section(redacted(secrets, session.summary)) if session.summary else "",
        "conversation_history": redacted(secrets, history_text(heard.window)),
        "operator": section(redacted(secrets, session.operator)),
        "interrupted": INTERRUPTED if is_cut else "",
        "further_context_keys": "\n".join(further.values()),
        "current_context": section(context),
        "earlier_answers": ""
        if words_only or not session.flow
        else redacted(secrets, _earlier(turn)),
        "memory": section(redacted(secrets, buckets_of(session)))
        if turn.state.definition.memory
        else "",
        "tool_results": section(_tool_results(turn)) if session.tool_results else "",
        "refused": section(redacted(secrets, _refused(turn, scope))),
        "transitions": "" if words_only else _transitions(turn, available),
        "goes_on_to": "" if words_only else _goes_on_to(turn, available),
        "user_input": "" if user is None else escaped(user),
        "said": section(redacted(secrets, "\n\n".join(turn.words))) if words_only else "",
        "outcome": _outcome(turn) if words_only else "",
    }


def _transitions(turn: TurnState, available: AvailableMoves) -> str:
    """Return the options of a reply as a JSON list; "" if there is nothing to show."""
    items = menu_items(turn.machine, turn.state, available, turn.session.data())
    if items and not turn.machine.prompts.whole:
        goes_on = any(option.is_open and option.goes_on for option in available.options)
        items = (
            *items,
            stay_item(turn.state, has_patterns=bool(available.patterns), goes_on=goes_on),
        )
    return f"[{','.join(items)}]" if items else ""


def _goes_on_to(turn: TurnState, available: AvailableMoves) -> str:
    """Return the moves that the program makes by itself as a JSON list; "" if there are none to
    show.
    """
    items = menu_items(turn.machine, turn.state, available, turn.session.data(), goes_on=True)
    return f"[{','.join(items)}]" if items else ""


def open_patterns(turn: TurnState, names: Iterable[str]) -> tuple[str, ...]:
    """Return the repair patterns of `names` that can do something now.

    There is no answer to correct before one is given.
    """
    session = turn.session
    known = bool(session.flow) or any(map(turn.machine.keys.is_free, session.context))
    begun = known or bool(session.window)
    possible = {"correct": known, "repeat": bool(session.window), "restart": begun}
    return tuple(name for name in names if possible.get(name, True))


def _further(turn: TurnState) -> tuple[str, ...]:
    """Return what else the next turn here may name. Words are asked for with its schema, which a
    cache may serve.
    """
    return available_here(turn).further


def _heard(turn: TurnState, user: str | None, *, words_only: bool) -> str | None:
    """Return the user's message: without secrets of flows that were left, and for words alone
    without any.
    """
    if user is None or not (words_only or turn.left_secrets):
        return user
    shown: str = redacted(
        turn.secrets() if words_only else sorted(turn.left_secrets, key=len, reverse=True), user
    )
    return shown


def _refused(turn: TurnState, scope: Scope | None) -> list[Mapping[str, Any]]:
    """Return what a prompt tells of refused values, and of parts of collected objects that wait for
    others.

    `scope`: what alone may be shown.
    """
    keys, told = turn.machine.keys, refusals(turn)
    begun = {key: parts for key, parts in turn.session.begun.items() if not keys.is_secret(key)}
    for name in turn.state.collects if begun else ():
        key = name.partition(".")[0]
        if (
            key in begun
            and name not in turn.session.skipped
            and all(key != known for known, _ in told)
        ):
            told.append((key, keys.fault(key, begun[key]) or "it lacks parts"))
    shown = begun if scope is None else {key: begun[key] for key in scope.read if key in begun}
    return [
        {"key": key, "reason": why, **({"so_far": shown[key]} if key in shown else {})}
        for key, why in told
    ]


def refusals(turn: TurnState) -> list[tuple[str, str]]:
    """Return the refused values with the reasons.

    Refused lists and objects are dropped, except begun objects.
    """
    keys, begun = turn.machine.keys, turn.session.begun
    notes = {key: why for key, why in turn.session.notes if key in begun}
    return [
        (key, f"{why}; nothing of it was kept" if is_whole(keys.schema(key)) else why)
        for key, why in turn.session.notes
        if key not in begun
    ] + [(key, f"{why}; its other parts are kept") for key, why in notes.items()]


def _outcome(turn: TurnState) -> str:
    """Return the result of this turn's last work in the definition at work, as JSON without
    secrets; else "".
    """
    for event in reversed(turn.events):
        if isinstance(event, ev.TaskPassed):
            return escaped(shortened(redacted(turn.secrets(), turn.session.input)))
        if isinstance(event, ev.FlowPushed | ev.FlowReturned) and event.kind == "subflow":
            break  # between definitions crosses what `input` and `output` name alone
    return ""


def _further_lines(turn: TurnState, context: Mapping[str, Any]) -> Mapping[str, str]:
    """Return a line for each known key that the system message of a large machine does not list.

    `context`: what is shown of it. Where a state narrows that, the lines are those of bounded keys,
        without values.
    """
    told, listed, offered = turn.machine.bounds_told, turn.state.listed, turn.machine.keys.offered
    if len(listed) == len(offered):
        return {}
    if turn.state.definition.context_scope is not None:
        return {
            key: f"{key}{told[key]}"
            for key in turn.session.context
            if key in told and key not in listed
        }
    known = {key: value for key, value in context.items() if key in offered and key not in listed}
    values = each_escaped(known.values())
    return {
        key: f"{key} = {value}{told.get(key, '')}"
        for key, value in zip(known, values, strict=False)
    }


def _tool_results(turn: TurnState) -> list[Mapping[str, Any]]:
    """Return what tools gave in the last turns before this one, without secrets."""
    session = turn.session
    shown = [
        one for one in session.tool_results if session.turn - KEPT_TURNS <= one[0] < session.turn
    ]
    found: list[Mapping[str, Any]] = redacted(
        turn.secrets(), [{"tool": name, "result": result} for _, name, result in shown]
    )
    return found


def _earlier(turn: TurnState) -> str:
    """Return the answers of waiting definitions that a correction may change, with values; dots for
    secrets.
    """
    session = turn.session
    lines: dict[str, str] = {}
    for place in session.callers() if turn.has("correct") else ():
        caller = session.of_caller(place)
        machine = turn.root.of(caller)
        for key, value in machine.keys.shown(caller.context).items():
            if key not in lines and holds(turn.root, session, place, key):
                lines[key] = (
                    f"{key} = {escaped(value)}{machine.key_lines.get(key, key)[len(key) :]}"
                )
    return "\n".join(lines.values())
