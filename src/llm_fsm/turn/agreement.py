"""A yes is a voucher for an act, and seven sentences make it good.

A state with `confirms` reads values back, and a transition with `agrees` is the yes to them. `whole`,
`shown`, `unchanged`, `heard` and `said` judge the yes (`unmet`). `bound` and `spent` judge the act
(`permit`), and every act passes `permit`. Each refusal names its sentence.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from llm_fsm._json import JsonDict, JsonMap, of_kind
from llm_fsm._text import sha256_of
from llm_fsm.definition.reply_template import WordingError
from llm_fsm.languages import QUESTION_MARKS, every_language, language_of
from llm_fsm.session import events as ev
from llm_fsm.session.context import EXTRA
from llm_fsm.session.redaction import without
from llm_fsm.session.session import Agreement, Session, values_of
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.guards import Move
from llm_fsm.turn.read_back import shown_values, shows, words_in
from llm_fsm.turn.tool_policy import ToolPolicy
from llm_fsm.turn.turn_state import TurnState

_SENTENCE = re.compile(r"[.!;:…。！।۔\n]+")


class Unmet(NamedTuple):
    """The sentence of a good yes that is broken, and why, in words for the model."""

    sentence: str
    reason: str


# -- The yes ---------------------------------------------------------------------------------------


def withheld(machine: CompiledMachine, session: Session, move: Move) -> Unmet | None:
    """Return the sentence that a yes breaks before a word of it is read; None if it breaks none.

    Args:
        machine: The definition at work.
        session: The session, with the values of the message.
        move: The move that the message asks for; it may be no yes.
    """
    confirms = machine.states[session.state].definition.confirms
    if not move.agrees or not confirms:
        return None
    # The order of the table: what is missing is told before what has changed.
    broken = next((name for name, holds in _OF_A_YES.items() if not holds(machine, session)), "")
    if not broken:
        return None
    keys = ", ".join(confirms)
    return Unmet(broken, f"{keys} must be read back first, and the user must agree to that")


def whole(machine: CompiledMachine, session: Session) -> bool:
    """Return true if every value is there that the state reads back."""
    return not blanks(machine, session)


def shown(_: CompiledMachine, session: Session) -> bool:
    """Return true if the words of this state showed its values."""
    return session.read_back is not None and session.read_back.state == session.state


def heard(_: CompiledMachine, session: Session) -> bool:
    """Return true if that was said last, and no voice was cut before the values."""
    return session.read_back is None or session.read_back.heard


def unchanged(machine: CompiledMachine, session: Session) -> bool:
    """Return true if the values are the same now."""
    confirms = machine.states[session.state].definition.confirms
    found = session.read_back
    return found is None or same(values_of(session.context, confirms), found.values)


def touched(turn: TurnState) -> frozenset[str]:
    """Return the keys that this message changed, took back, parked, or was refused."""
    found: set[str] = set()
    for event in turn.events:
        match event:
            case ev.ContextRefused(key=key, kept_in=None):
                found.add(key.partition(".")[0])
            case ev.ContextSet(values=values, removed=removed):
                found.update(values, removed)
                parked, known = values.get(EXTRA, {}), turn.session.context
                found.update(name for name in parked if parked[name] != known.get(name))
    return frozenset(found)


_OF_A_YES = {"whole": whole, "shown": shown, "heard": heard, "unchanged": unchanged}
"""The sentences that are judged before the user's words are read, by name."""


