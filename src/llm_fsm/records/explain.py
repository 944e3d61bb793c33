"""Explain a turn: the model's reply, the candidate moves, and the values in their conditions.

Nothing of this is recorded. It is computed again from the session before the turn and from the
turn's events. The compiled machine is the same, so the explanation and the machine cannot disagree.
Secrets are masked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from llm_fsm.conditions.coercion import look_up
from llm_fsm.conditions.compiler import test
from llm_fsm.definition.names import PATTERNS
from llm_fsm.session import events as ev
from llm_fsm.session.context import Keys, has
from llm_fsm.session.redaction import DOTS, is_foreign_name, redacted, texts_in
from llm_fsm.session.reducer import apply
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord, replay, without_undone
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.guards import Guard, Move, verdict
from llm_fsm.turn.secrets import secrets_in

Outcome = Literal["moved", "stayed", "refused", "unreadable", "stuck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionCheck:
    """One condition of a move.

    `holds` None: the model judges it. `values` maps names to the values that it read. `unset` holds
    names without a value. `error` says why the logic could not be evaluated.
    """

    description: str
    holds: bool | None
    values: Mapping[str, Any]
    unset: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate move, judged as the machine judged it. `taken`: this move was made."""

    target: str
    description: str
    priority: int
    auto: bool
    holds: bool
    checks: tuple[ConditionCheck, ...]
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveDecision:
    """One decision about the next state.

    `state` is the state in which it was made. `by` is model, auto, decide or host. `target` is the
    pick, or "". `reason` says why the pick was refused. `candidates` are in order of priority.
    """

    state: str
    by: str
    target: str
    outcome: Outcome
    reason: str = ""
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """A model's raw reply. `asked_for` is turn, greeting or words."""

    asked_for: str
    text: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A value that was not stored, with the reason.

    `kept_in` names the place where it was stored instead.
    """

    key: str
    reason: str
    source: str
    kept_in: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Values that were stored, and keys that were removed."""

    source: str
    values: Mapping[str, Any]
    removed: tuple[str, ...]
    quotes: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Key to the place of the user's words for it: number of the message, start, end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A limit of the definition was reached."""

    limit: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Went:
    """The conversation entered a flow, or returned from one.

    `kind` is subflow or digression; `flow` is its name. `how` is begun, final, cancelled,
    corrected, handover or resumed. `state` is the state that was left, and `arrived` the state in
    which the conversation continued.
    """

    kind: str
    how: str
    state: str
    arrived: str
    flow: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """A function of the host failed.

    `kind` is function, check, route, tool or handler. `file` and `line` are the place in the host's
    code, "" and 0 if it is unknown.
    """

    kind: str
    name: str
    error: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A repair pattern was applied. `how` describes its effect."""

    pattern: str
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedTo:
    """The user agreed to these values."""

    values: Mapping[str, Any]


Noted = Replied | Changed | Refused | MoveDecision | Stopped | Went | Mended | AgreedTo | Raised


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One turn, explained. The message arrived in `state`, and the turn ended in `arrived`.

    `notes` are in chronological order. `fallback`: the text is the standard apology. `outcome` is
    the end of the conversation, if it ended.
    """

    turn: int
    state: str
    arrived: str
    user: str | None
    notes: tuple[Noted, ...]
    fallback: bool = False
    outcome: str | None = None


def explain_turn(
    program: CompiledMachine,
    conversation_id: str,
    records: Sequence[TurnRecord],
    number: int | None = None,
) -> Explanation | None:
    """Explain a turn that was not undone, without a number the last one; None if there is none."""
    kept = [record for _, record in without_undone(records)]
    places = [at for at, record in enumerate(kept) if number in (None, record.turn)]
    if not places:
        return None
    place = places[-1]
    return explain(program, replay(conversation_id, kept[:place]), kept[place].events)


def explain(program: CompiledMachine, before: Session, events: Iterable[ev.Event]) -> Explanation:
    """Explain one turn.

    Args:
        program: The compiled machine.
        before: The session before the turn.
        events: All events of the turn.
    """
    account = _Account(program, before)
    for event in events:
        account.take(event)
    return account.close(before)


