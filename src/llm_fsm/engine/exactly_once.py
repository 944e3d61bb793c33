"""Calls that must not run twice, within a function that runs again.

A question of the function is recognised by its text. If the text changed, for example because it
contains the time, the model is asked again. It may then repeat calls that are on record under the
old question. Such calls are matched by their tool and arguments: each call on record replaces one
new call.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec.structs import replace

from llm_fsm._json import JsonMap, filled, plain, read
from llm_fsm._text import sha256_of
from llm_fsm.turn.effects import PlannedCall, ToolResult, ToolResults

_LOG = "the log of a function cannot be read: result"
Perform = Callable[[tuple[PlannedCall, ...]], Awaitable[ToolResults]]


def fingerprint(call: PlannedCall) -> str:
    """Hash the tool and the arguments of a call. Calls with the same hash are equal from
    outside."""
    text = json.dumps([call.name, call.arguments], sort_keys=True)
    return sha256_of(text)[:32]


class ExactlyOnce:
    """The calls of a function's log from before a person's answer, until they are matched.

    `log` maps the key of each call to its fingerprint, its result and the key it was made under.
    The entry is empty if another call took the result. `begun` holds the keys of calls that started
    in this turn before a crash.
    """

    def __init__(self, log: JsonMap, begun: Collection[str] = ()) -> None:
        self.log = dict(log)
        self._left = filled(log)
        self._given = log.keys() - self._left
        self._begun = begun
        self._made: dict[str, str] = {}

    def known(
        self, calls: Sequence[PlannedCall], logged: Sequence[JsonMap], *, fresh: bool
    ) -> dict[str, ToolResult]:
        """Find the results of calls that need not be made.

        Args:
            calls: The calls that the model asks for now.
            logged: Results on record for these calls themselves.
            fresh: Their question is not on record from before the answer.

        Returns:
            Results by call id. A call whose result went to an earlier, equal call is made now. A
            call that comes a second time is made too, because a person wants it repeated.
        """
        found = {item["id"]: read(item, ToolResult, _LOG) for item in logged}
        for call in calls:
            if not call.at_most_once or call.key in self._made:
                continue
            # Its result went to an equal call, so this one is made under a key that nothing has
            # used.
            if call.key in self._given:
                found.pop(call.id, None)
                self._made[call.key] = f"{call.key}+"
            # A person wants it repeated: it is made again under the key of the first time.
            elif call.key in self._left:
                self._made[call.key] = self._left.pop(call.key)[2]
            elif (
                fresh
                and call.id not in found
                and call.key not in self._begun
                and (result := self._alike(call))
            ):
                found[call.id] = result
        return found

    async def made(
        self,
        calls: Sequence[PlannedCall],
        claimed: Callable[[PlannedCall], PlannedCall],
        perform: Perform,
    ) -> dict[str, ToolResult]:
        """Make calls, each under its own key.

        `claimed` returns the call as this turn's journal has it.

        Returns:
            Results by call id.
        """
        due = tuple(
            claimed(replace(call, key=self._made.get(call.key, call.key))) for call in calls
        )
        # The results may come in any order.
        results = {item.id: item for item in (await perform(due)).results}
        for call, made in zip(calls, due, strict=True):
            if call.at_most_once:
                key = self._made.setdefault(call.key, made.key)
                self.log[call.key] = [fingerprint(call), plain(results[call.id]), key]
        return results

    def _alike(self, call: PlannedCall) -> ToolResult | None:
        like = fingerprint(call)
        known = next((known for known, (kind, *_) in self._left.items() if kind == like), None)
        if known is None:
            return None
        self._given.add(known)
        self.log[call.key], self.log[known] = self.log[known], []
        _, result, self._made[call.key] = self._left.pop(known)
        return replace(read(result, ToolResult, _LOG), id=call.id)
