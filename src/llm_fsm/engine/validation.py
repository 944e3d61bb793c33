"""Request validation: messages that stores can keep, and requests that a conversation can take
now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from llm_fsm._json import JsonDict
from llm_fsm._zones import zone_fault
from llm_fsm.conditions.coercion import mended
from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.errors import ConversationConflict, ConversationEnded
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_host
from llm_fsm.session.events import ContextRefused
from llm_fsm.session.messages import Message, Paused
from llm_fsm.session.normalize import as_schema
from llm_fsm.session.session import Session
from llm_fsm.session.values import ValueFault, to_json_value
from llm_fsm.turn.agreement import asks_for_a_yes
from llm_fsm.turn.choices import choices_of, picked_of
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.pipeline import Answer, Opening, Resume, Update, UserMessage
from llm_fsm.turn.tool_policy import AvailableTools
from llm_fsm.turn.turn_state import MAX_MESSAGE_CHARS

T = TypeVar("T")
MAX_SPEAKER_CHARS = 100
Request = UserMessage | Answer | Update | Resume
"""What a caller sends to a conversation."""
_ENDED = {
    "final": "This conversation has ended; please start a new one.",
    "passed": "This run has finished; please start a new one.",
    "host": "This conversation has been closed; please start a new one.",
    "stuck": "This conversation could not be continued; please start a new one.",
    "exhausted": "This run could not be finished; please start a new one.",
    "cancelled": "This conversation was stopped, as you wished; please start a new one.",
    "handover": "A person continues this conversation.",
    "given_up": "This conversation could not be continued; please start a new one.",
    "silent": "This conversation was closed, because nobody answered; please start a new one.",
    "limited": "This run was stopped at one of its limits; please start a new one.",
    "expired": "This conversation waited too long for an answer; please start a new one.",
}


def checked_list(given: Iterable[T], what: str) -> Iterable[T]:
    """Check a list that a host gave.

    Raises:
        ValueError: It is text, or a single value.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        # ValueError, because every bad argument raises it.
        raise ValueError(f"{what}= is a list, not {type(given).__name__}")
    return given


def checked_message(text: object) -> str:
    """Check a user's message, and return it as it is stored.

    Raises:
        ValueError: It is empty or too long.
    """
    if not isinstance(text, str):
        # ValueError, because the documentation says so.
        raise ValueError(f"a message is text, not {type(text).__name__}")
    if not text.strip():
        raise ValueError("the message is empty")
    if len(text) > MAX_MESSAGE_CHARS:
        raise ValueError(
            f"the message is {len(text)} characters long; at most {MAX_MESSAGE_CHARS} are read"
        )
    return mended(text)


def checked_history(history: Iterable[Any] | None) -> tuple[tuple[str, str], ...]:
    """Check the earlier messages of a conversation.

    Args:
        history: (role, text) pairs, or messages; roles are user and assistant.

    Raises:
        ValueError: A role or text is wrong, or the last word is the user's.
    """
    found = []
    for said in checked_list(history or (), "history"):
        role, text = (said.role, said.text) if isinstance(said, Message) else _pair(said)
        if role not in ("user", "assistant"):
            raise ValueError(f"the roles of a history are user and assistant, not {role!r:.40}")
        found.append((role, checked_message(text)))
    # An unanswered message would stay so: nothing plays the history.
    if found and found[-1][0] == "user":
        raise ValueError("the history ends with a message of the user; send that one")
    return tuple(found)


def checked_timezone(name: str) -> str:
    """Check the IANA name of a time zone.

    Raises:
        ValueError: There is no such time zone.
    """
    if not name:
        return ""
    fault = zone_fault(name)
    if fault is not None:
        raise ValueError(f"timezone={name!r:.60} is not known: {fault}")
    return name


def _pair(said: object) -> tuple[object, object]:
    if isinstance(said, tuple | list) and len(said) == 2:
        return said[0], said[1]
    raise ValueError(f"a message of a history is a pair of role and text, not {said!r:.60}")


def checked_speaker(name: object) -> str:
    """Check the name of the person who speaks in the place of the machine; "" is the machine.

    Raises:
        ValueError: It is no text of at most 100 characters in one line.
    """
    if not isinstance(name, str):
        raise ValueError(f"by= is the name of a person, not {type(name).__name__}")
    if len(name) > MAX_SPEAKER_CHARS or not name.isprintable():
        raise ValueError(
            f"by= is a name of at most {MAX_SPEAKER_CHARS} characters in one line, not {name!r:.40}"
        )
    return name.strip()


