"""A compiled machine: everything that does not change from turn to turn, computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from llm_fsm._json import JsonDict, TextMap
from llm_fsm.conditions.compiler import CompiledRule
from llm_fsm.definition.models import Definition, Limits, ModelSettings, State
from llm_fsm.definition.names import Kind
from llm_fsm.languages import LANGUAGE
from llm_fsm.session.context import Keys
from llm_fsm.session.messages import LLMRequest, TakenForm
from llm_fsm.session.session import Session
from llm_fsm.turn.fixed_replies import FixedReply
from llm_fsm.turn.guards import Assignment, Move, Moves
from llm_fsm.turn.localized import localized
from llm_fsm.turn.prompt.render import Prompts
from llm_fsm.turn.prompt.state_text import StateText
from llm_fsm.turn.recognize import Recogniser


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One key result, compiled. `by`: logic (`rule`), registered (`function`) or judge
    (`criterion`).
    """

    name: str
    description: str
    by: Literal["logic", "registered", "judge"]
    rule: CompiledRule | None = None
    logic: Any = None
    function: str = ""
    criterion: str = ""
    """The criterion that the output must meet, in words; "" if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledState:
    """One state, compiled. `moves` is the whole menu in order of priority, global transitions
    included.
    """

    id: str
    kind: Kind
    definition: State
    moves: Moves
    own: Moves
    """The moves of the state itself to other states, without global ones and patterns."""
    autos: Moves
    onward: Moves
    """The moves that are tried on arrival, without anyone being asked."""
    rests: bool
    """True if nothing happens without the user: it converses, and no move is taken by itself."""
    picks: bool
    """True if a yes of the user counts only as a choice that is picked."""
    collects: tuple[str, ...]
    asked: tuple[str, ...]
    """The keys that it collects, or collects a part of."""
    fixed: FixedReply | None
    words: StateText
    keys: tuple[str, ...]
    """The keys that its replies may write in any case: all, unless the machine has too many."""
    model: ModelSettings
    assignment: Assignment | None = None
    """The keys that it sets and clears when it is entered."""
    reads_back: frozenset[str] = frozenset()
    """The keys that it shows and asks a yes for, whether it `confirms` them or not."""
    checks: tuple[Check, ...] = ()
    """The key results of a task."""
    calls: str = ""
    """The name of the definition that a subflow state calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledMachine:
    """One definition, compiled. Settings of the whole run are those of the started definition."""

    definition: Definition
    states: Mapping[str, CompiledState]
    keys: Keys
    key_lines: TextMap
    """Key to its line in <context_keys>."""
    lists_keys: bool
    """True if the system message has a line for each key. Else a prompt has the lines that its
    state needs.
    """
    prompts: Prompts
    question: Callable[[str, TakenForm, tuple[str, ...]], LLMRequest]
    """From a state id, and the further keys that a reply may write, to the common part of such
    questions: system message, schema, settings, sizes. It is made when it is first needed.
    """
    worded: frozenset[str] = frozenset()
    """Keys with values that are shown in other words than their own."""
    tells_dates: bool = False
    """True if a key is a date, so that prompts list the days ahead."""
    bounds: tuple[tuple[str, float], ...] = ()
    """The limits of a run that forbid further model calls: name and value."""
    alone: bool = False
    """True if no state converses, so that there is no user."""
    speaks: bool
    """True if the machine has sentences of its own in the definition's language."""
    works: bool = False
    """True if a turn may do more than talk: tasks, tools, waiting."""
    waits: bool = False
    """True if something may become due by itself."""
    limits: Limits
    flows: Mapping[str, CompiledMachine] = field(default_factory=dict)
    """The definitions that are called, by name; only in the started one."""

    asides: Moves = ()
    """The digressions that called definitions offer as well, in order of priority."""

    patterns: Mapping[str, CompiledMachine] = field(default_factory=dict)
    """The repair patterns that are switched on, without those for which the definition has a state
    of its own.
    """
    named_patterns: tuple[str, ...] = ()
    """The patterns that a reply may name."""
    pieces: Callable[[str], Definition] | None = None
    """Returns the definition of a pattern by its name."""
    fast: Mapping[str, Recogniser] = field(default_factory=dict)
    """Keys with `x-fast`, and the recognisers of their values."""
    failure_reply: FixedReply | None = None
    """The reply of `on_function_error`."""
    replies_alone: bool = False
    """True if some state shows its fixed reply without a message of the model."""
    own_patterns: frozenset[str] = frozenset()
    """The patterns for which the definition has a state of its own."""
    assigned: frozenset[str] = frozenset()
    """Keys that a state or a transition of the definition sets or clears."""
    speaking: Callable[[str], CompiledMachine] | None = None
    """Returns this machine in another of its languages, by the tag; None if it has only one."""
    document: str = ""
    """The definition with all that it calls as canonical JSON."""
    identity: str = ""
    """The SHA-256 of `document`; if no other definition is called, that of the definition."""

    def in_words(self, values: JsonDict, timezone: str) -> JsonDict:
        """Return values of keys as fixed replies of a conversation in a time zone show them."""
        language = self.definition.language
        shown = dict(values)
        for key in self.worded & values.keys():
            shown[key] = localized(self.keys.schema(key), values[key], language, timezone)
        return shown

    def has(self, pattern: str) -> bool:
        """Return true when a repair pattern is switched on, as a piece or as a state of its own."""
        return pattern in self.patterns or pattern in self.own_patterns

    def is_secret(self, key: str) -> bool:
        """Return true if the key is secret in any definition of the machine: for displays that
        cover all of them.
        """
        if self.keys.is_secret(key):
            return True
        return any(machine.keys.is_secret(key) for machine in self.flows.values())

    def said(self, move: Move) -> str:
        """Return the description of a move in the words of the user; "" if it has none."""
        texts = self.definition.texts.get(self.definition.language, {})
        return texts.get(f"{move.pointer}/description") or move.description

    def at(self, session: Session) -> CompiledMachine | None:
        """Return the current definition of a conversation; None if it is not in this machine."""
        return self.flows.get(session.flow) if session.flow else self

    def of(self, session: Session) -> CompiledMachine:
        """Return the current definition of a conversation of this machine, in its language."""
        machine = self
        if self.speaking is not None:
            machine = self.speaking(session.root_context().get(LANGUAGE, ""))
        return machine.flows[session.flow] if session.flow else machine

    def named(self, flow: str) -> CompiledMachine:
        """Return the called definition of this name; "" is this one."""
        return self.flows[flow] if flow else self

    def knows(self, session: Session) -> bool:
        """Return true if this machine has every state that a conversation is in or returns to."""
        if not self._has(session.flow, session.state):
            return False
        flow = session.flow
        for frame in reversed(session.stack):
            flow = frame.saved.get("flow", flow)  # a digression stays in its definition
            if not self._has(flow, frame.saved["state"]):
                return False
        return True

    def _has(self, flow: str, state: str) -> bool:
        machine = self.flows.get(flow) if flow else self
        return machine is not None and state in machine.states
