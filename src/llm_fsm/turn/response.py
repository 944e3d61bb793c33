"""The words of a turn: those of a model, or of the definition where no model's words will do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal

from msgspec.structs import replace

from llm_fsm._text import each_escaped, escaped
from llm_fsm.definition.models import Scope
from llm_fsm.definition.names import is_foreign, label
from llm_fsm.session import events as ev
from llm_fsm.session.context import has
from llm_fsm.session.events import FlowPushed, FlowReturned
from llm_fsm.session.messages import LLMMessage, LLMRequest
from llm_fsm.session.redaction import redacted
from llm_fsm.session.reducer import KEPT_TURNS
from llm_fsm.session.reply_schema import with_targets
from llm_fsm.session.session import Session
from llm_fsm.session.values import part_schema
from llm_fsm.turn import model, tool_loop
from llm_fsm.turn.available import asides, available_moves, fixed_words, own_words
from llm_fsm.turn.backtracking import holds
from llm_fsm.turn.compiled import AvailableMoves, CompiledMachine
from llm_fsm.turn.fixed_replies import WordingError, own_question, sentence
from llm_fsm.turn.next_step import lacking
from llm_fsm.turn.prompt.render import history_text, is_whole, moment, section, turn_prompt, with_day
from llm_fsm.turn.prompt.tasks import buckets_of
from llm_fsm.turn.repair.patterns import words_of
from llm_fsm.turn.repair.questions import asks, is_nearer, question_in, told_in
from llm_fsm.turn.reply.parser import parse_words
from llm_fsm.turn.tool_results import shortened
from llm_fsm.turn.turn_state import ORDINARY, Arrival, Part, Run, Stop, TurnState

CANNOT_GO_ON = "Sorry, I cannot continue with this."
_UNREADABLE = (" does not match ", " is not a text", " is not a list", " is not an object")
"""Parts of reasons that no user understands: regular expressions, types of JSON."""
UPDATE = "context_update"
"""The key under which a fault of a whole update is noted. The model reads it, and no user."""
_SPOKEN = ("passed", "cancelled", "handover", "given_up", "silent")
"""Ends that need no apology."""


def last_words(session: Session, back: int = 0) -> str:
    """Return what was said in the current flow, `back` exchanges before the misses.

    It is "" where the history does not reach so far.
    """
    back += 1 + _missed(session)
    return session.window[-back][1] if back <= len(session.window) else ""


def _missed(session: Session) -> int:
    """Count the messages in a row that were not understood in this state just before this one."""
    if session.misses is None or session.misses[1] < session.turn - 1:
        return 0
    return max(0, min(session.misses[0] - (session.misses[1] == session.turn), session.turns_in_state - 1))


def last_question(session: Session) -> str:
    """Return the last words in this state that ask something, else the last words of all."""
    since = min(session.turns_in_state - _missed(session), len(session.window))
    said = map(partial(last_words, session), range(since))
    return next(filter(asks, said), "") or last_words(session)


def keys_asked_for(turn: TurnState) -> tuple[str, ...]:
    """Return the keys that the user was asked for here, before this turn."""
    session = turn.session
    known = {key for key, (turn, _) in session.origins.items() if turn < session.turn}
    return tuple(key for key in turn.state.collects if not (key in known and has(session.context, key)))


def say_fixed(turn: TurnState) -> None:
    """Say the fixed reply of the state. If its values do not allow that, apologise and record the reason."""
    if turn.state.fixed is None:
        return
    try:
        turn.say("fixed", fixed_words(turn.machine, turn.state.fixed, turn.session))
    except WordingError as error:
        turn.emit(ev.ReplyFailed(state=turn.state.id, reason=str(error)))
        turn.fallback = True
        turn.say("notice", turn.state.model.on_failure or CANNOT_GO_ON)


def say_on_the_way(turn: TurnState) -> None:
    """Say the fixed reply of a state that was entered, unless it talks: the machine may go on from there."""
    if turn.state.kind != "converse":
        say_fixed(turn)


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
    zone = session.timezone or turn.root.definition.timezone
    system = LLMMessage("system", with_day(asked.messages[0].content, session.time, zone))
    heard = heard or tool_loop.Heard(session.user_input, session.window)
    shown = _sections(turn, heard, available, words_only=words_only)
    shown["now"] = moment(session.time, zone) if machine.tells_time else ""
    shown["valid_states"] = ", ".join(available.valid) if machine.prompts.whole and not words_only else ""
    shown["open_patterns"] = "" if words_only else ", ".join(open_patterns(turn, available.patterns))
    user, sizes = turn_prompt(
        machine.prompts,
        asked.sizes,
        state.prompt_words,
        shown,
        missing=missing_keys(turn),
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
    )


def _sections(
    turn: TurnState, heard: tool_loop.Heard, available: AvailableMoves, *, words_only: bool
) -> dict[str, str]:
    """Return the sections of a prompt that show the conversation, what is known and where it leads, by name."""
    session, scope = turn.session, turn.state.definition.context_scope
    context = turn.machine.keys.shown(session.context, None if scope is None else scope.read)
    further = _further_lines(turn, context)
    if further and scope is None:
        context = {key: value for key, value in context.items() if key not in further}
    user = _heard(turn, heard.user, words_only=words_only)
    return {
        "history_summary": section(redacted(turn.secrets(), session.summary)) if session.summary else "",
        "conversation_history": history_text(heard.window),
        "further_context_keys": "\n".join(further.values()),
        "current_context": section(context),
        "earlier_answers": "" if words_only or not session.flow else _earlier(turn),
        "memory": section(redacted(turn.secrets(), buckets_of(session))) if turn.state.definition.memory else "",
        "tool_results": section(_tool_results(turn)) if session.tool_results else "",
        "refused": section(_refused(turn, scope)),
        "transitions": f"[{','.join(available.items)}]" if available.items and not words_only else "",
        "user_input": "" if user is None else escaped(user),
        "said": section(redacted(turn.secrets(), "\n\n".join(turn.words))) if words_only else "",
        "outcome": _outcome(turn) if words_only else "",
    }


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
    """Return what else the next turn here may name. Words are asked for with its schema, which a cache may serve."""
    return available_moves(turn.machine, turn.session, asides(turn.root, turn.session)).further


def _heard(turn: TurnState, user: str | None, *, words_only: bool) -> str | None:
    """Return the user's message: without secrets of flows that were left, and for words alone without any."""
    if user is None or not (words_only or turn.left_secrets):
        return user
    shown: str = redacted(turn.secrets() if words_only else sorted(turn.left_secrets, key=len, reverse=True), user)
    return shown


