"""Tests made from a definition: plans are played on the real machine, and what happens is what is expected.

So a generated test says what the machine does today. It passes, and fails once the machine does something else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llm_fsm.definition.models import Definition
from llm_fsm.documents.subflows import gather
from llm_fsm.engine.conversation import Turn
from llm_fsm.lint.solver.cases import put
from llm_fsm.llm.base import LLM
from llm_fsm.session import events as ev
from llm_fsm.session.context import compile_keys
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.testing.coverage.collect import Coverage, coverage_of
from llm_fsm.testing.generate.paths import Act
from llm_fsm.testing.generate.plan import Plan
from llm_fsm.testing.generate.planner import Planner
from llm_fsm.testing.generate.solutions import BEGINNING, SAID
from llm_fsm.testing.generate.values import samples
from llm_fsm.testing.scenarios.checks import function_names, tasks_of
from llm_fsm.testing.scenarios.fixtures import Stage
from llm_fsm.testing.scenarios.loader import Loaded, Play, suite_of
from llm_fsm.testing.scenarios.models import Reply
from llm_fsm.testing.scenarios.player import Player
from llm_fsm.testing.scenarios.runner import Rehearsal
from llm_fsm.testing.scenarios.scripted_model import CaseLLM
from llm_fsm.turn.compiled import CompiledMachine

_MOST_REPLIES = 12
"""Replies that a step may ask for before its plan is given up."""
_AT_REST = ("state", "context_exact", "ended", "paused", "open", "missing", "shown")
"""What is expected where nothing happened."""
_WORDS = "All right."
_NO_REPLY = "{"
_TOLD = ("MoveRefused", "ContextRefused", "ConditionFailed", "LimitReached", "TimedOut", "Reminded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A file of tests as a document, and what of the definition they touch."""

    document: dict[str, Any]
    coverage: Coverage


Played = tuple[dict[str, Any], Sequence[Turn]]
"""A case as a document, and the turns that it came to."""


def generated(definition: Definition, *, name: str, file: str, place: str | None = None) -> Generated:
    """Tests for a definition. `name`: what the file is to call it; `file`: where the tests will stand.

    `place`: the definition's own file, which others that it calls are found by.
    """
    return asyncio.run(_generated(Maker(definition, file if place is None else place), name))


async def _generated(maker: Maker, name: str) -> Generated:
    cases: list[dict[str, Any]] = []
    turns: list[Sequence[Turn]] = []
    async for case, happened in maker.played(maker.planner.plans()):
        cases.append(case)
        turns.append(happened)
    coverage = coverage_of(maker.program, ((event for turn in one for event in turn.events) for one in turns))
    return Generated(document=maker.document(name, cases), coverage=coverage)