def checked_values(values: object) -> JsonDict:
    """Check that values by key are JSON, and return them as they are stored.

    Raises:
        ValueError: They are not.
    """
    if not isinstance(values, Mapping | None):
        raise ValueError(
            f"the context is an object of keys and values, not a {type(values).__name__}"
        )
    try:
        found: JsonDict = to_json_value(dict(values or {}))
    except ValueFault as fault:
        raise ValueError(f"the context is not JSON: {fault}") from fault
    return found


def check_input_read(session: Session, events: ev.Events, given: object) -> None:
    """Check that the run which stays as it is was given this input already.

    Args:
        session: The run. It is over, or it waits.
        events: The events of its first and of its last turn.
        given: The input of the call.

    Raises:
        ConversationConflict: Nothing would read the input.
    """
    read = (event.input for event in events if isinstance(event, ev.Started | ev.RunResumed))
    # The same call once more asks for the same result.
    if any(one == given for one in read):
        return
    now = "is finished" if session.ended else "waits"
    raise ConversationConflict(
        f"run {session.conversation_id!r} {now}, so nothing reads this input; begin a new run with it"
    )


def check_choice(program: CompiledMachine, session: Session, message: UserMessage) -> None:
    """Raise ConversationConflict if a choice that was picked answers a question that is gone."""
    offered = choices_of(program, session)
    # Checked before the turn: a button of an old message may still be on somebody's screen.
    if picked_of(offered, message.text, message.question) is not None:
        return
    labels = ", ".join(choice.label for choice in offered)
    now = "nothing is to be chosen now; send a message"
    if labels:
        now = f"the choices are now: {labels}; pick one of them"
    raise ConversationConflict(
        f"the question of the choice {message.text!r:.100} is no longer open; {now}"
    )


def checked_trigger(
    program: CompiledMachine, session: Session, trigger: Request, pause_id: str | None
) -> Request | None:
    """Check that a conversation can take a trigger now.

    Args:
        program: The machine on which the conversation runs.
        session: The conversation.
        trigger: The message, answer, update or run.
        pause_id: The pause that an answer is for; None: the current one.

    Returns:
        The trigger as it is played. None for a run that waits or is over, and stays as it is.

    Raises:
        ConversationEnded: The conversation is over.
        ConversationConflict: It cannot take this trigger now.
        ValueError: A value is refused.
    """
    match trigger:
        case Answer(value=value):
            pause = expected(program, session, pause_id)
            # The refusal of an answer goes to logs and to other people.
            quotes = not _may_be_secret(program, session, pause)
            return replace(trigger, value=fitting(pause, value, quotes=quotes))
        case UserMessage(picked=True):
            check_open(program, session)
            check_choice(program, session, trigger)
        case Update():
            checked_update(program, session, trigger)
        case Resume():
            if session.ended or session.pause is not None or _talks(program, session):
                return None
            check_open(program, session)
        case UserMessage():
            check_open(program, session)
    return trigger


def _talks(program: CompiledMachine, session: Session) -> bool:
    """Return true if a run has come to a state that waits for a user's message.

    A run that has not begun has its first state still before it.
    """
    # Its first state may be one that talks, and still be entered.
    begun = session.previous_state is not None or bool(session.stack)
    if not begun or not program.knows(session):
        return False
    return program.of(session).states[session.state].kind == "converse"


def check_agreed(tools: AvailableTools, program: CompiledMachine, given: Request | Opening) -> None:
    """Raise ConversationConflict for a move of the program to an act to which nobody says yes."""
    if not isinstance(given, Update | Opening) or given.agreed or given.state is None:
        return
    if _acts(tools, program, "", given.state):
        raise ConversationConflict(
            f"state {given.state!r} acts, and nobody has said yes to that; pass agreed=True if your "
            "program says yes"
        )


def _acts(tools: AvailableTools, program: CompiledMachine, flow: str, state: str) -> bool:
    """Return true for a state that acts, or calls a definition that acts and asks for no yes."""
    known = program.named(flow).states[state]
    # An act is found through all definitions that are called on the way.
    if known.calls:
        inner = program.named(known.calls)
        acting = (_acts(tools, program, known.calls, name) for name in inner.states)
        return not asks_for_a_yes([inner]) and any(acting)
    acts = known.definition.acts
    return acts or bool(tools.of(flow).acting(state, acts=acts))


