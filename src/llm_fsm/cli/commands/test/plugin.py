"""The part of `llm-fsm test` that runs inside pytest, also in the worker processes of pytest-xdist.

The command passes its own options as one JSON object in `OPTION`. This module hands them to the
collector of `llm_fsm.testing.pytest_plugin`, and lets simulated users talk. It adds coverage,
rates, recordings, and annotations on GitHub to pytest's report.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from llm_fsm._json import JsonMap
from llm_fsm._text import visible
from llm_fsm.cli.commands.test import coverage as coverage_report
from llm_fsm.cli.failures import show_failures
from llm_fsm.cli.host_code import host_of
from llm_fsm.cli.output import write_output
from llm_fsm.cli.repository import from_root
from llm_fsm.cli.terminal import console, escape
from llm_fsm.engine.host_files import HostTools
from llm_fsm.lint.report.formats import annotation
from llm_fsm.llm.base import let_go
from llm_fsm.llm.registry import models_of
from llm_fsm.testing.pytest_plugin import (
    COVERED,
    ENDING,
    HOST,
    OPTIONS,
    RECORDED,
    RUNS,
    CaseFailed,
    Cases,
)
from llm_fsm.testing.scenarios.loader import LoadedCases
from llm_fsm.testing.scenarios.models import User
from llm_fsm.testing.scenarios.session import Covered, PlayOptions
from llm_fsm.testing.simulation import Rate, simulate

OPTION = "--llm-fsm-test"
_TURNS = "turns on average"
_SENT = "llm_fsm_covered"
_WANTED = pytest.StashKey[JsonMap]()
_FAILED = pytest.StashKey[bool]()
_SHOWN = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option in which the command passes its own."""
    parser.addoption(OPTION, help=argparse.SUPPRESS)
    parser.prog = f"{console.program()} test"  # what is wrong with an option is wrong with ours


def pytest_configure(config: pytest.Config) -> None:
    """Hand the options to the collector. Raises UsageError for --record in several processes."""
    wanted = json.loads(config.getoption(OPTION))
    options = PlayOptions(**wanted["play"])
    if options.mode == "record" and config.getoption("numprocesses", None):
        raise pytest.UsageError("--record plays in one process: leave out -n")
    config.stash[_WANTED] = wanted
    config.stash[OPTIONS] = options
    config.stash[HOST] = host_of(wanted["tools"])
    verbose = config.option.verbose > 0
    config.add_cleanup(show_failures(verbose=verbose, write=_beside_capture(config)))


def _beside_capture(config: pytest.Config) -> Callable[[str], None]:
    """Return a function that writes to standard error also while pytest captures it."""

    def write(text: str) -> None:
        capture = config.pluginmanager.getplugin("capturemanager")
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            console.err(*text.split("\n"))

    return write


# -- collection: conversation tests alone, whatever else lies in the folders


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that are no conversation tests."""
    return True if collection_path.is_file() and not collection_path.name.endswith(ENDING) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Dir:
    """Collect a folder as a folder, so that no Python package is imported."""
    collector: pytest.Dir = pytest.Dir.from_parent(parent, path=path)
    return collector


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect also a file that was named and is called otherwise, so that a message says what it
    is.
    """
    found = yield
    if parent.config.stash[_WANTED]["simulate"]:
        return [Users.from_parent(parent, path=file_path)]
    return found or [Cases.from_parent(parent, path=file_path)]


class Users(Cases):
    """The simulated users of a file of tests."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the users. Raises CollectError as for cases."""
        list(super().collect())
        for number, user in enumerate(self.loaded.users, start=1):
            yield UserItem.from_parent(self, name=visible(user.name or f"user {number}"), user=user)


class UserItem(pytest.Item):
    """One simulated user. It fails below the threshold, and where an error ended every
    conversation.
    """

    parent: Users

    def __init__(self, *, user: User, **options: Any) -> None:
        super().__init__(**options)
        self._user = user

    def runtest(self) -> None:
        """Let the user talk as often as the options say. Raises CaseFailed."""
        wanted, options = self.config.stash[_WANTED], self.config.stash[OPTIONS]
        talks = _talk(
            self.parent.loaded, self._user, options, wanted["user_model"], self.config.stash[HOST]
        )
        rate = self.parent.runner.run(talks)
        self.user_properties.append((RUNS, f"{rate.reached} of {len(rate.encounters)}"))
        self.user_properties.append((_TURNS, f"{rate.turns:.1f}"))
        missed = "\n".join(_not_reached(rate))
        if missed:
            self.add_report_section("call", "users", missed)
        if rate.share < options.threshold or all(one.broken for one in rate.encounters):
            raise CaseFailed(
                f"the goal was reached in {rate.reached} of {len(rate.encounters)} conversations"
            )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the failure without a traceback."""
        return (
            str(excinfo.value)
            if isinstance(excinfo.value, CaseFailed)
            else super().repr_failure(excinfo, style)
        )

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the place of the user."""
        return self.path, None, self.name


