"""Several machines for one process that serves them: files and folders, one store, what the host
brings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from llm_fsm.cli import host_code as host
from llm_fsm.cli import pick as choice
from llm_fsm.cli.exit_codes import Failure, failing
from llm_fsm.cli.machine import machine_of
from llm_fsm.cli.machine_options import MachineOptions
from llm_fsm.cli.options import argument, option
from llm_fsm.cli.terminal import console
from llm_fsm.definition.models import Definition
from llm_fsm.documents.discovery import NoDefinitionError, definition_paths, definitions
from llm_fsm.documents.loader import load
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.outbox.sinks import Sink, sink
from llm_fsm.errors import ConfigurationError, LLMFSMError, told
from llm_fsm.llm.base import LLM
from llm_fsm.llm.registry import resolve
from llm_fsm.releases.file import ENDING, read_release, stable_file
from llm_fsm.stores.base import Store


@dataclass(frozen=True, kw_only=True)
class Brought(MachineOptions):
    """Options of commands that work with several machines: PATHs, and what the host brings."""

    paths: tuple[str, ...] = argument("paths", metavar="[PATH]...", nargs=-1)


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """The receivers of events."""

    webhooks: tuple[str, ...] = option(
        "--webhook",
        "webhooks",
        metavar="URL",
        multiple=True,
        help="Post every event here, signed and in order.",
    )
    webhook_secret_file: str | None = option(
        "--webhook-secret-file",
        metavar="FILE",
        help="The secret for signatures (or LLM_FSM_WEBHOOK_SECRET).",
    )
    sinks: tuple[str, ...] = option(
        "--sink",
        "sinks",
        metavar="FILE",
        multiple=True,
        help="A Python file with SINKS, which get every event.",
    )

    def all_sinks(self) -> list[Sink]:
        """Return all sinks. Raises Failure, and ConfigurationError for a wrong address or secret."""
        secret = os.environ.get("LLM_FSM_WEBHOOK_SECRET")
        if self.webhook_secret_file is not None:
            secret = host.text_of(Path(self.webhook_secret_file)).strip()
        found = host.sinks_in(self.sinks)
        return [*found, *(sink(url, secret=secret) for url in self.webhooks)]


@dataclass
class Fleet:
    """The machines of the files that PATHs stand for; without any, of the shipped definitions."""

    brought: Brought
    store: Store
    sinks: Sequence[Sink] = ()
    _stamps: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _names: dict[str, Path] = field(default_factory=dict)
    """The file of each name."""

    def __post_init__(self) -> None:
        self._host = host.host_of(self.brought.tools)
        self._servers = host.servers_of(self.brought.mcp)

    def machines(self) -> list[AsyncMachine]:
        """All of them. Raises Failure, DefinitionError and ConfigurationError.

        What a folder holds and the command line has no tools for is left out, and said on standard
        error.
        """
        made = []
        left = []
        for path, is_named in self._files():
            place = _definition_file(path)
            definition = choice.opened(place) if is_named else load(place)
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
                machine = self._machine(load(_definition_file(path)), path)
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
            except (Failure, ConfigurationError):
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
        place = choice.located(given) if not _is_pattern(given) else Path(given)
        with failing(NoDefinitionError):
            found = [Path(name) for name in definitions(os.fspath(place))]
        if place.is_dir():
            found = _with_releases(place, found)
        yield from ((path, path == place) for path in found)

    def _machine(self, definition: Definition, path: Path) -> AsyncMachine:
        lacking = host.lacking(definition, path, self._host, self._servers)
        if lacking is not None:
            raise Failure(lacking)
        place = _definition_file(path)
        machine = machine_of(
            definition,
            place,
            self._host,
            self._servers,
            self.brought.timeout,
            model=self._model(definition),
            store=self.store,
            sinks=self.sinks,
        )
        machine._follow(path if place != path else path.with_suffix(ENDING))
        return machine

    def _model(self, definition: Definition) -> LLM:
        name = self.brought.model
        if name is None and not os.environ.get("LLM_FSM_MODEL"):
            name = definition.model.name
        return resolve(name, base_url=self.brought.base_url, environ=os.environ)


def _definition_file(path: Path) -> Path:
    """Return the file of a machine's definition: of a release, that of its stable one."""
    return Path(stable_file(path)) if path.name.endswith(ENDING) else path


def _with_releases(folder: Path, found: Sequence[Path]) -> list[Path]:
    """Return the releases in a folder tree, and the definitions that belong to none of them."""
    releases = sorted(folder.rglob(f"*{ENDING}"))
    taken: set[Path] = set()
    for path in releases:
        release = read_release(path)
        names = (release.stable, release.candidate, release.previous)
        taken.update(path.with_name(name) for name in names if name)
    return [*(path for path in found if path not in taken), *releases]


def _is_pattern(given: str) -> bool:
    return any(letter in given for letter in "*?[")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
