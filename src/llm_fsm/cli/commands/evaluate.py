"""`llm-fsm evaluate`: measure how well a real model plays a definition."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, product
from pathlib import Path
from time import monotonic
from typing import Any

import click

from llm_fsm._json import JsonDict
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.host_code import host_of
from llm_fsm.cli.options import base_url_option, command, tools_option
from llm_fsm.cli.output import write_output
from llm_fsm.cli.terminal import console, escape
from llm_fsm.engine.host_files import HostTools
from llm_fsm.engine.settings import TIMEOUT
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.base import LLM, let_go
from llm_fsm.llm.offline.model import OfflineLLM
from llm_fsm.llm.registry import models_of
from llm_fsm.testing.evaluation.dialogue import Dialogue, DialoguePlayer
from llm_fsm.testing.evaluation.figures import Figures, Interval, difference, figures, passes
from llm_fsm.testing.evaluation.judge import JudgedTurn
from llm_fsm.testing.scenarios.loader import ENDING, LoadedCases, read_suite, suite_of
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.testing.simulation import Rate, simulate

_SHOWN = 60
"""Characters of a message in the list of turns that are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to play the cases: a model, a definition in place of theirs, and how the form of a
    reply is asked for.
    """

    model: str | None
    definition: str | None
    reply: str

    @property
    def name(self) -> str:
        """The name in tables."""
        named = (self.model or "the model of LLM_FSM_MODEL", self.definition, self.reply)
        return " · ".join(part for part in named if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The dialogues and the simulated users of one way."""

    way: Way
    dialogues: tuple[Dialogue, ...]
    rates: tuple[Rate, ...]

    @property
    def figures(self) -> Figures:
        """The figures over all its turns."""
        return figures(chain.from_iterable(dialogue.turns for dialogue in self.dialogues))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The settings of playing, the same for every way."""

    base_url: str | None
    times: int
    jobs: int
    forced: bool
    timeout: float
    user_model: str | None
    host: HostTools


@command(
    "llm-fsm evaluate bots --model openai/gpt-4o-mini",
    "llm-fsm evaluate order.test.json --model ollama/llama3.1 --model openai/gpt-4o-mini --page out.html",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "-m",
    "--model",
    "models",
    metavar="M",
    multiple=True,
    help="provider/model; else LLM_FSM_MODEL. Twice: compare two.",
)
@base_url_option
@click.option(
    "--definition",
    "definitions",
    metavar="FILE",
    multiple=True,
    help="Play this one instead. Twice: compare two.",
)
@click.option(
    "--reply",
    "replies",
    type=click.Choice(["schema", "prompt"]),
    multiple=True,
    help="Force the form of replies, or ask for it in words. Twice: compare both.",
)
@tools_option
@click.option(
    "--times",
    metavar="K",
    type=click.IntRange(1),
    default=1,
    help="Play each case K times, and show pass^K: the share that is right in all K.",
)
@click.option(
    "--jobs", metavar="N", type=click.IntRange(1), default=1, help="Play N cases at the same time."
)
@click.option(
    "--free", is_flag=True, help="Continue after a wrong turn as it is, not from the right answer."
)
@click.option(
    "--timeout",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT,
    show_default=True,
    help="Seconds for a turn.",
)
@click.option(
    "--user-model", metavar="M", help="The model of the simulated users; by default the same one."
)
@click.option(
    "--threshold",
    metavar="R",
    type=click.FloatRange(0, 1),
    help="Exit with 1 below this share of right turns.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write all turns and figures as JSON; - is standard output.",
)
@click.option("--page", "page_file", metavar="FILE", help="Write a page (HTML).")
def evaluate(
    *,
    paths: tuple[str, ...],
    models: tuple[str, ...],
    base_url: str | None,
    definitions: tuple[str, ...],
    replies: tuple[str, ...],
    tools: tuple[str, ...],
    times: int,
    jobs: int,
    free: bool,
    timeout: float,
    user_model: str | None,
    threshold: float | None,
    output: str | None,
    page_file: str | None,
) -> int:
    """Measure how well a real model plays a definition.

    PATH is a file of conversation tests, a dialogue with labels, or a folder of *.test.json files.
    Steps with expectations and `turns` with labels are played with the model. After a wrong turn
    the conversation continues from the right answer. Simulated `users` are played, too.

    A turn is right if its state, new values and acts are right. Nothing may be invented, lost or
    harmful. Harmful is an act that the label does not have, and a value that nobody said.

    Exit codes: 0 measured. 1 below --threshold. 2 usage, or a file that cannot be used. 3 the model
    cannot be used.
    """
    ways = [
        Way(model=model, definition=definition, reply=reply)
        for model, definition, reply in product(
            models or (None,), definitions or (None,), replies or ("",)
        )
    ]
    wish = Wish(
        base_url=base_url,
        times=times,
        jobs=jobs,
        forced=not free,
        timeout=timeout,
        user_model=user_model,
        host=host_of(tools),
    )
    files = list(_files(paths))
    played = [_play(way, wish, [_loaded(file, way.definition) for file in files]) for way in ways]
    report = _report(played, times)
    if output is not None:
        _write_json(output, played, report, times)
    if page_file is not None:
        from llm_fsm.testing.evaluation.page import page

        write_output(page_file, page(report))
    if output != "-":
        _show(played, report)
    if threshold is not None and any(one.figures.share.value < threshold for one in played):
        return exits.AT_FAULT
    return exits.OK


# -- files -----------------------------------------------------------------------------------------


def _files(paths: Sequence[str]) -> Iterator[str]:
    """Yield the files, those of folders in the order of their names. Raises Failure."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        found = sorted(Path(path).rglob(f"*{ENDING}"))
        if not found:
            raise Failure(f"{path}: there is no file that ends in {ENDING} in this folder")
        yield from map(os.fspath, found)


