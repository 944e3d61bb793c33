"""The thread that owns the connection to an SQLite file, and the jobs that wait for it.

Jobs that are waiting when the worker comes round are served together: first all that write, in one transaction (so
they share the costly sync to disk), then all that read; a job is answered after the commit. A read therefore sees
every write that was handed in before it. While nothing waits or is served, a read can be done in the thread of
whoever asks, and so can a write where the disk is quick. When one of several jobs cannot be done, the transaction is
rolled back and each job is tried on its own, so a failing job harms no other.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from llm_fsm.errors import StoreError
from llm_fsm.stores.locks.forks import rest_in_forks
from llm_fsm.stores.sqlite.errors import fault, is_busy, is_lasting, is_unsettled
from llm_fsm.stores.sqlite.lately import Connection
from llm_fsm.stores.sqlite.log import empty, make_room
from llm_fsm.stores.sqlite.schema import MEMORY, inode, open_database

T = TypeVar("T")

BATCH = 1024
"""Jobs in a batch, more or less."""
_GATHERED = 64
"""Jobs that are gathered at most before the worker is woken, which works while the event loop goes on."""
_SETTLED = 4
"""Transactions after which a connection is expected to make many more, so that room in the log is worth its making."""
_FILLED = 120
"""Transactions after which the log is emptied while nobody waits, before a commit has to do it (at 1,000 pages)."""
_BRIEF = 0.001
"""Seconds that an event loop may stand still for a transaction."""
_PROVED = 4
"""Brief transactions in a row, after which the next one is expected to be brief."""


class Waits:
    """In place of an answer that cannot be had at once."""


Together = Callable[[Sequence[Any], Connection], Sequence[Any]]


class Job(NamedTuple):
    """Work on the connection for one who waits on `future` in `loop`.

    `work` uses the connection only during the call. Jobs that write are called within a transaction, and
    again when it had to be rolled back. `together` serves the `value`s of several jobs at once, in place of their
    `work`, and gives an outcome for each; an Exception is raised to the one who asked and harms no other.
    """

    work: Callable[[Connection], Any]
    writes: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    together: Together | None = None
    value: Any = None


class _Outcome(NamedTuple):
    job: Job
    value: Any = None
    error: Exception | None = None


class Worker:
    """Owns one connection; opens it with the first job and again after errors that call for it."""

    def __init__(self, path: str, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._jobs: SimpleQueue[Sequence[Job] | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._handed = 0
        self._served = 0
        self._guard = threading.Lock()
        self._using = threading.Lock()
        """Held by the thread that uses the connection."""
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._db: Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._patience = busy_timeout
        """Seconds that the connection waits for other programs now."""
        self._written = 0
        """Transactions since the connection was opened, or since the log was last seen to."""
        self._brief = 0
        """How many transactions in a row were brief."""
        self._has_room = False
        """There is room in the log, or there cannot be: nothing is to be done about it with this connection."""
        if path != MEMORY:
            rest_in_forks(self, Worker._closed)

    def submit(self, job: Job, *, alone: bool = True) -> None:
        """Hand in a job, in the event loop of whoever waits for it. Raises StoreError after `stop`.

        `alone` False: together with what else this round of the event loop hands in. Waking the worker for each of
        a thousand jobs costs more than the jobs, and leaves it none to serve together.
        """
        self.check_open()
        gathered = self._gathered.get(job.loop)
        if gathered is not None:
            gathered.append(job)
            if len(gathered) >= _GATHERED:
                self._put(gathered)
                self._gathered[job.loop] = []
        elif alone:
            self._put([job])
        else:
            self._gathered[job.loop] = [job]
            job.loop.call_soon(self.hand_in, job.loop)

    def at_once(self, work: Callable[[Connection], T], *, writes: bool = False) -> T | Waits:
        """What a job gives, without waking the thread, where nothing is under way and no file has to be opened.

        With a write-ahead log the read of an open connection waits for no other program. A write is done so while
        transactions are brief; it is left to the thread where another program is writing, or the log is to be seen to.
        Raises StoreError after `stop`, and where a write fails.
        """
        self.check_open()
        if not self._using.acquire(blocking=False):
            return Waits()
        try:
            db = self._db
            if db is None or self._handed != self._served or self._gathered or self._is_replaced():
                return Waits()
            return self._write_at_once(db, work) if writes else work(db)
        except sqlite3.Error:  # the worker meets it again, and knows what to do about it
            return Waits()
        finally:
            self._using.release()

    def _write_at_once(self, db: Connection, work: Callable[[Connection], T]) -> T | Waits:
        if self._brief < _PROVED or self._is_log_due():
            return Waits()
        try:
            self._wait_at_most(0.0, db)
            return self._transaction(db, work)
        except BaseException as error:  # an interrupt too must not leave a transaction open
            self._recover(error)
            if is_busy(error) or not isinstance(error, sqlite3.Error):
                raise
            raise fault(self._path, error) from error

    def hand_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the worker for what an event loop has gathered. To be called in that loop."""
        jobs = self._gathered.pop(loop, None)
        if not jobs:
            return
        try:
            self._put(jobs)
        except StoreError as error:
            _resolve([_Outcome(job, error=StoreError(str(error))) for job in jobs])

    def _put(self, jobs: Sequence[Job]) -> None:
        with self._guard:
            self.check_open()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="llm-fsm-sqlite", daemon=True)
                thread.start()
                self._thread = thread
            self._handed += len(jobs)
            self._jobs.put(jobs)

    def check_open(self) -> None:
        """Raises StoreError after `stop`."""
        if self._stopped:
            raise StoreError(f"{self._path}: the store is closed; open a new one")

    def stop(self) -> threading.Thread | None:
        """Let the thread finish what waits, close the connection and end. Returns the thread to join, if any.

        Safe to call more than once.
        """
        with self._guard:
            self._stopped = True
        self._jobs.put(None)
        return self._thread

    @contextmanager
    def _closed(self) -> Iterator[None]:
        """Without a connection, and nobody opens one: what SQLite knows of a file's locks is copied by a fork.

        The child would find the file locked for ever, or would write into a log that its parent has removed.
        """
        rests = self._using.acquire(timeout=self._busy_timeout + 1)  # else a fork would wait for another program
        try:
            if rests:
                self._disconnect()
            yield
        finally:
            if rests:
                self._using.release()

    def _run(self) -> None:
        running = True
        while running:
            batch, running = self._next()
            self._serve(batch)
            if running and self._is_log_due() and self._jobs.empty():
                with self._using:
                    self._see_to_the_log()
        with self._using:
            self._disconnect()

    def _next(self) -> tuple[Sequence[Job], bool]:
        """The jobs that wait now (at least one, or the wish to stop), and whether to go on after them."""
        batch: list[Job] = []
        jobs = self._jobs.get()
        while jobs is not None:
            batch += jobs
            if len(batch) >= BATCH or self._jobs.empty():
                return batch, True
            jobs = self._jobs.get_nowait()  # nobody else takes from this queue
        return batch, False

    def _serve(self, batch: Sequence[Job]) -> None:
        alive = [job for job in batch if not job.future.cancelled()]
        writes = [job for job in alive if job.writes]
        reads = [job for job in alive if not job.writes]
        for jobs, serve in ((writes, self._write_all), (reads, self._read_all)):
            if jobs:
                with self._using:
                    outcomes = serve(jobs)
                self._served += len(jobs)
                _deliver(outcomes)
        self._served += len(batch) - len(alive)

    def _write_all(self, jobs: Sequence[Job]) -> Sequence[_Outcome]:
        if len(jobs) > 1:
            try:
                values = self._write(jobs)
            except Exception as error:
                self._recover(error)
                if is_busy(error) or is_unsettled(error):  # done again, it might meet itself
                    return [self._failed(job, error) for job in jobs]
            else:
                return [_answered(job, value) for job, value in zip(jobs, values, strict=True)]
        return self._one_by_one(jobs, lambda job: self._write([job])[0])

    def _one_by_one(self, jobs: Sequence[Job], do: Callable[[Job], Any]) -> Sequence[_Outcome]:
        """Each job for itself; but none waits again for a database that stayed locked for the one before."""
        outcomes: list[_Outcome] = []
        locked: Exception | None = None
        for job in jobs:
            if locked is not None:
                outcomes.append(self._failed(job, locked))
                continue
            try:
                outcomes.append(_Outcome(job, do(job)))
            except Exception as error:
                self._recover(error)
                outcomes.append(self._failed(job, error))
                locked = error if is_busy(error) else None
        return outcomes

    def _read_all(self, jobs: Sequence[Job]) -> Sequence[_Outcome]:
        if len(jobs) > 1:
            try:
                values = _perform(jobs, self._connection())
            except Exception as error:
                self._recover(error)
            else:
                return [_answered(job, value) for job, value in zip(jobs, values, strict=True)]
        return self._one_by_one(jobs, lambda job: job.work(self._connection()))

    def _write(self, jobs: Sequence[Job]) -> Sequence[Any]:
        return self._transaction(self._connection(), partial(_perform, jobs))

    def _transaction(self, db: Connection, work: Callable[[Connection], T]) -> T:
        began = time.perf_counter()
        db.execute("BEGIN IMMEDIATE")
        value = work(db)
        db.execute("COMMIT")
        db.lately.committed()
        self._written += 1
        self._brief = self._brief + 1 if time.perf_counter() - began < _BRIEF else 0
        return value

    def _is_log_due(self) -> bool:
        return self._written >= (_FILLED if self._has_room else _SETTLED)

    def _see_to_the_log(self) -> None:
        """Make room in it once a connection is seen to be used, and empty it before it is full.

        While nobody waits: a commit that lengthens the log is slow, and one that empties it is the slowest.
        """
        if self._db is None or self._is_replaced():
            return
        self._written = 0
        try:
            if self._has_room:
                empty(self._db)
            else:
                make_room(self._db)
                self._has_room = True
        except sqlite3.Error as error:  # another program is writing; what lasts, the next job meets again
            self._recover(error)
        except OSError:  # no space: then the log grows with its commits, as far as it can
            self._has_room = True

    def _failed(self, job: Job, error: Exception) -> _Outcome:
        if not isinstance(error, sqlite3.Error | UnicodeDecodeError):
            return _Outcome(job, error=error)
        translated = fault(self._path, error)
        translated.__cause__ = error
        return _Outcome(job, error=translated)

    def _recover(self, error: BaseException) -> None:
        """Leave no transaction open, and no connection that would fail for ever."""
        if self._db is None:
            return
        self._db.lately.forget()
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:  # what matters is the error that led here; a new connection starts clean
            self._disconnect()
        if is_lasting(error) and self._path != MEMORY:
            self._disconnect()

    def _connection(self) -> Connection:
        if self._db is not None and self._is_replaced():
            self._disconnect()  # the file was removed or replaced: writing to the old one would lose the turn
        if self._db is None:
            self._db = open_database(self._path, self._busy_timeout)
            self._inode = inode(self._path)
            self._patience = self._busy_timeout
        self._wait_at_most(self._busy_timeout, self._db)
        return self._db

    def _wait_at_most(self, seconds: float, db: Connection) -> None:
        if self._patience != seconds:  # setting it takes as long as the statements of a small transaction
            db.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
            self._patience = seconds

    def _is_replaced(self) -> bool:
        return self._path != MEMORY and self._inode != inode(self._path)

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        self._written = self._brief = 0
        self._has_room = False
        if db is not None:
            db.close()