def _refused(turn: TurnState, scope: Scope | None) -> list[Mapping[str, Any]]:
    """Return what a prompt tells of refused values, and of parts of collected objects that wait for others.

    `scope`: what alone may be shown.
    """
    keys, told = turn.machine.keys, refusals(turn)
    begun = {key: parts for key, parts in turn.session.begun.items() if not keys.is_secret(key)}
    for name in turn.state.collects if begun else ():
        key = name.partition(".")[0]
        if key in begun and name not in turn.session.skipped and all(key != known for known, _ in told):
            told.append((key, keys.fault(key, begun[key]) or "it lacks parts"))
    shown = begun if scope is None else {key: begun[key] for key in scope.read if key in begun}
    return [{"key": key, "reason": why, **({"so_far": shown[key]} if key in shown else {})} for key, why in told]


def refusals(turn: TurnState) -> list[tuple[str, str]]:
    """Return the refused values with the reasons.

    Of a refused list or object nothing is kept, but for parts that wait.
    """
    keys, begun = turn.machine.keys, turn.session.begun
    notes = {key: why for key, why in turn.session.notes if key in begun}
    return [
        (key, f"{why}; nothing of it was kept" if is_whole(keys.schema(key)) else why)
        for key, why in turn.session.notes
        if key not in begun
    ] + [(key, f"{why}; its other parts are kept") for key, why in notes.items()]


def _outcome(turn: TurnState) -> str:
    """Return the result of this turn's last work in the definition at work, as JSON without secrets; else ""."""
    for event in reversed(turn.events):
        if isinstance(event, ev.TaskPassed):
            return escaped(shortened(redacted(turn.secrets(), turn.session.input)))
        if isinstance(event, FlowPushed | FlowReturned) and event.kind == "subflow":
            break  # between definitions crosses what `input` and `output` name alone
    return ""