class _Account:
    """The explanation under construction, with the session as it was at each event."""

    def __init__(self, program: CompiledMachine, before: Session) -> None:
        self.program = program
        self.session = before
        self.notes: list[Noted] = []
        self.user: str | None = None
        self.picked: str | None = None
        self.fallback = False
        self.secrets = _secret_texts(program, before)

    def take(self, event: ev.Event) -> None:
        self.went(event)
        match event:
            case ev.UserSaid(text=text):
                self.user = text
            case ev.ModelReplied():
                self.secrets.update(secrets_in([event], self.program.is_secret))
                self.stay()
                self.notes.append(
                    Replied(asked_for=event.asked_for, text=event.text, model=event.model)
                )
            case ev.ReplyRejected():
                self.decide("model", "", "unreadable", event.reason)
            case ev.MovePicked(target=target):
                self.picked = target
            case ev.MoveRefused():
                by = "model" if event.target == self.picked else "auto"
                self.decide(by, event.target, "refused", event.reason)
                if event.target == self.picked:
                    self.picked = None
            case ev.StateEntered():
                self.decide(event.by, event.state, "moved", taken=event.transition)
                self.picked = None
            case ev.ContextSet():
                self.changed(event)
            case ev.ContextRefused() | ev.FunctionFailed() | ev.LimitReached():
                self.notes.append(_trouble(event))
            case ev.BotSaid():
                self.stay()
                self.fallback = event.fallback
            case ev.Ended(outcome="stuck"):
                self.decide("decide", "", "stuck")
        self.session = apply(self.session, event)

    def close(self, before: Session) -> Explanation:
        self.stay()
        return Explanation(
            turn=self.session.turn,
            state=before.state or self.session.state,
            arrived=self.session.state,
            user=None if self.user is None else redacted(texts_in(self.secrets), self.user),
            notes=tuple(self.masked(item) for item in self.notes),
            fallback=self.fallback,
            outcome=self.session.outcome,
        )

    def stay(self) -> None:
        """Note a pick that neither moved nor was refused: the model stays."""
        if self.picked is not None:
            self.decide("model", self.picked, "stayed")
            self.picked = None

    def decide(
        self, by: str, target: str, outcome: Outcome, reason: str = "", *, taken: str | None = None
    ) -> None:
        program = self.program.at(self.session) or self.program
        plan = program.states.get(self.session.state)
        moves = plan.moves if plan is not None and outcome != "unreadable" else ()
        data = self.session.data()
        self.notes.append(
            MoveDecision(
                state=self.session.state,
                by=by,
                target=target,
                outcome=outcome,
                reason=reason,
                candidates=tuple(
                    _candidate(program.keys, move, data, taken=move.pointer == taken)
                    for move in moves
                ),
            )
        )

    def went(self, event: ev.Event) -> None:
        """Note a flow, a repair or a yes; nothing for other events."""
        if isinstance(event, ev.Agreed):
            self.notes.append(self.agreed(event))
        if isinstance(event, ev.Repaired | ev.Corrected | ev.Missed | ev.KeysSkipped):
            self.notes.append(_mended(event))
            if self.picked in PATTERNS:
                self.picked = None
        if isinstance(event, ev.FlowReturned):
            self.stay()
            self.notes.append(
                Went(
                    kind=event.kind,
                    how=event.how,
                    state=event.ended,
                    arrived=event.state,
                    flow=event.flow,
                )
            )
        elif isinstance(event, ev.FlowPushed) and event.kind == "subflow":
            secrets = {
                _text(value) for key, value in event.context.items() if self.program.is_secret(key)
            }
            self.secrets |= secrets
            self.notes.append(
                Went(
                    kind=event.kind,
                    how="begun",
                    state=event.state,
                    arrived=event.entered,
                    flow=event.flow,
                )
            )

    def agreed(self, event: ev.Agreed) -> AgreedTo:
        """Return the note of a yes, without values of secrets."""
        values = {key: event.values.get(key) for key in event.keys}
        masked = {key: DOTS for key in values if self.program.is_secret(key)}
        return AgreedTo(values={**values, **masked})

    def changed(self, event: ev.ContextSet) -> None:
        keys = (self.program.at(self.session) or self.program).keys
        for key, value in event.values.items():
            if keys.is_secret(key):
                self.secrets |= {_text(value), *texts_in([value])}
        values = {
            key: DOTS if keys.is_secret(key) else value for key, value in event.values.items()
        }
        self.notes.append(
            Changed(
                source=event.source, values=values, removed=event.removed, quotes=dict(event.quotes)
            )
        )

    def masked(self, noted: Noted) -> Noted:
        """Mask a raw reply and values of other keys, which may repeat a secret of the user."""
        secrets = sorted(self.secrets - {""}, key=len, reverse=True)
        found = texts_in(secrets)
        if isinstance(noted, Changed):
            return replace(noted, values=redacted(found, noted.values, foreign=is_foreign_name))
        if not isinstance(noted, Replied):
            return noted
        text: str = redacted(found, noted.text)
        for secret in secrets:
            text = text.replace(secret, DOTS)
        return Replied(asked_for=noted.asked_for, text=text, model=noted.model)


