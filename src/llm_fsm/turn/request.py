"""The question to the model about a message, or for words alone: its sections are made here and
rendered once.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm._text import INTERRUPTED, escaped
from llm_fsm.languages import language_name
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMMessage, LLMRequest
from llm_fsm.session.redaction import is_foreign_name, redacted
from llm_fsm.session.reducer import KEPT_TURNS
from llm_fsm.session.reply_schema import with_targets
from llm_fsm.turn import response, tool_loop
from llm_fsm.turn.available import AvailableMoves, available_here
from llm_fsm.turn.backtracking import takes
from llm_fsm.turn.next_step import lacking
from llm_fsm.turn.prompt.options import option_lines
from llm_fsm.turn.prompt.render import history_text, moment, section, turn_prompt, with_day
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
    further_states = available.further
    # Only open places and other definitions offer further states. Words are asked for with the
    # schema of the next turn, which a cache may serve.
    if words_only and session.stack:
        further_states = available_here(turn).further
    key_lines = _further_key_lines(turn)
    # Where nothing holds a model to a schema, an object is what models write best.
    taken = turn.host.form_of(state.model.name) if turn.host.forced else "object"
    asked = machine.question(state.id, taken, tuple(key_lines))
    zone = session.timezone
    told = with_day(asked.messages[0].content, session.time, zone, calendar=machine.tells_dates)
    system = LLMMessage("system", told)
    heard = heard or tool_loop.Heard(session.user_input, session.window)
    shown = _sections(turn, heard, available, words_only=words_only)
    shown["now"] = moment(session.time, zone)
    shown["further_context_keys"] = "" if words_only else "\n".join(key_lines.values())
    user, sizes = turn_prompt(
        machine.prompts,
        asked.sizes,
        state.words,
        shown,
        missing=_to_collect(turn),
        words_only=words_only,
        greeting=greeting,
    )
    return replace(
        asked,
        messages=(system, LLMMessage("user", user)),
        schema=with_targets(asked.schema, further_states)
        if asked.schema is not None and turn.host.forced
        else None,
        conversation_id=session.conversation_id,
        tools=() if words_only else tool_loop.offered(turn),
        sizes=sizes,
        targets=(state.id,) if words_only else (*available.valid, *available.patterns),
        clearable=() if words_only else _clearable(turn),
        asked=state.asked,
    )


def _clearable(turn: TurnState) -> tuple[str, ...]:
    """Return the keys that a reply may write and that have a value."""
    keys, session = turn.keys, turn.session
    # A reply can only take back what a reply may write.
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
        schema = turn.keys.offered.get(key, {})
        properties, required = schema.get("properties"), schema.get("required")
        parts = required if isinstance(required, list) and isinstance(properties, Mapping) else ()
        begun = turn.session.begun.get(key)
        known = begun if isinstance(begun, Mapping) else {}
        absent = [f"{key}.{part}" for part in parts if part not in known]
        # An object without needed parts is named as a whole.
        names += absent or [key]
    return tuple(names)


def _sections(
    turn: TurnState, heard: tool_loop.Heard, available: AvailableMoves, *, words_only: bool
) -> dict[str, str]:
    """Return the sections of a prompt that show the conversation, what is known and where it leads,
    by name.
    """
    session, secrets = turn.session, turn.secrets()
    # Own values last: they hide those of callers with the same name.
    known = _known(turn) if words_only else {**_earlier(turn), **_known(turn)}
    # Before it becomes text: a secret number would be cut out of others in a text.
    context: JsonDict = redacted(secrets, known, foreign=is_foreign_name)
    user = _heard(turn, heard.user, words_only=words_only)
    refused = response.refused_values(turn)
    tag = turn.machine.definition.tags[0] if turn.root.speaking is not None else ""
    is_cut = any(said.endswith(INTERRUPTED) for _, said in heard.window)
    return {
        "history_summary": section(redacted(secrets, session.summary)) if session.summary else "",
        "conversation_history": redacted(secrets, history_text(heard.window)),
        "language": language_name(tag),
        "operator": section(redacted(secrets, session.operator)) if session.operator else "",
        "interrupted": INTERRUPTED if is_cut else "",
        "current_context": section(context),
        "memory": section(redacted(secrets, buckets_of(session)))
        if turn.state.definition.memory
        else "",
        "tool_results": section(_tool_results(turn)) if session.tool_results else "",
        "refused": section(redacted(secrets, refused)) if refused else "",
        "transitions": "" if words_only else option_lines(turn.state, available, session.data()),
        "user_input": "" if user is None else escaped(user),
        "said": section(redacted(secrets, "\n\n".join(turn.words))) if words_only else "",
        "outcome": _outcome(turn) if words_only else "",
    }


def _known(turn: TurnState) -> JsonDict:
    """Return the values that a prompt shows, with the parts of objects that are begun."""
    keys, session, scope = turn.keys, turn.session, turn.state.definition.context_scope
    read = None if scope is None else scope.read
    known = keys.shown(session.context, read)
    for key, parts in session.begun.items():
        if not keys.is_secret(key) and (read is None or key in read):
            known.setdefault(key, parts)
    return known


def _further_key_lines(turn: TurnState) -> dict[str, str]:
    """Return a line for each key that a reply may write and the system message does not describe.

    These are keys of the definitions that wait, and in a machine with many keys those of the state
    and the known ones.
    """
    machine, session = turn.machine, turn.session
    lines: dict[str, str] = {}
    # A key that is known may be corrected anywhere, so its line is always there.
    if not machine.lists_keys:
        known = (key for key in machine.keys.offered if key in session.context)
        lines = {key: machine.key_lines[key] for key in (*turn.state.keys, *known)}
    for place in session.callers() if session.flow else ():
        for key, line in turn.root.of(session.of_caller(place)).key_lines.items():
            if key not in lines and takes(turn.root, session, place, key):
                lines[key] = line
    return lines


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


def _outcome(turn: TurnState) -> str:
    """Return the result of this turn's last work in the definition at work, as JSON without
    secrets; else "".
    """
    for event in reversed(turn.events):
        match event:
            case ev.TaskPassed():
                return escaped(shortened(redacted(turn.secrets(), turn.session.input)))
            case ev.FlowPushed(kind="subflow") | ev.FlowReturned(kind="subflow"):
                break  # between definitions crosses what `input` and `output` name alone
    return ""


def _tool_results(turn: TurnState) -> list[JsonMap]:
    """Return what tools gave in the last turns before this one, without secrets."""
    session = turn.session
    shown = [
        one for one in session.tool_results if session.turn - KEPT_TURNS <= one[0] < session.turn
    ]
    found: list[JsonMap] = redacted(
        turn.secrets(), [{"tool": name, "result": result} for _, name, result in shown]
    )
    return found


def _earlier(turn: TurnState) -> JsonDict:
    """Return the answers of waiting definitions that a correction may change; dots for secrets."""
    session = turn.session
    found: JsonDict = {}
    for place in session.callers() if session.flow else ():
        caller = session.of_caller(place)
        for key, value in turn.root.of(caller).keys.shown(caller.context).items():
            if takes(turn.root, session, place, key):
                found.setdefault(key, value)
    return found
