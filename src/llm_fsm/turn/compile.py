"""Compile a definition, so that no turn repeats work with the same result."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from llm_fsm._json import step
from llm_fsm._text import escaped, estimate
from llm_fsm.conditions.compiler import CompiledRule, ConditionError, compile_rule
from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape
from llm_fsm.definition.models import (
    Condition,
    Definition,
    KeyResult,
    ModelSettings,
    State,
    Transition,
)
from llm_fsm.definition.names import PATTERNS
from llm_fsm.definition.subflows import Flow, Flows, document_of
from llm_fsm.errors import DefinitionError, Finding
from llm_fsm.session.context import Keys, compile_keys
from llm_fsm.session.messages import LLMMessage, LLMRequest, ReplyForm, ReplySchema, TakenForm
from llm_fsm.session.reply_schema import asked_form, reply_schema, with_targets
from llm_fsm.turn.compiled import Check, CompiledMachine, CompiledState, MoveItem
from llm_fsm.turn.fixed_replies import FixedReply, WordingError, compile_reply
from llm_fsm.turn.guards import Assignment, Guard, Move
from llm_fsm.turn.localized import has_words
from llm_fsm.turn.prompt.limit import reply_limit
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
    finding = Finding(code=code, name=name, level="error", message=message, pointer=pointer)
    return DefinitionError([finding])


def _bad_condition(pointer: str, error: ConditionError) -> DefinitionError:
    return _fault(pointer + error.pointer, error.reason, "C201", "bad-condition")


# -- Transitions, conditions and assignments -------------------------------------------------------


def _guard(condition: Condition, pointer: str) -> Guard:
    try:
        rule = condition.rule
    except ConditionError as error:
        raise _bad_condition(f"{pointer}/logic", error) from error
    return Guard(
        description=condition.description,
        keys=tuple(condition.requires_context_keys),
        rule=rule,
        logic=condition.logic,
    )


def _move(transition: Transition, pointer: str) -> Move:
    guards: list[Guard] = []
    for number, condition in enumerate(transition.conditions):
        guards.append(_guard(condition, f"{pointer}/conditions/{number}"))
    return Move(
        pointer=pointer,
        target=transition.target_state,
        description=transition.description,
        guards=tuple(guards),
        priority=transition.priority,
        auto=transition.auto,
        on=transition.on,
        returns=transition.returns,
        assignment=_assignment(transition, pointer),
        agrees=transition.agrees,
    )


def _assignment(owner: State | Transition, pointer: str) -> Assignment | None:
    """Return the assignment of a state or a transition; None if it sets and clears nothing."""
    rules: dict[str, CompiledRule] = {}
    for key, logic in owner.sets.items():
        try:
            rules[key] = compile_rule(logic)
        except ConditionError as error:
            raise _bad_condition(f"{pointer}/set{step(key)}", error) from error
    if not rules and not owner.clear:
        return None
    return Assignment(rules=rules, clear=tuple(owner.clear), pointer=pointer)


def _assigned(definition: Definition) -> frozenset[str]:
    """Return the keys that a definition sets or clears itself, in any state or transition."""
    owners: list[State | Transition] = list(definition.global_transitions)
    for state in definition.states.values():
        owners.append(state)
        owners += state.transitions
    keys: set[str] = set()
    for owner in owners:
        keys.update(owner.sets, owner.clear)
    return frozenset(keys)


def _moves(transitions: Iterable[Transition], pointer: str) -> tuple[Move, ...]:
    numbered = enumerate(transitions)
    return tuple(_move(transition, f"{pointer}/{number}") for number, transition in numbered)


def _mentioned_keys(definition: Definition) -> tuple[str, ...]:
    """Return the keys that states collect or transitions require, in order of appearance, without
    repeats.
    """
    names: dict[str, None] = {}
    for state in definition.states.values():
        names |= dict.fromkeys(state.required_context_keys)
    for state in definition.states.values():
        names |= dict.fromkeys(demanded(state.transitions))
    names |= dict.fromkeys(demanded(definition.global_transitions))
    return tuple(name for name in names if not name.startswith("_"))


def merged_model(*settings: ModelSettings) -> ModelSettings:
    """Merge settings key by key; later ones replace earlier ones."""
    values: dict[str, Any] = {}
    for item in settings:
        for name, value in item:
            if value is not None:
                values[name] = value
    return ModelSettings(**values)


def _menu(definition: Definition, state_id: str, shared: Sequence[Move]) -> tuple[Move, ...]:
    own = _moves(definition.states[state_id].transitions, f"/states/{state_id}/transitions")
    kind = definition.kind_of(state_id)
    if kind == "final":
        return ()
    if kind != "converse":
        shared = ()
    # A transition that is always open takes the place of the pattern with the same target.
    known = {move.target for move in own if not move.guards and not move.auto}
    offered: list[Move] = []
    for move in shared:
        is_pattern = move.pointer.startswith("/patterns/")
        if move.target != state_id and not (is_pattern and move.target in known):
            offered.append(move)
    return tuple(sorted([*own, *offered], key=lambda move: move.priority))


def _plan(
    flow: Flow,
    state_id: str,
    keys: Keys,
    moves: tuple[Move, ...],
    *,
    region: Region,
    inherited: ModelSettings,
    endings: Endings,
    whole: bool,
) -> CompiledState:
    definition = flow.definition
    pointer = f"/states/{state_id}"
    state, kind = definition.states[state_id], definition.kind_of(state_id)
    others = [move for move in moves if move.target != state_id]
    # Nobody but the user says yes, so no machine takes such a move by itself.
    autos = tuple(move for move in others if move.auto and not move.agrees)
    words = state_words(state_id, state)
    _check_answer(state_id, state)
    try:
        fixed = None if state.reply is None else compile_reply(state.reply)
    except WordingError as error:
        raise _fault(f"{pointer}/reply", str(error), "S110", "bad-template") from error
    checks: list[Check] = []
    for number, result in enumerate(state.key_results):
        checks.append(_check(result, f"{pointer}/key_results/{number}"))
    items: dict[str, MoveItem] = {}
    for move in moves:
        there = None
        if move.target not in region.shown:
            there = target_summary(definition, move.target, endings, state_id)
        target = definition.states[move.target]
        speaks = target.reply is not None or target.tools_first
        items[move.pointer] = MoveItem(move=move, there=there, speaks=speaks)
    return CompiledState(
        id=state_id,
        kind=kind,
        definition=state,
        moves=moves,
        own=tuple(move for move in others if move.is_own),
        autos=autos,
        onward=moves if kind == "decide" else autos,
        rests=kind == "converse" and not autos,
        collects=tuple(key for key in state.required_context_keys if keys.is_free(key)),
        fixed=fixed,
        words=words,
        prompt_words=StateWords(id=state_id, tokens=name_tokens(state_id)) if whole else words,
        around=frozenset(region.shown),
        listed=frozenset(region.keys),
        items=items,
        target_summary=target_summary(definition, state_id, endings),
        model=merged_model(inherited, state.model),
        assignment=_assignment(state, pointer),
        checks=tuple(checks),
        calls=flow.calls.get(state_id, ""),
        answers=state_id in endings.answers,
    )


def _all_states(states: Mapping[str, CompiledState]) -> str:
    """Return a line for each state with its texts and its own transitions.

    Shared instructions and transitions of all states follow, once.
    """
    speaking = [state for state in states.values() if state.kind not in WORKS]
    own_words, sharing = divided({state.id: state.words.instructions for state in speaking})
    lines: list[str] = []
    everywhere: dict[str, str] = {}
    for state in states.values():
        words = replace(state.words, instructions=own_words.get(state.id, ""))
        if state.kind == "decide":
            items = [branch_item(move) for move in state.own]
        else:
            items = [_open_item(move) for move in state.own]
        lines.append(state_line(words, state.target_summary, items, kind=state.kind))
        for move in state.moves:
            if move.target != state.id and not move.is_own and move.pointer not in everywhere:
                everywhere[move.pointer] = _open_item(move)
    for text, ids in sharing.items():
        lines.append(escaped({"states": ids, "notes": text}))
    if everywhere:
        lines.append(f'{{"everywhere":true,"transitions":[{",".join(everywhere.values())}]}}')
    return "\n".join(lines)


def _open_item(move: Move) -> str:
    return transition_item(move, None, is_open=True)


def _leads_further(state: CompiledState, move: Move, target: CompiledState) -> bool:
    """Return True if an item has an entry "there" for the states that follow on arrival."""
    if move.returns and not state.knows(target):
        return True
    return target.kind in ("decide", "task", "subflow") or bool(target.autos)


def _check(result: KeyResult, pointer: str) -> Check:
    name, words, logic = result.name, result.description, result.check
    match logic:
        case None:
            return Check(name=name, description=words, by="judge", criterion=words or name)
        case {"judge": str(criterion), **more} if not more:
            return Check(name=name, description=words, by="judge", criterion=criterion)
        case {"registered": str(function), **more} if not more:
            return Check(
                name=name, description=words, by="registered", function=function, criterion=words
            )
    try:
        rule = compile_rule(logic)
    except ConditionError as error:
        raise _bad_condition(f"{pointer}/check", error) from error
    return Check(name=name, description=words, by="logic", rule=rule, logic=logic, criterion=words)


def _check_answer(state_id: str, state: State) -> None:
    if state.answer_schema is None:
        return
    try:
        compile_shape(state.answer_schema)
    except ShapeError as error:
        pointer = f"/states/{state_id}/answer_schema{error.pointer}"
        raise _fault(pointer, error.reason, "S109", "bad-context-schema") from error


def compile_flows(flows: Flows, prompts: Prompts, pieces: Pieces) -> CompiledMachine:
    """Compile a definition with all that it calls.

    Args:
        flows: The definition that is started, and those that it calls.
        prompts: The compiled prompt files.
        pieces: The function that returns the definition of a repair pattern by name.

    Raises:
        DefinitionError: The definition has a fault that the loader let pass.
    """
    root = flows.root.definition
    settings = root.model.model_copy(update={"reasoning": None, "name": None})
    used = set(root.patterns)
    for flow in flows.called.values():
        used.update(flow.definition.patterns)
    patterns: dict[str, CompiledMachine] = {}
    for name in PATTERNS:
        if name in used:
            patterns[name] = _compiled(Flow(definition=pieces(name)), prompts, _Caller())
    main = _compiled(flows.root, prompts, _Caller(pieces=patterns))
    answers: dict[str, Mapping[str, Any]] = {}
    for flow in (*flows.called.values(), flows.root):
        answers |= compile_keys(flow.definition, ()).offered
    above = _Caller(
        called=True,
        persona=root.persona,
        model=settings,
        patterns=tuple(root.patterns),
        pieces=patterns,
        aside=flows.digress,
        tells=_tells_at_once([main.states[move.target] for move in main.asides]),
        answers=answers,
    )
    called = {name: _compiled(flow, prompts, above) for name, flow in flows.called.items()}
    machines = (main, *called.values())
    states: list[CompiledState] = []
    for machine in machines:
        states += machine.states.values()
    bounds: list[tuple[str, float]] = []
    for name in ("llm_calls", "tokens", "seconds", "money"):
        most = getattr(root.limits, name)
        if most is not None:
            bounds.append((name, most))
    whole: dict[str, Any] = {
        "limits": root.limits,
        "bounds": tuple(bounds),
        "alone": not any(state.kind == "converse" for state in states),
        "waits": "silence" in used or any(map(_waits, states)),
        "pieces": pieces,
        "replies_alone": any(machine.replies_alone for machine in machines),
        "works": any(map(_works, states)),
    }
    document = document_of(flows)
    return replace(
        main,
        **whole,
        flows={name: replace(machine, **whole) for name, machine in called.items()},
        document=document,
        identity=hashlib.sha256(document.encode()).hexdigest(),
    )


def _tells_at_once(digressions: Sequence[CompiledState]) -> bool:
    """Return True if any reply may answer each of some digressions, and there are any."""
    if not digressions:
        return False
    return all(state.answers and state.fixed is None for state in digressions)


def _waits(state: CompiledState) -> bool:
    """Return True if something may become due in a state by itself."""
    if state.kind not in ("wait", "converse"):
        return False
    return state.definition.timeout is not None or bool(state.definition.remind)


def _works(state: CompiledState) -> bool:
    """Return True if a turn in a state may do more than talk."""
    definition = state.definition
    if state.kind in ("task", "wait"):
        return True
    return bool(definition.tools or definition.memory or definition.summarize)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caller:
    """The settings of the started definition that a called one inherits.

    Args:
        called: There is a caller, to which the conversation returns from every final state. Without
            one, the model that the definition names is a default of the host, and is not asked for
            by name.
        persona: The caller's persona.
        model: The caller's settings of the model.
        patterns: The caller's repair patterns.
        pieces: All compiled patterns.
        aside: Digressions of other definitions may be shown, and the places that they left.
        tells: Any reply may answer the digressions of the started definition.
        answers: The keys of all definitions, with their schemas. A reply in a called one may
            correct them.
    """

    called: bool = False
    persona: str = ""
    model: ModelSettings = field(default_factory=ModelSettings)
    patterns: tuple[str, ...] = ()
    pieces: Mapping[str, CompiledMachine] = field(default_factory=dict)
    aside: bool = False
    tells: bool = False
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def _of_patterns(
    definition: Definition, names: Iterable[str], pieces: Mapping[str, CompiledMachine]
) -> Iterator[Move]:
    """Yield the moves to states of the definition that take the place of patterns.

    A global transition to such a state is enough by itself.
    """
    known = {transition.target_state for transition in definition.global_transitions}
    for name in names:
        if name in definition.states and name not in known:
            state = definition.states[name]
            # A purpose does not tell when the move is taken, so the pattern's description does.
            description = state.description or pieces[name].definition.description
            yield Move(
                pointer=f"/patterns/{name}",
                target=name,
                description=description,
                priority=1000,
                returns=name in COMES_BACK,
            )


def _calls_tools(state: CompiledState) -> bool:
    return bool(state.definition.tools) or state.definition.memory


def _can_close(guard: Guard, keys: Keys) -> bool:
    """Return True for a condition that may fail whatever a reply writes."""
    reads = () if guard.rule is None else guard.rule.reads
    return not all(map(keys.is_free, (*guard.keys, *reads)))


_CLOCK = re.compile(r"\b[0-2]?[0-9][:.h][0-5][0-9]\b|\bHH|:MM", re.ASCII)
"""A time of day in the texts of a definition, or the form of one."""


def _tells_time(definition: Definition, keys: Keys) -> bool:
    """Return True if a key or the texts of a definition need the minute."""
    schemas = keys.offered.values()
    if any(schema.get("format") in ("time", "date-time") for schema in schemas):
        return True
    texts = [definition.description, definition.persona]
    texts += [str(schema.get("description", "")) for schema in schemas]
    for state in definition.states.values():
        texts += [state.description, state.purpose, instructions_of(state)]
    return any(map(_CLOCK.search, texts))


def _names_facts(definition: Definition) -> bool:
    """Return True if a definition uses facts that have no key. Else a model would keep whatever it
    likes.
    """
    return "_extra" in definition.model_dump_json()


_DATE_WORDS = re.compile(r"YYYY-MM-DD", re.IGNORECASE)


def _tells_dates(keys: Keys) -> bool:
    """Return True if a key is a date, so that the weekdays ahead help."""
    return any(map(_has_date, keys.offered.values()))


def _has_date(schema: Mapping[str, Any]) -> bool:
    """Return True if a value, or a part of it, is a date."""
    if schema.get("format") in ("date", "date-time") or _DATE_WORDS.search(
        str(schema.get("description", ""))
    ):
        return True
    properties = schema.get("properties")
    parts = list(properties.values()) if isinstance(properties, Mapping) else []
    return any(
        isinstance(part, Mapping) and _has_date(part) for part in (*parts, schema.get("items"))
    )


def _question(
    state: CompiledState, system: LLMMessage, schema: ReplySchema, limit: int
) -> LLMRequest:
    """Return the common part of all questions in a state. `limit`: the default of the most tokens."""
    own_limit, temperature = state.model.max_tokens, state.model.temperature
    sizes = {"system": estimate(system.content) + DAY_TOKENS, "schema": estimate(schema.text)}
    return LLMRequest(
        messages=(system,),
        schema=schema,
        model=state.model.name,
        temperature=0.0 if temperature is None else temperature,
        max_tokens=limit if own_limit is None else own_limit,
        defaults=frozenset(
            name
            for name, value in (("temperature", temperature), ("max_tokens", own_limit))
            if value is None
        ),
        state=state.id,
        sizes=sizes,
    )


def _compiled(flow: Flow, prompts: Prompts, above: _Caller) -> CompiledMachine:
    """Compile one definition."""
    definition = flow.definition
    model = definition.model
    if not above.called:
        model = model.model_copy(update={"name": None})
    inherited = merged_model(above.model, model)
    on = {*above.patterns, *definition.patterns}
    patterns: dict[str, CompiledMachine] = {}
    for name in PATTERNS:
        if name in on and name not in definition.states:
            patterns[name] = above.pieces[name]
    own = frozenset(on & definition.states.keys())
    own_named = named(name for name in PATTERNS if name in own)
    shared = _moves(definition.global_transitions, "/global_transitions")
    asides = sorted((move for move in shared if move.returns), key=lambda move: move.priority)
    shared = (*shared, *_of_patterns(definition, own_named, above.pieces))
    menus = {state_id: _menu(definition, state_id, shared) for state_id in definition.states}
    try:
        keys = compile_keys(definition, _mentioned_keys(definition))
    except ShapeError as error:
        raise _fault("/context_schema", str(error), "S109", "bad-context-schema") from error
    except ConditionError as error:
        raise _bad_condition("", error) from error

    endings = endings_of(definition, asides=own & COMES_BACK, called=above.called)
    states: dict[str, CompiledState] = {}
    found_regions = regions(definition, tuple(keys.offered), whole=prompts.whole)
    for region in found_regions:
        for state_id in region.states:
            states[state_id] = _plan(
                flow,
                state_id,
                keys,
                menus[state_id],
                region=region,
                inherited=inherited,
                endings=endings,
                whole=prompts.whole,
            )
    lines = {key: key_line(key, schema) for key, schema in keys.offered.items()}
    bounded = [key for key in lines if is_bounded(keys.offered[key])]
    language = definition.language
    parts = _Parts(
        definition=definition,
        prompts=prompts,
        keys=keys,
        key_lines=lines,
        states=states,
        regions=found_regions,
        patterns=patterns,
        names=named(name for name in PATTERNS if name in on),
        endings=endings,
        above=above,
    )
    return CompiledMachine(
        definition=definition,
        patterns=patterns,
        named_patterns=named(patterns),
        own_patterns=own,
        assigned=_assigned(definition),
        asides=tuple(asides),
        states=states,
        keys=keys,
        fast=recognisers(keys.offered, keys.fault, language),
        prompts=prompts,
        key_lines=lines,
        bounds_told={key: lines[key].removeprefix(key) for key in bounded},
        question=_questions(parts),
        tells_time=_tells_time(definition, keys),
        tells_dates=_tells_dates(keys),
        worded=frozenset(
            key for key, shape in keys.shapes.items() if has_words(shape.schema, language)
        ),
        limits=definition.limits,
        failure_reply=_failure_reply(definition),
        replies_alone=any(state.reply_alone for state in definition.states.values()),
        english=definition.is_english,
    )


def _failure_reply(definition: Definition) -> FixedReply | None:
    """Compile the reply of `on_function_error`, and check its target."""
    rule = definition.on_function_error
    if rule is None:
        return None
    if rule.target_state is not None and rule.target_state not in definition.states:
        pointer = "/on_function_error/target_state"
        raise _fault(pointer, f"there is no state {rule.target_state!r}", "F101", "unknown-target")
    try:
        return None if rule.reply is None else compile_reply(rule.reply)
    except WordingError as error:
        pointer = "/on_function_error/reply"
        raise _fault(pointer, str(error), "S110", "bad-template") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of a compiled definition from which its questions are made. `names`: patterns that
    a reply may name.
    """

    definition: Definition
    prompts: Prompts
    keys: Keys
    key_lines: Mapping[str, str]
    states: Mapping[str, CompiledState]
    regions: tuple[Region, ...]
    patterns: Mapping[str, CompiledMachine]
    names: tuple[str, ...]
    endings: Endings
    above: _Caller


