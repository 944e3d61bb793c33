"""Compile a definition, so that no turn repeats work with the same result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from llm_fsm._json import JsonDict, JsonMap, Schemas, TextMap, step
from llm_fsm._text import estimate, sha256_of
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
from llm_fsm.definition.translation import translated_flows
from llm_fsm.errors import DefinitionError, Finding
from llm_fsm.languages import QUESTION_MARKS, language_of
from llm_fsm.session.context import Keys, compile_keys
from llm_fsm.session.messages import LLMMessage, LLMRequest, ReplyForm, ReplySchema, TakenForm
from llm_fsm.session.reply_schema import asked_form, reply_schema
from llm_fsm.turn.compiled import Check, CompiledMachine, CompiledState
from llm_fsm.turn.fixed_replies import FixedReply, WordingError, compile_reply
from llm_fsm.turn.guards import Assignment, Guard, Move, Moves
from llm_fsm.turn.localized import has_words
from llm_fsm.turn.prompt.limit import reply_limit
from llm_fsm.turn.prompt.render import DAY_TOKENS, Prompts, SystemParts, key_line, system_prompt
from llm_fsm.turn.prompt.state_text import state_text
from llm_fsm.turn.recognize import recognisers
from llm_fsm.turn.repair.patterns import COMES_BACK, Pieces, named
from llm_fsm.turn.repair.patterns import lines as pattern_lines

MOST = 40
"""Keys that a system message describes, and states that one schema names, if there are no more."""
_MOST_NAMES = 200
"""Keys of which a system message has at least the names."""
_SCHEMAS = 256
"""Questions and schemas that a machine keeps: with many keys they differ by those that are known."""


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


def _demanded(transitions: Iterable[Transition]) -> Iterator[str]:
    """Yield the keys that conditions read."""
    for transition in transitions:
        for condition in transition.conditions:
            yield from condition.requires_context_keys
            if condition.rule is not None:
                yield from sorted(condition.rule.reads)


def _moves(transitions: Iterable[Transition], pointer: str) -> Moves:
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
        names |= dict.fromkeys(_demanded(state.transitions))
    # Global ones last, because prompts list keys in this order.
    names |= dict.fromkeys(_demanded(definition.global_transitions))
    return tuple(name for name in names if not name.startswith("_"))


def merged_model(*settings: ModelSettings) -> ModelSettings:
    """Merge settings key by key; later ones replace earlier ones."""
    values: JsonDict = {}
    for item in settings:
        for name, value in item:
            # Only None is left away; false and 0 are settings.
            if value is not None:
                values[name] = value
    return ModelSettings(**values)


def _menu(definition: Definition, state_id: str, shared: Sequence[Move]) -> Moves:
    own = _moves(definition.states[state_id].transitions, f"/states/{state_id}/transitions")
    kind = definition.kind_of(state_id)
    if kind == "final":
        return ()
    # Nobody talks there, so nobody can ask for a digression.
    if kind != "converse":
        shared = ()
    # A transition that is always open takes the place of the pattern with the same target.
    known = {move.target for move in own if not move.guards and not move.auto}
    offered: list[Move] = []
    for move in shared:
        is_pattern = move.pointer.startswith("/patterns/")
        # A way from a state to itself would be offered as staying.
        if move.target != state_id and not (is_pattern and move.target in known):
            offered.append(move)
    # Sorting is stable, so own moves come before shared ones of the same priority.
    return tuple(sorted([*own, *offered], key=lambda move: move.priority))


def _plan(
    flow: Flow, state_id: str, keys: Keys, moves: Moves, inherited: ModelSettings
) -> CompiledState:
    definition = flow.definition
    pointer = f"/states/{state_id}"
    state, kind = definition.states[state_id], definition.kind_of(state_id)
    others = [move for move in moves if move.target != state_id]
    # Nobody but the user says yes, so no machine takes such a move by itself.
    autos = tuple(move for move in others if move.auto and not move.agrees)
    _check_answer(state_id, state)
    try:
        # Where an author leaves the words away, the machine lists the values itself.
        reply = "" if state.reply is None and state.confirms else state.reply
        fixed = None if reply is None else compile_reply(reply, flow.definition.language)
    except WordingError as error:
        raise _fault(f"{pointer}/reply", str(error), "S110", "bad-template") from error
    checks: list[Check] = []
    for number, result in enumerate(state.key_results):
        checks.append(_check(result, f"{pointer}/key_results/{number}"))
    collects = tuple(key for key in state.required_context_keys if keys.is_free(key))
    return CompiledState(
        id=state_id,
        kind=kind,
        definition=state,
        moves=moves,
        own=tuple(move for move in others if move.is_own),
        autos=autos,
        onward=moves if kind == "decide" else autos,
        rests=kind == "converse" and not autos,
        picks=any(move.agrees == "picked" for move in moves),
        collects=collects,
        asked=tuple(dict.fromkeys(name.partition(".")[0] for name in collects)),
        fixed=fixed,
        reads_back=_reads_back(state, fixed, collects, keys),
        words=state_text(state_id, state, kind),
        keys=_keys_of(definition, state, moves, keys),
        model=merged_model(inherited, state.model),
        assignment=_assignment(state, pointer),
        checks=tuple(checks),
        calls=flow.calls.get(state_id, ""),
    )


def _reads_back(
    state: State, fixed: FixedReply | None, collects: tuple[str, ...], keys: Keys
) -> frozenset[str]:
    """Return the keys that a state reads back: those that it confirms, or whose values its question
    shows. A question for a further value reads nothing back.
    """
    # By the root: a change of any part of an object makes its read-back untrue.
    shown = frozenset(key.partition(".")[0] for key in state.confirms)
    # A yes or no may be the answer to the read-back itself.
    asks_more = any(keys.schema(key).get("type") != "boolean" for key in collects)
    asks = fixed is not None and any(mark in fixed.source for mark in QUESTION_MARKS)
    if fixed is not None and asks and not asks_more:
        shown |= {name for name in fixed.names if keys.is_free(name)}
    return shown


def _keys_of(
    definition: Definition, state: State, moves: Iterable[Move], keys: Keys
) -> tuple[str, ...]:
    """Return the keys that a reply in a state may write in any case.

    A machine with many keys offers those of the state, of its moves, and of the states one step
    away.
    """
    if len(keys.offered) <= MOST:
        return tuple(keys.offered)
    # A user may correct what is read back, so those keys are offered, too.
    names = [*state.required_context_keys, *state.confirms]
    for move in moves:
        for guard in move.guards:
            names += guard.keys if guard.rule is None else (*guard.keys, *guard.rule.reads)
        names += definition.states[move.target].required_context_keys
    # A part of an object is written with its object.
    near = {*names, *(name.partition(".")[0] for name in names)}
    return tuple(key for key in keys.offered if key in near)


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
    """Compile a definition with all that it calls, in all its languages.

    Args:
        flows: The definition that is started, and those that it calls.
        prompts: The compiled prompt files.
        pieces: The function that returns the definition of a repair pattern by name.

    Raises:
        DefinitionError: The definition has a fault that the loader let pass.
    """
    machine = _in_one_language(flows, prompts, pieces)
    others = flows.root.definition.tags[1:]
    if not others:
        return machine

    # A language is compiled when it is first spoken, because a process may never need it.
    @cache
    def speaking(tag: str) -> CompiledMachine:
        if tag not in others:
            return machine
        spoken = _in_one_language(translated_flows(flows, tag), prompts, pieces)
        called = {name: _prompted(flow, machine.flows[name]) for name, flow in spoken.flows.items()}
        return replace(_prompted(spoken, machine), flows=called)

    return replace(machine, speaking=speaking)


def _prompted(spoken: CompiledMachine, own: CompiledMachine) -> CompiledMachine:
    """Return a translated machine with the prompts of the definition's own language."""
    states: dict[str, CompiledState] = {}
    for name, state in spoken.states.items():
        states[name] = replace(state, words=own.states[name].words)
    return replace(spoken, states=states, question=own.question, key_lines=own.key_lines)


