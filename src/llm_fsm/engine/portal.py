"""One event loop in a background thread, for the facade without asyncio."""

from __future__ import annotations

import asyncio
import inspect
import os
import selectors
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from llm_fsm.errors import ConfigurationError
from llm_fsm.stores.locks.forks import around_forks

T = TypeVar("T")

_CLOSED = "this machine is closed; make another one"
_NESTED = "a handler or tool waits for the machine that waits for it; await AsyncMachine there"
_LOOK_UP = 0.5
"""Seconds after which the waiting main thread checks for signals, because they do not interrupt it
on every system. Other threads get no signals. A thousand of them that looked up would leave the
loop no time."""
_LETTING_GO = 5.0
"""Seconds that cancelled work has for its cleanup."""


class Portal:
    """An event loop in a daemon thread, which runs work of other threads."""

    def __init__(self) -> None:
        _check_threads()
        self.forks = 0
        """The number of forks between the process that made this and the running one."""
        self._inherited: list[object] = []
        """Objects of the parent, which are never freed in a forked child, because their cleanup
        would affect the parent.
        """
        self._restarts = False
        self._restarting = threading.Lock()
        self._awaited: set[Future[Any]] = set()
        """Futures that threads wait for. The end of the loop cancels those that it left."""
        self._start()
        around_forks(self, Portal._around_fork)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. An interrupt of the caller cancels it, and waits for its
        cleanup.

        Raises:
            RuntimeError: The portal is stopped, or the loop's own thread would wait for itself.
            concurrent.futures.CancelledError: The portal was stopped before the end.
        """
        # A forked child has the object, but not the thread.
        if self._restarts:
            with self._restarting:
                if self._restarts:
                    self._start()
        if self._is_own_thread():
            work.close()
            raise RuntimeError(_NESTED)
        try:
            # The caller may wait for seconds, and its signals must reach it meanwhile.
            return self._result(self._submit(work))
        except BaseException:  # an interrupt of the waiting thread must not leave the work running
            if inspect.getcoroutinestate(work) != inspect.CORO_CLOSED:
                with suppress(RuntimeError, CancelledError):  # the portal was stopped
                    self._result(self._submit(_cancelled(work)))
            # Interrupted before it was submitted.
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()
            raise

    def let_go(self, freeing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close an asynchronous generator. Within the loop's own thread, asyncio does that."""
        if not (self._loop.is_closed() or self._is_own_thread()):
            with suppress(RuntimeError, CancelledError):  # the portal is being stopped
                self.run(freeing())

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Run the last work, cancel the rest and end the thread. Within the loop's own thread, this
        returns at once."""
        if self._restarts:  # a forked child that has not used the machine has nothing to free
            self._restarts = False
            last.close()
        elif self._is_own_thread():
            self._loop.create_task(last).add_done_callback(lambda _: self._end())
        else:
            with suppress(CancelledError):
                self.run(last)
            self._end()
            self._thread.join(_LETTING_GO)

    def _start(self) -> None:
        # The default loop of Windows cannot watch sockets for PostgreSQL.
        self._loop = (
            asyncio.SelectorEventLoop() if sys.platform == "win32" else asyncio.new_event_loop()
        )
        self._restarts = self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="llm_fsm loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        loop = self._loop
        while not self._stopping:
            # Raised by a task, whose caller receives it.
            with suppress(KeyboardInterrupt, SystemExit):
                loop.run_forever()
        for _ in range(2):  # cancelled tasks may have begun new ones
            if tasks := asyncio.all_tasks(loop):
                for task in tasks:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(tasks, timeout=_LETTING_GO / 2))
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        for future in list(self._awaited):
            future.cancel()

    def _end(self) -> None:
        self._stopping = True
        with suppress(RuntimeError):  # stopped twice
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise RuntimeError(_CLOSED) from None

    def _result(self, future: Future[T]) -> T:
        self._awaited.add(future)
        try:
            # The loop may have ended between the submission and the line above.
            if self._loop.is_closed():
                future.cancel()
            if threading.current_thread() is threading.main_thread():
                _wait_for_signals_too(future)
            return future.result()
        finally:
            self._awaited.discard(future)

    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    @contextmanager
    def _around_fork(self) -> Iterator[None]:
        """Leave the loop to the parent, because a child shares its selector and lacks its
        thread."""
        process = os.getpid()
        yield
        if os.getpid() == process:
            return
        self.forks += 1
        self._restarting = threading.Lock()
        # Another thread may hold the lock of one of its futures, so this process must not touch
        # them.
        self._inherited.append(self._awaited)
        self._awaited = set()
        if self._loop.is_closed():
            return
        self._restarts = True
        self._inherited += (self._loop, asyncio.all_tasks(self._loop), self._thread)
        if isinstance(self._loop, asyncio.SelectorEventLoop):
            loop: Any = self._loop  # its own attributes, which no stub names
            self._inherited.append(loop._default_executor)
            loop._selector.close()
            loop._selector = selectors.SelectSelector()
            loop._default_executor = None
            loop._thread_id = None
        else:
            self._loop = asyncio.SelectorEventLoop()
        self._loop.close()


def _wait_for_signals_too(future: Future[Any]) -> None:
    while True:
        try:
            future.exception(_LOOK_UP)
        except TimeoutError:
            continue
        return


async def _cancelled(work: Coroutine[Any, Any, Any]) -> None:
    """Cancel the task of a coroutine, and wait for its cleanup."""
    for task in [task for task in asyncio.all_tasks() if task.get_coro() is work]:
        task.cancel()
        await asyncio.wait([task], timeout=_LETTING_GO)


def _check_threads() -> None:
    """Refuse greenlets in place of threads, because a loop in one would block with the greenlet
    that waits for it."""
    for library, module, asks, names in (
        ("gevent", "gevent.monkey", "is_module_patched", ("threading", "select", "queue")),
        ("eventlet", "eventlet.patcher", "is_monkey_patched", ("thread", "select")),
    ):
        is_patched = getattr(sys.modules.get(module), asks, None)
        if is_patched is not None and any(map(is_patched, names)):
            raise ConfigurationError(
                f"{library} has patched threads, select or queues in this process, and a Machine "
                "needs the originals. Start the workers with threads or processes (gunicorn -k "
                "gthread, celery -P threads or prefork)"
            )
