"""An event loop in a thread of its own, which other threads borrow while it waits.

Waking a thread costs as much as half a turn. So the work of another thread begins in that thread, where the loop's own
is waiting for input, and what has to wait for something goes on in the loop's. Never do two threads run callbacks of
one loop at a time: whoever does holds the loop's lock.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enums of what goes through it, which takes longer
import asyncio
import contextvars
import selectors
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, Generic, TypeVar, TypeVarTuple

from llm_fsm import _forks as forks
from llm_fsm.stores.locks.forks import leave_in_children

T = TypeVar("T")
_Arguments = TypeVarTuple("_Arguments")

_LETTING_GO = 2.0
"""Seconds that work which is cancelled has when its loop ends."""
_NOT_TRIED = 15
"""How often in a row work of a kind that had to wait is not begun in its caller's thread, which costs a little then."""
_LOOKING_UP = 0.5
"""Seconds after which the main thread looks whether a signal came while it began to wait."""
_GIVING_UP = 5.0
"""Seconds for which a caller who is interrupted waits for its work to let go."""
_AT_A_STRETCH = 100
"""Callbacks that are run in a caller's thread: work that turns in a circle may wait for what the loop's thread does."""
_CLOSED = "this machine is closed; make another one"
_SIGNALS = range(1, 32)
"""All but those of real time."""


