"""Conversations that touch what others did not: from the beginning, by a shortest way, or beginning there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_fsm._json import steps
from llm_fsm.definition.models import Definition
from llm_fsm.testing.coverage.collect import Coverage, Kind, coverage_of
from llm_fsm.testing.generate.generator import Maker
from llm_fsm.testing.generate.paths import Journey, Journeys
from llm_fsm.testing.generate.plan import Plan

_MOST_TRIED = 400
"""Conversations that are tried for one state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completing:
    """One conversation that touches what was missed. `case`: as it stands in a file of tests; `reaches`: names."""

    case: Mapping[str, Any]
    reaches: tuple[str, ...]

    def told(self) -> str:
        """What happens in it, in one line: where it begins, what is said or answered, and what the model replies."""
        begin = self.case.get("state")
        known = self.case.get("context")
        parts = [*([f"in {begin}"] if begin else []), *([f"with {_json(known)}"] if known else [])]
        start = self.case.get("start", {})
        return "; ".join([*parts, *map(_reply, _replies(start)), *map(_step, self.case.get("steps", ()))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """Conversations for what others missed, and the file of tests that they make. `left`: what none touches."""

    conversations: tuple[Completing, ...]
    document: Mapping[str, Any]
    left: tuple[str, ...]


def completed(definition: Definition, coverage: Coverage, *, name: str, place: str) -> Completed:
    """Conversations for all that a coverage misses. `name`: what their file is to call the definition.

    `place`: the file that others which the definition calls are found by.
    """
    missing = {item: kind for kind in coverage.counts for item in coverage.missing(kind)}
    return asyncio.run(_completed(Maker(definition, place), missing, name))


async def _completed(maker: Maker, missing: Mapping[str, Kind], name: str) -> Completed:
    left = dict(missing)
    found: list[Completing] = []
    for state in _states(maker, missing):
        if not any(_at(item, state, maker) for item in left):
            continue
        async for case, turns in maker.played(_plans(maker, state)):
            counts = coverage_of(maker.program, [[event for turn in turns for event in turn.events]]).counts
            reached = tuple(item for item, kind in left.items() if counts[kind].get(item))
            if reached:
                found.append(Completing(case=case, reaches=reached))
                left = {item: kind for item, kind in left.items() if item not in reached}
            if not any(_at(item, state, maker) for item in left):
                break
    document = maker.document(name, [dict(one.case) for one in found])
    cases = [replace(one, case=case) for one, case in zip(found, document["cases"], strict=True)]
    return Completed(conversations=tuple(cases), document=document, left=tuple(left))


def _states(maker: Maker, missing: Iterable[str]) -> list[str]:
    """The states in which something is missed, nearest first; those that no way leads to at the end."""
    near = [*maker.planner.journeys.shortest]
    every = [*near, *(state for state in maker.definition.states if state not in near)]
    return [state for state in every if any(_at(item, state, maker) for item in missing)]


def _at(item: str, state: str, maker: Maker) -> bool:
    """Whether a thing may be touched by what is tried in a state."""
    kind = maker.definition.kind_of(state)
    if "#" in item:
        return kind == "subflow"
    if not item.startswith("/states/"):
        return kind == "converse"
    place = steps(item.split(" ", 1)[0])[1]
    return place == state or (item.count("/") == 2 and state in _before(maker, place))


def _before(maker: Maker, state: str) -> set[str]:
    """The states that lead to a state at once, which is touched by entering it."""
    subject = maker.planner.journeys.known.subject
    entering = {arc.source for source in subject.states for arc in subject.arcs_from[source] if arc.target == state}
    by_itself = {name for name, one in maker.definition.states.items() if state in (one.on_timeout, one.on_exhausted)}
    return entering | by_itself


def _plans(maker: Maker, state: str) -> Iterator[Plan]:
    """What is tried in a state, after a shortest way there, then without it; short conversations first."""
    tried = [*maker.planner.plans_in(state)]
    if state == maker.planner.journeys.known.subject.initial:
        tried = [*maker.planner.plans_at_first(), *tried]
    tried = sorted(tried[:_MOST_TRIED], key=lambda plan: len(plan.acts))
    journeys = maker.planner.journeys
    before = journeys.to(state)
    if before is not None:
        yield from (_whole(journeys, before, plan) for plan in tried if plan.state == state and not plan.calls)
    yield from _ways(journeys, state)
    yield from tried


def _ways(journeys: Journeys, state: str) -> Iterator[Plan]:
    """From the beginning through each transition of a state that decides, with values by which it does."""
    if state in journeys.shortest and journeys.definition.kind_of(state) == "decide":
        for arc in journeys.known.subject.arcs_from[state]:
            whole = journeys.along([*journeys.shortest[state], arc])
            if whole is not None:
                yield Plan(name=f"{state}: to {arc.target}", state="", context=whole.context, acts=whole.acts,
                           outputs=whole.outputs)


def _whole(journeys: Journeys, before: Journey, plan: Plan) -> Plan:
    """A plan after the way to its state; what the model may write is said on that way."""
    context = plan.context
    if before.acts and before.acts[-1].kind == "say":
        context, update = journeys.sorted_out(context)
        last = replace(before.acts[-1], update={**before.acts[-1].update, **update})
        before = replace(before, acts=(*before.acts[:-1], last))
    whole = before.then(Journey(context=context, acts=plan.acts, outputs=plan.outputs))
    greet = plan.greet and not before.acts
    return replace(plan, state="", context=whole.context, acts=whole.acts, outputs=whole.outputs, greet=greet)


def _replies(step: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    replies: Sequence[Mapping[str, Any]] = step.get("replies", [step["reply"]] if "reply" in step else [])
    return replies


def _step(step: Mapping[str, Any]) -> str:
    if "answer" in step:
        return ", ".join([f"answer {_json(step['answer'])}", *map(_reply, _replies(step))])
    if "wait" in step:
        return f"wait {step['wait']:g} s"
    return f"say → {', '.join(map(_reply, _replies(step))) or 'no reply'}"


def _reply(reply: Mapping[str, Any]) -> str:
    if "raw" in reply or "calls" in reply:
        return _json(reply.get("raw", reply.get("calls")))
    parts = [*([str(reply["to"])] if "to" in reply else []), *([_json(reply["set"])] if "set" in reply else [])]
    return " ".join(parts) or "stays"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
