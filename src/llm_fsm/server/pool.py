"""Work for authors, in processes beside the server's own: checks, prompts, played tests, pictures.

Such work keeps an interpreter busy for seconds. In the server's process it would delay the turns of
everybody, even in a thread. So it runs in a few processes of low priority, which see no keys of the
operator, and have little time.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from llm_fsm._json import JsonMap, only
from llm_fsm.server.faults import report
from llm_fsm.server.limits import Limits
from llm_fsm.server.problems import Problem
from llm_fsm.server.tokens import Caller

_HEAD = struct.Struct(">I")
_KEPT = frozenset(
    {
        "PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "HOME",
        "TMPDIR",
        "TEMP",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "SYSTEMROOT",
    }
)
"""Variables that a worker needs. No other one reaches it: what a caller wrote must find no key of
the operator.
"""
_BUSY_SECONDS = 2.0
_START_SECONDS = 60.0
"""Seconds for a worker to import the package, which no job's time pays for."""
READY = b"+"
"""The byte that a worker writes when it can take its first job."""


class WorkPool:
    """A few processes, each with one job at a time. They start with the first jobs, and end with
    `close`.

    Args:
        limits: `work_processes`, `work_seconds` and `work_waiting` count.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free: list[Process] = []
        self._slots = asyncio.Semaphore(limits.work_processes)
        self._jobs: Counter[str] = Counter()

    async def run(self, caller: Caller, job: str, *arguments: Any) -> Any:
        """Do a job of `llm_fsm.server.worker`.

        Args:
            caller: The caller, who may have few jobs at once.
            job: The name of the job.
            arguments: Its arguments, as JSON data.

        Returns:
            Its result, as JSON data.

        Raises:
            Problem: The caller has too many jobs (429), the job took too long (413), or it failed.
        """
        if self._jobs[caller.name] >= self._limits.work_waiting:
            raise Problem(
                "too-many-requests",
                f"{self._limits.work_waiting} checks or tests of this token are not done yet",
                retry_after=_BUSY_SECONDS,
            )
        self._jobs[caller.name] += 1
        try:
            async with self._slots:
                answer = await self._done(job, arguments)
        finally:
            self._jobs[caller.name] -= 1
            if not self._jobs[caller.name]:
                del self._jobs[caller.name]
        return _result(job, answer)

    async def close(self) -> None:
        """End the processes."""
        while self._free:
            await _end(self._free.pop())

    async def _done(self, job: str, arguments: tuple[Any, ...]) -> JsonMap:
        seconds = self._limits.work_seconds
        asked = json.dumps({"job": job, "arguments": arguments, "seconds": seconds}).encode()
        async with self._worker() as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                async with asyncio.timeout(seconds):
                    process.stdin.write(_HEAD.pack(len(asked)) + asked)
                    await process.stdin.drain()
                    head = await process.stdout.readexactly(_HEAD.size)
                    answer = await process.stdout.readexactly(_HEAD.unpack(head)[0])
            except TimeoutError as error:
                raise Problem(
                    "too-large", f"this took longer than {seconds:g} seconds; give a smaller one"
                ) from error
            except (OSError, asyncio.IncompleteReadError) as error:
                report(f"a worker ended while it did the job {job!r}", error)
                raise Problem(
                    "too-large", "this needs more than there is for it; give a smaller one"
                ) from error
            found: JsonMap = json.loads(answer)
            return found

    @asynccontextmanager
    async def _worker(self) -> AsyncGenerator[Process]:
        """Lend a process. One whose job was not finished is ended, as its next answer would be
        another job's.
        """
        process = self._free.pop() if self._free else await _started()
        is_whole = False
        try:
            yield process
            is_whole = True
        finally:
            if is_whole and process.returncode is None:
                self._free.append(process)
            else:
                await asyncio.shield(_end(process))


async def _started() -> Process:
    environment = only(os.environ, _KEPT)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llm_fsm.server.worker",
            stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        report("a worker for checks and tests cannot start", error)
        raise Problem("unavailable", "checks and tests cannot be run now") from error
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            await process.stdout.readexactly(len(READY))
    except BaseException as error:
        await asyncio.shield(_end(process))
        if not isinstance(error, OSError | EOFError):
            raise
        report("a worker for checks and tests did not start", error)
        raise Problem("unavailable", "checks and tests cannot be run now") from error
    return process


async def _end(process: Process) -> None:
    if process.returncode is None:
        try:
            process.kill()
        except ProcessLookupError:  # it ended by itself meanwhile
            pass
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()


def _result(job: str, answer: JsonMap) -> Any:
    """Return the result in an answer. Raises its problem."""
    if "problem" not in answer:
        return answer["result"]
    if "reason" in answer:
        report(f"the job {job!r} failed: {answer['reason']}")
    raise Problem(answer["problem"], answer["detail"])
