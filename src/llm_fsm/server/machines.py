"""The machines of a server, and the conversations of its callers."""

from __future__ import annotations

import heapq
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from llm_fsm import AsyncConversation, AsyncMachine
from llm_fsm._text import sha256_of
from llm_fsm.definition.subflows import read_document
from llm_fsm.engine.outbox.sinks import Sink
from llm_fsm.errors import ConfigurationError, ConversationNotFound
from llm_fsm.server.problems import Problem
from llm_fsm.server.rights import Act, check, is_random, is_shared, may, may_answer
from llm_fsm.server.tokens import Caller
from llm_fsm.session.messages import Paused
from llm_fsm.stores.base import Listed, ListQuery, Store, every_line, kept_definition, storable

CACHED = 4096
"""The most conversations in the cache, so that the next message does not read them again."""
_PAGE = 200


@dataclass(frozen=True, slots=True)
class Served:
    """A conversation, and the machine that plays it."""

    machine: AsyncMachine
    chat: AsyncConversation
    caller: Caller

    @property
    def id(self) -> str:
        """The id by which the caller knows it."""
        return self.caller.public(self.chat.id)

    @property
    def stored(self) -> str:
        """The id under which the store keeps it."""
        return self.chat.id

    @property
    def store(self) -> Store:
        """The store that keeps it."""
        return self.machine.store

    @property
    def definition(self) -> str:
        """The name of its definition."""
        return self.machine.definition.name

    def may(self, act: Act) -> bool:
        """Return true if the caller may do something with it."""
        return may(self.caller, act, self.stored)

    def may_answer(self, paused: Paused) -> bool:
        """Return true if the caller may answer its pause."""
        return may_answer(self.caller, paused, self.stored)

    def check(self, act: Act, doing: str) -> None:
        """Raise Problem 403 if the caller may not do something with it."""
        check(self.caller, act, doing, self.stored)