def _questions(parts: _Parts) -> Callable[[str, TakenForm], LLMRequest]:
    """Return the function that makes the common part of all questions in a state.

    System messages and schemas are made when they are first needed, and once for all states of a
    region with the same settings, because a process may serve many definitions and few of their
    states.
    """
    keys, states = parts.keys, parts.states
    spoken = parts.definition
    if not spoken.persona:
        spoken = spoken.model_copy(update={"persona": parts.above.persona})
    facts = _facts(parts)
    facts_kept = not keys.declared or _names_facts(parts.definition)
    region_of: dict[str, Region] = {}
    for region in parts.regions:
        region_of |= dict.fromkeys(region.states, region)

    earlier: dict[str, Mapping[str, Any]] = {}
    if "correct" in parts.names:  # then a reply may change answers of the definitions that wait
        own = keys.offered.keys() | keys.sources.keys()
        earlier = {key: schema for key, schema in parts.above.answers.items() if key not in own}

    @cache
    def schema_of(region: Region, reasoning: str, form: ReplyForm) -> ReplySchema:
        schema = reply_schema(
            name=region.name,
            targets=region.named,
            keys={key: keys.offered[key] for key in region.keys} | earlier,
            reasoning=reasoning,
            form=form,
            declared=keys.declared,
            facts=facts_kept,
        )
        return with_targets(schema, parts.names)

    @cache
    def system_of(region: Region, reasoning: str, form: ReplyForm) -> LLMMessage:
        listed = {key: keys.offered[key] for key in region.keys}
        key_lines = [parts.key_lines[key] for key in region.keys]
        texts = SystemParts(
            keys=("\n" if keys.declared else ", ").join(key_lines),
            patterns=pattern_lines(parts.patterns),
            states=_states_text(parts, region),
            facts=facts_kept,
            reasoning=reasoning,
            form=form,
            quoted=", ".join(key for key in listed if keys.said.get(key) == "quote"),
            digits=", ".join(key for key in listed if keys.said.get(key) == "digits"),
            **facts,
        )
        return LLMMessage("system", system_prompt(parts.prompts, spoken, keys, texts))

    quotes = "quote" in keys.said.values()

    @cache
    def question(state_id: str, taken: TakenForm) -> LLMRequest:
        form = asked_form(taken, quotes=quotes)
        region, state = region_of[state_id], states[state_id]
        reasoning = state.model.reasoning or "none"
        system = system_of(region, reasoning, form)
        schemas = [keys.offered[key] for key in region.keys]
        limit = reply_limit((*schemas, *earlier.values()), state.definition)
        return _question(state, system, schema_of(region, reasoning, form), limit)

    return question


