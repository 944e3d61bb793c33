"""The host's own Python files: the tools, functions and handlers that they list.

A file is run when it is read. Only files that the caller names are read.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from llm_fsm.engine.handlers.registry import Handler
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.tools.returns import Function

_LISTS = ("TOOLS", "FUNCTIONS", "HANDLERS")
"""The names under which a file of `--tools` lists what it brings."""


class HostFileError(ValueError):
    """A Python file of the host cannot be used. The message names the file and the place."""


@dataclass(frozen=True, slots=True)
class HostTools:
    """The registered tools, functions and handlers of a run, functions by name."""

    tools: ToolRegistry = field(default_factory=ToolRegistry)
    functions: dict[str, Function] = field(default_factory=dict)
    handlers: list[Handler] = field(default_factory=list)


def host_of(files: Iterable[str]) -> HostTools:
    """Run the host's own Python files, and take what they list under `_LISTS`. Raises
    HostFileError.
    """
    host = HostTools()
    for number, name in enumerate(files):
        module = imported(Path(name), f"llm_fsm_host_{number}")
        tools, functions, handlers = (getattr(module, word, None) for word in _LISTS)
        if tools is None and functions is None and handlers is None:
            names = ", ".join(_LISTS)
            raise HostFileError(f"{name}: it has none of {names}; write TOOLS = [function, …]")
        try:
            for tool in _listed(tools, "TOOLS"):
                host.tools.add(tool)
            named = _named(functions)
            host.handlers.extend(_handlers(handlers))
        except ValueError as error:
            raise HostFileError(f"{name}: {error}") from error
        for key in named.keys() & host.functions.keys():
            raise HostFileError(f"{name}: there is a function {key!r} already")
        host.functions.update(named)
    return host


def imported(path: Path, name: str, option: str = "--tools") -> ModuleType:
    """Run a Python file as the module `name`. `option` is what named it. Raises HostFileError."""
    if not path.is_file():
        raise HostFileError(
            f"{path}: there is no such file; {option} names a Python file of your own"
        )
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise HostFileError(f"{path}: {option} names a Python file, which ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where type hints are looked up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        # a file of the host's may raise anything; its words are the diagnosis
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == spec.origin
        ]
        line = lines[-1] if lines else None
        if isinstance(error, SyntaxError):
            line = error.lineno
        place = f"{path}:{line}" if line else str(path)
        raise HostFileError(
            f"{place}: it could not be run: {type(error).__name__}: {error}"
        ) from error
    return module


def _listed(given: object, name: str) -> Iterable[Any]:
    if given is None:
        return ()
    if isinstance(given, ToolRegistry | list | tuple):
        return given
    raise ValueError(
        f"{name} is a list of functions or a ToolRegistry, not a {type(given).__name__}"
    )


def _handlers(given: object) -> Iterable[Handler]:
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        kind = type(given).__name__
        raise ValueError(f"HANDLERS is a list of handlers, not a {kind}")
    for item in given:
        if not isinstance(item, Handler):
            raise ValueError(
                f"HANDLERS holds {item!r:.60}, which is no handler; "
                "create_handler(name).at(point).do(function) makes one"
            )
    return given


def _named(given: object) -> Mapping[str, Function]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        pairs = [(str(key), value) for key, value in given.items()]
    elif isinstance(given, list | tuple):
        pairs = [(str(getattr(value, "__name__", "")), value) for value in given]
    else:
        kind = type(given).__name__
        raise ValueError(f"FUNCTIONS is a list or a dict of functions, not a {kind}")
    for key, value in pairs:
        if not callable(value) or not key:
            raise ValueError(f"FUNCTIONS holds {value!r:.60}, which is no function with a name")
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("FUNCTIONS holds two functions of one name")
    return dict(pairs)