def _further_lines(turn: TurnState, context: Mapping[str, Any]) -> Mapping[str, str]:
    """Return a line for each known key that the system message of a large machine does not list.

    `context`: what is shown of it. Where a state narrows that, the lines are those of bounded keys, without values.
    """
    told, listed, offered = turn.machine.bounds_told, turn.state.listed, turn.machine.keys.offered
    if len(listed) == len(offered):
        return {}
    if turn.state.definition.context_scope is not None:
        return {key: f"{key}{told[key]}" for key in turn.session.context if key in told and key not in listed}
    known = {key: value for key, value in context.items() if key in offered and key not in listed}
    values = each_escaped(known.values())
    return {key: f"{key} = {value}{told.get(key, '')}" for key, value in zip(known, values, strict=False)}


def _tool_results(turn: TurnState) -> list[Mapping[str, Any]]:
    """Return what tools gave in the last turns before this one, without secrets."""
    session = turn.session
    shown = [one for one in session.tool_results if session.turn - KEPT_TURNS <= one[0] < session.turn]
    found: list[Mapping[str, Any]] = redacted(
        turn.secrets(), [{"tool": name, "result": result} for _, name, result in shown]
    )
    return found


def _earlier(turn: TurnState) -> str:
    """Return the answers of waiting definitions that a correction may change, with values; dots for secrets."""
    session = turn.session
    lines: dict[str, str] = {}
    for place in session.callers() if turn.has("correct") else ():
        caller = session.of_caller(place)
        machine = turn.root.of(caller)
        for key, value in machine.keys.shown(caller.context).items():
            if key not in lines and holds(turn.root, session, place, key):
                lines[key] = f"{key} = {escaped(value)}{machine.key_lines.get(key, key)[len(key) :]}"
    return "\n".join(lines.values())


def pattern_words(turn: TurnState, piece: CompiledMachine, state: str, data: Mapping[str, Any]) -> str:
    """Return what a repair pattern says in a state.

    It uses English words of its own only where they are not foreign.
    """
    return words_of(piece, state, {**data, "_english": turn.machine.english})


def _say_cannot_go_on(turn: TurnState) -> None:
    turn.fallback = True
    turn.said = (Part("notice", turn.state.model.on_failure or CANNOT_GO_ON),)


def say_stopped(turn: TurnState, stop: Stop) -> None:
    """Say nothing where a run has done its work, and apologise where it cannot go on."""
    if stop.reason not in _SPOKEN and not turn.machine.alone:
        _say_cannot_go_on(turn)


def say_paused(turn: TurnState) -> None:
    """Tell a user who waits with the run what it waits for, where nothing was said yet."""
    pause = turn.session.pause
    if pause is None or turn.machine.alone or turn.words:
        return
    if pause.kind == "wait":
        turn.say("question", plain_question(turn, sorry=False))
    else:
        turn.say("notice", "Before I can go on, somebody has to answer a question about this.")


def complete_pattern(turn: TurnState, arrival: Arrival, flow: str) -> Run:
    """Add what is still to be said after a pattern led on. The model is asked only out of the definition `flow`."""
    if turn.session.flow != flow or arrival.stop is not None or turn.state.kind != "converse":
        yield from complete_words(turn, arrival)
    else:
        ask_again(turn, "")


def complete_words(turn: TurnState, arrival: Arrival = ORDINARY, *, spoken_for: bool = False) -> Run:
    """Add what is still to be said. `spoken_for`: the message was written for where the run has arrived."""
    if arrival.stop is not None:
        say_stopped(turn, arrival.stop)
    elif turn.paused:
        say_paused(turn)
    elif turn.state.kind == "converse" and (arrival.back or (arrival.passed and _asks_itself(turn))):
        ask_again(turn, "" if arrival.frame is None else arrival.frame.asked)
    elif (arrival.passed or not spoken_for) and turn.state.fixed is None:
        yield from ask_for_words(turn, "words")
    elif not turn.words:
        turn.say("question", plain_question(turn, sorry=False))


