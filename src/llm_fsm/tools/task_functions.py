"""The host's functions for tasks: those that do the work of a state, and those that check its
output.

A function for `execute` receives a `Workbench` (its `ctx`) and returns the output, a JSON value. A
function for a check names the parameters that it wants: `output`, `context`, `input`. A single
parameter of another name is the output. It returns True if the check passed, False if not, or
(passed, reason). Plain functions run in a thread, async ones on the loop. An exception is a failed
attempt.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterable
from copy import deepcopy
from functools import partial
from typing import Any

from llm_fsm._async import is_cancelled
from llm_fsm._json import JsonDict, JsonMap
from llm_fsm._text import nearest
from llm_fsm.errors import ConfigurationError, LLMFSMError, told
from llm_fsm.tools.executor import called, readable
from llm_fsm.tools.failures import failure_of
from llm_fsm.tools.returns import Function, check_returns
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.effects import Routed, Verdicts
from llm_fsm.turn.key_results import Verdict

_DATA = ("output", "context", "input")


class Functions:
    """The registered functions of a host, by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}

    def register(self, function: Function, name: str | None = None) -> Function:
        """Register a function.

        Args:
            function: The function.
            name: Its name in definitions; None takes its own.

        Returns:
            The function itself.

        Raises:
            ValueError: It has no name, the name is taken, or a call of it can give no result.
        """
        key = name or getattr(function, "__name__", "")
        if not callable(function) or not key:
            raise ValueError(
                "a function is registered under its name; give one that has a name, or name="
            )
        check_returns(function, f"the function {key!r}")
        if self._functions.get(key, function) is not function:
            raise ValueError(f"a function named {key!r} is registered already")
        self._functions[key] = function
        return function

    def get(self, name: str) -> Function:
        """Return the function of a name.

        Raises:
            ConfigurationError: No function has it. The message names the most similar one.
        """
        found = self._functions.get(name)
        if found is None:
            raise ConfigurationError(self._missing(name, ""))
        return found

    def check(self, program: CompiledMachine) -> None:
        """Check that every function that a machine names is registered.

        Raises:
            ConfigurationError: A function is missing. The message names the first one.
        """
        for name, flow in {"": program, **program.flows}.items():
            for state_id, plan in flow.states.items():
                self._check_state(
                    plan, f"{name}#/states/{state_id}" if name else f"/states/{state_id}"
                )

    def _check_state(self, plan: CompiledState, pointer: str) -> None:
        named = {}
        if plan.kind == "task":
            named = {"execute": plan.definition.execute, "route": plan.definition.route}
        for number, check in enumerate(plan.checks):
            if check.by == "registered":
                named[f"key_results/{number}/check"] = check.function
        for place, name in named.items():
            if name is not None and name not in self._functions:
                raise ConfigurationError(self._missing(name, f"{pointer}/{place}: "))

    def _missing(self, name: str, where: str) -> str:
        guess = nearest(name, list(self._functions))
        hint = f"did you mean {guess!r}? " if guess else ""
        return (
            f"{where}no function {name!r} is registered; {hint}"
            "register it with @machine.function or functions=[…]"
        )

    async def verdicts(
        self, checks: Iterable[tuple[str, str]], data: JsonMap, timeout: float
    ) -> Verdicts:
        """Run registered checks one after the other. A check that raises does not pass.

        Args:
            checks: (name of the key result, name of the function) pairs.
            data: `output`, `context` and `input`; each check receives a copy.
            timeout: Seconds for all of them.

        Returns:
            The verdict of each key result, and the checks that raised.

        Raises:
            ConfigurationError: A function is not registered.
        """
        began = time.monotonic()
        found = {}
        failed = []
        for name, registered in checks:
            function = self.get(registered)
            left = max(0.0, began + timeout - time.monotonic())
            said, fault = await _called(function, data, left)
            if fault is not None:
                failed.append(failure_of("check", registered, fault, function))
            found[name] = _verdict(said, fault)
        return Verdicts(verdicts=found, seconds=time.monotonic() - began, failed=tuple(failed))

    async def route(self, name: str, data: JsonMap, timeout: float) -> Routed:
        """Ask a function for the way on from a task.

        Args:
            name: The function.
            data: `output`, `context` and `input`.
            timeout: Seconds that it may take.

        Returns:
            The label or state, or the reason for picking none. Without either the run ends.

        Raises:
            ConfigurationError: The function is not registered.
            LLMFSMError: The function raised it.
        """
        began = time.monotonic()
        function = self.get(name)
        label, fault = await _called(function, data, timeout)
        seconds = time.monotonic() - began
        if isinstance(fault, LLMFSMError):
            raise fault
        if fault is not None:
            failed = failure_of("route", name, fault, function)
            return Routed(error=_why(name, fault), seconds=seconds, failed=failed)
        if label is None or isinstance(label, str):
            return Routed(label=label, seconds=seconds)
        error = f"{name} returned {label!r:.100} instead of a label, a state, or None"
        return Routed(error=error, seconds=seconds)


def _verdict(said: Any, fault: BaseException | None) -> Verdict:
    """Return the verdict of a check from what it returned or raised."""
    if fault is not None:
        return False, _why("the check itself", fault)
    if is_pair(said):
        return said[0], readable(str(said[1] or ""))
    if isinstance(said, bool):
        return said, ""
    return False, f"the check returned {said!r:.100} instead of True, False or (passed, reason)"


def is_pair(said: Any) -> bool:
    """Return true for (passed, reason), which a check may return."""
    return isinstance(said, tuple) and len(said) == 2 and isinstance(said[0], bool)


async def _called(
    function: Function, data: JsonMap, timeout: float
) -> tuple[Any, None] | tuple[None, BaseException]:
    """Return what a function gives for a copy of the data, or what it raises."""
    try:
        work = partial(function, **_arguments(function, deepcopy(data)))
        return await called(timeout, work, thread_of(function)), None
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return None, error
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # its message is the reason
        return None, error


def _why(name: str, fault: BaseException) -> str:
    if isinstance(fault, asyncio.CancelledError):
        return f"{name} was cancelled"
    return readable(f"{name} failed: {told(fault)}")


def _arguments(function: Function, data: JsonMap) -> JsonDict:
    parameters = inspect.signature(function).parameters
    if any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters.values()):
        return dict(data)
    named = {name: data[name] for name in _DATA if name in parameters}
    first = next(iter(parameters), None)
    if not named and first is not None:
        return {first: data["output"]}
    return named


def thread_of(function: Function) -> str:
    """Return the name of the thread in which a plain function runs."""
    return f"llm_fsm function {function!r:.60}"
