"""The process that is killed: clients that talk to the shop, each message with a request id, until
they are done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bot import TURNS, machine, message
from ledger import Ledger
from llm_fsm.engine.conversation import AsyncConversation, Turn
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ConversationConflict, ConversationNotFound
from llm_fsm.stores.base import OutboxQuery
from probes import Probe

Opens = Callable[[Probe], Any]
"""Opens the store in this process, with the points of a probe in it."""
_PATIENCE = 60.0
"""Seconds for what killed workers left; a lease is ten."""


async def work(opens: Opens, ledger: Ledger, probe: Probe, slots: int, *, last: bool) -> None:
    """Talk in `slots` conversations at once; `last`: finish those that are open and begin no
    others.
    """
    clients = Clients(shop=machine(opens(probe), ledger, probe), ledger=ledger, probe=probe)
    for line in ledger.lines("ack"):
        clients.acknowledged[line["c"]] = max(line["turn"], clients.acknowledged.get(line["c"], 0))
    await asyncio.gather(*(clients.serve(slot, last=last) for slot in range(slots)))
    if last:
        await all_told(clients.shop)
    await clients.shop.close()


async def all_told(shop: AsyncMachine) -> None:
    """Until the sink has heard of everything: where locks are leases, those of a killed worker last
    longer than it.
    """
    with suppress(TimeoutError):  # the audit says what the sink did not hear of
        async with asyncio.timeout(_PATIENCE):
            while await shop.store.outbox(OutboxQuery(limit=1)):
                await asyncio.sleep(0.1)


@dataclass(kw_only=True)
class Clients:
    """Who talks. `acknowledged`: conversation to the last turn whose answer they have."""

    shop: AsyncMachine
    ledger: Ledger
    probe: Probe
    acknowledged: dict[str, int] = field(default_factory=dict)

    async def serve(self, slot: int, *, last: bool) -> None:
        """One conversation after the other."""
        number = 0
        while True:
            name = f"c{slot}-{number}"
            done = self.acknowledged.get(name, 0)
            if done < TURNS:
                if (
                    last
                    and not done
                    and all(line["c"] != name for line in self.ledger.lines("sent"))
                ):
                    return
                await self.talk(name, done)
            number += 1

    async def talk(self, name: str, done: int) -> None:
        """Take a conversation up behind what was acknowledged; what was acknowledged last is sent
        once more.
        """
        try:
            chat = await self.shop.resume(name)
        except ConversationNotFound:
            self.ledger.write("sent", c=name, turn=0)
            chat = await self.shop.start(conversation_id=name, greet=False)
        if done:
            again = await chat.send(message(done), request_id=f"m{done}")
            self.ledger.write("again", c=name, turn=done, text=again.text)
        for turn in range(done + 1, TURNS + 1):
            self.probe("before sending")
            self.ledger.write("sent", c=name, turn=turn)
            reply = await chat.send(message(turn), request_id=f"m{turn}")
            text = await self._settled(chat, turn, reply)
            self.probe("before the acknowledgement")
            self.ledger.write("ack", c=name, turn=turn, text=text, number=reply.number)
            self.probe("after the acknowledgement")

    async def _settled(self, chat: AsyncConversation, turn: int, reply: Turn) -> str:
        """The words of a turn; where a lost call of `charge` has to be cleared up first, somebody
        looks it up.

        An answer that another life of this process gave, and that was accepted, counts instead of
        this one.
        """
        await chat.refresh()
        while chat.paused is not None:
            happened = any(
                (line["name"], line["c"], line["turn"]) == ("charge", chat.id, turn)
                for line in self.ledger.lines("effect")
            )
            answer = (
                {"result": {"receipt": f"{turn % 5} for {turn}"}} if happened else {"repeat": True}
            )
            with suppress(ConversationConflict):
                await chat.answer(answer, request_id=f"a{turn}-{chat.paused.id}")
            await chat.refresh()
        return reply.text
