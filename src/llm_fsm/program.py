"""A definition made ready to run: everything that does not change from turn to turn, computed once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_fsm.conditions import ConditionError, compile_rule
from llm_fsm.context import Keys, compile_keys
from llm_fsm.definition import Condition, Definition, ModelSettings, State, Transition
from llm_fsm.errors import DefinitionError
from llm_fsm.findings import Finding
from llm_fsm.messages import ReplySchema
from llm_fsm.names import Kind
from llm_fsm.prompts import Prompts, StateWords, glimpse, state_words, system_prompt, transition_item
from llm_fsm.reply_schema import reply_schema
from llm_fsm.shapes import ShapeError
from llm_fsm.transition import Guard, Move
from llm_fsm.wording import FixedReply, WordingError, compile_reply

RUNNABLE: frozenset[Kind] = frozenset({"converse", "decide", "final"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePlan:
    """One state, compiled. `moves` is the whole menu in order of priority, global transitions included."""

    id: str
    kind: Kind
    state: State
    moves: tuple[Move, ...]
    autos: tuple[Move, ...]
    collects: tuple[str, ...]
    fixed: FixedReply | None
    words: StateWords
    schema: ReplySchema
    items: Mapping[str, tuple[str, str]]
    """Move pointer to its prompt item as JSON, when open and when closed."""
    glimpse: Mapping[str, Any]
    """What other states' prompts show of this one."""
    model: ModelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A whole machine, compiled."""

    definition: Definition
    states: Mapping[str, StatePlan]
    keys: Keys
    prompts: Prompts
    system: str

    @property
    def identity(self) -> str:
        """The SHA-256 of the definition."""
        return self.definition.sha256


def _fault(pointer: str, message: str, code: str, name: str) -> DefinitionError:
    finding = Finding(
        code=code,
        name=name,
        level="error",
        message=message,
        hint=None,
        file=None,
        line=None,
        column=None,
        pointer=pointer,
    )
    return DefinitionError([finding])


def _guard(condition: Condition, pointer: str) -> Guard:
    try:
        rule = None if condition.logic is None else compile_rule(condition.logic)
    except ConditionError as error:
        raise _fault(f"{pointer}/logic{error.pointer}", error.reason, "C201", "bad-condition") from error
    return Guard(
        description=condition.description,
        keys=tuple(condition.requires_context_keys),
        rule=rule,
        logic=condition.logic,
    )


def _move(transition: Transition, pointer: str) -> Move:
    return Move(
        pointer=pointer,
        target=transition.target_state,
        description=transition.description,
        guards=tuple(
            _guard(condition, f"{pointer}/conditions/{number}")
            for number, condition in enumerate(transition.conditions)
        ),
        priority=transition.priority,
        auto=transition.auto,
    )


def mentioned_keys(definition: Definition) -> tuple[str, ...]:
    """Every key that states collect or transitions require, in order of appearance, without repeats."""

    def names() -> Iterator[str]:
        for state in definition.states.values():
            yield from state.required_context_keys
        for transitions in (
            *(state.transitions for state in definition.states.values()),
            definition.global_transitions,
        ):
            for transition in transitions:
                for condition in transition.conditions:
                    yield from condition.requires_context_keys
                    if condition.rule is not None:
                        yield from sorted(condition.rule.reads)

    return tuple(dict.fromkeys(name for name in names() if not name.startswith("_")))


def merged_model(*settings: ModelSettings) -> ModelSettings:
    """Later settings over earlier ones, key by key."""
    values: dict[str, Any] = {}
    for item in settings:
        values.update({name: value for name, value in item if value is not None})
    return ModelSettings(**values)


def _menu(definition: Definition, state_id: str, kind: Kind, shared: Sequence[Move]) -> tuple[Move, ...]:
    own = [
        _move(transition, f"/states/{state_id}/transitions/{number}")
        for number, transition in enumerate(definition.states[state_id].transitions)
    ]
    offered = [move for move in shared if move.target != state_id] if kind == "converse" else []
    return tuple(sorted([*own, *offered], key=lambda move: move.priority))


def _plan(definition: Definition, state_id: str, keys: Keys, shared: Sequence[Move]) -> StatePlan:
    state = definition.states[state_id]
    kind = definition.kind_of(state_id)
    moves = () if kind == "final" else _menu(definition, state_id, kind, shared)
    model = merged_model(definition.model, state.model)
    try:
        fixed = None if state.reply is None else compile_reply(state.reply)
    except WordingError as error:
        raise _fault(f"/states/{state_id}/reply", str(error), "S110", "bad-template") from error
    return StatePlan(
        id=state_id,
        kind=kind,
        state=state,
        moves=moves,
        autos=tuple(move for move in moves if move.auto and move.target != state_id),
        collects=tuple(key for key in state.required_context_keys if keys.is_free(key)),
        fixed=fixed,
        words=state_words(state_id, state),
        schema=reply_schema(
            state=state_id,
            targets=(*(move.target for move in moves), state_id),
            keys=keys.offered,
            reasoning=model.reasoning or "none",
        ),
        items={
            move.pointer: (
                transition_item(move, glimpse(definition, move.target), is_open=True),
                transition_item(move, None, is_open=False),
            )
            for move in moves
        },
        glimpse=glimpse(definition, state_id),
        model=model,
    )


def compile_program(definition: Definition, prompts: Prompts) -> Program:
    """Make a definition ready to run. Raises DefinitionError for what the loader let pass."""
    try:
        keys = compile_keys(definition, mentioned_keys(definition))
    except ShapeError as error:
        raise _fault("/context_schema", str(error), "S109", "bad-context-schema") from error
    shared = tuple(
        _move(transition, f"/global_transitions/{number}")
        for number, transition in enumerate(definition.global_transitions)
    )
    return Program(
        definition=definition,
        states={state_id: _plan(definition, state_id, keys, shared) for state_id in definition.states},
        keys=keys,
        prompts=prompts,
        system=system_prompt(prompts, definition, keys),
    )


def not_yet_runnable(definition: Definition) -> Iterable[Finding]:
    """What this version reads and checks but cannot run yet, with its place in the definition."""

    def found(pointer: str, what: str) -> Finding:
        return Finding(
            code="R901",
            name="not-runnable-yet",
            level="error",
            message=f"{what} can be checked but not run by this version of llm_fsm",
            hint=None,
            file=None,
            line=None,
            column=None,
            pointer=pointer,
        )

    for state_id, state in definition.states.items():
        if state.kind not in RUNNABLE:
            yield found(f"/states/{state_id}/kind", f'state "{state_id}" is of kind {state.kind}, which')
        for name in ("tools", "memory", "summarize"):
            if getattr(state, name):
                yield found(f"/states/{state_id}/{name}", f'"{name}" of state "{state_id}"')
    if definition.patterns:
        yield found("/patterns", '"patterns"')
    if definition.history.strategy == "summary":
        yield found("/history/strategy", 'the history strategy "summary"')
    for number, transition in enumerate(definition.global_transitions):
        if transition.returns:
            yield found(f"/global_transitions/{number}/return", 'a global transition with "return"')
