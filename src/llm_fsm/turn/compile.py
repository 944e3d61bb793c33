"""A definition made ready to run: compiled once, so that no turn does again what is always the same."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from llm_fsm._json import step
from llm_fsm._text import escaped, estimate
from llm_fsm.conditions.compiler import CompiledRule, ConditionError, compile_rule
from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape
from llm_fsm.definition.models import Condition, Definition, KeyResult, ModelSettings, State, Transition
from llm_fsm.definition.names import PATTERNS
from llm_fsm.definition.subflows import Flow, Flows, document_of
from llm_fsm.errors import DefinitionError, Finding
from llm_fsm.session.context import Keys, compile_keys
from llm_fsm.session.messages import LLMMessage, LLMRequest, ReplyForm, ReplySchema
from llm_fsm.session.reply_schema import reply_schema, with_targets
from llm_fsm.turn.compiled import Check, CompiledMachine, CompiledState, MoveItem
from llm_fsm.turn.fixed_replies import WordingError, compile_reply
from llm_fsm.turn.guards import Assignment, Guard, Move
from llm_fsm.turn.localized import has_words
from llm_fsm.turn.prompt.examples import ExampleState, example_replies
from llm_fsm.turn.prompt.regions import Region, demanded, regions
from llm_fsm.turn.prompt.render import (
    DAY_TOKENS,
    Prompts,
    SystemParts,
    branch_item,
    is_bounded,
    key_line,
    system_prompt,
    transition_item,
)
from llm_fsm.turn.prompt.state_summary import (
    WORKS,
    Endings,
    StateWords,
    divided,
    endings_of,
    instructions_of,
    name_tokens,
    state_line,
    state_words,
    states_text,
    target_summary,
)
from llm_fsm.turn.recognize import recognisers
from llm_fsm.turn.repair.patterns import COMES_BACK, Pieces, named
from llm_fsm.turn.repair.patterns import lines as pattern_lines


def _fault(pointer: str, message: str, code: str, name: str) -> DefinitionError:
    return DefinitionError([Finding(code=code, name=name, level="error", message=message, pointer=pointer)])


def _guard(condition: Condition, pointer: str) -> Guard:
    try:
        rule = condition.rule
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
        on=transition.on,
        returns=transition.returns,
        assignment=_assignment(transition, pointer),
    )


def _assignment(owner: State | Transition, pointer: str) -> Assignment | None:
    """Return what a state or a transition sets and clears; None where it does neither."""
    rules: dict[str, CompiledRule] = {}
    for key, logic in owner.sets.items():
        try:
            rules[key] = compile_rule(logic)
        except ConditionError as error:
            place = f"{pointer}/set{step(key)}{error.pointer}"
            raise _fault(place, error.reason, "C201", "bad-condition") from error
    return Assignment(rules=rules, clear=tuple(owner.clear), pointer=pointer) if rules or owner.clear else None


def _assigned(definition: Definition) -> frozenset[str]:
    """Return the keys that a definition sets or clears itself, somewhere."""
    states = definition.states.values()
    moves = (move for state in states for move in state.transitions)
    owners: tuple[State | Transition, ...] = (*states, *moves, *definition.global_transitions)
    return frozenset(key for owner in owners for key in (*owner.sets, *owner.clear))


def _moves(transitions: Iterable[Transition], pointer: str) -> tuple[Move, ...]:
    return tuple(_move(transition, f"{pointer}/{number}") for number, transition in enumerate(transitions))


def _mentioned_keys(definition: Definition) -> tuple[str, ...]:
    """Return the keys that states collect or transitions require, in order of appearance, without repeats."""
    states = definition.states.values()
    names = [key for state in states for key in state.required_context_keys]
    for transitions in (*(state.transitions for state in states), definition.global_transitions):
        names += demanded(transitions)
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


def merged_model(*settings: ModelSettings) -> ModelSettings:
    """Merge settings key by key; later ones replace earlier ones."""
    values: dict[str, Any] = {}
    for item in settings:
        values.update({name: value for name, value in item if value is not None})
    return ModelSettings(**values)


def _menu(definition: Definition, state_id: str, shared: Sequence[Move]) -> tuple[Move, ...]:
    own = _moves(definition.states[state_id].transitions, f"/states/{state_id}/transitions")
    kind = definition.kind_of(state_id)
    if kind == "final":
        return ()
    known = {move.target for move in own if not move.guards and not move.auto}
    offered = [
        move
        for move in (shared if kind == "converse" else ())
        if move.target != state_id and not (move.pointer.startswith("/patterns/") and move.target in known)
    ]
    return tuple(sorted([*own, *offered], key=lambda move: move.priority))


def _plan(
    flow: Flow,
    state_id: str,
    keys: Keys,
    moves: tuple[Move, ...],
    *,
    region: Region,
    given: ModelSettings,
    endings: Endings,
    whole: bool,
) -> CompiledState:
    definition = flow.definition
    state, kind = definition.states[state_id], definition.kind_of(state_id)
    autos = tuple(move for move in moves if move.auto and move.target != state_id)
    model, words = merged_model(given, state.model), state_words(state_id, state)
    _check_answer(state_id, state)
    try:
        fixed = None if state.reply is None else compile_reply(state.reply)
    except WordingError as error:
        raise _fault(f"/states/{state_id}/reply", str(error), "S110", "bad-template") from error
    return CompiledState(
        id=state_id,
        kind=kind,
        definition=state,
        moves=moves,
        own=tuple(move for move in moves if move.is_own and move.target != state_id),
        autos=autos,
        onward=moves if kind == "decide" else autos,
        rests=kind == "converse" and not autos,
        collects=tuple(key for key in state.required_context_keys if keys.is_free(key)),
        fixed=fixed,
        words=words,
        prompt_words=StateWords(id=state_id, tokens=name_tokens(state_id)) if whole else words,
        around=frozenset(region.shown),
        listed=frozenset(region.keys),
        items={
            move.pointer: MoveItem(
                move=move,
                there=None
                if move.target in region.shown
                else target_summary(definition, move.target, endings, state_id),
                speaks=definition.states[move.target].reply is not None,
            )
            for move in moves
        },
        target_summary=target_summary(definition, state_id, endings),
        model=model,
        assignment=_assignment(state, f"/states/{state_id}"),
        checks=tuple(
            _check(result, f"/states/{state_id}/key_results/{number}")
            for number, result in enumerate(state.key_results)
        ),
        calls=flow.calls.get(state_id, ""),
        answers=state_id in endings.answers,
    )


def _all_states(states: Mapping[str, CompiledState]) -> str:
    """Write every state with its words and its own transitions, one a line; then what several or all have, once."""
    lines = []
    speaking = {state.id: state.words.instructions for state in states.values() if state.kind not in WORKS}
    own_words, sharing = divided(speaking)
    everywhere: dict[str, Move] = {}
    for state in states.values():
        moves = [move for move in state.moves if move.target != state.id]
        everywhere |= {move.pointer: move for move in moves if not move.is_own}
        decides = state.kind == "decide"
        items = [branch_item(move) if decides else transition_item(move, None, is_open=True) for move in state.own]
        words = replace(state.words, instructions=own_words.get(state.id, ""))
        lines.append(state_line(words, state.target_summary, items, kind=state.kind))
    lines += [escaped({"states": ids, "instructions": text}) for text, ids in sharing.items()]
    if everywhere:
        shared = ",".join(transition_item(move, None, is_open=True) for move in everywhere.values())
        lines.append(f'{{"everywhere":true,"transitions":[{shared}]}}')
    return "\n".join(lines)


def _leads_further(state: CompiledState, move: Move, target: CompiledState) -> bool:
    """Return True where an item says under "there" what <states> cannot: what follows on arrival."""
    open_ = move.returns and not state.knows(target)
    return open_ or target.kind in ("decide", "task", "subflow") or bool(target.autos)


def _check(result: KeyResult, pointer: str) -> Check:
    name, words, found = result.name, result.description, result.check
    match found:
        case None:
            return Check(name=name, description=words, by="judge", criterion=words or name)
        case {"judge": str(criterion), **more} if not more:
            return Check(name=name, description=words, by="judge", criterion=criterion)
        case {"registered": str(function), **more} if not more:
            return Check(name=name, description=words, by="registered", function=function, criterion=words)
    try:
        rule = compile_rule(found)
    except ConditionError as error:
        raise _fault(f"{pointer}/check{error.pointer}", error.reason, "C201", "bad-condition") from error
    return Check(name=name, description=words, by="logic", rule=rule, logic=found, criterion=words)


def _check_answer(state_id: str, state: State) -> None:
    if state.answer_schema is None:
        return
    try:
        compile_shape(state.answer_schema)
    except ShapeError as error:
        pointer = f"/states/{state_id}/answer_schema{error.pointer}"
        raise _fault(pointer, error.reason, "S109", "bad-context-schema") from error


def compile_flows(flows: Flows, prompts: Prompts, pieces: Pieces) -> CompiledMachine:
    """Make a machine ready to run.

    Args:
        flows: The definition that is started, and those that it calls.
        prompts: The compiled prompt files.
        pieces: The function that returns the definition of a repair pattern by name.

    Raises:
        DefinitionError: The definition has a fault that the loader let pass.
    """
    root = flows.root.definition
    settings = root.model.model_copy(update={"reasoning": None, "name": None})
    used = {name for flow in (flows.root, *flows.called.values()) for name in flow.definition.patterns}
    compiled: dict[str, CompiledMachine] = {
        name: _compiled(Flow(definition=pieces(name)), prompts, _Caller()) for name in PATTERNS if name in used
    }
    main = _compiled(flows.root, prompts, _Caller(pieces=compiled))
    offered = [main.states[move.target] for move in main.asides]
    above = _Caller(
        called=True, persona=root.persona, model=settings, patterns=tuple(root.patterns), pieces=compiled,
        aside=flows.digress, tells=bool(offered) and all(state.answers and state.fixed is None for state in offered),
    )  # fmt: skip
    called = {name: _compiled(flow, prompts, above) for name, flow in flows.called.items()}
    machines = (main, *called.values())
    states = [state for machine in machines for state in machine.states.values()]
    bounds = [(name, getattr(root.limits, name)) for name in ("llm_calls", "tokens", "seconds", "money")]
    whole: dict[str, Any] = {
        "limits": root.limits,
        "bounds": tuple((name, most) for name, most in bounds if most is not None),
        "alone": not any(state.kind == "converse" for state in states),
        "waits": "silence" in used
        or any(
            state.kind in ("wait", "converse") and (state.definition.timeout is not None or state.definition.remind)
            for state in states
        ),
        "pieces": pieces,
        "replies_alone": any(machine.replies_alone for machine in machines),
        "works": any(
            state.kind in ("task", "wait")
            or state.definition.tools
            or state.definition.memory
            or state.definition.summarize
            for state in states
        ),
    }
    document = document_of(flows)
    return replace(
        main,
        **whole,
        flows={name: replace(machine, **whole) for name, machine in called.items()},
        document=document,
        identity=hashlib.sha256(document.encode()).hexdigest(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caller:
    """The things that a definition takes from the one that is started, where it does not say them itself.

    `called`: there is one, to which the conversation comes back from every final state. Without one, the model that
    is named is a default of the host's, and not asked by name. `pieces`: all compiled patterns.
    `aside`: digressions of others may be shown, and the places that these left.
    `tells`: any reply can tell what the digressions of the started one tell.
    """

    called: bool = False
    persona: str = ""
    model: ModelSettings = field(default_factory=ModelSettings)
    patterns: tuple[str, ...] = ()
    pieces: Mapping[str, CompiledMachine] = field(default_factory=dict)
    aside: bool = False
    tells: bool = False


def _of_patterns(definition: Definition, names: Iterable[str], pieces: Mapping[str, CompiledMachine]) -> Iterator[Move]:
    """Yield the moves to a definition's own states for patterns, except where it has global ones there."""
    known = {transition.target_state for transition in definition.global_transitions}
    for name in names:
        if name in definition.states and name not in known:
            state = definition.states[name]
            yield Move(
                pointer=f"/patterns/{name}",
                target=name,
                description=state.description or pieces[name].definition.description,  # its purpose says no "when"
                priority=1000,
                returns=name in COMES_BACK,
            )