def _perform(jobs: Sequence[Job], db: Connection) -> Sequence[Any]:
    """What each job gives; those that can be served together are."""
    if len(jobs) == 1:
        return [jobs[0].work(db)]
    outcomes: list[Any] = [None] * len(jobs)
    groups: dict[Together, list[int]] = {}
    for place, job in enumerate(jobs):
        if job.together is not None:
            groups.setdefault(job.together, []).append(place)
    for together, places in groups.items():
        if len(places) > 1:
            found = together([jobs[place].value for place in places], db)
            for place, outcome in zip(places, found, strict=True):
                outcomes[place] = outcome
    served = {place for places in groups.values() if len(places) > 1 for place in places}
    for place, job in enumerate(jobs):
        if place not in served:
            outcomes[place] = job.work(db)
    return outcomes


def _answered(job: Job, value: Any) -> _Outcome:
    return _Outcome(job, error=value) if isinstance(value, Exception) else _Outcome(job, value)


def _deliver(outcomes: Iterable[_Outcome]) -> None:
    """Wake those who wait, each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.job.loop, []).append(outcome)
    for loop, share in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, share)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            continue


def _resolve(outcomes: Iterable[_Outcome]) -> None:
    for outcome in outcomes:
        future = outcome.job.future
        if future.done():
            continue
        if outcome.error is None:
            future.set_result(outcome.value)
        else:
            future.set_exception(outcome.error)