def _loaded(file: str, definition: str | None) -> LoadedCases:
    """Read a file. `definition` is played in place of the one that it names. Raises Failure."""
    with exits.failing(SuiteError):
        loaded = read_suite(file)
        if definition is None:
            return loaded
        return suite_of(loaded.text.text, file=file, definition_file=os.path.abspath(definition))


# -- playing ---------------------------------------------------------------------------------------


def _play(way: Way, wish: Wish, suites: Sequence[LoadedCases]) -> Measured:
    """Play all cases and users in one way. Raises Failure if there is nothing to play."""
    with exits.failing(ConfigurationError, code=exits.MODEL):
        llm, human = models_of(way.model, wish.user_model, wish.base_url, os.environ)
    tally = _Tally(way.name)

    async def measured() -> Measured:
        try:
            dialogues = []
            rates: list[Rate] = []
            for suite in suites:
                dialogues += await _dialogues(suite, llm, way, wish, tally)
                rates += await _met(suite, llm, human, wish)
        finally:
            await let_go(llm, human)
        return Measured(way=way, dialogues=tuple(dialogues), rates=tuple(rates))

    played = tally.during(measured)
    if not played.figures.turns and not played.rates:
        said = 'no case has labels: give steps an "expect" with state or context, or write "turns"'
        raise Failure(said)
    return played


async def _dialogues(
    suite: LoadedCases, llm: LLM, way: Way, wish: Wish, tally: _Tally
) -> list[Dialogue]:
    """Play the cases of a file as often as it is wished."""
    players = [
        DialoguePlayer(
            suite, llm, wish.host, forced=wish.forced, timeout=wish.timeout, reply=way.reply
        )
        for _ in range(wish.jobs)
    ]
    waiting = enumerate(product(players[0].plays, range(wish.times)))
    found = {}

    async def work(player: DialoguePlayer) -> None:
        for number, (play, run) in waiting:
            dialogue = await player.play(play, tally.take)
            name = f"{play.name}, run {run + 1}" if wish.times > 1 else play.name
            found[number] = replace(dialogue, name=name)

    try:
        await asyncio.gather(*map(work, players))
    finally:
        for player in players:
            await player.close()
    return [found[number] for number in sorted(found)]


async def _met(suite: LoadedCases, llm: LLM, human: LLM, wish: Wish) -> tuple[Rate, ...]:
    """Let the simulated users of a file talk. The model `offline` plays no users."""
    if not suite.users or isinstance(human, OfflineLLM):
        return ()
    return await simulate(suite, llm, human, wish.times, users=None, host=wish.host)


