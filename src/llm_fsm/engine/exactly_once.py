"""Calls that must not run twice, of a function that is run again.

What a function asked is known again by its words. Where they are others, because a clock stands in them, say, the
model is asked anew, and may make calls anew that are on record under questions that nobody asks any more. Which of them
is which can only be told by what they do: each call on record stands for one of the same tool with the same arguments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict, replace

from llm_fsm.session.serialization import read
from llm_fsm.turn.effects import PlannedCall, ToolResult, ToolResults

_LOG = "the log of a function cannot be read: result"
Perform = Callable[[tuple[PlannedCall, ...]], Awaitable[ToolResults]]


def likeness(call: PlannedCall) -> str:
    """What calls have in common that cannot be told apart from outside: tool and arguments, as a hash."""
    text = json.dumps([call.name, call.arguments], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Once:
    """Those of a function's log, from before a person's answer, as far as nobody has come back for them.

    `log`: the key of each call to its likeness, its result and the key that it was made under, as the function's log
    keeps them; to nothing where the result went to another call. `begun`: the keys of calls that were begun in this
    turn, before a crash.
    """

    def __init__(self, log: Mapping[str, Any], begun: Collection[str] = ()) -> None:
        self.log = dict(log)
        self._left = {key: entry for key, entry in log.items() if entry}
        self._given = {key for key, entry in log.items() if not entry}
        self._begun = begun
        self._made: dict[str, str] = {}

    def known(
        self, calls: Sequence[PlannedCall], logged: Sequence[Mapping[str, Any]], *, fresh: bool
    ) -> dict[str, ToolResult]:
        """The results by the calls' ids that need no call. `logged`: what is on record of these calls themselves.

        `fresh`: their question is not on record from before the answer. A call whose result went to another one like
        it, which came first, is to be made now in its stead. One that comes a second time is made, as a person wants it
        repeated.
        """
        found = {item["id"]: read(item, ToolResult, _LOG) for item in logged}
        for call in calls:
            if not call.at_most_once or call.key in self._made:
                continue
            if call.key in self._given:
                found.pop(call.id, None)
                self._made[call.key] = f"{call.key}+"
            elif call.key in self._left:
                self._made[call.key] = self._left.pop(call.key)[2]
            elif fresh and call.id not in found and call.key not in self._begun and (result := self._alike(call)):
                found[call.id] = result
        return found

    async def made(
        self, calls: Sequence[PlannedCall], claimed: Callable[[PlannedCall], PlannedCall], perform: Perform
    ) -> dict[str, ToolResult]:
        """The results of calls by their ids, each made under the key that it is to have.

        `claimed`: the call as the journal of this turn has it.
        """
        due = tuple(claimed(replace(call, key=self._made.get(call.key, call.key))) for call in calls)
        results = {item.id: item for item in (await perform(due)).results}
        for call, made in zip(calls, due, strict=True):
            if call.at_most_once:
                key = self._made.setdefault(call.key, made.key)
                self.log[call.key] = [likeness(call), asdict(results[call.id]), key]
        return results

    def _alike(self, call: PlannedCall) -> ToolResult | None:
        like = likeness(call)
        known = next((known for known, (kind, *_) in self._left.items() if kind == like), None)
        if known is None:
            return None
        self._given.add(known)
        self.log[call.key], self.log[known] = self.log[known], []
        _, result, self._made[call.key] = self._left.pop(known)
        return replace(read(result, ToolResult, _LOG), id=call.id)