def _states_text(parts: _Parts, region: Region) -> str:
    if parts.prompts.whole:
        return _all_states(parts.states)
    return states_text(parts.definition, region.shown, parts.endings)


def _facts(parts: _Parts) -> dict[str, bool]:
    """Return the facts that decide which sentences the system messages of a machine have."""
    states = parts.states
    behind = False
    closed = False
    autos = False
    leads_on = False
    agrees = False
    answering: list[CompiledState] = []
    for state in states.values():
        for move in state.moves:
            target = states[move.target]
            behind = behind or _leads_further(state, move, target)
            closed = closed or any(_can_close(guard, parts.keys) for guard in move.guards)
            autos = autos or move.auto
            leads_on = leads_on or bool(target.onward)
            agrees = agrees or move.agrees
            if move.returns and target.answers:
                answering.append(target)
    speaking = [state for state in states.values() if state.kind == "converse"]
    answers_told = parts.above.tells or bool(answering)
    return {
        "parts": len(parts.regions) > 1 or parts.above.aside or behind,
        "added": any(state.fixed is not None or state.kind in WORKS for state in states.values()),
        "aside": answers_told and all(state.fixed is None for state in answering),
        "tools": any(map(_calls_tools, speaking)),
        "closed": closed,
        "autos": autos,
        "leads_on": leads_on,
        "agrees": agrees,
        "read_back": any(state.definition.confirms and state.fixed is None for state in speaking),
    }
