"""Several machines for one process that serves them: files and folders, one store, what the host
brings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from llm_fsm.cli import host_code as host
from llm_fsm.cli import pick as choice
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.options import turn_time
from llm_fsm.cli.terminal import console
from llm_fsm.definition.models import Definition
from llm_fsm.documents.discovery import NoDefinitionError, definition_paths, definitions
from llm_fsm.documents.loader import load
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.outbox.sinks import Sink, sink
from llm_fsm.errors import LLMFSMError, told
from llm_fsm.llm.base import LLM
from llm_fsm.llm.registry import resolve
from llm_fsm.stores.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """Options that several commands share: PATHs, a model, Python files with tools, MCP servers."""

    paths: tuple[str, ...] = ()
    model: str | None = None
    base_url: str | None = None
    timeout: float | None = None
    tools: tuple[str, ...] = ()
    mcp: str | None = None
    sinks: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    webhook_secret_file: str | None = None


@dataclass
class Fleet:
    """The machines of the files that PATHs stand for; without any, of the shipped definitions."""

    brought: Brought
    store: Store
    _stamps: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _names: dict[str, Path] = field(default_factory=dict)
    """The file of each name."""

    def __post_init__(self) -> None:
        self._host = host.host_of(self.brought.tools)
        self._servers = host.servers_of(self.brought.mcp)
        self._sinks = [*host.sinks_in(self.brought.sinks), *_webhooks(self.brought)]

    def machines(self) -> list[AsyncMachine]:
        """All of them. Raises Failure, DefinitionError and ConfigurationError.

        What a folder holds and the command line has no tools for is left out, and said on standard
        error.
        """
        made: list[AsyncMachine] = []
        left: list[str] = []
        for path, is_named in self._files():
            definition = choice.opened(path) if is_named else load(path)
            try:
                machine = self._machine(definition, path)
            except Failure:
                if is_named:
                    raise
                left.append(definition.name)
                continue
            stamp = _stamp(path)
            if stamp is not None:
                self._stamps[path] = stamp
            self._names.setdefault(definition.name, path)
            made.append(machine)
        if left:
            names = ", ".join(left)
            console.note(f"left out, as they need functions of yours (--tools FILE.py): {names}")
        if not made:
            raise Failure("there is no definition to serve")
        return made

    def changed(self) -> list[AsyncMachine]:
        """The machines of files that are new or changed. What is wrong with one is said, and it
        stays as it was.

        A file that is away stays as it was, too: editors and deployments replace a file by removing
        it first.
        """
        made = []
        for path in self._present():
            stamp = _stamp(path)
            if stamp is None or self._stamps.get(path) == stamp:
                continue
            self._stamps[path] = stamp
            try:
                machine = self._machine(load(path), path)
                self._take_name(machine.definition.name, path)
            except (LLMFSMError, Failure, OSError) as error:
                console.note(f"{path}: not loaded again: {told(error)}")
            else:
                made.append(machine)
                console.note(f"{path}: loaded again")
        return made

    def _take_name(self, name: str, path: Path) -> None:
        """Keep the file that has a name. Raises Failure if another file has it."""
        owner = self._names.setdefault(name, path)
        if owner != path and owner.exists():
            raise Failure(f"the name {name!r} is the one of {owner}: give it another name")
        self._names[name] = path

    def _present(self) -> Iterator[Path]:
        """The files that are there now."""
        for given in self.brought.paths or (None,):
            try:
                found = list(self._found(given))
            except Failure:
                continue
            yield from (path for path, _ in found)

    def _files(self) -> Iterator[tuple[Path, bool]]:
        """The files, and whether each was named by itself."""
        for given in self.brought.paths or (None,):
            yield from self._found(given)

    def _found(self, given: str | None) -> Iterator[tuple[Path, bool]]:
        """The files of one PATH; None: the shipped ones. Raises Failure if there are none."""
        shipped = definition_paths()
        if given is None:
            yield from ((path, False) for path in shipped.values())
            return
        place = choice.located(given, shipped) if not _is_pattern(given) else Path(given)
        try:
            found = [Path(name) for name in definitions(os.fspath(place))]
        except NoDefinitionError as error:
            raise Failure(str(error)) from error
        yield from ((path, path == place) for path in found)

    def _machine(self, definition: Definition, path: Path) -> AsyncMachine:
        lacking = host.lacking(definition, path, self._host, self._servers)
        if lacking is not None:
            raise Failure(lacking)
        machine = AsyncMachine(
            definition,
            model=self._model(definition),
            store=self.store,
            tools=self._host.tools,
            handlers=self._host.handlers,
            mcp=self._servers,
            sinks=self._sinks,
            file=path,
            **turn_time(self.brought.timeout),
        )
        for name, function in self._host.functions.items():
            machine.function(function, name=name)
        return machine

    def _model(self, definition: Definition) -> LLM:
        name = self.brought.model
        if name is None and not os.environ.get("LLM_FSM_MODEL"):
            name = definition.model.name
        return resolve(name, base_url=self.brought.base_url, environ=os.environ)


def _webhooks(brought: Brought) -> list[Sink]:
    """Return a sink for each address. Raises Failure, and ConfigurationError for a wrong address or
    secret.
    """
    secret = os.environ.get("LLM_FSM_WEBHOOK_SECRET")
    if brought.webhook_secret_file is not None:
        secret = host.text_of(Path(brought.webhook_secret_file)).strip()
    return [sink(url, secret=secret) for url in brought.webhooks]


def _is_pattern(given: str) -> bool:
    return any(letter in given for letter in "*?[")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
