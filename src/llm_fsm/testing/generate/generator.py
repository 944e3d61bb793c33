"""Make tests from a definition: conversations that touch every element that coverage counts.

`generated` plans conversations state by state, nearest first, and plays each plan on the real
machine. It keeps a conversation if it touches something new, and writes down its results as
expectations. So a generated test records the machine's present behaviour, and fails when that
changes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from llm_fsm._json import (
    JsonDict,
    JsonMap,
    TextMap,
    json_text,
    of_kind,
    plain,
    without,
    without_none,
)
from llm_fsm.definition.models import Definition
from llm_fsm.documents.subflows import gather
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.host_files import HostTools
from llm_fsm.errors import LLMFSMError
from llm_fsm.lint.solver.cases import put
from llm_fsm.session import events as ev
from llm_fsm.session.context import compile_keys
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.session.quotes import QUOTES, YES
from llm_fsm.session.turn_record import events_of
from llm_fsm.testing.coverage import Coverage, coverage_of, touched_by
from llm_fsm.testing.generate.decisions import Decisions, MachineMutants
from llm_fsm.testing.generate.paths import Act
from llm_fsm.testing.generate.planner import Plan, Planner, Plans
from llm_fsm.testing.generate.solver import SAID
from llm_fsm.testing.generate.values import samples
from llm_fsm.testing.generate.wanted import Wanted
from llm_fsm.testing.scenarios.checks import function_names, tasks_of
from llm_fsm.testing.scenarios.loader import Play, suite_of
from llm_fsm.testing.scenarios.models import Case, CaseReply, merged
from llm_fsm.testing.scenarios.player import Player
from llm_fsm.testing.scenarios.problems import FileFault, SuiteError
from llm_fsm.testing.scenarios.returned import returned_in
from llm_fsm.testing.scenarios.runner import CaseRunner
from llm_fsm.testing.scenarios.save import replies_of
from llm_fsm.testing.scenarios.scripted_model import Scripted

_MOST_TRIED = 400
"""The most plans to try in one state."""
_MOST_REPLIES = 12
"""The most replies of one step; then the plan is given up."""
_WORDS = "All right."
_NO_REPLY = "{"
_EXPECTED: Mapping[type[ev.Event], tuple[str, ...]] = {
    ev.FlowPushed: ("kind", "context"),
    ev.ContextRefused: ("key",),
    ev.AttemptFailed: ("attempt", "last"),
    ev.MoveRefused: ("target",),
    ev.KeyResultChecked: ("name", "passed"),
    ev.ConditionFailed: (),
    ev.LimitReached: (),
    ev.ToolReturned: ("name",),
    ev.ToolRefused: ("name",),
    ev.TimedOut: (),
    ev.Reminded: (),
}
"""Events that a test expects, each with the fields that it compares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptConversation:
    """A conversation that was kept: its case in the file of tests, and the elements that it touches
    first.
    """

    case: JsonMap
    reaches: tuple[str, ...]

    def summary(self) -> str:
        """Return the conversation in one line."""
        parts = []
        if begin := self.case.get("state"):
            parts.append(f"in {begin}")
        if known := self.case.get("context"):
            parts.append(f"with {json_text(known)}")
        parts += map(_reply_of, _replies(self.case.get("start", {})))
        parts += map(_step_of, self.case.get("steps", ()))
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A file of tests.

    Args:
        document: The JSON object of the file.
        conversations: Its cases, in the same order.
        coverage: The elements of the definition that the cases touch.
        left: The wanted elements that no case touches.
    """

    document: JsonMap
    conversations: tuple[KeptConversation, ...]
    coverage: Coverage
    left: tuple[str, ...]


def generated(
    definition: Definition,
    *,
    name: str,
    place: str,
    missing: Iterable[str] | None = None,
    host: HostTools | None = None,
) -> Generated:
    """Make tests for a definition.

    Args:
        definition: The definition.
        name: The definition's name in the file of tests.
        place: A path in the folder of the definitions that it calls.
        missing: The elements to touch, named as coverage names them; None for all.
        host: The caller's own functions and handlers, which run here. The tests keep what they
            return. Functions of tasks that act, and tools, do not run.
    """
    maker = _Maker(definition, place, HostTools() if host is None else host)
    return asyncio.run(_generated(maker, name, missing))


async def _generated(maker: _Maker, name: str, missing: Iterable[str] | None) -> Generated:
    program = maker.player.machine.program
    elements = coverage_of(program, []).untouched() if missing is None else [*missing]
    # Tests for what other tests leave out only touch those elements.
    changes = maker.decisions.names() if missing is None else ()
    wanted = Wanted(elements, changes, maker.planner)
    found = list[KeptConversation]()
    kept_events = []
    try:
        for plan in maker.plans(wanted):
            played = await maker.played(plan)
            if played is None:
                continue
            reached = wanted.take(played.touched, played.told)
            if reached is not None:
                found.append(KeptConversation(case=played.case, reaches=reached))
                kept_events.append(played.events)
        # Coverage counts no tools, so these are kept for the call itself.
        for plan in maker.planner.tool_plans() if missing is None else ():
            played = await maker.played(plan)
            if played is not None and played.called:
                found.append(KeptConversation(case=played.case, reaches=()))
                kept_events.append(played.events)
    finally:
        await maker.player.close()
        await maker.live.close()
    coverage = coverage_of(program, kept_events)
    cases = _numbered([one.case for one in found])
    kept = tuple(replace(one, case=case) for one, case in zip(found, cases, strict=True))
    document = {"definition": name, **maker.host, "cases": cases}
    return Generated(document=document, conversations=kept, coverage=coverage, left=wanted.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """A plan that was played: its case, the elements it touches, the changes it tells apart."""

    case: JsonDict
    events: Sequence[ev.Event]
    touched: Collection[str]
    told: Collection[str]
    called: bool
    """True if the model called the tool of the plan."""


class _Maker:
    """Plays plans for one definition on one machine, and writes them down as cases."""

    def __init__(self, definition: Definition, place: str, host: HostTools) -> None:
        self.definition = definition
        flows = gather(definition, file=place)
        within: dict[str, dict[str, Planner]] = {name: {} for name in flows.called}
        mutants: dict[str, MachineMutants] = {}
        called = {
            name: Planner(one.definition, within[name], name, mutants)
            for name, one in flows.called.items()
        }
        for name, one in flows.called.items():
            within[name].update({state: called[flow] for state, flow in one.calls.items()})
        calls = {state: called[flow] for state, flow in flows.root.calls.items()}
        self.planner = Planner(definition, calls, "", mutants)
        self._tasks = tasks_of(flows)
        self._every = [definition, *(one.definition for one in flows.called.values())]
        values = [self.planner.paths.full, *(called[name].paths.full for name in flows.called)]
        self.host = _host(zip(self._every, values, strict=True))
        safe = dict(host.functions)
        for state in chain.from_iterable(one.states.values() for one in self._every):
            if state.acts:
                safe.pop(str(state.execute), None)
        self.player = self._player(place, self.host, HostTools(handlers=host.handlers))
        rest = without(self.host.get("functions", {}), safe)
        own = HostTools(functions=safe, handlers=host.handlers)
        self.live = self._player(place, {**self.host, "functions": rest}, own)
        """Plays plans that name no output of a function with the host's own functions."""
        self.decisions = Decisions(self.player.machine.program)
        mutants.update(self.decisions.mutants)
        self._keys = compile_keys(definition, ())

    def _player(self, place: str, fixtures: JsonMap, host: HostTools) -> Player:
        text = json.dumps(
            {
                "definition": self.definition.document,
                **fixtures,
                "cases": [{"name": "none", "steps": []}],
            }
        )
        return Player(suite_of(text, file=place, drafts=True), host=host)

    def plans(self, wanted: Wanted) -> Plans:
        """Yield plans for the states, nearest first, that may touch or tell something new."""
        yield Plan(name="begins", greet=True)
        near = self.planner.paths.shortest
        far = [state for state in self.definition.states if state not in near]
        for state in (*near, *far):
            tried = 0
            for plan in self.planner.plans(state):
                if tried >= _MOST_TRIED:
                    break
                if not wanted.may_touch(plan, state):
                    continue
                if all(self._keys.fault(*item) is None for item in plan.context.items()):
                    tried += 1
                    yield plan

    async def played(self, plan: Plan) -> _Played | None:
        """Play a plan. Return None if it could not be played."""
        skeleton = self._skeleton(plan)
        case = Case.model_validate(skeleton)
        player = self.player if case.functions else self.live
        play = Play(name=plan.name, case=case, pointer="", setup=merged(player.loaded.shared, case))
        machine = player.prepared(play.setup)
        spoken = [state for state, execute in self._tasks.items() if execute is None]
        confirming: set[str] = set()
        for one in self._every:
            confirming.update(name for name, state in one.states.items() if state.confirms)
        model = _Improviser(self._tasks, spoken, plan, confirming)
        machine.llm = model.llm
        run = _WritingRunner(machine, play, model, player.stage)
        try:
            await run.run()
            turns = () if run.chat is None else await run.chat.turns()
        except (LLMFSMError, ValueError, TypeError, RecursionError) as error:
            said = f'the case "{plan.name}" cannot be played: {type(error).__name__}: {error}'
            raise SuiteError([FileFault(message=said, file=player.loaded.file)]) from error
        finally:
            await machine.delete(run.id)
        if run.missed or not run.notes or not turns:
            return None
        events = list(events_of(turns))
        returned = returned_in(machine.program, events)
        if player is self.live and returned.functions:
            skeleton["functions"] = returned.functions
        if returned.handlers:
            skeleton["handlers"] = returned.handlers
        tried: JsonDict = {}
        for act in plan.acts:
            tried.update(act.update)
        outputs: dict[str, list[Any]] = {}
        for state, output in _outputs(plan):
            outputs.setdefault(state, []).append(output)
        return _Played(
            case=run.case(skeleton, greet=plan.greet),
            events=events,
            touched=touched_by(machine.program, events),
            told=self.decisions.told_by(events, tried, outputs),
            called=model.called,
        )

    def _skeleton(self, plan: Plan) -> JsonDict:
        """Return the case without replies and expectations."""
        initial = self.definition.initial_state
        begins = not plan.state or (
            plan.state == initial and self.definition.kind_of(initial) != "decide"
        )
        functions: JsonDict = {}
        for state, output in _outputs(plan):
            execute = self._tasks.get(state)
            if execute is not None:
                functions.setdefault(execute, []).append({"output": output})
        if plan.refuses == "checks":
            for one in self._every:
                for name, is_check in function_names(one).items():
                    if is_check:
                        functions[name] = [{"passed": False, "reason": "no"}]
        return without_none(
            {
                "name": plan.name,
                "context": dict(plan.context) or None,
                "state": None if begins else plan.state,
                "greet": plan.greet or None,
                "input": plan.input,
                "functions": functions or None,
                "steps": [_step(act) for act in plan.acts],
            }
        )


