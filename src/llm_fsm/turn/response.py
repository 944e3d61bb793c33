"""The words of the definition: fixed replies, its open question, and what it says of refused
values.
"""

from __future__ import annotations

from llm_fsm._json import JsonMap, of_kind, without
from llm_fsm._text import INTERRUPTED
from llm_fsm.definition.names import is_foreign, label
from llm_fsm.languages import certain_sentence, ends_in_question, language_of, listed, own_sentence
from llm_fsm.session import events as ev
from llm_fsm.session.context import has
from llm_fsm.session.quotes import NOT_SAID
from llm_fsm.session.session import Frame, Session
from llm_fsm.session.values import part_schema
from llm_fsm.turn.agreement import blanks
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.fixed_replies import FixedReply, WordingError, own_question, sentence
from llm_fsm.turn.next_step import lacking
from llm_fsm.turn.read_back import shown_values, whole_text
from llm_fsm.turn.repair.patterns import words_of
from llm_fsm.turn.turn_state import Part, TurnState

_UNREADABLE = (" does not match ", " is not a text", " is not a list", " is not an object")
"""Parts of reasons that no user understands: regular expressions, types of JSON."""
UPDATE = "context_update"
"""The key under which a fault of a whole update is noted. The model reads it, and no user."""


def last_words(session: Session) -> str:
    """Return what was said last in the current flow, before the misses.

    It is "" where the history does not reach so far.
    """
    back = 1 + _missed(session)
    return session.window[-back][1].removesuffix(INTERRUPTED) if back <= len(session.window) else ""


def _missed(session: Session) -> int:
    """Count the messages in a row that were not understood in this state just before this one."""
    # A message in between was understood, so the row of misses is over.
    if session.misses is None or session.misses[1] < session.turn - 1:
        return 0
    return max(
        0, min(session.misses[0] - (session.misses[1] == session.turn), session.turns_in_state - 1)
    )


def keys_asked_for(turn: TurnState) -> tuple[str, ...]:
    """Return the keys that the user was asked for here, before this turn."""
    session = turn.session
    known = {key for key, (turn, _) in session.origins.items() if turn < session.turn}
    return tuple(
        key for key in turn.state.collects if not (key in known and has(session.context, key))
    )


def fixed_words(
    machine: CompiledMachine, state: CompiledState, fixed: FixedReply, session: Session
) -> str:
    """Return the fixed reply of a state with the values of a conversation. Raises WordingError.

    A secret value is left out. If the state confirms it, dots show that there is one.
    """
    shown = shown_values(machine, state, session)
    text = fixed.render(shown)
    # Only the state's own reply is a read-back; that of a failure lists nothing.
    return whole_text(machine, state, shown, text) if fixed is state.fixed else text


def own_words(machine: CompiledMachine, state: CompiledState, session: Session) -> str:
    """Return a state's words without a model: its fixed reply, else its purpose or description.

    They are for looking ahead, so a reply that fails has none. States that the run passes by itself
    have none.
    """
    if state.fixed is not None:
        try:
            return fixed_words(machine, state, state.fixed, session)
        except WordingError:
            return ""
    if state.kind in ("decide", "task", "subflow"):
        return ""
    return state.definition.purpose or state.definition.description


def words_here(turn: TurnState) -> str:
    """Return the fixed reply of the current state, or the apology for it; else its purpose."""
    fixed = turn.state.fixed
    if fixed is None:
        return own_words(turn.machine, turn.state, turn.session)
    return _fixed_part(turn, fixed).text or ""


def say_fixed(turn: TurnState) -> None:
    """Say the fixed reply of the state. If its values do not allow that, apologise and record the
    reason.
    """
    if turn.state.fixed is None:
        return
    part = _fixed_part(turn, turn.state.fixed)
    turn.say(part.kind, part.text)


def say_here(turn: TurnState) -> None:
    """Say the fixed reply of a state where it rests. While it would have a blank, ask instead."""
    if blanks(turn.machine, turn.session):
        turn.say("question", asks_itself(turn) or plain_question(turn))
    else:
        say_fixed(turn)


def _fixed_part(turn: TurnState, fixed: FixedReply) -> Part:
    """Return the words of a fixed reply, or an apology for one that cannot be rendered, which is on
    record.
    """
    try:
        return Part("fixed", fixed_words(turn.machine, turn.state, fixed, turn.session))
    except WordingError as error:
        return _apology(turn, turn.state.id, error)


def own(turn: TurnState, name: str, *parts: str) -> str:
    """Return a sentence of the machine itself, as `own_sentence`."""
    return own_sentence(turn.machine.definition.language, name, *parts)


def words_at_limit(turn: TurnState) -> str:
    """Return the text of the limit of `limits.per` that allows no call; "" if there is none."""
    reached = turn.host.reached
    return "" if reached is None else getattr(turn.machine.limits.per, reached.per).on_limit or ""


def apology(turn: TurnState) -> str:
    """Return what is said where the run cannot go on."""
    words = words_at_limit(turn) or turn.state.model.on_failure
    return words or certain_sentence(turn.machine.definition.language, "cannot_go_on")


def _apology(turn: TurnState, state: str, error: WordingError) -> Part:
    failed = ev.ReplyFailed(state=state, reason=str(error))
    # A reply may be rendered several times in one turn, and fails for one reason.
    if failed not in turn.events:
        turn.emit(failed)
    turn.fallback = True
    return Part("notice", apology(turn))