def said(turn: TurnState, move: Move, quote: object) -> Unmet | None:
    """Return why the user's words are no yes, for the model; None if they are one, or none is needed.

    Args:
        turn: The turn, which keeps the words of the yes.
        move: The move that the message asks for.
        quote: The words that the reply quotes for the yes.
    """
    if not move.agrees or not turn.state.definition.confirms:
        return None
    message = turn.session.user_input or ""
    reason = ""
    # Kept before it is judged: a choice that is picked is a yes by its label.
    turn.yes = message
    # Also a picked choice is no yes to values that the same message changes.
    if touched(turn) & {key.partition(".")[0] for key in turn.state.definition.confirms}:
        return Unmet("unchanged", "the message changes what was read back, or tries to")
    if turn.picked == move.target:
        return None
    if move.agrees == "picked":
        reason = "only a choice that the user picks is a yes here"
    # The user has not heard yet what the tool found.
    elif of_kind(turn.events, ev.ToolReturned):
        reason = "a tool ran in this turn; its result must be read to the user first"
    elif not is_yes(turn.machine.definition.language, message):
        turn.yes = quote if isinstance(quote, str) else ""
        if not is_quoted_yes(turn.machine.definition.language, message, turn.yes):
            reason = 'quote the user\'s own words of a clear yes: "_quotes": {"_yes": words}'
    return Unmet("said", reason) if reason else None


def is_yes(language: str, message: str) -> bool:
    """Return true for a message that is nothing but a yes of its language's table."""
    yes, _, polite = _phrases(language)
    return _is_nothing_but(yes, polite, message)


def is_no(language: str, message: str) -> bool:
    """Return true for a message that is nothing but a no of its language's table."""
    _, no, polite = _phrases(language)
    return _is_nothing_but(no, polite, message)


def _is_nothing_but(words: str, polite: str, message: str) -> bool:
    made_of = re.compile(f"(?:{words}) (?:(?:{words}|{polite}) )*")
    asks = any(mark in message for mark in QUESTION_MARKS)
    return not asks and made_of.fullmatch(_plain(message)) is not None


def is_quoted_yes(language: str, message: str, quote: str) -> bool:
    """Return true if words of a message are a yes: they begin their sentence, and the message asks
    nothing, makes no condition, and has no word of a no.
    """
    yes, _, polite = _phrases(language)
    begins = re.compile(f"(?:(?:{yes}|{polite}) )*{re.escape(_plain(quote))}")
    sentences = map(_plain, _SENTENCE.split(message))
    # In the middle of a sentence, "yes" may be told of somebody else.
    if not _plain(quote).strip() or not any(map(begins.match, sentences)):
        return False
    asks = any(mark in message for mark in QUESTION_MARKS)
    return not asks and _no_yes().search(f" {_plain(message)}") is None


@cache
def _phrases(language: str) -> tuple[str, str, str]:
    """Return the words of a yes, of a no, and those beside them, as regular expressions."""
    own = language_of(language)
    return _either((*own.yes, *own.agree)), _either(own.no), _either(own.polite)


@cache
def _no_yes() -> re.Pattern[str]:
    """Return the expression of the words that no yes has, of all languages."""
    words: list[str] = []
    for language in every_language():
        words += (*language.refuse, *language.conditions)
    return re.compile(f" (?:{_either(words)}) ")


def _either(phrases: Iterable[str]) -> str:
    longest_first = sorted(map(_plain, phrases), key=len, reverse=True)
    return "|".join(re.escape(phrase.strip()) for phrase in longest_first)


def _plain(text: str) -> str:
    """Return the words of a text without case and marks of letters, each with a space behind it."""
    # The Turkish i without a dot does not decompose.
    letters = unicodedata.normalize("NFKD", text.replace("ı", "i"))
    bare = "".join([letter for letter in letters if not unicodedata.combining(letter)])
    return "".join([f"{word} " for word, _ in words_in(bare)])


def blanks(machine: CompiledMachine, session: Session) -> tuple[str, ...]:
    """Return the names of what a state that confirms has no value for, but would read back.

    A key that the user declined is none, and one of which the text speaks only if it is known.
    """
    state = machine.states[session.state]
    confirms, fixed = state.definition.confirms, state.fixed
    if not confirms or fixed is None:
        return ()
    known = values_of(session.context, confirms)
    missing = [key for key in confirms if _is_blank(known.get(key))]
    told = shown_values(machine, state, session)
    named = [key for key in missing if key.partition(".")[0] in fixed.source]
    try:
        in_text = fixed.blanks({key: told[key] for key in told if key not in missing})
    # A text that fails shows nothing, so all of its missing keys are blanks.
    except WordingError:
        in_text = tuple(named)
    unnamed = [key for key in missing if key not in named and key not in session.skipped]
    return (*in_text, *unnamed)