def _outputs(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Yield the tasks of a plan, each with its output."""
    yield from plan.outputs
    for act in plan.acts:
        yield from act.outputs


def _host(works: Iterable[tuple[Definition, JsonMap]]) -> JsonDict:
    """Make simple tools and functions, for definitions with a value of each key."""
    tools: JsonDict = {}
    functions: JsonDict = {}
    for definition, values in works:
        for tool, ref in definition.tools.items():
            tools.setdefault(tool, {"result": _result(ref.output or {}, values)})
        for name, checks in function_names(definition).items():
            functions.setdefault(name, [{"passed": True} if checks else {"output": "done"}])
    return {key: value for key, value in (("tools", tools), ("functions", functions)) if value}


def _result(output: TextMap, values: JsonMap) -> JsonDict:
    """Make a result in which an output mapping finds a value."""
    result = {"ok": True}
    for key, path in output.items():
        parts = [part for part in path.removeprefix("$").split(".") if part and part.isidentifier()]
        if parts:
            put(result, parts, values.get(key, "found"))
    return result


def _step(act: Act) -> JsonDict:
    if act.kind == "answer":
        return {"answer": act.answer}
    if act.kind == "wait":
        return {"wait": act.wait}
    return {"say": SAID}


def _numbered(cases: Iterable[JsonMap]) -> list[JsonDict]:
    """Give each case its own name."""
    used: dict[str, int] = {}
    found = []
    for case in cases:
        name = case["name"]
        used[name] = used.get(name, 0) + 1
        found.append({**case, "name": name if used[name] == 1 else f"{name} ({used[name]})"})
    return found


class _Improviser(Scripted):
    """The model of a plan: it tries the plan's replies, and answers simply to everything else.

    `tasks`: the states that work, and of these `spoken` whose outputs the model writes.
    `confirming`: the states that ask for a yes. `told`: the replies of a step.
    """

    def __init__(
        self,
        tasks: Collection[str],
        spoken: Collection[str],
        plan: Plan,
        confirming: Collection[str] = (),
    ) -> None:
        super().__init__(tasks)
        self._confirming = confirming
        self.told: list[JsonDict] = []
        self.called = False
        self._spoken = spoken
        self._plan = plan
        self._wanted: list[JsonDict] = []

    def step(self, number: int, replies: Sequence[CaseReply]) -> None:
        """Prepare the replies of a step; unused ones come first."""
        act = self._plan.acts[number - 1] if number else None
        wanted: list[JsonDict] = []
        if act is not None and act.garbled:
            wanted += [{"raw": _NO_REPLY}, {"raw": _NO_REPLY}]
        elif act is not None and act.kind == "say":
            values = dict(act.update) or None
            wanted.append(without_none({"message": _WORDS, "set": values, "to": act.to}))
        works = self._plan.outputs if act is None else act.outputs
        wanted += [{"raw": output} for state, output in works if state in self._spoken]
        self._wanted, self.told = [*self._wanted, *wanted], []
        super().step(number, replies)

    def done(self, _secrets: Any) -> str | None:
        """Return the missing replies. A plan that asks for too many replies is given up."""
        return self.lacking

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Return the next reply.

        Raises:
            ModelError: The step has used too many replies.
        """
        if len(self.told) < _MOST_REPLIES or self._wanted:
            reply = self._call(request) or self._next(request)
            self.told.append(reply)
            self._replies = [*self._replies, CaseReply.model_validate(reply)]
        return await super().complete(request)

    def _call(self, request: LLMRequest) -> JsonDict | None:
        """Return the call of the plan's tool, once, as soon as it is offered."""
        offered = {tool.name: tool for tool in request.tools}
        tool = offered.get(self._plan.calls)
        if tool is None or self.called:
            return None
        self.called = True
        schema = tool.parameters
        arguments: Any = next(iter(samples(schema, schema.get("$defs"))), {})
        if not isinstance(arguments, dict):
            arguments = {}
        return {"tool_calls": [{"name": tool.name, "arguments": arguments}]}

    def _next(self, request: LLMRequest) -> JsonDict:
        judges = request.state in self._tasks and request.schema is not None
        if self._wanted and not judges:
            wanted = self._wanted.pop(0)
            if request.state in self._confirming and "to" in wanted:
                # Each message says the same words, and a reply that goes on takes them for a yes.
                wanted["set"] = {**wanted.get("set", {}), QUOTES: {YES: SAID}}
            return wanted
        return self._plain(request)

    def _plain(self, request: LLMRequest) -> JsonDict:
        schema = {} if request.schema is None else request.schema.schema
        members = schema.get("properties", {})
        if "verdicts" in members:
            names = members["verdicts"]["items"]["properties"]["name"].get("enum", [])
            passed = self._plan.refuses != "judge"
            return {
                "raw": {
                    "verdicts": [{"name": name, "reason": "", "passed": passed} for name in names]
                }
            }
        if schema and "target_state" not in members:
            return {"raw": next(iter(samples(schema, schema.get("$defs"))), {})}
        return {"message": _WORDS}


class _Note(NamedTuple):
    """The replies of a step, and its results."""

    replies: Sequence[JsonDict]
    expect: JsonDict
    says: bool

    def given(self) -> JsonDict:
        return {**replies_of(self.replies), "expect": self.expect}


class _WritingRunner(CaseRunner):
    """Writes down the results of a case."""

    def __init__(self, machine: Any, play: Play, model: _Improviser, stage: Any) -> None:
        super().__init__(machine, play, model, stage)
        self._improviser = model
        self.notes: list[_Note] = []

    def close(self, at: Any, turn: Turn | None, error: str | None) -> None:
        """Note a step. An error becomes its expectation."""
        expect = {"error": error.partition(":")[0]} if error is not None else {}
        if error is None and self.chat is not None:
            expect = self.expected(turn)
        says = turn is not None and bool(turn.text or len(turn.events) > 1)
        self.notes.append(_Note(self._improviser.told, expect, says))
        super().close(at, turn, error)
        if error is not None:
            self.missed = [miss for miss in self.missed if "it failed" not in miss[1].message]

    def case(self, skeleton: JsonMap, *, greet: bool) -> JsonDict:
        """Return the case with its replies and expectations."""
        self.notes[-1].expect.update(self.asked_next())
        start, *rest = self.notes
        case = without(skeleton, {"steps"})
        if start.replies or start.says:
            case |= {**({} if greet else {"greet": False}), "start": start.given()}
        elif not rest:
            case["expect"] = start.expect
        case["steps"] = [
            {**given, **note.given()} for given, note in zip(skeleton["steps"], rest, strict=False)
        ]
        return case

    def expected(self, turn: Turn | None) -> JsonDict:
        """Return the results of a step as an expectation. Without a turn, time passed and nothing
        was due.
        """
        seen = self.seen(turn, None)
        entered = [event.state for event in of_kind(seen.events, ev.StateEntered)]
        events = [one for event in seen.events if (one := self.told(event)) is not None]
        absent = []
        if turn is None:
            absent = ["Reminded", "TimedOut"]
        elif not of_kind(seen.events, ev.MoveRefused):
            absent = ["MoveRefused"]
        paused: Any = False
        if seen.paused is not None:
            paused = {"what": seen.paused.what, "kind": seen.paused.kind}
        return without_none(
            {
                "state": seen.state,
                "path": entered,
                "context_exact": dict(seen.context),
                "text": None if turn is None else {"equals": seen.text},
                "events": events or None,
                "not": {"events": absent} if absent else None,
                "ended": seen.ended,
                "calls": seen.calls,
                "outcome": None if turn is None else seen.outcome,
                "paused": paused,
            }
        )

    def asked_next(self) -> JsonDict:
        """Return the content of the next prompt, if the conversation still talks."""
        chat = self.chat
        if chat is None or chat.ended or chat.paused is not None or chat.kind != "converse":
            return {}
        return {
            "open": list(chat.ahead.open),
            "missing": list(chat.ahead.missing),
            "shown": list(chat.ahead.shown),
        }

    def told(self, event: ev.Event) -> JsonDict | None:
        """Return the expectation of an event; None for one that other expectations cover."""
        kind = type(event).__name__
        if isinstance(event, ev.StateEntered):
            if self.one_of_several(event):
                return {"type": kind, "transition": event.transition}
            return None
        fields = _EXPECTED.get(type(event))
        if fields is None:
            return None
        return {"type": kind, **{name: plain(getattr(event, name)) for name in fields}}

    def one_of_several(self, event: ev.StateEntered) -> bool:
        """Return true if other transitions lead to the same state, so that the path does not name
        the one taken.
        """
        definition = self.machine.definition
        source = definition.states.get(event.previous)
        if source is None or not event.transition:
            return False
        offered = (*source.transitions, *definition.global_transitions)
        return sum(one.target_state == event.state for one in offered) > 1


def _replies(step: JsonMap) -> Sequence[JsonMap]:
    replies: Sequence[JsonMap] = step.get("replies", [step["reply"]] if "reply" in step else [])
    return replies


def _step_of(step: JsonMap) -> str:
    if "answer" in step:
        return ", ".join([f"answer {json_text(step['answer'])}", *map(_reply_of, _replies(step))])
    if "wait" in step:
        return f"wait {step['wait']:g} s"
    return f"say → {', '.join(map(_reply_of, _replies(step))) or 'no reply'}"


def _reply_of(reply: JsonMap) -> str:
    if "raw" in reply or "tool_calls" in reply:
        return json_text(reply.get("raw", reply.get("tool_calls")))
    parts = [str(reply["to"])] if "to" in reply else []
    if "set" in reply:
        parts.append(json_text(reply["set"]))
    return " ".join(parts) or "stays"
