"""`llm-fsm run --batch`: the file of results, the progress, and the end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, Any

from msgspec.structs import asdict

from llm_fsm._json import JsonDict, JsonMap, json_text
from llm_fsm._text import sha256_of
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import run_report as report
from llm_fsm.cli.output import is_special, write_output
from llm_fsm.cli.stores import is_named
from llm_fsm.cli.temporal import temporal_module
from llm_fsm.cli.terminal import console, escape
from llm_fsm.definition.models import Definition
from llm_fsm.engine.batch import ERROR, Batch, in_order, invalid, play_lines, read_lines
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import LLMFSMError, os_reason
from llm_fsm.session.messages import Usage
from llm_fsm.stores.base import Store, checked_id

_TOLD = 20
"""Broken and failed lines that are named one by one."""
_EVERY = 10.0
"""Seconds between two lines of progress where no terminal shows a bar."""
_BAR = 24
"""Characters of the bar."""
_SPAN = 30
"""Seconds over which the rate is taken: lines that were done before are read at once."""
_BEGIN = b'{"line": '
"""Beginning of each result."""
_LONGEST_NAME = 180
"""Characters of `--id`: the number of the line follows, and that of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFiles:
    """The files of a batch and the options that belong to them."""

    inputs: str
    results: str
    limit: int
    name: str | None
    temporal: str | None = None


class Results:
    """The file of results: a line as soon as it is there, at the end all of them in order."""

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._known = set() if is_special(path) else _known(path, name)
        self._lines: dict[int, bytes] = {}
        self._file = _appending(path)

    def add(self, result: JsonMap) -> None:
        """Write the result of a line."""
        line = json_text(result).encode("utf-8", "backslashreplace") + b"\n"
        self._lines[result["line"]] = line
        if result["line"] in self._known:
            return
        try:
            self._file.write(line)
        except OSError as error:
            raise exits.Failure(_unwritten(self._path, error), exits.OUTPUT) from error

    def close(self) -> None:
        """Close the file as it is."""
        with suppress(OSError):
            self._file.close()

    def finish(self) -> None:
        """Replace the file by one in the order of the inputs. Raises Failure."""
        self.close()
        if not is_special(self._path):
            lines = [self._lines[number] for number in sorted(self._lines)]
            write_output(self._path, b"".join(lines))


def _unwritten(path: str, error: OSError) -> str:
    return f"{path}: cannot be written: {os_reason(error)}"


def _appending(path: str) -> IO[bytes]:
    """Open the file for results, behind a line that a killed process left half. Raises Failure."""
    try:
        stream = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by `close`
        if not is_special(path) and not _ends_well(path):
            stream.write(b"\n")
    except OSError as error:
        raise exits.Failure(_unwritten(path, error), exits.OUTPUT) from error
    return stream


def _ends_well(path: str) -> bool:
    data = Path(path).read_bytes()
    return not data or data.endswith(b"\n")


def _known(path: str, name: str) -> set[int]:
    """Return the lines whose results a file has from an earlier call. Raises Failure."""
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise exits.Failure(_unwritten(path, error), exits.OUTPUT) from error
    found = set()
    for line in filter(None, lines):
        if not (line.startswith(_BEGIN) or _BEGIN.startswith(line)):
            raise _foreign(path, name)
        try:
            result = json.loads(line)
        except ValueError:  # a kill left it half
            continue
        if not str(result.get("conversation")).startswith(f"{name}/"):
            raise _foreign(path, name)
        if result.get("outcome") != ERROR:  # that one is played again
            found.add(result["line"])
    return found


def _foreign(path: str, name: str) -> exits.Failure:
    return exits.Failure(
        f"{path} exists already, and is not a file of results of the batch {name}. "
        "Name another file after -o, or remove it",
        exits.OUTPUT,
    )


@dataclass(slots=True)
class BatchTally:
    """The counts of a batch while it is played."""

    total: int
    done: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_SPAN))
    """Moments, a second apart, and the lines that had a result then."""

    def __post_init__(self) -> None:
        self.marks.append((monotonic(), 0))

    def take(self, result: JsonMap) -> None:
        """Count a result."""
        code = report.CODES.get(result["outcome"], exits.OK)
        if "error" in result or code == report.FAILED:
            self.failed += 1
        else:
            self.done += 1
        self.usage += Usage(**result.get("usage", {}))
        now = monotonic()
        if now - self.marks[-1][0] >= 1:
            self.marks.append((now, self.seen))

    @property
    def seen(self) -> int:
        """Lines that have a result."""
        return self.done + self.failed

    @property
    def rate(self) -> float:
        """Lines a second, of late."""
        began, before = self.marks[0]
        return (self.seen - before) / max(monotonic() - began, 0.001)

    def text(self) -> str:
        """The counts for a reader: done, failed, rate, cost, time left."""
        rate = self.rate
        parts = [f"{self.seen:,} of {self.total:,}", f"{self.failed:,} failed"]
        parts.append(f"{rate:.1f} lines/s")
        if self.usage.cost:
            parts.append(f"${self.usage.cost:.4f}")
        if rate and self.seen < self.total:
            parts.append(f"{_time((self.total - self.seen) / rate)} left")
        return " · ".join(parts)

    def bar(self) -> str:
        """The counts behind a bar."""
        full = _BAR * self.seen // max(self.total, 1)
        return f"[{'#' * full}{'.' * (_BAR - full)}] {self.text()}"

    def document(self, name: str) -> JsonDict:
        """The counts as JSON."""
        return {
            "type": "Batch",
            "batch": name,
            "lines": self.total,
            "done": self.done,
            "failed": self.failed,
            "usage": asdict(self.usage),
        }


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def name_of(files: BatchFiles, data: bytes, definition: Definition, context: JsonMap | None) -> str:
    """Return `--id`, or a hash of the file, the definition and `--context`. Raises Failure."""
    if files.name is not None:
        with exits.failing(ValueError, place="--id: "):
            checked_id(files.name, "batch id")
        if len(files.name) > _LONGEST_NAME:
            raise exits.Failure(f"--id: the id of a batch has at most {_LONGEST_NAME} characters")
        return files.name
    parts = [hashlib.sha256(data).hexdigest(), definition.sha256]
    if context:
        parts.append(json.dumps(context, sort_keys=True))
    return sha256_of("\n".join(parts))[:16]


