"""Collect `*.test.json` files under pytest: each case of a file is a test.

pytest loads this module in every run by its entry point, so it imports nothing of the engine before
it finds such a file. `-p no:llm_fsm` switches it off. `llm-fsm test` sets `OPTIONS` and `HOST`, and
reads `COVERED` and `RECORDED`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from llm_fsm.testing.scenarios.loader import LoadedCases, Play
    from llm_fsm.testing.scenarios.results import Result
    from llm_fsm.testing.scenarios.session import CaseSession

ENDING = ".test.json"
OPTIONS = pytest.StashKey[Any]()
"""The `PlayOptions` of the run."""
HOST = pytest.StashKey[Any]()
"""The `HostTools` of the run."""
TOOLS = "llm_fsm_tools"
"""The setting of pytest that names files of the host's functions, as `--tools` of `llm-fsm test`.
"""
COVERED = pytest.StashKey[list[Any]]()
"""A `Covered` for each file."""
RECORDED = pytest.StashKey[list[str]]()
"""Sentences about what was recorded."""
RUNS = "runs passed"
"""The property of a report that says how many runs of a case passed, if there were several."""

_SHOWN = 100
_MARKS = frozenset({"definition", "cases"})
"""Keys of which each file of conversation tests has at least one."""


class CaseFailed(Exception):
    """A case failed. The message lists everything that differs, one item a line."""


class CaseWarning(pytest.PytestWarning):
    """A file of conversation tests contains something that is probably a mistake."""


class Cases(pytest.File):
    """A file of conversation tests."""

    loaded: LoadedCases
    session_: CaseSession
    new_session: Callable[[], CaseSession]
    runner: asyncio.Runner
    is_closed = False

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the cases.

        Raises:
            CollectError: The file cannot be used. The message says everything that is wrong.
        """
        # Loaded with the first such file: pytest imports this module in the runs of any project.
        from llm_fsm.engine.host_files import HostFileError  # noqa: PLC0415
        from llm_fsm.testing.scenarios import checks, loader, session  # noqa: PLC0415
        from llm_fsm.testing.scenarios.problems import SuiteError  # noqa: PLC0415

        options = self.config.stash.get(OPTIONS, None)
        try:
            host = _host(self.config)
        except HostFileError as error:
            raise self.CollectError(f"the setting {TOOLS}: {visible(str(error))}") from error
        try:
            self.loaded = loader.read_suite(_relative(self.path))
            self.new_session = partial(session.CaseSession, self.loaded, options, host)
            self.session_ = self.new_session()
        except SuiteError as error:
            raise self.CollectError(
                "\n".join(visible(str(fault)) for fault in error.faults)
            ) from error
        plays = self.loaded.plays
        for warning in checks.warnings(
            self.loaded.text, ((play.pointer, play.case) for play in plays)
        ):
            self.warn(CaseWarning(visible(str(warning))))
        for play in plays:
            yield CaseItem.from_parent(self, name=visible(play.name), play=play)

    def setup(self) -> None:
        """Open the event loop of the cases of the file that follow one another.

        In a random order pytest comes back to a file that it has left, whose session is closed.
        """
        self.runner = asyncio.Runner()
        if self.is_closed:
            self.session_ = self.new_session()
            self.is_closed = False

    def play(self, play: Play) -> Result:
        """Play a case."""
        return self.runner.run(self.session_.play(play))

    def teardown(self) -> None:
        """Free the resources of the cases, and keep their coverage and recordings."""
        options = self.config.stash.get(OPTIONS, None)
        try:
            if options is not None and options.cover:
                self.config.stash.setdefault(COVERED, []).append(self.session_.covered())
            self.runner.run(self.session_.close())
            if self.session_.recorded:
                self.config.stash.setdefault(RECORDED, []).append(self.session_.recorded)
        finally:
            self.runner.close()
            self.is_closed = True


class CaseItem(pytest.Item):
    """One case."""

    parent: Cases

    def __init__(self, *, play: Play, **options: Any) -> None:
        super().__init__(**options)
        self._play = play
        skipped = play.case.why_skipped
        if skipped is not None:
            self.add_marker(pytest.mark.skip(reason=visible(skipped)))

    def runtest(self) -> None:
        """Play the case.

        Raises:
            CaseFailed: Something differs.
        """
        result = self.parent.play(self._play)
        if result.runs != 1:
            self.user_properties.append((RUNS, f"{result.passes} of {result.runs}"))
        if not result.passed:
            raise CaseFailed("\n".join(_told(self.parent.loaded.file, result)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the differences and the conversation, without a traceback."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place of the case."""
        return self.path, self.parent.loaded.text.position(self._play.pointer).line - 1, self.name


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting of a project's own functions."""
    text = "Python files with TOOLS, FUNCTIONS and HANDLERS for conversation tests"
    parser.addini(TOOLS, text, "paths")


def _host(config: pytest.Config) -> Any:
    """Return the host of `llm-fsm test`, of the setting, or of LLM_FSM_TOOLS; else None.

    Raises:
        HostFileError: A file of the setting cannot be used.
    """
    if HOST in config.stash:
        return config.stash[HOST]
    given = os.environ.get("LLM_FSM_TOOLS", "")
    files = config.getini(TOOLS) or [name for name in given.split(os.pathsep) if name]
    if not files:
        return None
    from llm_fsm.engine.host_files import host_of  # noqa: PLC0415

    host = host_of(map(str, files))
    config.stash[HOST] = host
    return host


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Cases | None:
    """Make the collector of a file of conversation tests.

    Other programs have files of that ending, too. In plain pytest, one is ours by its content, or
    if it is named.
    """
    if not file_path.name.endswith(ENDING):
        return None
    is_asked_for = OPTIONS in parent.config.stash or parent.session.isinitpath(file_path)
    if not is_asked_for and not is_ours(file_path):
        return None
    collector: Cases = Cases.from_parent(parent, path=file_path)
    return collector


def is_ours(path: Path) -> bool:
    """Return true if a file is one of conversation tests by its content.

    It is an object with `definition` or `cases`, and all its keys are ours or misspelt. A text that
    is no JSON must name two of our keys.

    Args:
        path: The file.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return False
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return '"definition"' in text and any(
            f'"{key}"' in text for key in ("cases", "steps", "users")
        )
    if not isinstance(document, dict) or document.keys().isdisjoint(_MARKS):
        return False
    from llm_fsm import _text  # noqa: PLC0415
    from llm_fsm.testing.scenarios.schema import suite_schema  # noqa: PLC0415

    known = suite_schema()["properties"]
    for key in document:
        if key in known or key.startswith("x-"):
            continue
        if _text.nearest(key, known) is None:
            return False
    return True


def _told(file: str, result: Result) -> Iterator[str]:
    """List the differences, each with its place and step, then the conversation."""
    for failure in result.failures:
        yield visible(f"{file}:{failure.line}:{failure.column}: {failure.step}: {failure.message}")
    for said in result.said:
        if said.heard is not None:
            yield f"    user  {visible(said.heard, _SHOWN)}"
        if said.text or said.heard is not None:
            yield f"    bot   {visible(said.text, _SHOWN)}  [{visible(said.state)}]"


def visible(text: str, chars: int | None = None) -> str:
    """Return a text as one line in which control characters are shown as escapes."""
    from llm_fsm import _text  # noqa: PLC0415

    line = _text.visible(text)
    return line if chars is None else _text.shortened(line, chars)


def _relative(path: Path) -> str:
    """Return the shortest form of the path."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