def _calls_tools(state: CompiledState) -> bool:
    return bool(state.definition.tools) or state.definition.memory


def _can_close(guard: Guard, keys: Keys) -> bool:
    """Return True for a condition that may not hold whatever a reply writes."""
    reads = () if guard.rule is None else guard.rule.reads
    return not all(map(keys.is_free, (*guard.keys, *reads)))


def _shown(state: CompiledState, listed: Mapping[str, Any]) -> ExampleState:
    """Return what example replies show of a state."""
    target = next((move.target for move in state.own if not move.auto), "")
    return ExampleState(state.id, tuple(key for key in state.collects if key in listed), target)


_CLOCK = re.compile(r"\b[0-2]?[0-9][:.h][0-5][0-9]\b|\bHH|:MM", re.ASCII)
"""A time of day in the words of a definition, or the form of one."""


def _tells_time(definition: Definition, keys: Keys) -> bool:
    """Return True where a key or the words of a definition need the minute."""
    schemas = keys.offered.values()
    if any(schema.get("format") in ("time", "date-time") for schema in schemas):
        return True
    texts = [definition.description, definition.persona]
    texts += [str(schema.get("description", "")) for schema in schemas]
    for state in definition.states.values():
        texts += [state.description, state.purpose, instructions_of(state)]
    return any(map(_CLOCK.search, texts))


