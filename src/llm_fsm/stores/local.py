"""Stores in files of this machine: threads for blocking calls, and locks between processes.

One thread serves the turns, and another one the calls that read of many conversations, each with
the files opened on its own. So a list of a million conversations takes its time, and no turn waits
for it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from llm_fsm.stores.errors import closed
from llm_fsm.stores.forwarding import Calls, ForwardingStore, Work
from llm_fsm.stores.locks.conversation_lock import KeyedQueue, finished, local_lock
from llm_fsm.stores.locks.file_locks import NoLocks, locks_beside

T = TypeVar("T")

Serve = Callable[[Sequence[Any]], Sequence[Any]]
"""Serves all values of one kind, and returns an outcome for each. An Exception is raised to its
caller.
"""

_MOST = 1024
"""The most requests that are served together."""


class _ReadRequest(NamedTuple):
    serve: Serve
    value: Any
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class WorkerThread:
    """A daemon thread for callers in any number of event loops. It starts with the first call.

    It replaces an executor, whose threads cannot be used at interpreter exit, when unclosed
    machines are closed.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._requests: SimpleQueue[_ReadRequest | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self.is_stopped = False
        self._last: Callable[[], object] | None = None

    def ask(self, serve: Callable[[Sequence[Any]], Sequence[T]], value: Any) -> asyncio.Future[T]:
        """Serve a value in the thread, together with others that wait for the same function.

        Raises:
            StoreError: The thread was stopped.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._guard:
            self.check_running()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="llm-fsm-store", daemon=True)
                self._thread.start()
            self._requests.put(_ReadRequest(serve, value, loop, future))
        return future

    def check_running(self) -> None:
        """Raise StoreError after `stop`."""
        if self.is_stopped:
            raise closed(self._place)

    def stop(self, last: Callable[[], object]) -> None:
        """End the thread after the waiting calls and a last one. May be called twice."""
        with self._guard:
            if not self.is_stopped:
                self.is_stopped = True
                self._last = last
                self._requests.put(None)

    def _run(self) -> None:
        while self._serve_waiting():
            pass
        # In this thread: some drivers close a connection only where it was opened.
        if self._last is not None:
            self._last()

    def _serve_waiting(self) -> bool:
        """Serve waiting calls, or wait for one. Return false after `stop`."""
        taken = [self._requests.get()]
        # Everything that waits is served together, and shares one sync to the disk.
        while taken[-1] is not None and len(taken) < _MOST and not self._requests.empty():
            taken.append(self._requests.get())
        kinds: dict[Serve, list[_ReadRequest]] = {}
        for request in taken:
            if request is not None:
                kinds.setdefault(request.serve, []).append(request)
        for serve, requests in kinds.items():
            _serve(serve, requests)
        return taken[-1] is not None


def _serve(serve: Serve, requests: Sequence[_ReadRequest]) -> None:
    try:
        outcomes = serve([request.value for request in requests])
    except Exception as error:
        # The thread must live on: later calls have nothing to do with this error.
        outcomes = [error] * len(requests)
    settled: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for request, outcome in zip(requests, outcomes, strict=True):
        # A loop is woken once for all of its callers, because each wake costs a write to a pipe.
        settled.setdefault(request.loop, []).append((request.future, outcome))
    for loop, pairs in settled.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits there any more
            loop.call_soon_threadsafe(_settle, pairs)


def _settle(pairs: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in pairs:
        # A caller that was cancelled meanwhile wants no answer.
        if not future.done():
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


class Files(Protocol):
    """The files of a store, for one thread. Calls are functions of an object with the methods of
    `Store`.
    """

    def read(self, calls: Calls) -> Sequence[Any]:
        """Serve calls that read."""

    def write(self, calls: Calls) -> Sequence[Any]:
        """Serve calls that write."""

    def close(self) -> None:
        """Close the files."""


F = TypeVar("F", bound=Files)


class LocalStore(ForwardingStore, Generic[F]):
    """A store in the files at `path`. Construction touches nothing; they are made on first use.

    Args:
        path: The file or folder.
        kind: What an error calls the store, with its article.
        locked: Locks for other processes are kept beside this path; None: no other process can use
            the store.
    """

    def __init__(self, path: str, kind: str, locked: Path | None) -> None:
        if "\0" in path:
            raise ValueError(f"the path of {kind} store cannot contain a NUL character")
        self._path = path
        self._locked = locked
        self._inherited: list[_ProcessParts[F]] = []
        self._parts = self._new_parts()

    @abstractmethod
    def _files(self) -> F:
        """Return the files, not opened yet."""

    def _files_to_list(self) -> F | None:
        """Return the files for calls that read of many conversations; None for those of the turns."""
        return self._files()

    @property
    def path(self) -> str:
        """The absolute path of the file or folder."""
        return self._path

    def lock(
        self, conversation_id: str, timeout: float | None = None
    ) -> AbstractAsyncContextManager[None]:
        parts = self._own()
        parts.turns.thread.check_running()
        return local_lock(self, parts.queue, parts.locks, conversation_id, timeout)

    def _is_held(self, conversation_id: str) -> bool:
        return self._parts.queue.holds(conversation_id)

    async def faults(self) -> Sequence[str]:
        """Find faults of the store as a whole, in sentences."""
        return await self._list(lambda kept: kept.faults())

    async def close(self) -> None:
        """Finish all waiting calls, then close the files. May be called twice."""
        parts = self._own()
        # Lists first: no turn should find its thread gone because of a list.
        for worker in parts.workers:
            if not worker.thread.is_stopped:
                await worker.thread.ask(worker.close, None)
        parts.abandon()

    async def _read(self, work: Work[T]) -> T:
        turns = self._own().turns
        return await finished(turns.thread.ask(turns.files.read, work))

    async def _list(self, work: Work[T]) -> T:
        lists = self._own().lists
        return await finished(lists.thread.ask(lists.files.read, work))

    async def _write(self, work: Work[T]) -> T:
        turns = self._own().turns
        return await finished(turns.thread.ask(turns.files.write, work))

    def _own(self) -> _ProcessParts[F]:
        """Return the parts of this process. Neither a thread nor a connection survives a fork."""
        if self._parts.process != os.getpid():
            # SQLite forbids even closing an inherited connection: nothing of it may be freed.
            self._inherited.append(self._parts)
            self._parts = self._new_parts()
        return self._parts

    def _new_parts(self) -> _ProcessParts[F]:
        parts = _ProcessParts(self._path, self._files(), self._files_to_list(), self._locked)
        weakref.finalize(self, parts.abandon).atexit = False
        return parts


class _Worker(Generic[F]):
    """Files, and the thread that uses them."""

    def __init__(self, path: str, files: F) -> None:
        self.files = files
        self.thread = WorkerThread(path)

    def close(self, asked: Sequence[None]) -> Sequence[None]:
        """Close the files, in the thread."""
        self.files.close()
        return asked


class _ProcessParts(Generic[F]):
    """The parts of a store that belong to one process."""

    def __init__(self, path: str, files: F, files_to_list: F | None, locked: Path | None) -> None:
        self.process = os.getpid()
        self.turns = _Worker(path, files)
        self.lists = self.turns if files_to_list is None else _Worker(path, files_to_list)
        self.queue = KeyedQueue()
        self.locks = NoLocks() if locked is None else locks_beside(locked)

    @property
    def workers(self) -> Sequence[_Worker[F]]:
        """All workers. The one of the turns is closed last."""
        return [self.turns] if self.lists is self.turns else [self.lists, self.turns]

    def abandon(self) -> None:
        """Stop the threads and close the locks without waiting, for a store that nobody closed."""
        if self.process == os.getpid():
            for worker in self.workers:
                worker.thread.stop(worker.files.close)
            self.locks.close()


def each(calls: Calls, given: Any) -> Sequence[Any]:
    """Serve calls one by one, each with its result or its error."""
    outcomes = []
    for call in calls:
        try:
            outcomes.append(call(given))
        except Exception as error:
            outcomes.append(error)
    return outcomes