def data_of(files: BatchFiles) -> bytes:
    """Return the file of inputs. Raises Failure."""
    same = os.path.realpath(files.inputs) == os.path.realpath(files.results)
    if same and not is_special(files.results):
        said = "-o and --batch name the same file: the results would replace the inputs"
        raise exits.Failure(said)
    try:
        return Path(files.inputs).read_bytes()
    except OSError as error:
        raise exits.Failure(f"{files.inputs}: {os_reason(error)}") from error


def play_batch(
    files: BatchFiles,
    machine: AsyncMachine,
    runner: asyncio.Runner,
    *,
    context: JsonMap | None,
    unnamed: str | None,
    again: str,
) -> tuple[int, JsonDict]:
    """Play a batch to its end.

    Args:
        files: The files and options.
        machine: The machine.
        runner: The event loop.
        context: Values that are known at the start of every line.
        unnamed: What follows because no shared store was named, as a sentence; None: one was.
        again: The command, which goes on with the batch.

    Returns:
        The exit code, and the counts as JSON.

    Raises:
        Failure: A file cannot be used.
        LLMFSMError: The model or the store cannot be used.
    """
    data = data_of(files)
    definition = machine.definition
    name = name_of(files, data, definition, context)
    talks = definition.kind_of(definition.initial_state) == "converse"
    batch = read_lines(data, name, talks=talks, context=context)
    if not len(batch):
        said = 'there is no line such as {"input": …} or {"messages": […]}'
        raise exits.Failure(f"{files.inputs}: {said}")
    results = Results(files.results, name)
    _tell_faults(files.inputs, batch)
    if unnamed is not None:
        console.note(unnamed)
    tally = BatchTally(total=len(batch))

    def take(result: JsonDict) -> None:
        results.add(result)
        tally.take(result)
        if result["outcome"] == ERROR and tally.failed <= len(batch.faults) + _TOLD:
            console.error(f"{files.inputs}: line {result['line']} failed: {result['error']}")

    async def play() -> None:
        if files.temporal is not None:
            flows = temporal_module()
            client = await flows.patiently_connected(files.temporal, console.note)
            await flows.play_chunks(
                client, machine, name, batch.lines, take, limit=files.limit, report=console.note
            )
            return
        lines = await in_order(machine.store, name, batch.lines)
        await play_lines(machine, lines, take, limit=files.limit)

    try:
        for number, fault in batch.faults.items():
            take(invalid(number, name, fault))
        _watched(play, tally, runner)
    except (KeyboardInterrupt, LLMFSMError) as error:
        results.close()
        code = exits.end(error, verbose=False)
        console.note(f"batch {name}: {tally.text()}")
        console.note(f"the same command goes on with what is left: {again}", to_copy=True)
        return code, tally.document(name)
    results.finish()
    console.note(f"batch {name}: {tally.text()}")
    return (report.FAILED if tally.failed else exits.OK), tally.document(name)


def _tell_faults(path: str, batch: Batch) -> None:
    faults = list(batch.faults.items())
    for number, fault in faults[:_TOLD]:
        console.error(f"{path}: line {number} {fault}")
    if len(faults) > _TOLD:
        more = escape.plural(len(faults) - _TOLD, "further line")
        console.error(f"{path}: {more} cannot be read; the results name each of them")


def _watched(
    play: Callable[[], Coroutine[Any, Any, None]], tally: BatchTally, runner: asyncio.Runner
) -> None:
    """Play with a bar on a terminal, and with a line from time to time elsewhere."""
    if console.is_screen(sys.stderr):
        with console.working(tally.bar):
            runner.run(play())
        return

    async def tell() -> None:
        while True:
            await asyncio.sleep(_EVERY)
            console.note(tally.text())

    async def both() -> None:
        telling = asyncio.create_task(tell())
        try:
            await play()
        finally:
            telling.cancel()

    runner.run(both())


def unnamed_place(url: str | None, store: Store) -> str | None:
    """Return what follows if nobody named a store that others can share; None if somebody did."""
    if url == "memory":
        return "--db memory: nothing of this batch is kept, so a kill begins it again"
    if is_named(url):
        return None
    place = getattr(store, "path", "this process")
    return (
        f"no --db: the conversations are kept in {place}; after a kill this command goes on there, "
        "but other machines cannot share the work: name a store with --db"
    )