def _in_one_language(flows: Flows, prompts: Prompts, pieces: Pieces) -> CompiledMachine:
    """Compile a definition with all that it calls; see `compile_flows`."""
    root = flows.root.definition
    # Called definitions choose their own model and reasoning; the rest is inherited.
    settings = root.model.model_copy(update={"reasoning": None, "name": None})
    used = set(root.patterns)
    for flow in flows.called.values():
        used.update(flow.definition.patterns)
    patterns: dict[str, CompiledMachine] = {}
    # In the order of the table, so that menus are the same for every definition.
    for name in PATTERNS:
        if name in used:
            patterns[name] = _compiled(Flow(definition=pieces(name)), prompts, _Caller())
    # The patterns first: every machine may use them.
    main = _compiled(flows.root, prompts, _Caller(pieces=patterns))
    answers: dict[str, JsonMap] = {}
    for flow in (*flows.called.values(), flows.root):
        # The root comes last: its schema counts where definitions share a key.
        own = root.machine_keys if flow is flows.root else {}
        answers |= compile_keys(flow.definition, (), own).offered
    above = _Caller(
        called=True,
        persona=root.persona,
        model=settings,
        patterns=tuple(root.patterns),
        pieces=patterns,
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
    # These are true of the whole run, so a flow that is called has them from the root.
    whole: JsonDict = {
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
        identity=sha256_of(document),
    )


def _waits(state: CompiledState) -> bool:
    """Return True if something may become due in a state by itself."""
    # Nobody is waited for elsewhere, so nothing can become due there.
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
        answers: The keys of all definitions, with their schemas. A reply in a called one may
            correct them.
    """

    called: bool = False
    persona: str = ""
    model: ModelSettings = field(default_factory=ModelSettings)
    patterns: tuple[str, ...] = ()
    pieces: Mapping[str, CompiledMachine] = field(default_factory=dict)
    answers: Schemas = field(default_factory=dict)


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


def _asks_for_a_yes(state: CompiledState) -> bool:
    return any(move.agrees is True for move in state.moves)


def _calls_tools(state: CompiledState) -> bool:
    return bool(state.definition.tools) or state.definition.memory


_DATE_WORDS = re.compile(r"YYYY-MM-DD", re.IGNORECASE)


def _has_date(schema: JsonMap) -> bool:
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
        context=state.model.context,
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
        # The conversation has one language, that of the definition which was started.
        own_keys = {} if above.called else definition.machine_keys
        keys = compile_keys(definition, _mentioned_keys(definition), own_keys)
    except ShapeError as error:
        raise _fault("/context_schema", str(error), "S109", "bad-context-schema") from error
    except ConditionError as error:
        raise _bad_condition("", error) from error

    states: dict[str, CompiledState] = {}
    for state_id, moves in menus.items():
        states[state_id] = _plan(flow, state_id, keys, moves, inherited)
    lines = {key: key_line(key, schema) for key, schema in keys.offered.items()}
    language = definition.language
    parts = _Parts(
        definition=definition,
        prompts=prompts,
        keys=keys,
        key_lines=lines,
        states=states,
        patterns=patterns,
        names=named(name for name in PATTERNS if name in on),
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
        lists_keys=len(keys.offered) <= MOST,
        question=_questions(parts),
        tells_dates=any(map(_has_date, keys.offered.values())),
        worded=frozenset(
            key for key, shape in keys.shapes.items() if has_words(shape.schema, language)
        ),
        limits=definition.limits,
        failure_reply=_failure_reply(definition),
        replies_alone=any(state.reply_alone for state in definition.states.values()),
        speaks=bool(language_of(definition.language).sentences),
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
        return None if rule.reply is None else compile_reply(rule.reply, definition.language)
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
    key_lines: TextMap
    states: Mapping[str, CompiledState]
    patterns: Mapping[str, CompiledMachine]
    names: tuple[str, ...]
    above: _Caller


def _questions(parts: _Parts) -> Callable[[str, TakenForm, tuple[str, ...]], LLMRequest]:
    """Return the function that makes the common part of all questions in a state.

    System messages and schemas are made when they are first needed, because a process may serve
    many definitions and few of their states. All states of a machine share them, unless a state has
    its own `reasoning`, or the machine is too large for one schema.
    """
    keys, states = parts.keys, parts.states
    spoken = parts.definition
    if not spoken.persona:
        spoken = spoken.model_copy(update={"persona": parts.above.persona})
    # A model would keep whatever it likes, where nothing uses facts that have no key.
    facts_kept = not keys.declared or "_extra" in parts.definition.model_dump_json()
    shared = len(states) <= MOST and len(keys.offered) <= MOST
    schemas = {**parts.above.answers, **keys.offered}
    speaking = [state for state in states.values() if state.kind == "converse"]
    offering = speaking or states.values()

    @lru_cache(maxsize=_SCHEMAS)
    def schema_of(
        state_id: str, names: tuple[str, ...], reasoning: str, form: ReplyForm
    ) -> ReplySchema:
        return reply_schema(
            name=state_id,
            targets=(*_named([states[state_id]] if state_id else offering, states), *parts.names),
            keys={key: schemas.get(key, {}) for key in names},
            reasoning=reasoning,
            form=form,
            declared=keys.declared,
            facts=facts_kept,
            yes=any(map(_asks_for_a_yes, offering if not state_id else [states[state_id]])),
        )

    @cache
    def system_of(reasoning: str, form: ReplyForm) -> LLMMessage:
        texts = SystemParts(
            keys=_key_list(keys, parts.key_lines),
            patterns=pattern_lines(parts.patterns),
            tools=any(map(_calls_tools, speaking)),
            agrees=any(map(_asks_for_a_yes, speaking)),
            facts=facts_kept,
            reasoning=reasoning,
            form=form,
            quoted=", ".join(key for key in keys.offered if keys.said.get(key) == "quote"),
            digits=", ".join(key for key in keys.offered if keys.said.get(key) == "digits"),
        )
        return LLMMessage("system", system_prompt(parts.prompts, spoken, keys, texts))

    quotes = "quote" in keys.said.values()

    @lru_cache(maxsize=_SCHEMAS)
    def question(state_id: str, taken: TakenForm, further: tuple[str, ...]) -> LLMRequest:
        form = asked_form(taken, quotes=quotes)
        state = states[state_id]
        reasoning = state.model.reasoning or "none"
        names = tuple(dict.fromkeys((*state.keys, *further)))
        schema = schema_of("" if shared else state_id, names, reasoning, form)
        limit = reply_limit([schemas.get(key, {}) for key in names], state.definition)
        return _question(state, system_of(reasoning, form), schema, limit)

    return question


def _named(speaking: Iterable[CompiledState], states: Iterable[str]) -> Iterator[str]:
    """Yield every state that a reply in some of the states may name, in the order of the file."""
    named: set[str] = set()
    for state in speaking:
        named.add(state.id)
        named.update(move.target for move in state.moves if not move.auto or move.agrees)
    return filter(named.__contains__, states)


def _key_list(keys: Keys, lines: TextMap) -> str:
    """Return the text of <context_keys>: a line for each key, or names alone if there are many."""
    if len(lines) > MOST:
        return ", ".join(lines) if len(lines) <= _MOST_NAMES else ""
    return ("\n" if keys.declared else ", ").join(lines.values())