def _question(state: CompiledState, system: LLMMessage, schema: ReplySchema) -> LLMRequest:
    """Return what all questions in a state have in common."""
    return LLMRequest(
        messages=(system,),
        schema=schema,
        model=state.model.name,
        temperature=state.model.temperature,
        max_tokens=state.model.max_tokens,
        state=state.id,
        sizes={"system": estimate(system.content) + DAY_TOKENS, "schema": estimate(schema.text)},
    )


def _compiled(flow: Flow, prompts: Prompts, above: _Caller) -> CompiledMachine:
    """Compile one definition."""
    definition = flow.definition
    given = merged_model(above.model, definition.model.model_copy(update={} if above.called else {"name": None}))
    on = {*above.patterns, *definition.patterns}
    patterns = {name: above.pieces[name] for name in PATTERNS if name in on and name not in definition.states}
    own = frozenset(on & definition.states.keys())
    shared = _moves(definition.global_transitions, "/global_transitions")
    asides = sorted((move for move in shared if move.returns), key=lambda move: move.priority)
    shared = (*shared, *_of_patterns(definition, named(name for name in PATTERNS if name in own), above.pieces))
    menus = {state_id: _menu(definition, state_id, shared) for state_id in definition.states}
    try:
        keys = compile_keys(definition, _mentioned_keys(definition))
    except ShapeError as error:
        raise _fault("/context_schema", str(error), "S109", "bad-context-schema") from error
    lines = {key: key_line(key, schema) for key, schema in keys.offered.items()}
    spoken = definition if definition.persona else definition.model_copy(update={"persona": above.persona})

    endings = endings_of(definition, asides=own & COMES_BACK, called=above.called)
    found = regions(definition, tuple(keys.offered), whole=prompts.whole)
    region_of = {state_id: region for region in found for state_id in region.states}
    states = {
        state_id: _plan(
            flow, state_id, keys, menus[state_id], region=region, given=given, endings=endings, whole=prompts.whole
        )
        for state_id, region in region_of.items()
    }
    moves = [(state, move) for state in states.values() for move in state.moves]
    behind = any(_leads_further(state, move, states[move.target]) for state, move in moves)
    answering = [states[move.target] for _, move in moves if move.returns and states[move.target].answers]

    @cache
    def schema_of(region: Region, reasoning: str, form: ReplyForm) -> ReplySchema:
        listed = {key: keys.offered[key] for key in region.keys}
        schema = reply_schema(
            name=region.name, targets=region.named, keys=listed, reasoning=reasoning, form=form, declared=keys.declared
        )
        return with_targets(schema, named(name for name in PATTERNS if name in on))

    @cache
    def system_of(region: Region, reasoning: str, form: ReplyForm) -> LLMMessage:
        listed = {key: keys.offered[key] for key in region.keys}
        said = SystemParts(
            keys=("\n" if keys.declared else ", ").join(lines[key] for key in region.keys),
            patterns=pattern_lines(patterns),
            states=_all_states(states) if prompts.whole else states_text(definition, region.shown, endings),
            examples=example_replies(
                [_shown(states[state_id], listed) for state_id in region.states if states[state_id].kind == "converse"],
                listed,
                form=form,
                reasoning=reasoning,
                correct="correct" in patterns,
            ),
            parts=len(found) > 1 or above.aside or behind,
            added=any(state.fixed is not None or state.kind in WORKS for state in states.values()),
            aside=(above.tells or bool(answering)) and all(state.fixed is None for state in answering),
            tools=any(state.kind == "converse" and _calls_tools(state) for state in states.values()),
            closed=any(_can_close(guard, keys) for _, move in moves for guard in move.guards),
            autos=any(move.auto for _, move in moves),
            reasoning=reasoning,
            form=form,
        )
        return LLMMessage("system", system_prompt(prompts, spoken, keys, said))

    @cache
    def question(state_id: str, form: ReplyForm) -> LLMRequest:
        region, state = region_of[state_id], states[state_id]
        reasoning = state.model.reasoning or "none"
        return _question(state, system_of(region, reasoning, form), schema_of(region, reasoning, form))

    return CompiledMachine(
        definition=definition,
        patterns=patterns,
        named_patterns=named(patterns),
        own_patterns=own,
        assigned=_assigned(definition),
        asides=tuple(asides),
        states=states,
        keys=keys,
        fast=recognisers(keys.offered, keys.fault, definition.language),
        prompts=prompts,
        key_lines=lines,
        bounds_told={key: line[len(key) :] for key, line in lines.items() if is_bounded(keys.offered[key])},
        question=question,
        tells_time=_tells_time(definition, keys),
        worded=frozenset(key for key, shape in keys.shapes.items() if has_words(shape.schema, definition.language)),
        limits=definition.limits,
        replies_alone=any(state.reply_alone for state in definition.states.values()),
        english=definition.is_english,
    )