class Maker:
    """Makes cases of plans for one definition. `place`: what files that it calls are found by."""

    def __init__(self, definition: Definition, place: str) -> None:
        self.definition = definition
        self.place = place
        flows = gather(definition, file=place)
        within: dict[str, dict[str, Planner]] = {name: {} for name in flows.called}
        called = {
            name: Planner(one.definition, one.definition.document, within[name])
            for name, one in flows.called.items()
        }
        for name, one in flows.called.items():
            within[name].update({state: called[flow] for state, flow in one.calls.items()})
        document = definition.document
        self.planner = Planner(definition, document, {state: called[flow] for state, flow in flows.root.calls.items()})
        self._document = document
        called_ones = ((one.definition, called[name].journeys.full) for name, one in flows.called.items())
        self._tasks = tasks_of(flows)
        self._works = [(definition, self.planner.journeys.full), *called_ones]
        self._host = _host(self._works)

    @cached_property
    def program(self) -> CompiledMachine:
        """The machine."""
        return self._loaded([]).machine(handlers=False).program

    def document(self, name: str, cases: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """A file of tests with these cases. `name`: what it calls the definition."""
        return {"definition": name, **self._host, "cases": _numbered(cases)}

    def _loaded(self, skeletons: Sequence[dict[str, Any]]) -> Player:
        cases = skeletons or [{"name": "none", "steps": []}]
        text = json.dumps({"definition": self._document, **self._host, "cases": cases})
        return Player(suite_of(text, file=self.place, drafts=True))

    async def played(self, plans: Iterable[Plan]) -> AsyncIterator[Played]:
        """The cases that plans come to, each once; those that cannot be played are left out."""
        keys = compile_keys(self.definition, ())
        fitting = [plan for plan in plans if all(keys.fault(*item) is None for item in plan.context.items())]
        every = [definition for definition, _ in self._works]
        skeletons = [_skeleton(every, self._tasks, plan, number) for number, plan in enumerate(fitting)]
        player = self._loaded(skeletons)
        seen: set[str] = set()
        try:
            for plan, skeleton, play in zip(fitting, skeletons, player.loaded.plays, strict=False):
                case, happened = await _played(player, player.loaded, plan, skeleton, play)
                mark = json.dumps({key: value for key, value in case.items() if key != "name"}, sort_keys=True)
                if happened and mark not in seen:
                    seen.add(mark)
                    yield case, happened
        finally:
            await player.close()


def _numbered(cases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases with names of their own."""
    used: dict[str, int] = {}
    found = []
    for case in cases:
        base = case["name"].rpartition(" (")[0] or case["name"]
        used[base] = used.get(base, 0) + 1
        found.append({**case, "name": base if used[base] == 1 else f"{base} ({used[base]})"})
    return found


def _host(works: Iterable[tuple[Definition, Mapping[str, Any]]]) -> dict[str, Any]:
    """Tools and functions that do something plain, for definitions, each with one value of every key."""
    tools: dict[str, Any] = {}
    functions: dict[str, Any] = {}
    for definition, values in works:
        for tool, ref in definition.tools.items():
            tools.setdefault(tool, {"result": _result(ref.output or {}, values)})
        for name, checks in function_names(definition).items():
            functions.setdefault(name, [{"passed": True} if checks else {"output": "done"}])
    return {key: value for key, value in (("tools", tools), ("functions", functions)) if value}


def _result(output: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """A result in which an output mapping finds something."""
    result: dict[str, Any] = {"ok": True}
    for key, path in output.items():
        parts = [part for part in path.removeprefix("$").split(".") if part and part.isidentifier()]
        if parts:
            put(result, parts, values.get(key, "found"))
    return result


def _skeleton(every: Sequence[Definition], tasks: Mapping[str, str | None], plan: Plan, number: int) -> dict[str, Any]:
    """A case without replies of its own and without expectations. `every`: the definition, and all that it calls."""
    case: dict[str, Any] = {"name": f"{plan.name} ({number})"}
    case |= {"context": dict(plan.context)} if plan.context else {}
    initial = every[0].initial_state
    begins = not plan.state or (plan.state == initial and every[0].kind_of(initial) != "decide")
    case |= {} if begins else {"state": plan.state}
    case |= {"greet": True} if plan.greet else {}
    case |= {} if plan.input is None else {"input": plan.input}
    functions: dict[str, Any] = {}
    for state, output in (*plan.outputs, *(work for act in plan.acts for work in act.outputs)):
        execute = tasks.get(state)
        if execute is not None:
            functions.setdefault(execute, []).append({"output": output})
    if not plan.checks:
        checks = (name for one in every for name, is_check in function_names(one).items() if is_check)
        functions |= {name: [{"passed": False, "reason": "no"}] for name in checks}
    case |= {"functions": functions} if functions else {}
    case |= {"tools": {name: {"result": result} for name, result in plan.results.items()}} if plan.results else {}
    case |= {"handlers": [_handler(number, values) for number, values in enumerate(plan.host, 1)]} if plan.host else {}
    return {**case, "steps": [_step(act) for act in plan.acts]}


def _handler(turn: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the host sets when a message comes in."""
    return {"at": "pre_processing", "when": {"==": [{"var": "_turn"}, turn]}, "set": dict(values)}


def _step(act: Act) -> dict[str, Any]:
    if act.kind == "answer":
        return {"answer": act.answer}
    return {"wait": act.wait} if act.kind == "wait" else {"say": act.said or SAID}


async def _played(
    player: Player, loaded: Loaded, plan: Plan, skeleton: dict[str, Any], play: Play
) -> tuple[dict[str, Any], Sequence[Turn]]:
    """The case with replies and expectations, and its turns; none where it could not be played."""
    player.stage.now = BEGINNING
    player.stage.set(play.setup["tools"], play.setup["functions"], play.setup["handlers"])
    machine = player.machine(handlers=bool(plan.host))
    model = _Improvised(loaded, plan)
    machine.llm = model.llm
    noted = _Noting(machine, play, model, player.stage)
    try:
        await noted.run()
        turns = () if noted.chat is None else await noted.chat.turns()
    finally:
        await machine.delete(noted.id)
    if noted.missed or not noted.notes:
        return {}, ()
    noted.notes[-1].expect |= noted.asked_next()
    start, *steps = noted.notes
    case = {key: value for key, value in skeleton.items() if key != "steps"}
    if start.replies or (start.turn is not None and (start.turn.text or len(start.turn.events) > 1)):
        case |= {**({} if plan.greet else {"greet": False}), "start": start.given()}
    if not steps and "start" not in case:
        case["expect"] = {key: start.expect[key] for key in _AT_REST if key in start.expect}
    case["steps"] = [{**given, **note.given()} for given, note in zip(skeleton["steps"], steps, strict=False)]
    return case, turns


class _Note:
    """What a step asked for and came to."""

    def __init__(self, replies: Sequence[dict[str, Any]], expect: dict[str, Any], turn: Turn | None) -> None:
        self.replies = replies
        self.expect = expect
        self.turn = turn

    def given(self) -> dict[str, Any]:
        one = {"reply": self.replies[0]} if len(self.replies) == 1 else {"replies": list(self.replies)}
        return {**(one if self.replies else {}), "expect": self.expect}


def _absent(turn: Turn | None) -> list[str]:
    """Events that did not happen and easily could have; without a turn time has passed, and nothing was due."""
    if turn is None:
        return ["Reminded", "TimedOut"]
    return [] if any(isinstance(event, ev.MoveRefused) for event in turn.events) else ["MoveRefused"]


class _Noting(Rehearsal):
    """A rehearsal that writes down what happens."""

    def __init__(self, machine: Any, play: Play, model: _Improvised, stage: Stage) -> None:
        super().__init__(machine, play, model, stage)
        self.improvised = model
        self.notes: list[_Note] = []

    def close(self, at: Any, turn: Turn | None, error: str | None) -> None:
        """Note the step as it went."""
        expect: dict[str, Any] = {}
        if error is not None:
            expect["error"] = error.partition(":")[0]
        elif self.chat is not None:
            expect = self.expected(turn)
        self.notes.append(_Note(self.improvised.asked(), expect, turn))
        super().close(at, turn, error)
        if error is not None:
            self.missed = [miss for miss in self.missed if "it failed" not in miss[1].message]

    def expected(self, turn: Turn | None) -> dict[str, Any]:
        seen = self.seen(turn, None)
        entered = [event.state for event in seen.events if isinstance(event, ev.StateEntered)]
        told = [one for event in seen.events if (one := self.told(event)) is not None]
        tools = [
            {"name": event.name, "error": isinstance(event, ev.ToolRefused) or event.error is not None}
            for event in seen.events
            if isinstance(event, ev.ToolReturned | ev.ToolRefused)
        ]
        return {
            "state": seen.state,
            "path": entered,
            "context_exact": dict(seen.context),
            **({"text": {"equals": seen.text}} if turn is not None else {}),
            **({"events": told} if told else {}),
            **({"not": {"events": absent}} if (absent := _absent(turn)) else {}),
            **({"tools": tools} if tools else {}),
            "ended": seen.ended,
            "calls": seen.calls,
            **({"outcome": seen.outcome} if turn is not None else {}),
            "paused": False if seen.paused is None else {"what": seen.paused.what, "kind": seen.paused.kind},
        }

    def asked_next(self) -> dict[str, Any]:
        """What the model is going to be asked with; nothing where the conversation does not talk any more."""
        chat = self.chat
        if chat is None or chat.ended or chat.paused is not None or chat.kind != "converse":
            return {}
        return {"open": list(chat.ahead.open), "missing": list(chat.ahead.missing), "shown": list(chat.ahead.shown)}

    def told(self, event: ev.Event) -> dict[str, Any] | None:
        """An event as it is expected again; None for those that other expectations cover."""
        kind = type(event).__name__
        if isinstance(event, ev.StateEntered):
            return {"type": kind, "transition": event.transition} if self.one_of_several(event) else None
        if isinstance(event, ev.FlowPushed):
            return {"type": kind, "kind": event.kind, "context": dict(event.context)}
        if isinstance(event, ev.ContextRefused):
            return {"type": kind, "key": event.key}
        if isinstance(event, ev.AttemptFailed):
            return {"type": kind, "attempt": event.attempt, "last": event.last}
        return {"type": kind} if kind in _TOLD else None

    def one_of_several(self, event: ev.StateEntered) -> bool:
        """Whether other transitions lead to the same state, so that the path does not say which was taken."""
        definition = self.machine.definition
        source = definition.states.get(event.previous)
        if source is None or not event.transition:
            return False
        offered = (*source.transitions, *definition.global_transitions)
        return sum(one.target_state == event.state for one in offered) > 1


class _Improvised:
    """A model that tries what a plan wants first, and answers plainly to whatever else it is asked."""

    def __init__(self, loaded: Loaded, plan: Plan) -> None:
        self._tasks = tasks_of(loaded.flows)
        self._model = _Improviser(self._tasks, passes=plan.judged)
        self.llm: LLM = self._model
        self._plan = plan

    def begin(self, play: Play) -> None:
        """Nothing is to be prepared."""

    def step(self, number: int, replies: Sequence[Reply]) -> None:  # noqa: ARG002
        """Have the reply ready that the plan wants."""
        act = self._plan.acts[number - 1] if number else None
        wanted: list[dict[str, Any]] = []
        if act is None:
            wanted += [{"calls": [{"name": name, "arguments": {}} for name in one]} for one in self._plan.calls]
        elif act.garbled:
            wanted += [{"raw": _NO_REPLY}, {"raw": _NO_REPLY}]
        elif act.kind == "say":
            reply = {"message": _WORDS, **({"set": dict(act.update)} if act.update else {})}
            wanted.append({**reply, **({"to": act.to} if act.to is not None else {})})
        works = self._plan.outputs if act is None else act.outputs
        wanted += [{"raw": _as_text(output)} for output in self._spoken(works)]
        self._model.ready(wanted)

    def _spoken(self, works: Sequence[tuple[str, Any]]) -> list[Any]:
        """What those tasks put out that a model works on."""
        return [output for state, output in works if self._tasks.get(state) is None]

    def asked(self) -> Sequence[dict[str, Any]]:
        """The replies that were given in the step."""
        return self._model.told

    def done(self, secrets: Any) -> str | None:  # noqa: ARG002
        """A plan whose replies nobody asks for, or that asks for too many, is none."""
        return self._model.lacking


def _as_text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


class _Improviser(CaseLLM):
    """Gives the wanted reply, then plain ones; `told`: what it gave; `passes`: what it says as a judge."""

    def __init__(self, tasks: Collection[str], *, passes: bool) -> None:
        super().__init__(lambda state: state in tasks)
        self._passes = passes
        self._wanted: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []

    def ready(self, wanted: Sequence[dict[str, Any]]) -> None:
        """A step begins; what was wanted before and not asked for comes first."""
        self._wanted, self.told = [*self._wanted, *wanted], []
        self.give([])

    async def complete(self, request: LLMRequest) -> ModelReply:
        """The next reply; after too many of them, an error."""
        if len(self.told) < _MOST_REPLIES or self._wanted:
            judges = self._works(request.state) and request.schema is not None
            reply = self._wanted.pop(0) if self._wanted and not judges else self._plain(request)
            self.told.append(reply)
            self._replies = [*self._replies, Reply.model_validate(reply)]
        return await super().complete(request)

    def _plain(self, request: LLMRequest) -> dict[str, Any]:
        schema = None if request.schema is None else request.schema.schema
        members = {} if schema is None else schema.get("properties", {})
        if schema is not None and "verdicts" in members:
            verdict = members["verdicts"]["items"]["properties"]
            names = verdict["name"].get("enum", [])
            return {"raw": {"verdicts": [{"name": name, "reason": "", "passed": self._passes} for name in names]}}
        if schema is not None and "transition" not in schema.get("properties", {}):
            return {"raw": next(iter(samples(schema, schema.get("$defs"))), {})}
        return {"message": _WORDS}
