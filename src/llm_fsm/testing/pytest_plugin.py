"""pytest plugin: every `*.test.json` file that pytest comes across is collected, and each of its cases is a test.

Nothing of the engine is imported before there is such a file. `-p no:llm_fsm` switches it off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ENDING = ".test.json"


class CaseFailed(Exception):
    """What is otherwise than expected, a line each."""


class CaseWarning(pytest.PytestWarning):
    """Something of a file of conversation tests that is worth knowing."""


class Cases(pytest.File):
    """A file of conversation tests."""

    def collect(self) -> Iterator[pytest.Item]:
        """Its cases. Raises CollectError with everything that is wrong with the file."""
        reading = import_module("llm_fsm.testing.scenarios.loader")
        faults = import_module("llm_fsm.testing.scenarios.problems")
        running = import_module("llm_fsm.testing.scenarios.session")
        try:
            loaded = reading.read_suite(_shown(self.path))
            player = running.player_of(loaded)
        except faults.SuiteError as error:
            raise self.CollectError(str(error)) from error
        idle = import_module("llm_fsm.testing.scenarios.checks")
        for warning in idle.warnings(loaded.text, ((play.pointer, play.case) for play in loaded.plays)):
            self.warn(CaseWarning(str(warning)))
        for play in loaded.plays:
            yield CaseItem.from_parent(self, name=play.name, player=player, play=play)


class CaseItem(pytest.Item):
    """One case."""

    def __init__(self, *, player: Any, play: Any, **options: Any) -> None:
        super().__init__(**options)
        self._player = player
        self._play = play
        if play.case.skip is not None:
            self.add_marker(pytest.mark.skip(reason=play.case.skip))

    def runtest(self) -> None:
        """Play it. Raises CaseFailed."""
        result = asyncio.run(self._player.play(self._play))
        if not result.passed:
            file = self._player.loaded.file
            lines = [f"{file}:{one.line}:{one.column}: {one.step}: {one.message}" for one in result.failures]
            raise CaseFailed("\n".join(lines))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The misses, without a traceback."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case stands."""
        return self.path, self._player.loaded.text.position(self._play.pointer).line - 1, self.name


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Cases | None:
    """A collector for a file of conversation tests."""
    if not file_path.name.endswith(ENDING):
        return None
    collector: Cases = Cases.from_parent(parent, path=file_path)
    return collector


def _shown(path: Path) -> str:
    """The path as it is shortest to read."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
