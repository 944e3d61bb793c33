"""What all tests share: the event loop, how hypothesis searches, and a home that is nobody's."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

import services

OPTIONAL = {"smolagents": "smolagents", "adk": "google.adk"}
IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("desk", deadline=None)
settings.load_profile("ci" if IN_CI else "desk")


def is_installed(module: str) -> bool:
    """True where a module can be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def pytest_configure() -> None:
    """Take Ctrl-C again where it is ignored, as in a shell's background job: what tests start would
    ignore it, too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _nobodys_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test reads the keys, proxies and settings of who runs it, or writes into their data
    folder.
    """
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            if name.startswith("LLM_FSM_") or name.lower().endswith(("_api_key", "_proxy")):
                patch.delenv(name)
        patch.setenv("XDG_DATA_HOME", str(home / "data"))
        yield home


@pytest.fixture
def thread_loop() -> Iterator[None]:
    """The event loop that a synchronous call of litellm asks its thread for. It would open one and
    leave it open, which fails whichever test runs when it is freed.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The browser of the pages. A desk may be without one; in CI a test that is skipped for it is a
    failure.
    """
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Gives the URL of the one server of a kind that all workers of this run share; skips where
    there is none.
    """
    place = tmp_path_factory.getbasetemp()
    among_others = "PYTEST_XDIST_WORKER" in os.environ

    def url(kind: str) -> str:
        if (reason := services.missing(kind)) is not None:
            pytest.skip(reason)
        owner = os.getppid() if among_others else os.getpid()
        return services.shared_server(kind, place.parent if among_others else place, owner)

    return url


@pytest.fixture
def postgresql_url(shared_service: Callable[[str], str]) -> str:
    """A schema of its own in the shared PostgreSQL server, as a store's URL."""
    return f"{shared_service('postgresql')}?schema=t{uuid.uuid4().hex}"


@pytest.fixture
def redis_url(shared_service: Callable[[str], str]) -> str:
    """Keys of its own in the shared Redis server, as a store's URL."""
    return f"{shared_service('redis')}?lease=2&prefix=t{uuid.uuid4().hex}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests were left out, why, and how to get what they need, a line for each reason."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[why.removeprefix("Skipped: ")] += 1
    for why, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {count}: {why}")
    left = [name for name, module in OPTIONAL.items() if not is_installed(module)]
    if left:
        terminalreporter.write_line(
            f"tests/optional without {' and '.join(left)}: run them by `make optional`"
        )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI everything that a test needs can be had, so a skipped test is one that nobody runs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not IN_CI or reporter is None:
        return
    skipped = reporter.stats.get("skipped", [])
    for report in skipped:
        reporter.write_line(f"skipped in CI: {report.nodeid}: {report.longrepr}", red=True)
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