class Machines:
    """Machines by the names of their definitions."""

    def __init__(self, machines: Iterable[AsyncMachine]) -> None:
        self._machines: dict[str, AsyncMachine] = {}
        self._sinks: list[Sink] = []
        self._by_sha: dict[str, str] = {}
        self._cached: OrderedDict[str, tuple[AsyncMachine, AsyncConversation]] = OrderedDict()
        for machine in machines:
            if machine.definition.name in self._machines:
                raise ConfigurationError(
                    f"two definitions have the name {machine.definition.name!r}; a server tells them apart by it"
                )
            self.replace(machine)

    def all(self, caller: Caller) -> Sequence[AsyncMachine]:
        """Return the machines that a caller may use. Raises Problem 403."""
        check(caller, "read", "read definitions")
        return [machine for name, machine in self._machines.items() if caller.may_use(name)]

    def every(self) -> Sequence[AsyncMachine]:
        """Return all machines."""
        return list(self._machines.values())

    @property
    def stores(self) -> Sequence[Store]:
        """The stores of the machines, each once."""
        return list(
            {id(machine.store): machine.store for machine in self._machines.values()}.values()
        )

    def replace(self, machine: AsyncMachine) -> None:
        """Replace the machine of the same name. New conversations begin with it."""
        name = machine.definition.name
        for sink in self._sinks:
            machine.closing.dispatcher.add(sink)
        old = self._machines.get(name)
        self._machines[name] = machine
        self._by_sha[machine.program.identity] = name
        if old is not None:
            for key in [key for key, (served, _) in self._cached.items() if served is old]:
                del self._cached[key]

    def deliver_to(self, sink: Sink) -> None:
        """Let every machine deliver to a sink, those that replace others, too."""
        self._sinks.append(sink)
        for machine in self.every():
            machine.closing.dispatcher.add(sink)

    def named(self, caller: Caller, name: str) -> AsyncMachine:
        """Return the machine of a definition, by its name or its SHA-256. Raises Problem 403, 404.

        No client can send the names `.` and `..` in a path, or none at all.
        """
        check(caller, "read", "read definitions")
        if name not in self._machines:
            name = self._by_sha.get(name, name)
        machine = self._machines.get(name) if caller.may_use(name) else None
        if machine is None:
            raise Problem(
                "not-found", f"there is no definition {name!r:.200}; GET /definitions lists them"
            )
        return machine

    def inspected(self, caller: Caller, name: str) -> AsyncMachine:
        """Return the machine of a definition whose instructions a caller sees. Raises the errors of
        `named`.
        """
        check(caller, "inspect", "read the instructions of a definition")
        return self.named(caller, name)

    # -- conversations

    def cache(self, caller: Caller, machine: AsyncMachine, chat: AsyncConversation) -> Served:
        """Add a conversation to the cache."""
        self._cached[chat.id] = (machine, chat)
        self._cached.move_to_end(chat.id)
        if len(self._cached) > CACHED:
            self._cached.popitem(last=False)
        return Served(machine, chat, caller)

    def forget(self, stored: str) -> None:
        """Remove a conversation from the cache."""
        self._cached.pop(stored, None)

    async def find(self, caller: Caller, conversation_id: str) -> Served:
        """Return the conversation of a caller. Raises ConversationNotFound, also for one of another
        caller.
        """
        stored = caller.stored(conversation_id)
        found = self._cached.get(stored)
        if found is not None and caller.may_use(found[0].definition.name):
            self._cached.move_to_end(stored)
            return Served(*found, caller)
        machine = await self.machine_of(stored)
        if machine is None or not caller.may_use(machine.definition.name):
            raise ConversationNotFound(f"there is no conversation {conversation_id!r}")
        return self.cache(caller, machine, await machine.resume(stored))

    async def machine_of(self, stored: str) -> AsyncMachine | None:
        """Return the machine that plays a conversation of the store; None if there is none."""
        for store in self.stores:
            loaded = await store.load(stored)
            if loaded is None:
                continue
            sha = loaded.definition_sha
            if sha is not None and sha not in self._by_sha:
                text = await kept_definition(store, sha)
                if text is not None:
                    self._by_sha[sha] = read_document(text).root.definition.name
            machine = self._machines.get(self._by_sha.get(sha or "", ""))
            if machine is not None and machine.store is store:
                return machine
        return None

    async def listed(self, caller: Caller, query: ListQuery) -> Sequence[Listed]:
        """Return the conversations of a caller that match a query, in its order.

        `after` is an id in the store. `begins` is the beginning of ids as the caller knows them.

        Raises Problem 403.
        """
        check(caller, "read", "list conversations")
        wanted = replace(query, begins=caller.stored(query.begins), limit=_PAGE)

        async def page(store: Store) -> Sequence[Listed]:
            found: list[Listed] = []
            async for line in every_line(store, wanted):
                if len(found) == query.limit:
                    break
                if line.definition in self._machines and caller.may_use(line.definition):
                    found.append(line)
            return found

        pages = [await page(store) for store in self.stores]
        merged = heapq.merge(*pages, key=query.key, reverse=query.descends)
        # Two machines may have one database, each through a store of its own.
        once = {line.conversation_id: line for line in merged}
        return [*once.values()][: query.limit]

    async def counted(self, caller: Caller, query: ListQuery) -> int:
        """Count the conversations of a caller that match a query. Raises Problem 403."""
        check(caller, "read", "list conversations")
        wanted = replace(query, begins=caller.stored(query.begins))
        count = 0
        for name, machine in self._machines.items():
            if caller.may_use(name) and query.definition in (None, storable(name)):
                count += await machine.store.count(replace(wanted, definition=storable(name)))
        return count


def new_id(caller: Caller, kind: str, key: str | None) -> str:
    """Return an id that nobody can guess; with an idempotency key always the same for the same
    caller.

    Callers without a token are one caller, so only a key that nobody can guess counts for them.
    """
    if key is None:
        return uuid.uuid4().hex
    if is_shared(caller) and not is_random(key):
        return uuid.uuid4().hex
    return sha256_of(f"{kind}\0{caller.name}\0{key}")[:32]