def _is_blank(value: Any) -> bool:
    return not value.strip() if isinstance(value, str) else value in (None, [], {})


def collector(machine: CompiledMachine, session: Session, names: Collection[str]) -> str | None:
    """Return the state that collects one of these names, the last one of the path first."""
    # Where the user was asked for it is a better place than any other that collects it.
    path = [name for name, _ in reversed(session.path) if name in machine.states]
    for name in (*path, *machine.states):
        collected = set(".".join(machine.states[name].collects).split("."))
        if not collected.isdisjoint(".".join(names).split(".")):
            return name
    return None


def note_read_back(turn: TurnState, text: str) -> None:
    """Record what the current state reads back, if its words in this text show the values."""
    confirms = tuple(turn.state.definition.confirms)
    # Words of a model may show the values by chance, and prove nothing.
    if not confirms or not any(part.kind == "fixed" and part.text for part in turn.said):
        return
    if shows_all(turn.machine, turn.session, text):
        turn.emit(ev.ValuesReadBack(state=turn.state.id, keys=confirms))


def shows_all(machine: CompiledMachine, session: Session, text: str) -> bool:
    """Return true if a text shows each value that the current state confirms, as it is now."""
    state = machine.states[session.state]
    confirms = state.definition.confirms
    told = shown_values(machine, state, session)
    return bool(confirms) and all(shows(machine, state, told, key, text) for key in confirms)


def note_yes(turn: TurnState, move: Move) -> None:
    """Record what the user agrees to by a move that is a yes: what was read back.

    The turn is still in the state that confirms. A handler may have changed values since.
    """
    # What was read back is agreed to, not what the context holds by now.
    found = turn.session.read_back
    if move.agrees and move.caller is None and found is not None:
        _note_agreed(turn, turn.state.definition.confirms, found.values, "user")


def note_host_yes(turn: TurnState) -> None:
    """Record that the program says yes, to all that some state would read back."""
    keys: dict[str, None] = {}
    for state in turn.machine.states.values():
        keys |= dict.fromkeys(state.definition.confirms)
    _note_agreed(turn, keys, values_of(turn.session.context, keys), "host")


def _note_agreed(turn: TurnState, keys: Iterable[str], values: JsonMap, by: str) -> None:
    """Record that the user or the program agrees to the values of keys."""
    if keys := tuple(keys):
        # The words are on record for good, so no secret may be among them.
        words = without(turn.secrets(), turn.yes) or turn.yes
        turn.emit(ev.Agreed(keys=keys, values=values, turn=turn.session.turn, by=by, words=words))


# -- The act ---------------------------------------------------------------------------------------


class Permit(NamedTuple):
    """The answer to an act that wants to happen.

    Attributes:
        key: The act's key, the same for every attempt; "" if no yes stands behind it.
        unmet: The broken sentence; None if the act may happen.
    """

    key: str = ""
    unmet: Unmet | None = None


def permit(
    turn: TurnState, act: str, policy: ToolPolicy | None = None, arguments: JsonMap | None = None
) -> Permit:
    """Judge an act by the yes that it needs. Where no state asks for one, it may happen.

    Args:
        turn: The turn.
        act: The name of the tool or of the task.
        policy: The tool; None for a task, which is given the whole context.
        arguments: The arguments of the call, by name.
    """
    session = turn.session
    # Without any yes there is no voucher to look into.
    if not session.agreed:
        asked = _asks_for_a_yes(turn) and not (policy is not None and policy.approval)
        reason = "nobody has said yes to it; read its values back, and ask for a yes first"
        return Permit("", Unmet("said", reason) if asked else None)
    agreements: dict[str, Agreement] = {}
    for one in session.agreed:
        # A later yes to the same key takes the place of an earlier one.
        agreements |= dict.fromkeys(one.keys, one)
    voucher, unmet = session.agreed[-1], None
    given: JsonDict = {}
    if policy is not None:
        given |= policy.bound(arguments or {}, agreements)
        named = [one for one in session.agreed if not given.keys().isdisjoint(one.keys)]
        # The last yes that the arguments touch; a call without them needs the last one at all.
        voucher = named[-1] if named else voucher
        unmet = _unbound(policy, given, agreements)
    bound = {*voucher.keys, *given}
    unmet = unmet or _unkept(turn, {key: agreements[key] for key in bound & agreements.keys()})
    # The same for every attempt, in forks, and in other versions of the definition.
    key = sha256_of(f"{voucher.id}/{act}")[:32]
    return Permit(key, unmet)


