"""The definition versions of a machine: a conversation runs on the version that it is pinned to.

A session names its definition by SHA-256, and the store keeps the definitions of its sessions. The
policy decides what happens to a conversation of another version than the machine's. `pin` plays it
to its end on its own version. `migrate` carries it over by a map of states and keys if possible.
`reject` refuses it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from pydantic import ValidationError

from llm_fsm._json import JsonMap
from llm_fsm.definition.subflows import read_document
from llm_fsm.engine.advice import advise_on_keys
from llm_fsm.engine.deployment import Deployment, Services
from llm_fsm.engine.handlers.registry import Handler
from llm_fsm.engine.releases import LiveRelease
from llm_fsm.errors import ConfigurationError, ConversationConflict, DefinitionError, StoreError
from llm_fsm.session import events as ev
from llm_fsm.session.session import Session
from llm_fsm.stores.base import kept_definition
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.migration import Change, carried, check_change, read_change
from llm_fsm.turn.pipeline import Opening
from llm_fsm.turn.repair.patterns import no_pieces

KEPT = 32
"""The number of older versions that stay compiled."""

POLICIES = ("pin", "migrate", "reject")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The treatment of conversations of an older version. `change` is the map that `migrate`
    uses."""

    name: str = "pin"
    change: Change = field(default_factory=Change)


def read_policy(given: str | JsonMap) -> Policy:
    """Read a policy: a name, or the map of `migrate`.

    Raises:
        ConfigurationError: It is neither.
    """
    if isinstance(given, Mapping):
        return Policy(name="migrate", change=read_change(given))
    if given in POLICIES:
        return Policy(name=given)
    raise ConfigurationError(
        f'on_change is "pin", "migrate", "reject" or a map {{"states": {{…}}, "keys": {{…}}}}, '
        f"not {given!r}"
    )


class DefinitionVersions:
    """The machine's own version, and older versions while they are needed."""

    def __init__(self, services: Services, program: CompiledMachine, policy: Policy) -> None:
        check_change(policy.change, program)
        self.current = Deployment(services, program)
        self.policy = policy
        self._services = services
        self._older: OrderedDict[str, Deployment] = OrderedDict()
        self.release: LiveRelease | None = None

    def add_handler(self, handler: Handler) -> None:
        """Register a handler. It may name states of the machine's own definition, of those that it
        calls, and mapped ones.

        Raises:
            ConfigurationError: A state seems to be misspelt.
        """
        program = self.current.program
        machines = (program, *program.flows.values())
        # Older versions play on with the same handlers, so states that were renamed are known.
        states = chain(*(one.states for one in machines), self.policy.change.states)
        self._services.add_handler(handler, tuple(dict.fromkeys(states)), self.current.name)
        advise_on_keys(program, handler.keys, f"handler {handler.name!r} names")

    def follow(self, release: LiveRelease) -> None:
        """Begin conversations as a release says.

        Raises:
            ConfigurationError: The policy would move or refuse the candidate's conversations.
        """
        if self.policy.name != "pin":
            raise ConfigurationError(
                f"{release.path}: a release pins its conversations: leave on_change out"
            )
        self.release = release
        release.refuse(release.fault)
        self._take_over(release)

    def _take_over(self, release: LiveRelease) -> None:
        """Know both definitions of a release. Its stable one is the machine's own."""
        if release.stable.identity != self.current.identity:
            self._older[self.current.identity] = self.current
            self.current = self._deployed(release.stable)
        if release.candidate is not None:
            self._deployed(release.candidate)

    async def begun(self, opening: Opening) -> tuple[Deployment, Opening]:
        """Return the version that a conversation begins on, ready, and its opening with the arm.

        Raises:
            ConfigurationError: A tool or function of the machine's own version is missing.
        """
        release = self.release
        if release is not None:
            await release.refresh()
            self._take_over(release)
            if (begun := release.begun(opening)) is not None:
                found = self._deployed(begun[0])
                try:
                    await found.prepare()
                except ConfigurationError as error:
                    release.refuse(error)
                else:
                    return found, begun[1]
        await self.current.prepare()
        return self.current, opening

    def _deployed(self, program: CompiledMachine) -> Deployment:
        identity = program.identity
        if identity == self.current.identity:
            return self.current
        if identity not in self._older:
            self._older[identity] = Deployment(self._services, program)
            if len(self._older) > KEPT:
                # The one that was used longest ago goes. It is compiled again when it is needed.
                self._older.popitem(last=False)
        self._older.move_to_end(identity)
        return self._older[identity]

    async def find(self, identity: str) -> Deployment | None:
        """Find the version of this SHA-256; None if its definition is unknown."""
        if identity == self.current.identity:
            return self.current
        if identity in self._older:
            return self._deployed(self._older[identity].program)
        text = await kept_definition(self._services.store, identity)
        if text is None:
            return None
        return self._deployed(_compiled(identity, text, self.current.program))

    async def of(self, session: Session) -> Deployment | None:
        """Find the version that plays a conversation; None if its definition is unknown.

        Raises:
            ConversationConflict: The policy refuses the conversation.
        """
        current = self.current
        # An ended conversation is only read, and any version can read it.
        if session.definition == current.identity or session.ended:
            return current
        if self.policy.name == "reject":
            raise ConversationConflict(
                f"conversation {session.conversation_id!r} was begun with another version of the "
                f"definition ({session.definition[:12]}) than this machine's {current.name!r} "
                f"({current.identity[:12]}). This machine was made with "
                'on_change="reject". Open it with the definition it was started with'
            )
        found = await self.find(session.definition)
        if found is not None:
            # Older versions may name tools that the current one does not have.
            await found.prepare()
        return found

    async def carried(self, session: Session) -> ev.Migrated | str | None:
        """Plan the migration of a conversation to the machine's own definition.

        If its definition is unknown, it can only be carried over by the map, or as it is.

        Returns:
            The event; a sentence if it cannot be migrated; None if it need not be.
        """
        if session.definition == self.current.identity or session.ended:
            return None
        found = await self.find(session.definition)
        old = None if found is None else found.program
        return carried(session, old, self.current.program, self.policy.change)


def _compiled(identity: str, text: str, like: CompiledMachine) -> CompiledMachine:
    try:
        return compile_flows(read_document(text), like.prompts, like.pieces or no_pieces)
    except (ValidationError, DefinitionError) as error:
        raise StoreError(
            f"the definition {identity[:12]} that the store keeps for its conversations cannot "
            f"be used: {error}"
        ) from error