def checked_update(program: CompiledMachine, session: Session, given: Update) -> None:
    """Check an update between messages.

    Raises:
        ConversationEnded: The conversation is over.
        ConversationConflict: It waits for an answer and cannot be moved.
        ValueError: A value is refused, or there is no such state.
    """
    # Words may be said after the end, for example a goodbye of a person.
    if session.ended and given.text is None:
        raise ConversationEnded(_ENDED.get(session.outcome or "final", _ENDED["final"]))
    check_known(program, session)
    if given.state is not None and given.state not in program.states:
        known = ", ".join(program.states)
        raise ValueError(f"there is no state {given.state!r} to move to; the states are {known}")
    if given.state is not None and session.pause is not None:
        raise ConversationConflict(
            f"conversation {session.conversation_id!r} waits for {session.pause.what!r} "
            f"({session.pause.kind}) and cannot be moved until it is answered; answer it first"
        )
    # Rules about the present time mean the time of the update.
    names = {**session.system_names(), "_timestamp": given.time}
    for event in accept_host(program.keys, session.root_context(), given.context, names=names):
        # A value of the user that breaks a rule now is cleared, and asked for again.
        if isinstance(event, ContextRefused) and event.key in given.context:
            raise ValueError(f"context key {event.key!r}: {event.reason}")


def check_open(program: CompiledMachine, session: Session) -> None:
    """Raise if a conversation cannot take a message on this machine."""
    if session.ended:
        raise ConversationEnded(_ENDED.get(session.outcome or "final", _ENDED["final"]))
    check_known(program, session)
    if session.pause is not None and session.pause.messages == "refuse":
        raise ConversationConflict(
            f"conversation {session.conversation_id!r} waits for {session.pause.what!r} "
            f"({session.pause.kind}) and takes no message until it is answered; answer it first"
        )


def check_known(program: CompiledMachine, session: Session) -> None:
    """Raise ConversationConflict if a conversation is in a state that the machine does not have."""
    if not program.knows(session):
        raise ConversationConflict(
            f"conversation {session.conversation_id!r} is in state {session.state!r}, which the "
            f"definition {program.definition.name!r} does not have. Open it with the definition "
            "it was started with"
        )


def expected(program: CompiledMachine, session: Session, pause_id: str | None) -> Paused:
    """Return the pause that an answer is for.

    Raises:
        ConversationConflict: It was answered, has expired, or the run waits for nothing.
    """
    pause = session.pause
    if pause is not None and pause_id in (None, pause.id):
        check_known(program, session)
        return pause
    name = f"conversation {session.conversation_id!r}"
    # The pause before is remembered for this, because an answer may come twice.
    if session.settled is not None and pause_id in (None, session.settled[0]):
        how = "was answered already" if session.settled[1] == "answered" else "has expired"
        raise ConversationConflict(
            f"what {name} waited for {how}; this answer was not used; {_now(session)}"
        )
    if pause is not None:
        raise ConversationConflict(
            f"{name} no longer waits for that but for {pause.what!r}; this answer was not used; "
            f"{_now(session)}"
        )
    raise ConversationConflict(
        f"{name} waits for no answer; this one was not used; {_now(session)}"
    )


def _now(session: Session) -> str:
    """Return the act that a conversation can take, for whoever gave an answer too late."""
    if session.ended:
        return "begin a new conversation"
    if session.pause is not None:
        return "read what it waits for now, and answer that"
    return "load the conversation, and go on with it"


def checked_answer(value: object) -> Any:
    """Convert an answer to the JSON in which it is stored.

    Raises:
        ValueError: It has no JSON form.
    """
    try:
        return to_json_value(value)
    except ValueFault as fault:
        raise ValueError(f"the answer is not JSON: {fault}") from fault


def _may_be_secret(program: CompiledMachine, session: Session, pause: Paused) -> bool:
    """Return true if the answer to a pause may be the value of a secret key."""
    here = program.at(session) or program
    if pause.kind != "wait":  # what becomes of it is the tool's affair
        return bool(here.keys.secrets)
    return any(here.is_secret(key) for key in here.states[pause.state].definition.output)


def fitting(pause: Paused, value: object, *, quotes: bool = True) -> Any:
    """Check an answer against the schema of its pause, and return it as JSON.

    Args:
        pause: The pause.
        value: The answer.
        quotes: False if a refusal must not repeat the answer.

    Raises:
        ValueError: It does not fit.
    """
    plain, reason = checked_answer(value), None
    if pause.schema:
        plain, reason = as_schema(compile_shape(pause.schema), plain)
    if reason is not None:
        told = reason if quotes else "its schema refuses the value"
        raise ValueError(f"the answer does not fit what {pause.what!r} waits for: {told}")
    return plain