def _asks_for_a_yes(turn: TurnState) -> bool:
    """Return true if the definition asks users for a yes, and no person answered in their place."""
    settled = turn.session.settled
    # A person who answered the pause has decided in place of the user.
    if settled is not None and settled[1] == "answered" and turn.session.read_back is None:
        return False
    return asks_for_a_yes([turn.root, turn.machine])


def asks_for_a_yes(machines: Iterable[CompiledMachine]) -> bool:
    """Return true if a transition of some state is a yes."""
    states = chain.from_iterable(machine.states.values() for machine in machines)
    ways = chain.from_iterable(state.own for state in states)
    return any(move.agrees for move in ways)


def _unbound(
    policy: ToolPolicy, given: JsonMap, agreements: Mapping[str, Agreement]
) -> Unmet | None:
    """Return the sentence that arguments break: one that nobody agreed to, or one left out."""
    agreed = {key: one.values.get(key) for key, one in agreements.items()}
    known = given.keys() & agreed.keys()
    wrong = [key for key in known if not same(given[key], agreed[key])]
    if not policy.approval:  # else a person reads them all
        parameters = policy.spec.parameters.get("properties", {})
        left_out = {policy.binds.get(name, name) for name in parameters} - given.keys()
        # An argument that is left out would act on less than was agreed to.
        wrong += [key for key in left_out if agreed.get(key) is not None]
        wrong += given.keys() - agreed.keys()
    if not wrong:
        return None
    reason = f"the user agreed to something else for {', '.join(sorted(wrong))}"
    asked = f"agreed is {json.dumps(agreed)}, asked was {json.dumps(given)}"
    return Unmet(
        "bound", f"{reason}: {asked}; read the values back, and ask for a yes to them first"
    )


def _unkept(turn: TurnState, agreements: Mapping[str, Agreement]) -> Unmet | None:
    """Return the sentence that is broken if a key has another value than the agreed one."""
    session, declared = turn.session, turn.machine.definition.key_schemas
    changed: list[str] = []
    for key, agreement in agreements.items():
        known = values_of(session.context, (key,)).get(key)
        is_known_here = agreement.flow == session.flow or key.partition(".")[0] in declared
        # A called definition acts on values that only its caller holds.
        if known is None and not is_known_here:
            known = _value_of_caller(session, agreement, key)
        if not same(known, agreement.values.get(key)):
            changed.append(key)
    if not changed:
        return None
    names = ", ".join(changed)
    reason = f"{names} changed since the user agreed; read the values back, and ask for a yes first"
    return Unmet("unchanged", reason)


def _value_of_caller(session: Session, agreement: Agreement, key: str) -> Any:
    """Return the value in the definition that read it back; the agreed one if that has ended."""
    contexts = [
        one.saved["context"] for one in session.stack if one.saved.get("flow") == agreement.flow
    ]
    return values_of((*contexts, agreement.values)[0], (key,)).get(key)


def same(one: Any, other: Any) -> bool:
    """Return true for the same JSON value: 50, 50.0 and the text "50" are one, yes and 1 are not."""
    # As JSON text and back, so that types of Python make no difference.
    return bool(_form(one) == _form(other))


def _form(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_int=_digits, parse_float=_digits)


def _digits(number: str) -> str:
    return format(Decimal(number).normalize(), "f")
