"""Explain a turn: the model's reply, the candidate moves, and the values in their conditions.

Nothing of this is recorded. It is computed again from the session before the turn and from the
turn's events. The compiled machine is the same, so the explanation and the machine cannot disagree.
Secrets are masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal

from msgspec import Struct, convert

from llm_fsm._json import JsonMap, KeyTest, as_text
from llm_fsm.conditions.coercion import look_up
from llm_fsm.conditions.compiler import test
from llm_fsm.definition.names import PATTERNS
from llm_fsm.session import events as ev
from llm_fsm.session.context import Keys, has
from llm_fsm.session.redaction import DOTS, blotted, redacted, shown_event, texts_in
from llm_fsm.session.reducer import apply, fold
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import Records, replay, without_undone
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.guards import Guard, Move, verdict
from llm_fsm.turn.secrets import secrets_in

Outcome = Literal["moved", "stayed", "refused", "unreadable", "stuck"]


class ConditionCheck(Struct, frozen=True, kw_only=True):
    """One condition of a move.

    `holds` None: the model judges it. `values` maps names to the values that it read. `unset` holds
    names without a value. `error` says why the logic could not be evaluated.
    """

    description: str
    holds: bool | None
    values: JsonMap
    unset: tuple[str, ...] = ()
    error: str | None = None


class Candidate(Struct, frozen=True, kw_only=True):
    """A candidate move, judged as the machine judged it. `taken`: this move was made."""

    target: str
    description: str
    priority: int
    auto: bool
    holds: bool
    checks: tuple[ConditionCheck, ...]
    taken: bool = False


class MoveDecision(Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
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


Noted = ev.Event | MoveDecision
_REPAIRS = (ev.Repaired, ev.Corrected, ev.Missed, ev.KeysSkipped)
_NOTED = (
    *_REPAIRS,
    ev.ModelReplied,
    ev.ContextSet,
    ev.ContextRefused,
    ev.Agreed,
    ev.Acted,
    ev.FlowPushed,
    ev.FlowReturned,
    ev.LimitReached,
    ev.FunctionFailed,
    ev.HandlerFailed,
    ev.ToolReturned,
    ev.ToolRefused,
    ev.AttemptFailed,
    ev.KeyResultChecked,
    ev.Answered,
    ev.TimedOut,
)
"""Events that are notes by themselves. Moves are notes as decisions."""


class Explanation(Struct, frozen=True, kw_only=True):
    """One turn, explained. The message arrived in `state`, and the turn ended in `arrived`.

    `notes` are in chronological order: decisions, and events without their secrets. `fallback`: the
    text is the standard apology. `outcome` is the end of the conversation, if it ended.
    """

    turn: int
    state: str
    arrived: str
    user: str | None
    notes: tuple[Noted, ...]
    fallback: bool = False
    outcome: str | None = None


def explain_turn(
    program: CompiledMachine, conversation_id: str, records: Records, number: int | None = None
) -> Explanation | None:
    """Explain a turn that was not undone, without a number the last one; None if there is none.

    A run has one number for all its records, which are explained together.
    """
    kept = [record for _, record in without_undone(records)]
    wanted = kept[-1].turn if kept and number is None else number
    places = [at for at, record in enumerate(kept) if record.turn == wanted]
    if not places:
        return None
    events = chain.from_iterable(kept[place].events for place in places)
    return explain(program, replay(conversation_id, kept[: places[0]]), events)


def explain_each(
    program: CompiledMachine, conversation_id: str, records: Records
) -> Iterator[Explanation]:
    """Yield the explanation of each turn that was not undone."""
    session = Session(conversation_id=conversation_id)
    for _, record in without_undone(records):
        yield explain(program, session, record.events)
        session = fold(session, record.events)


def explain(program: CompiledMachine, before: Session, events: ev.Events) -> Explanation:
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
        self.notes: list[JsonMap | MoveDecision | ev.LimitReached] = []
        self.user: str | None = None
        self.picked: str | None = None
        self.fallback = False
        self.secrets = set(before.secrets)
        frames = [frame.saved.get("context", {}) for frame in before.stack]
        self.learn((before.context, *frames), program.is_secret)

    def take(self, event: ev.Event) -> None:
        if isinstance(event, ev.ModelReplied | ev.FlowReturned | ev.BotSaid):
            self.stay()
        self.note(event)
        match event:
            case ev.UserSaid(text=text):
                self.user = text
            case ev.ReplyRejected():
                self.decide("model", "", "unreadable", event.reason)
            case ev.MovePicked(target=target):
                self.picked = target
            case ev.MoveRefused():
                by = "model" if event.target == self.picked else "auto"
                broken = f"{event.sentence}: " if event.sentence else ""
                self.decide(by, event.target, "refused", broken + event.reason)
                if event.target == self.picked:
                    self.picked = None
            case ev.StateEntered():
                self.decide(event.by, event.state, "moved", taken=event.transition)
                self.picked = None
            case ev.BotSaid():
                self.fallback = event.fallback
            case ev.Ended(outcome="stuck"):
                self.decide("decide", "", "stuck")
        if isinstance(event, _REPAIRS) and self.picked in PATTERNS:
            self.picked = None
        self.session = apply(self.session, event)

    def note(self, event: ev.Event) -> None:
        """Note an event that explains something, and learn its secrets."""
        is_secret = (self.program.at(self.session) or self.program).is_secret
        self.secrets.update(secrets_in([event], is_secret))
        self.learn((getattr(event, "values", {}), getattr(event, "context", {})), is_secret)
        if isinstance(event, ev.LimitReached):
            self.notes.append(event)
        elif isinstance(event, ev.ModelReplied):
            shown = {"asked_for": event.asked_for, "text": event.text, "model": event.model}
            self.notes.append({"type": "ModelReplied", **shown})
        elif isinstance(event, _NOTED) and getattr(event, "entered", None) != "":
            self.notes.append(shown_event(event, is_secret))

    def learn(self, contexts: Iterable[JsonMap], is_secret: KeyTest) -> None:
        """Learn the secrets of contexts, also short ones, which only a model's reply must not show."""
        for context in contexts:
            for key, value in context.items():
                if is_secret(key):
                    self.secrets.add(as_text(value))
                    self.secrets.update(texts_in([value]))

    def close(self, before: Session) -> Explanation:
        self.stay()
        return Explanation(
            turn=self.session.turn,
            state=before.state or self.session.state,
            arrived=self.session.state,
            user=None if self.user is None else redacted(texts_in(self.secrets), self.user),
            notes=tuple(map(self.masked, self.notes)),
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
        candidates = []
        for move in moves:
            candidate = _candidate(program.keys, move, data, taken=move.pointer == taken)
            candidates.append(candidate)
        decision = MoveDecision(
            state=self.session.state,
            by=by,
            target=target,
            outcome=outcome,
            reason=reason,
            candidates=tuple(candidates),
        )
        self.notes.append(decision)

    def masked(self, noted: JsonMap | MoveDecision | ev.LimitReached) -> Noted:
        """Mask texts and values of other keys, which may repeat a secret of the user."""
        if not isinstance(noted, Mapping):
            return noted
        document = blotted(texts_in(self.secrets), noted)
        if "asked_for" in document:
            for secret in sorted(self.secrets - {""}, key=len, reverse=True):
                document["text"] = document["text"].replace(secret, DOTS)
        return convert(document, ev.EVENTS[document["type"]])


def _candidate(keys: Keys, move: Move, data: JsonMap, *, taken: bool) -> Candidate:
    return Candidate(
        target=move.target,
        description=move.description,
        priority=move.priority,
        auto=move.auto,
        holds=verdict(move, data).holds,
        checks=tuple(_check(keys, guard, data) for guard in move.guards),
        taken=taken,
    )


def _check(keys: Keys, guard: Guard, data: JsonMap) -> ConditionCheck:
    """Evaluate one condition again, including parts that the machine skipped."""
    names = dict.fromkeys(guard.keys)
    holds = None if guard.judged else all(has(data, name) for name in guard.keys)
    error = None
    if guard.rule is not None:
        names.update(dict.fromkeys(sorted(guard.rule.reads)))
        found = test(guard.rule, data)
        holds, error = bool(holds) and found.holds, found.error
    values = {}
    unset = []
    for name in names:
        if not has(data, name):
            unset.append(name)
        elif keys.is_secret(name):
            values[name] = DOTS
        else:
            values[name] = look_up(data, name)
    return ConditionCheck(
        description=guard.description, holds=holds, values=values, unset=tuple(unset), error=error
    )