class _Errand(Generic[T]):
    """Work that one thread gives to an event loop of another, and waits for at half the price of a `Future`.

    `here`: whether the caller itself works; `stops`: whether a SIGINT then cancels the work; `interrupted`: whether one
    came.
    """

    __slots__ = ("_context", "_ended", "_work", "here", "interrupted", "stops", "task")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._ended = threading.Lock()
        self._ended.acquire()
        self.task: asyncio.Task[T] | None = None
        self.here = False
        self.stops = True
        self.interrupted = False

    def begin(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[T]:
        """Begin the work, by whoever runs the loop."""
        self.task = loop.create_task(self._work, context=self._context)
        return self.task

    def go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with the work on the loop's thread, and let go of the caller at its end."""
        (self.task or self.begin(loop)).add_done_callback(self.let_go)

    def give_up(self) -> None:
        """Cancel the work on the loop's thread, and let go of the caller when it has let go."""
        if self.task is None:
            self._work.close()
            self.let_go()
        else:
            if not self.task.cancelling():  # a second time would cut short what it clears up
                self.task.cancel()
            self.task.add_done_callback(self.let_go)

    def interrupt(self, _: int, frame: FrameType | None) -> None:
        """Answer the first SIGINT while the caller works by cancelling, so that what is begun is cleared up.

        A second one breaks in, but only into what a task does: between callbacks one of them would be lost.
        """
        if self.interrupted and self.here and frame is not None:
            name = frame.f_globals.get("__name__", "")
            if name != __name__ and name.partition(".")[0] != "asyncio":
                raise KeyboardInterrupt
        self.interrupted = True
        if self.here and self.stops and self.task is not None:
            self.task.cancel()

    def let_go(self, task: asyncio.Task[T] | None = None) -> None:
        """Let the caller go on, who waits or is going to; who was interrupted does not ask what came of it."""
        if task is not None and not task.cancelled():
            task.exception()
        if self._ended.locked():
            self._ended.release()

    def wait(self, seconds: float = -1) -> None:
        """Wait for the end of the work, at most so long; -1: for ever."""
        if seconds >= 0 or threading.current_thread() is not threading.main_thread():
            self._ended.acquire(timeout=seconds)
            return
        while not self._ended.acquire(timeout=_LOOKING_UP):
            pass  # here Python answers a signal that came just before the lock was waited for

    def result(self) -> T:
        """What came of the work that has ended."""
        if self.task is None:
            self._work.close()
        if self.task is None or not self.task.done() or self.task.cancelled():
            raise CancelledError
        return self.task.result()


class _Letting(selectors.DefaultSelector):
    """A selector that lets go of a lock while it waits."""

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__()
        self._lock = lock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._lock.release()
        try:
            found = super().select(timeout)
        finally:
            self._lock.acquire()
        known = self.get_map()  # whoever borrowed the loop may have closed a file, and its number be another's now
        return [(key, mask) for key, mask in found if known.get(key.fd) is key]


class _LentLoop(asyncio.SelectorEventLoop):
    """An event loop that another thread may work on while its own waits for input.

    `hooks`: what its own thread does with asynchronous generators, once it runs.
    """

    def __init__(self) -> None:
        self.held = threading.Lock()
        self.hooks: Any = None
        self._borrowed: deque[asyncio.Handle] | None = None
        self._timed = False
        self._left = 0
        super().__init__(_Letting(self.held))

    def call_soon(
        self,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self._borrowed is None:
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        self._borrowed.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        self._timed = True
        return super().call_at(when, callback, *args, context=context)

    def borrow(self, errand: _Errand[Any]) -> bool:
        """Work in the calling thread as far as it goes without waiting. True if that was to the end."""
        begun: deque[asyncio.Handle] = deque()
        hooks = sys.get_asyncgen_hooks()
        done = False
        outer = asyncio._get_running_loop()  # whoever calls from a coroutine waits in the middle of a task
        waiting = None if outer is None else asyncio.current_task(outer)
        if not self.held.acquire(blocking=False):
            return False
        try:
            if self.hooks is None or errand.interrupted or self.get_debug():
                return False
            self._borrowed = begun
            self._timed = False
            self._left = _AT_A_STRETCH
            if outer is not None and waiting is not None:
                asyncio._leave_task(outer, waiting)
            asyncio._set_running_loop(self)
            sys.set_asyncgen_hooks(*self.hooks)
            errand.here = True
            task = errand.begin(self)
            while begun and self._left > 0 and not task.done():
                self._left -= 1
                _run(begun.popleft())
            done = task.done()
        finally:
            errand.here = False
            if self._borrowed is not None:
                self._borrowed = None
                sys.set_asyncgen_hooks(*hooks)
                asyncio._set_running_loop(outer)
                if outer is not None and waiting is not None:
                    asyncio._enter_task(outer, waiting)
                for handle in begun:
                    self.call_soon_threadsafe(_run, handle)
                if done and self._timed:  # its own thread waits until a time that was set before
                    self.call_soon_threadsafe(_look_again)
            self.held.release()
        return done

    def take_back(self) -> bool:
        """Leave what comes next to the loop's own thread. False if this is it."""
        self._left = 0
        return self._borrowed is not None


def _look_again() -> None:
    """Have a loop look anew how long it may wait."""


def _run(handle: asyncio.Handle) -> None:
    if not handle.cancelled():
        try:
            handle._run()
        except (KeyboardInterrupt, SystemExit):  # raised by a task: whoever waits for that task is given it
            pass


def _is_of_asyncio(handler: object) -> bool:
    """Whether it is what `asyncio.run` puts in place, which cancels its own task alone, and whoever waits goes on."""
    method = handler.func if isinstance(handler, partial) else None
    return method is not None and getattr(method, "__func__", None) is getattr(asyncio.Runner, "_on_sigint", method)


class Loop:
    """One event loop in one daemon thread.

    `lent`: whether callers' threads may borrow it: not where work that is awaited keeps to one thread.
    """

    def __init__(self, *, lent: bool = True) -> None:
        self._lent = lent
        self.forks = 0
        """How often the process was forked since, so that this is a child."""
        self._inherited: threading.Lock | None = None
        self._begin()
        leave_in_children(self, Loop.inherit)

    def _begin(self) -> None:
        self._loop = asyncio.new_event_loop()
        selects = type(self._loop) is asyncio.SelectorEventLoop and sys.platform != "win32"  # no other policy's
        if self._lent and selects:
            self._loop.close()
            self._loop = _LentLoop()
        self._waited: set[_Errand[Any]] = set()
        self._waiting: dict[object, int] = {}  # of what had to wait, how often it is not begun in its caller's thread
        self._thread = threading.Thread(target=self._serve, name="llm_fsm loop", daemon=True)
        self._thread.start()

    def inherit(self) -> None:
        """In a forked child: the loop and its thread are the parent's; the first work begins others."""
        self.forks += 1
        if not self._loop.is_closed():
            self._inherited = threading.Lock()
            self._loop = forks.left(self._loop)

    def _begun_anew(self) -> bool:
        lock = self._inherited
        if lock is None:
            return False
        with lock:
            if self._loop.is_closed():
                self._begin()
        return True

    def _serve(self) -> None:
        lent = self._loop if isinstance(self._loop, _LentLoop) else None
        if lent is not None:
            lent.held.acquire()
            lent.call_soon(lambda: setattr(lent, "hooks", sys.get_asyncgen_hooks()))
        while True:
            try:
                self._loop.run_forever()
                break
            except (KeyboardInterrupt, SystemExit):  # raised by a task: whoever waits for that task is given it
                continue
        if lent is not None:
            lent.hooks = None
        self._cut_short()
        self._cut_short()  # what came meanwhile
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._cut_short()
        self._loop.close()
        for errand in tuple(self._waited):
            errand.let_go()

    def _cut_short(self) -> None:
        """Cancel turns, and what libraries leave running."""
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left, timeout=_LETTING_GO))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end; an interrupt of the caller cancels the work and waits until it has let go."""
        if self._loop.is_closed() and not self._begun_anew():
            work.close()
            raise RuntimeError(_CLOSED)
        if asyncio._get_running_loop() is self._loop:
            work.close()
            raise RuntimeError("a handler or tool waits for the machine that waits for it; await AsyncMachine there")
        errand = _Errand(work)
        kind = getattr(work, "cr_code", None)
        waits = self._waiting.get(kind, 0)
        try:
            if waits or not self._done_at_once(errand):
                self._waiting[kind] = waits - 1 if waits else _NOT_TRIED
                self._waited.add(errand)
                self._loop.call_soon_threadsafe(errand.go_on, self._loop)
                errand.wait()
        except BaseException as error:  # an interrupt too must not leave the work running behind the caller's back
            if self._loop.is_closed():
                work.close()
                if isinstance(error, RuntimeError):  # asyncio's, where the loop was closed a moment ago
                    raise RuntimeError(_CLOSED) from error
            else:
                self._loop.call_soon_threadsafe(errand.give_up)
                errand.wait(_GIVING_UP)
            raise
        finally:
            self._waited.discard(errand)
        return errand.result()

    def _done_at_once(self, errand: _Errand[Any]) -> bool:
        """Whether the work was done in the caller's thread, without waiting for anything."""
        if not isinstance(self._loop, _LentLoop):
            return False
        if threading.current_thread() is not threading.main_thread():
            return self._loop.borrow(errand)
        handlers = [handler for handler in map(_signal.getsignal, _SIGNALS) if callable(handler)]
        if not handlers:
            return self._loop.borrow(errand)
        handler = _signal.getsignal(signal.SIGINT)
        errand.stops = handler is signal.default_int_handler
        if handlers != [handler] or not (errand.stops or _is_of_asyncio(handler)):
            return False  # what another raises would be taken for a fault of the work
        _signal.signal(signal.SIGINT, errand.interrupt)
        try:
            done = self._loop.borrow(errand)
        finally:
            _signal.signal(signal.SIGINT, handler)
        if errand.interrupted:
            handler(signal.SIGINT, None)
        return done

    def _is_run_here(self) -> bool:
        """Whether this thread works on the loop, so that waiting for it would never end.

        It does so where it frees something in the middle of that: garbage is collected on whatever thread is running.
        """
        return threading.current_thread() is self._thread or asyncio._get_running_loop() is self._loop

    def let_go(self, freeing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Free an asynchronous generator; from within the loop that is left to asyncio, which does it in its time."""
        if self._loop.is_closed() or self._is_run_here():
            return
        with suppress(RuntimeError, CancelledError):  # the machine is closed, or being closed
            self.run(freeing())

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Run the last work and end the thread, which closes the loop; from within the loop it goes on by itself."""
        if self._inherited is not None and self._loop.is_closed():  # what there is to free is the parent's
            self._inherited = None
            last.close()
            return
        self._inherited = None
        if self._is_run_here():
            done = self._loop.create_task(last)
            done.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
            return
        try:
            self.run(last)
        except CancelledError:
            pass
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)