def _asks_itself(turn: TurnState) -> bool:
    """Return true where the open question needs no further call: it is said, or the purpose asks it."""
    return asks(turn.state.definition.purpose) or any(map(asks, turn.words))


def not_answered(turn: TurnState, message: str, *passed: str) -> str:
    """Return a message without its questions, if they are nearer to a passed question than to the open one."""
    question, still = question_in(message), open_question(turn)
    return told_in(message) if any(is_nearer(question, one, still) for one in passed) else message


def ask_for_words(turn: TurnState, asked_for: Literal["greeting", "words"]) -> Run:
    """Ask the model for words alone: nothing else in its reply counts."""
    available = model.no_moves(turn)
    request = turn_request(turn, available, words_only=True, greeting=asked_for == "greeting")
    words = yield from model.ask(turn, asked_for, request, available, parse_words)
    if isinstance(words, str):
        turn.say("model", words)
        return
    turn.fallback = True
    turn.say("question", turn.state.model.on_failure or plain_question(turn, sorry=False))


def missing_keys(turn: TurnState) -> tuple[str, ...]:
    return lacking(turn.session, turn.state)


def plain_question(turn: TurnState, *, sorry: bool) -> str:
    state = turn.state.definition
    question = _question(turn, state.purpose or state.description, telling=True)
    return f"Sorry, I did not get that.\n\n{question}" if sorry and turn.machine.english else question


def _question(turn: TurnState, purpose: str, *, telling: bool = False) -> str:
    """Return a plain sentence for this state. `telling`: with a purpose that does not ask, too."""
    wanted = {key: part_schema(turn.machine.keys.offered, key) for key in missing_keys(turn)}
    english = turn.machine.english  # else there is no neutral sentence beside it
    return own_question(purpose if telling or not english or asks(purpose) else "", wanted, english=english)


def open_question(turn: TurnState, asked: str = "") -> str:
    """Return what is asked here.

    It is the fixed reply, the question in the last words (`asked`), a purpose that asks, or what is missing.
    """
    if turn.state.fixed is not None:
        return own_words(turn.machine, turn.state, turn.session)
    return question_in(asked) or _question(turn, turn.state.definition.purpose)


def ask_again(turn: TurnState, asked: str) -> None:
    """Say the open question, unless the words of this turn ask something already. `asked`: what was asked last."""
    if turn.state.fixed is not None or any(map(asks, turn.words)):
        return
    question = open_question(turn, asked)
    if not turn.machine.english and not asks(question):
        return  # it may be an instruction to the model
    if not any(ends_in(turn, question, words) for words in turn.words):
        turn.say("question", question)


def ends_in(turn: TurnState, question: str, words: str) -> bool:
    """Return true where words ask something, or end in the question or the purpose, which ask without a mark, too."""
    ends = filter(None, (question, sentence(turn.state.definition.purpose)))
    return asks(words) or words.casefold().rstrip().endswith(tuple(map(str.casefold, ends)))


def complain(turn: TurnState) -> None:
    """Say which values were refused, and why, where no model's words will."""
    for key, reason in turn.session.notes:
        if key == UPDATE:
            continue
        schema = turn.machine.keys.offered.get(key, {})
        name, words = label(key, schema), str(schema.get("description") or "")
        english = turn.machine.english
        if english and not any(said in reason for said in _UNREADABLE):
            words = reason[reason.index(": ") + 2 :] if reason.startswith("at /") else reason
        begin = f"That does not fit ({name})" if english else f"✗ {name}"
        named = words.casefold().startswith(name.casefold()) or ("title" not in schema and is_foreign(key, words))
        if not english and words and named:
            turn.say("notice", sentence(f"✗ {words}"))
        else:
            turn.say("notice", sentence(f"{begin}: {words or reason}"))


def last_resort(turn: TurnState) -> None:
    """Say what the definition says when nothing was understood, or its own question."""
    turn.fallback = True
    complain(turn)
    words = turn.state.model.on_failure
    if words is None and turn.state.fixed is not None:
        words = own_words(turn.machine, turn.state, turn.session)
    turn.say("question", words or plain_question(turn, sorry=True))