def say_on_the_way(turn: TurnState) -> None:
    """Say the fixed reply of a state that was entered, unless it talks: the machine may go on from
    there.
    """
    if turn.state.kind != "converse":
        say_fixed(turn)


def pattern_words(turn: TurnState, piece: CompiledMachine, state: str, data: JsonMap) -> str:
    """Return what a repair pattern says in a state.

    Its sentences are those of the definition's language, if it has any.
    """
    sentences = language_of(turn.machine.definition.language).sentences
    try:
        return words_of(piece, state, {**data, "sentences": sentences})
    except WordingError as error:
        return _apology(turn, state, error).text or ""


def missing_keys(turn: TurnState) -> tuple[str, ...]:
    return lacking(turn.session, turn.state)


def plain_question(turn: TurnState) -> str:
    state = turn.state.definition
    return _question(turn, state.purpose or state.description, telling=True)


def _question(turn: TurnState, purpose: str, *, telling: bool = False) -> str:
    """Return a plain sentence for this state. `telling`: with a purpose that does not ask, too."""
    wanted = {key: part_schema(turn.keys.offered, key) for key in missing_keys(turn)}
    # without words of the machine there is no neutral sentence beside it
    told = telling or not turn.machine.speaks or ends_in_question(purpose)
    return own_question(purpose if told else "", wanted, turn.machine.definition.language)


def asks_itself(turn: TurnState) -> str:
    """Return the state's own question: the `x-ask` of each key that is missing, if all of them have
    one, else a purpose that asks; "" if there is neither.
    """
    schemas = turn.keys.offered
    asked = [str(part_schema(schemas, key).get("x-ask") or "") for key in missing_keys(turn)]
    # Half of the questions would leave the other keys unasked.
    if asked and all(asked):
        return " ".join(asked)
    purpose = sentence(turn.state.definition.purpose)
    return purpose if ends_in_question(purpose) else ""


def asked_before(turn: TurnState, frame: Frame | None = None) -> str:
    """Return the question that was asked here last; "" if it is not known, or may be untrue.

    Values of this turn may have answered it, or have changed what it says.

    Args:
        turn: The turn.
        frame: The place that a digression came back to. Its question waited for longer.
    """
    wanted = () if frame is None else frame.wanted
    answered = any(has(turn.session.context, key) for key in wanted)
    return "" if answered or has_changed(turn) else turn.session.question


def has_changed(turn: TurnState) -> bool:
    """Return true if this turn has changed the context, so that earlier words may be untrue."""
    return bool(of_kind(turn.events, ev.ContextSet))


def open_question(turn: TurnState) -> str:
    """Return what is asked here: the fixed reply, the state's own question, the one that was asked
    last, or what is missing.
    """
    if turn.state.fixed is not None:
        return words_here(turn)
    return asks_itself(turn) or asked_before(turn) or missing_question(turn)


def missing_question(turn: TurnState) -> str:
    """Return a sentence that asks for what is missing."""
    return _question(turn, turn.state.definition.purpose)


def account(turn: TurnState) -> bool:
    """Say what was kept, and why values were refused, where no model's words will.

    Returns:
        True if anything was kept or refused, so that the message was understood.
    """
    kept = _kept(turn)
    schemas = turn.keys.offered
    names = [label(key, schemas.get(key, {})) for key in kept]
    if names:
        turn.say("notice", own(turn, "noted", listed(names, turn.machine.definition.language)))
    complain(turn)
    return bool(names) or bool(refused_values(turn).keys() - {UPDATE})


def _kept(turn: TurnState) -> tuple[str, ...]:
    """Return the keys of which replies of this turn gave the value."""
    kept: dict[str, None] = {}
    for event in of_kind(turn.events, ev.ContextSet):
        if event.source == "model":
            kept |= dict.fromkeys(key for key in event.values if not key.startswith("_"))
    return tuple(key for key in kept if key in turn.session.context)


def refused_values(turn: TurnState, since: int = 0) -> dict[str, str]:
    """Return the keys of which this turn refused a value and kept none since, with the reasons.

    `since`: the number of events before those that count.
    """
    refused: dict[str, str] = {}
    for event in turn.events[since:]:
        match event:
            case ev.ContextRefused(told=True):
                refused[event.key] = event.reason
            case ev.ContextSet(values=values):
                refused = without(refused, values)
    return refused


def complain(turn: TurnState) -> None:
    """Say which values were refused, and why, where no model's words will."""
    for key, reason in refused_values(turn).items():
        if key == UPDATE or reason.startswith(NOT_SAID):
            continue
        schema = turn.keys.offered.get(key, {})
        name, words = label(key, schema), str(schema.get("description") or "")
        english = turn.machine.definition.is_english
        ruled = turn.keys.is_rule(reason)
        if words.rstrip(".").casefold() == name.casefold():
            words = ""  # it says no more than the title
        if ruled:
            words = reason
        elif english and not any(said in reason for said in _UNREADABLE):
            words = reason[reason.index(": ") + 2 :] if reason.startswith("at /") else reason
        misfit = own(turn, "misfit", name)
        begin = misfit or f"✗ {name}"
        begins = words.casefold().startswith(name.casefold())
        named = ruled or begins or ("title" not in schema and is_foreign(key, words))
        if not misfit and words and named:
            turn.say("notice", sentence(f"✗ {words}"))
        else:
            words = words or (reason if english else "")
            colon = language_of(turn.machine.definition.language).colon
            turn.say("notice", sentence(f"{begin}{colon}{words}" if words else begin))