async def _talk(
    loaded: LoadedCases, user: User, options: PlayOptions, human: str | None, host: HostTools
) -> Rate:
    """Let a user talk to the machine; `human` names the model of the user, None the same one."""
    models = models_of(options.model, human, options.base_url, os.environ)
    try:
        [rate] = await simulate(
            loaded, *models, options.times, users=[user], host=host, timeout=options.timeout
        )
    finally:
        await let_go(*models)
    return rate


def _not_reached(rate: Rate) -> Iterator[str]:
    for one in rate.encounters:
        if not one.reached:
            place = f"in {visible(one.state)}, " if one.state else ""
            yield f"not reached: {place}after {escape.plural(one.turns, 'turn')}: {_short(one.reason)}"
            for mine, theirs in one.said:
                yield f"    user  {_short(mine)}"
                yield f"    bot   {_short(theirs)}"


def _short(text: str) -> str:
    return escape.shortened(text, _SHOWN)


# -- coverage of several processes


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what was touched to the first process; there, fail when it is too little."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput[_SENT] = json.dumps(
            [one.to_dict() for one in config.stash.get(COVERED, [])]
        )
        return
    wanted, found = config.stash[_WANTED], _covered(config)
    if wanted["fail_under"] is not None and coverage_report.share(found) < wanted["fail_under"]:
        config.stash[_FAILED] = True
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker process touched."""
    sent = getattr(node, "workeroutput", {}).get(_SENT, "[]")
    found = [Covered.from_dict(document) for document in json.loads(sent)]
    node.config.stash.setdefault(COVERED, []).extend(found)


def _covered(config: pytest.Config) -> list[Covered]:
    """Join what the files touched, for each definition."""
    found: list[Covered] = config.stash.get(COVERED, [])
    return coverage_report.joined(found)


# -- the report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Add rates, coverage, recordings, and on GitHub annotations to the report."""
    write, wanted = terminalreporter.write_line, config.stash[_WANTED]
    for line in _rates(terminalreporter):
        write(line)
    for told in config.stash.get(RECORDED, []):
        write(visible(told))
    found = _covered(config)
    if found:
        terminalreporter.section("coverage")
        write(coverage_report.table(found))
    if found and wanted["coverage"] not in (None, "-"):
        write_output(wanted["coverage"], escape.as_json(coverage_report.document(found)) + "\n")
        write(f"wrote {visible(wanted['coverage'])}")
    if config.stash.get(_FAILED, False):
        write(
            f"coverage is {coverage_report.share(found):.1f} %, under {wanted['fail_under']:g} %",
            red=True,
        )
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in _annotations(terminalreporter):
            write(line)


def _rates(reporter: pytest.TerminalReporter) -> Iterator[str]:
    """Yield how often each case and user passed that was played several times, and the reasons of
    failures.
    """
    for report in (*reporter.getreports("passed"), *reporter.getreports("failed")):
        properties = dict(getattr(report, "user_properties", ()))
        if RUNS in properties and report.when == "call":
            count = str(properties[RUNS])
            reached, _, runs = count.partition(" of ")
            turns = f"  {properties[_TURNS]} turns" if _TURNS in properties else ""
            yield f"  {count:>9}  {int(reached) / int(runs):>4.0%}  {report.nodeid}{turns}"
            if report.passed:
                for _, text in report.sections:
                    yield from (f"    {line}" for line in text.splitlines())


def _annotations(reporter: pytest.TerminalReporter) -> Iterator[str]:
    """The failures as GitHub shows them beside the lines of a change."""
    for report in (*reporter.getreports("failed"), *reporter.getreports("error")):
        for line in str(report.longrepr).splitlines():
            place, _, message = line.partition(": ")
            file, row, column = (*place.rsplit(":", 2), "", "")[:3]
            if row.isdigit() and column.isdigit():
                where = {
                    "file": from_root(file),
                    "line": int(row),
                    "col": int(column),
                    "title": report.nodeid,
                }
                yield annotation("error", where, message)
