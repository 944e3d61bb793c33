"""PostgreSQL and Redis for tests: real servers on free loopback ports, with their data in a
temporary folder.

One server of each kind serves all workers of a test run. Who needs it first starts a keeper
(`python tests/services.py KIND FOLDER PID`), which ends the server when the process PID has ended,
however it ended. A `Server` belongs to one test, which may stop, freeze and kill it.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 60.0


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def postgresql_program(name: str) -> str | None:
    """Where Debian keeps it is not on the path."""
    places = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4])
    )
    return shutil.which(name) or (str(places[-1]) if places else None)


def missing(kind: str) -> str | None:
    """Why tests cannot have this service; None when they can."""
    found = postgresql_program("postgres") if kind == "postgresql" else shutil.which("redis-server")
    return None if found else f"{kind} is not installed: make services"


def ordinary_user() -> str | None:
    """Who runs PostgreSQL, which refuses root; None: the one who runs the tests."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


@dataclass
class Server:
    """A server of one's own: `start`, then `stop`, `kill`, `freeze` and `thaw` at will."""

    kind: str
    folder: Path
    options: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        if self.kind == "redis":
            return f"redis://127.0.0.1:{self.port}/0"
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def start(self) -> Server:
        self.folder.mkdir(exist_ok=True)
        user = ordinary_user()
        if user is not None:
            shutil.chown(self.folder, user)
        command = self._redis() if self.kind == "redis" else self._postgresql(user)
        with open(f"{self.folder}.log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, user=user, cwd=self.folder, start_new_session=True
            )
        self.wait()
        return self

    def wait(self) -> None:
        """Until it takes connections and answers."""
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if time.monotonic() > deadline or (
                self.process is not None and self.process.poll() is not None
            ):
                raise RuntimeError(
                    f"{self.kind} did not start: {Path(f'{self.folder}.log').read_text()}"
                )
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        """To the server and all its children."""
        if self.process is not None and self.process.poll() is None:
            for process in self._family():
                try:
                    os.kill(process, number)
                except ProcessLookupError:
                    continue

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """As a crash does: every process at once."""
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def stop_hard(self) -> None:
        """As `pg_ctl -m immediate` does: PostgreSQL writes nothing more, and recovers from its log
        at its start.
        """
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(PATIENCE)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.thaw()
            self.process.send_signal(signal.SIGINT if self.kind == "postgresql" else signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()

    def _family(self) -> list[int]:
        assert self.process is not None
        first = self.process.pid
        try:
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        except OSError:
            children = []
        return [first, *map(int, children)]

    def _redis(self) -> Sequence[str]:
        return (
            *(
                "redis-server",
                "--bind",
                "127.0.0.1",
                "--port",
                str(self.port),
                "--dir",
                str(self.folder),
            ),
            *("--save", "", "--daemonize", "no"),
            *(self.options or ("--appendonly", "yes", "--appendfsync", "always")),
        )

    def _postgresql(self, user: str | None) -> Sequence[str]:
        data = self.folder / "data"
        if not data.exists():
            make = (
                *(
                    str(postgresql_program("initdb")),
                    "-D",
                    str(data),
                    "-U",
                    "tester",
                    "-A",
                    "trust",
                ),
                *("-E", "UTF8", "--locale=C", "--no-sync"),
            )
            subprocess.run(make, check=True, user=user, cwd=self.folder, stdout=subprocess.DEVNULL)
        settings = (
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "shared_buffers=32MB",
            "log_min_messages=fatal",
            *self.options,
        )
        pairs = [item for setting in settings for item in ("-c", setting)]
        return (str(postgresql_program("postgres")), "-D", str(data), "-p", str(self.port), *pairs)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                if self.kind == "redis":
                    probe.sendall(b"PING\r\n")
                    return probe.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False
        ready = (
            str(postgresql_program("pg_isready")),
            "-q",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
        )
        return subprocess.run(ready, check=False).returncode == 0


@contextmanager
def own_server(kind: str, options: Sequence[str] = ()) -> Iterator[Server]:
    """A server for one test, gone after it."""
    with open_folder() as folder:
        server = Server(kind, folder / kind, options)
        try:
            yield server.start()
        finally:
            server.stop()


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter, which pytest's are not."""
    folder = Path(tempfile.mkdtemp(prefix="llm-fsm-service-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def shared_server(kind: str, place: Path, owner: int) -> str:
    """The URL of the run's server, started if need be; `place` is a folder that all workers of the
    run share.
    """
    address = place / f"{kind}.url"
    with open(place / f"{kind}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            keeper = (sys.executable, __file__, kind, str(address), str(owner))
            apart = ("sh", "-c", '"$@" < /dev/null > /dev/null 2>&1 &', "sh", *keeper)
            subprocess.run(apart, check=True, start_new_session=True)
            until(lambda: address.exists() and address.read_text() != "")
        return address.read_text()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError("waited in vain")
        time.sleep(0.02)


def keep(kind: str, address: Path, owner: int) -> None:
    with own_server(kind) as server:
        address.write_text(server.url)
        while Path(f"/proc/{owner}").exists():
            time.sleep(0.2)


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
