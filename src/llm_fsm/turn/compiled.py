"""A machine ready to run: everything that does not change from turn to turn, computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from llm_fsm.conditions.compiler import CompiledRule
from llm_fsm.definition.models import Definition, Limits, ModelSettings, State
from llm_fsm.definition.names import Kind
from llm_fsm.session.context import Keys
from llm_fsm.session.messages import LLMRequest, ReplyForm
from llm_fsm.session.session import Session
from llm_fsm.turn.fixed_replies import FixedReply
from llm_fsm.turn.guards import Assignment, Move
from llm_fsm.turn.localized import localized
from llm_fsm.turn.prompt.render import Prompts, transition_item
from llm_fsm.turn.prompt.state_summary import StateWords
from llm_fsm.turn.recognize import Recogniser


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One key result, compiled. `by`: logic (`rule`), registered (`function`) or judge (`criterion`)."""

    name: str
    description: str
    by: Literal["logic", "registered", "judge"]
    rule: CompiledRule | None = None
    logic: Any = None
    function: str = ""
    criterion: str = ""
    """The criterion that the output must meet, in words; "" if there is none."""


@dataclass(frozen=True, kw_only=True)
class MoveItem:
    """The entry of a move in prompts, as JSON: made once, as long as nothing is known that its conditions read.

    `there`: what the system message does not say of its target. `speaks`: the target has a fixed reply.
    """

    move: Move
    there: Mapping[str, Any] | None
    speaks: bool

    @cached_property
    def closed(self) -> str:
        """The entry of a move that is not open."""
        return transition_item(self.move, None, is_open=False)

    @cached_property
    def _shown(self) -> str:
        return self._open(self.there, None)

    @cached_property
    def _again(self) -> str:
        return self._open(None, None)

    def shown(self, data: Mapping[str, Any], *, again: bool = False) -> str:
        """Return the entry of an open move. `again`: another entry has shown what lies behind it."""
        if any(guard.is_known(data) for guard in self.move.guards):
            return self._open(None if again else self.there, data)
        return self._again if again else self._shown

    def _open(self, there: Mapping[str, Any] | None, data: Mapping[str, Any] | None) -> str:
        return transition_item(self.move, there, is_open=True, data=data, speaks=self.speaks)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledState:
    """One state, compiled. `moves` is the whole menu in order of priority, global transitions included."""

    id: str
    kind: Kind
    definition: State
    moves: tuple[Move, ...]
    own: tuple[Move, ...]
    """The moves of the state itself to other states, without global ones and patterns."""
    autos: tuple[Move, ...]
    onward: tuple[Move, ...]
    """The moves that are tried on arrival, without anyone being asked."""
    rests: bool
    """True where nothing happens without the user: it converses, and no move is taken by itself."""
    collects: tuple[str, ...]
    fixed: FixedReply | None
    words: StateWords
    prompt_words: StateWords
    """Its words as its own prompts say them: no more than its id where the system message has every state."""
    around: frozenset[str]
    """The states whose words stand in the system message of its prompts, itself included."""
    listed: frozenset[str]
    """The keys that this system message lists: all, where the machine has not too many."""
    items: Mapping[str, MoveItem]
    """Move pointer to its entry in prompts."""
    target_summary: Mapping[str, Any]
    """The summary of this state for prompts whose system message does not have its words."""
    model: ModelSettings
    assignment: Assignment | None = None
    """The keys that it sets and clears when it is entered."""
    checks: tuple[Check, ...] = ()
    """The key results of a task."""
    calls: str = ""
    """The name of the definition that a subflow state calls."""
    answers: bool = False
    """True where it is final and only answers digressions: the conversation goes back to what was asked."""

    def knows(self, digression: CompiledState) -> bool:
        """True where <states> says all of a digression that is offered here: it answers, then this state asks again.

        Where a fixed reply asks, an entry of the menu keeps the model from doing so.
        """
        return digression.answers and digression.id in self.around and self.fixed is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledMachine:
    """One definition, compiled. What it says of the run as a whole is that of the definition that is started."""

    definition: Definition
    states: Mapping[str, CompiledState]
    keys: Keys
    key_lines: Mapping[str, str]
    """Key to its line in <context_keys>."""
    bounds_told: Mapping[str, str]
    """Key to what <context_keys> says behind it, for those with more than a type, which a value does not show."""
    prompts: Prompts
    question: Callable[[str, ReplyForm], LLMRequest]
    """Gives for a state id what all questions about a message have in common there: system message, schema, settings,
    sizes. Made when it is first asked for."""
    worded: frozenset[str] = frozenset()
    """Keys whose values are said in other words than their own."""
    tells_time: bool = False
    """True where a key or the definition's words need the minute of a message."""
    bounds: tuple[tuple[str, float], ...] = ()
    """The limits of a run that forbid further model calls: name and value."""
    alone: bool = False
    """True when no state converses: nobody is there to talk to."""
    english: bool
    """True where English words of the program are not foreign among the definition's own."""
    works: bool = False
    """True when a turn may do more than talk: tasks, tools, waiting."""
    waits: bool = False
    """True when something may become due by itself."""
    limits: Limits
    flows: Mapping[str, CompiledMachine] = field(default_factory=dict)
    """The definitions that are called, by name; only in the one that is started."""

    asides: tuple[Move, ...] = ()
    """The digressions that are offered in what this definition calls, too, in order of priority."""

    patterns: Mapping[str, CompiledMachine] = field(default_factory=dict)
    """The repair patterns that are switched on, without those for which the definition has a state of its own."""
    named_patterns: tuple[str, ...] = ()
    """The patterns that a reply may name."""
    pieces: Callable[[str], Definition] | None = None
    """Returns the definition of a pattern by its name."""
    fast: Mapping[str, Recogniser] = field(default_factory=dict)
    """Keys with `x-fast` and what recognises their values."""
    replies_alone: bool = False
    """True where the fixed reply of some state is said without a message of the model."""
    own_patterns: frozenset[str] = frozenset()
    """The patterns for which the definition has a state of its own."""
    assigned: frozenset[str] = frozenset()
    """Keys that the definition sets or clears itself, somewhere."""
    document: str = ""
    """The definition with all that it calls as canonical JSON."""
    identity: str = ""
    """The SHA-256 of `document`; where no other definition is called, that of the definition."""

    def in_words(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values of keys as fixed replies say them."""
        said = self.worded & values.keys()
        language = self.definition.language
        return values | {key: localized(self.keys.schema(key), values[key], language) for key in said}

    def is_secret(self, key: str) -> bool:
        """True when the key is secret in any definition of the machine: for whoever shows what happened in all."""
        return any(machine.keys.is_secret(key) for machine in (self, *self.flows.values()))

    def at(self, session: Session) -> CompiledMachine | None:
        """The definition that is at work in a conversation; None when this machine does not have it."""
        return self.flows.get(session.flow) if session.flow else self

    def of(self, session: Session) -> CompiledMachine:
        """As `at`, for a conversation of this machine."""
        return self.flows[session.flow] if session.flow else self

    def named(self, flow: str) -> CompiledMachine:
        """The definition of this name among those that are called; "" is this one."""
        return self.flows[flow] if flow else self

    def knows(self, session: Session) -> bool:
        """True when this machine has every state that a conversation is in or comes back to."""
        if not session.stack and not session.flow:
            return session.state in self.states
        places = [(session.flow, session.state)]
        flow = session.flow
        for frame in reversed(session.stack):
            flow = frame.saved.get("flow", flow)
            places.append((flow, frame.saved["state"]))
        programs = {"": self, **self.flows}
        return all(name in programs and state in programs[name].states for name, state in places)