def _candidate(keys: Keys, move: Move, data: Mapping[str, Any], *, taken: bool) -> Candidate:
    return Candidate(
        target=move.target,
        description=move.description,
        priority=move.priority,
        auto=move.auto,
        holds=verdict(move, data).holds,
        checks=tuple(_check(keys, guard, data) for guard in move.guards),
        taken=taken,
    )


def _check(keys: Keys, guard: Guard, data: Mapping[str, Any]) -> ConditionCheck:
    """Evaluate one condition again, including parts that the machine skipped."""
    names = dict.fromkeys(guard.keys)
    holds: bool | None = None if guard.judged else all(has(data, name) for name in guard.keys)
    error = None
    if guard.rule is not None:
        names.update(dict.fromkeys(sorted(guard.rule.reads)))
        found = test(guard.rule, data)
        holds, error = bool(holds) and found.holds, found.error
    return ConditionCheck(
        description=guard.description,
        holds=holds,
        values={
            name: DOTS if keys.is_secret(name) else look_up(data, name)
            for name in names
            if has(data, name)
        },
        unset=tuple(name for name in names if not has(data, name)),
        error=error,
    )


def _trouble(event: ev.ContextRefused | ev.FunctionFailed | ev.LimitReached) -> Noted:
    """Return what an event says of a value that was not kept, a failed function, or a limit."""
    match event:
        case ev.ContextRefused():
            return Refused(
                key=event.key, reason=event.reason, source=event.source, kept_in=event.kept_in
            )
        case ev.FunctionFailed():
            return Raised(
                kind=event.kind,
                name=event.name,
                error=event.error,
                file=event.file,
                line=event.line,
            )
        case _:
            return Stopped(limit=event.limit, value=event.value)


def _mended(event: ev.Repaired | ev.Corrected | ev.Missed | ev.KeysSkipped) -> Mended:
    match event:
        case ev.Corrected():
            back = f", so back to {event.back_to}" if event.back_to else ""
            dropped = f", without {', '.join(event.dropped)}" if event.dropped else ""
            return Mended(pattern="correct", how=f"{', '.join(event.keys)}{back}{dropped}")
        case ev.Missed():
            return Mended(
                pattern="cannot_handle", how=f"not understood {event.count} times in a row"
            )
        case ev.KeysSkipped():
            return Mended(pattern="skip", how=f"not asked for any more: {', '.join(event.keys)}")
        case _:
            return Mended(pattern=event.pattern, how=event.how)


def _secret_texts(program: CompiledMachine, session: Session) -> set[str]:
    """Return the secrets of the current definition and of its callers."""
    contexts = [session.context, *(frame.saved.get("context", {}) for frame in session.stack)]
    found = set(session.secrets)
    for context in contexts:
        for key, value in context.items():
            if program.is_secret(key):
                found |= {_text(value), *texts_in([value])}
    return found


def _text(value: object) -> str:
    """Write a value as a reply would show it, without quotation marks."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
