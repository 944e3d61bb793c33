"""Which definition a conversation is played by: the one that it is pinned to, even when the file has changed.

A session names its definition by SHA-256, and the store keeps the definitions of its sessions. What happens to a
conversation of another definition than the machine's is its policy: `pin` plays it to its end on its own,
`migrate` carries it over by a map of states and keys where that can be done, `reject` refuses it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from llm_fsm.definition.subflows import read_document
from llm_fsm.engine.deployment import Edition, Services
from llm_fsm.engine.handlers.registry import Handler
from llm_fsm.errors import ConfigurationError, ConversationConflict, DefinitionError, StoreError
from llm_fsm.session import events as ev
from llm_fsm.session.session import Session
from llm_fsm.stores.base import kept_definition
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.migration import Change, carried, check_change, read_change
from llm_fsm.turn.repair.patterns import no_pieces

KEPT = 32
"""Older definitions that stay compiled."""

POLICIES = ("pin", "migrate", "reject")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What happens to conversations of an older definition. `change`: how `migrate` carries them over."""

    name: str = "pin"
    change: Change = field(default_factory=Change)


def read_policy(given: str | Mapping[str, Any]) -> Policy:
    """The policy as a host writes it: a name, or the map of `migrate`. Raises ConfigurationError."""
    if isinstance(given, Mapping):
        return Policy(name="migrate", change=read_change(given))
    if given in POLICIES:
        return Policy(name=given)
    raise ConfigurationError(
        f'on_change is "pin", "migrate", "reject" or a map {{"states": {{…}}, "keys": {{…}}}}, not {given!r}'
    )


class Editions:
    """The machine's own edition, and those of older definitions while they are needed."""

    def __init__(self, services: Services, program: CompiledMachine, policy: Policy) -> None:
        check_change(policy.change, program)
        self.current = Edition(services, program)
        self.policy = policy
        self._services = services
        self._older: OrderedDict[str, Edition] = OrderedDict()

    def add_handler(self, handler: Handler) -> None:
        """Register a handler; it may name states of the machine's own definition, of those it calls, and mapped ones.

        Raises ConfigurationError for one that is misspelt.
        """
        program = self.current.program
        states = {state: None for one in (program, *program.flows.values()) for state in one.states}
        self._services.add_handler(handler, states | dict.fromkeys(self.policy.change.states), self.current.name)

    async def find(self, session: Session) -> Edition | None:
        """The edition that a conversation is pinned to; None where nobody knows its definition any more."""
        identity = session.definition
        if identity == self.current.identity:
            return self.current
        found = self._older.get(identity)
        if found is None:
            text = await kept_definition(self._services.store, identity)
            if text is None:
                return None
            program = _compiled(identity, text, self.current.program)
            found = self._older[identity] = Edition(self._services, program)
            if len(self._older) > KEPT:
                self._older.popitem(last=False)
        self._older.move_to_end(identity)
        return found

    async def of(self, session: Session) -> Edition | None:
        """The edition that plays a conversation; None where nobody knows its definition any more.

        Raises ConversationConflict where the policy refuses it.
        """
        current = self.current
        if session.definition == current.identity or session.ended:
            return current
        if self.policy.name == "reject":
            raise ConversationConflict(
                f"conversation {session.conversation_id!r} was begun with another version of the definition "
                f"({session.definition[:12]}) than this machine's {current.name!r} ({current.identity[:12]}), "
                'and this machine was made with on_change="reject"'
            )
        found = await self.find(session)
        if found is not None:
            await found.prepare()
        return found

    async def carried(self, session: Session) -> ev.Migrated | str | None:
        """How a conversation comes to the machine's own definition; why it cannot; None where it need not.

        One whose definition nobody knows any more can come only by the map, or as it is.
        """
        if session.definition == self.current.identity or session.ended:
            return None
        found = await self.find(session)
        old = None if found is None else found.program
        return carried(session, old, self.current.program, self.policy.change)


def _compiled(identity: str, text: str, like: CompiledMachine) -> CompiledMachine:
    try:
        return compile_flows(read_document(text), like.prompts, like.pieces or no_pieces)
    except (ValidationError, DefinitionError) as error:
        raise StoreError(
            f"the definition {identity[:12]} that the store keeps for its conversations cannot be used: {error}"
        ) from error
