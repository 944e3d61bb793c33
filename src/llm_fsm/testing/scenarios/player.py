"""Play cases: real conversations on a real machine in memory, with the clock and the host of each
case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain

from llm_fsm._json import JsonMap
from llm_fsm.engine.host_files import HostTools
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.settings import DEFAULTS
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.redaction import DOTS
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing.scenarios.checks import definitions_of, function_names, tasks_of
from llm_fsm.testing.scenarios.fixtures import Stage, without_servers
from llm_fsm.testing.scenarios.loader import LoadedCases, Play
from llm_fsm.testing.scenarios.models import BEGINNING, Case, merged
from llm_fsm.testing.scenarios.results import CaseFailure, Result, StepReport
from llm_fsm.testing.scenarios.runner import CaseRunner
from llm_fsm.testing.scenarios.scripted_model import Model, Scripted


class Player:
    """Plays the cases of one file, one after the other, on one machine.

    `host`: the caller's own tools, functions and handlers, for those that a case does not simulate.
    `choose` gives the model that answers in a case; without it, the file's replies answer.
    `timeout`: seconds for a turn, for live models. `reply`: the setting of the machine; "" takes
    its default.
    """

    def __init__(
        self,
        loaded: LoadedCases,
        choose: Callable[[Play], Model] | None = None,
        host: HostTools | None = None,
        *,
        timeout: float | None = None,
        reply: str = "",
    ) -> None:
        self.loaded = loaded
        own = Scripted(tasks_of(loaded.flows))
        self._choose = choose or (lambda _: own)
        self.stage = Stage()
        self._timeout = timeout
        self._reply = reply or str(DEFAULTS["reply"])
        self._host = host or HostTools()

    @cached_property
    def machine(self) -> AsyncMachine:
        """The machine of all cases."""
        loaded = self.loaded
        setups = [merged(loaded.shared, Case()), *(play.setup for play in loaded.plays)]
        played = {}
        for setup in setups:
            played.update(setup["tools"])
        definition = without_servers(loaded.definition)
        every = [definition, *definitions_of(loaded.flows)[1:]]
        handlers = chain.from_iterable(setup["handlers"] for setup in setups)
        machine = AsyncMachine(
            definition,
            flows=loaded.registered,
            model=ScriptedLLM([]),
            store=MemoryStore(),
            tools=self.stage.bound(every, self._host.tools, played),
            file=loaded.file if loaded.definition_file is None else loaded.definition_file,
            handlers=[*self._host.handlers, *self.stage.handlers(item.at for item in handlers)],
            clock=self._time,
            timeout=self._timeout,
            reply=self._reply,
            allow_unsafe=True,  # the checker reports it, and nothing acts here
        )
        simulated = set(chain.from_iterable(setup["functions"] for setup in setups))
        named = {}
        for one in every:
            named.update(function_names(one))
        for name, is_check in named.items():
            function = self._host.functions.get(name)
            if function is None or name in simulated:
                played_here = self.stage.check if is_check else self.stage.execute
                function = partial(played_here, name)
            machine.function(function, name=name)
        return machine

    def _time(self) -> float:
        return self.stage.now

    def prepared(self, setup: JsonMap) -> AsyncMachine:
        """Return the machine with its host and clock set for a case or the file."""
        self.stage.now = BEGINNING if setup["time"] is None else setup["time"]
        self.stage.set(setup["tools"], setup["functions"], setup["handlers"])
        return self.machine

    async def play(self, play: Play) -> Result:
        """Play one case."""
        skipped = play.case.why_skipped
        if skipped is not None:
            return Result(name=play.name, pointer=play.pointer, skipped=skipped)
        began = time.perf_counter()
        machine = self.prepared(play.setup)
        model = self._choose(play)
        machine.llm = model.llm
        model.begin(play)
        run = CaseRunner(machine, play, model, self.stage)
        await run.run()
        await machine.delete(run.id)
        return Result(
            name=play.name,
            pointer=play.pointer,
            line=0 if not run.missed else self.loaded.text.position(play.pointer).line,
            failures=tuple(self._placed(run)),
            seconds=time.perf_counter() - began,
            said=tuple(_masked(said, run.secrets) for said in run.said),
            turns=tuple(run.turns),
        )

    def _placed(self, run: CaseRunner) -> list[CaseFailure]:
        """Return the misses of a case with their lines, step by step in file order, with masked
        secrets.
        """
        found = []
        for step, miss in run.missed:
            message = masked(miss.message, run.secrets)
            line, column = self.loaded.text.position(miss.pointer)
            found.append(
                CaseFailure(
                    step=step, message=message, pointer=miss.pointer, line=line, column=column
                )
            )
        steps = {failure.step: number for number, failure in enumerate(found)}
        return sorted(found, key=lambda one: (steps[one.step], one.line, one.column))

    async def close(self) -> None:
        """Free the machine."""
        if "machine" in vars(self):  # it is made when the first case is played
            await self.machine.close()


def masked(text: str, secrets: Collection[str]) -> str:
    """Return the text without secret values."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, DOTS)
    return text


def _masked(said: StepReport, secrets: Collection[str]) -> StepReport:
    if not secrets:
        return said
    heard = None if said.heard is None else masked(said.heard, secrets)
    return replace(said, heard=heard, text=masked(said.text, secrets))