class _Tally:
    """The line below a running evaluation: the turns so far, and the time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._turns = 0
        self._right = 0
        self._began = monotonic()

    def take(self, turn: JudgedTurn) -> None:
        """Count a turn."""
        self._turns += turn.judged
        self._right += turn.judged and turn.right

    def during(self, work: Callable[[], Coroutine[Any, Any, Measured]]) -> Measured:
        """Do the work, with the line on a terminal."""

        if not console.is_screen(sys.stderr):
            return asyncio.run(work())
        with console.working(self._line):
            return asyncio.run(work())

    def _line(self) -> str:
        seconds = monotonic() - self._began
        return f"{self._name} · {self._right} of {self._turns} turns right · {seconds:.0f} s"


# -- the report ------------------------------------------------------------------------------------


_ROWS: Sequence[tuple[str, Callable[[Figures], str]]] = (
    ("turns right", lambda one: f"{one.right} of {one.turns}"),
    ("share, 95 % interval", lambda one: _interval(one.share)),
    ("states right", lambda one: f"{one.moved} of {one.turns}"),
    ("new values right", lambda one: f"{one.kept} of {one.turns}"),
    ("words right", lambda one: f"{one.worded} of {one.turns}"),
    ("values invented", lambda one: f"{one.invented}"),
    ("values lost", lambda one: f"{one.lost}"),
    ("harmful", lambda one: f"{one.harmful}"),
    ("refused", lambda one: f"{one.refused}"),
    ("replies rejected", lambda one: f"{one.rejected}"),
    ("turns with a second call", lambda one: f"{one.second_calls}"),
    ("calls a turn", lambda one: _mean(one.calls, one.turns)),
    ("errors", lambda one: f"{one.errors}"),
    ("fresh tokens a turn", lambda one: _mean(one.fresh_tokens, one.turns)),
    ("cached tokens a turn", lambda one: _mean(one.cached_tokens, one.turns)),
    ("output tokens a turn", lambda one: _mean(one.output_tokens, one.turns)),
    ("tokens before the first word", lambda one: f"{one.tokens_before_words:.1f}"),
    ("seconds a turn", lambda one: _mean(one.seconds, one.turns)),
    ("cents", lambda one: f"{100 * one.cost:.2f}"),
)
"""The rows of the table, each with its cell."""


def _report(played: Sequence[Measured], times: int) -> JsonDict:
    """Return the report for the terminal and the page."""
    every = [one.figures for one in played]
    compared = None
    if len(played) == 2:
        compared = difference(played[0].dialogues, played[1].dialogues)
    rows = [(name, [cell(one) for one in every]) for name, cell in _ROWS]
    passed = [passes(one.dialogues, times) for one in played]
    for k in sorted({1, times}):
        rows.append((f"pass^{k}, conversations", [f"{one[k - 1]:.0%}" for one in passed]))
    if any(one.rates for one in played):
        rows.append(("users who reached their goal", [_reached(one.rates) for one in played]))
    return {
        "ways": [{"name": one.way.name, "dialogues": one.dialogues} for one in played],
        "rows": [{"name": name, "cells": cells} for name, cells in rows],
        "difference": "" if compared is None else _interval(compared, signed=True),
    }


def _mean(total: float, turns: int) -> str:
    return f"{total / turns:.1f}" if turns else "-"


def _reached(rates: Sequence[Rate]) -> str:
    met = sum(len(rate.encounters) for rate in rates)
    return f"{sum(rate.reached for rate in rates)} of {met}"


def _interval(found: Interval, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    return f"{found.value:{sign}.0%} ({found.low:{sign}.0%} to {found.high:{sign}.0%})"


def _show(played: Sequence[Measured], report: JsonDict) -> None:
    """Print the turns that are wrong, and the table."""
    for dialogue in chain.from_iterable(one.dialogues for one in played):
        for turn in dialogue.turns:
            if turn.why:
                said = escape.shortened(turn.say or "", _SHOWN)
                console.out(f'{dialogue.title}: "{said}" -> {turn.state}: {turn.why}', wrapped=True)
    head = ["", *(one.way.name for one in played)]
    console.table(
        [[row["name"], *row["cells"]] for row in report["rows"]], head, right=range(1, len(head))
    )
    if report["difference"]:
        console.out(f"difference of the shares: {report['difference']}")


def _user(rate: Rate) -> JsonDict:
    return {"user": rate.user, "reached": rate.reached, "met": len(rate.encounters)}


def _write_json(output: str, played: Sequence[Measured], report: JsonDict, times: int) -> None:
    """Write all turns and figures as JSON."""
    document = {
        "ways": [
            {
                **asdict(one.way),
                "figures": one.figures.to_dict(),
                "dialogues": [asdict(dialogue) for dialogue in one.dialogues],
                "users": list(map(_user, one.rates)),
                "passes": passes(one.dialogues, times),
            }
            for one in played
        ],
        "difference": report["difference"],
    }
    if output == "-":
        console.json(document)
    else:
        write_output(output, escape.as_json(document) + "\n")
