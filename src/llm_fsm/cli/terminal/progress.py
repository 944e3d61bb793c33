"""A run on a terminal: lines as things happen, one line below them that counts, and questions to the person."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, TypeVar

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from llm_fsm.cli import run_report as report
from llm_fsm.cli.terminal import answers
from llm_fsm.cli.terminal import escape as printing
from llm_fsm.cli.terminal.form import Form, form_of
from llm_fsm.definition.models import Definition
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.validation import fitting
from llm_fsm.session import events as ev
from llm_fsm.session.messages import Paused

T = TypeVar("T")

_LATER = "empty: later"
STYLES: Mapping[str, str] = {"head": "bold", "good": "green", "bad": "red", "plain": "", "dim": "dim"}


class Screen:
    """The display that a person watches, on standard error; standard output holds the outcome alone."""

    def __init__(self, definition: Definition, *, asks: bool) -> None:
        self._asks = asks
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._spinner = Spinner("dots")
        self._tally = report.Tally()
        self._began = monotonic()
        self._live: Live | None = None
        self.note(printing.one_line(definition.name))

    def take(self, event: ev.Event) -> None:
        """Show an event."""
        self._tally.take(event)
        found = report.line_of(event)
        if found is not None:
            style, line = found
            self._console.print(Text(printing.one_line(line), style=STYLES[style]), soft_wrap=True)

    def note(self, text: str) -> None:
        """Show something about the run."""
        self._console.print(Text(printing.words(text), style=STYLES["dim"]), soft_wrap=True)

    def during(self, work: Callable[[], T]) -> T:
        """Do the work with the counts and the elapsed time below it."""
        with Live(get_renderable=self._status, console=self._console, refresh_per_second=8, transient=True):
            return work()

    def _status(self) -> Spinner:
        shown = printing.one_line(f"{self._tally.state} · {self._counts()}")
        self._spinner.update(text=Text(shown, style=STYLES["dim"]))
        return self._spinner

    def _counts(self) -> str:
        return f"{self._tally.text()} · {monotonic() - self._began:.1f} s"

    def ended(self, turn: Turn) -> None:
        """Show how the run stands: its words or its output on standard output."""
        style = "good" if turn.outcome == "passed" else "head" if turn.paused is not None else "bad"
        self._console.print(Text(f"{turn.outcome or 'talking'} · {self._counts()}", style=STYLES[style]))
        if turn.paused is not None:
            for line in report.waiting(turn.paused):
                self.note(line)
        elif turn.text:
            printing.out(printing.words(turn.text))
        elif turn.outcome == "passed" and turn.output is not None:
            words = turn.output if isinstance(turn.output, str) else printing.as_json(turn.output)
            printing.out(printing.words(words))

    def parked(self, conversation_id: str, again: str) -> None:
        """Show that the run was left in the middle; how to go on is said by the command."""
        del conversation_id, again
        self._console.print(Text(f"parked · {self._counts()}", style=STYLES["bad"]))

    def ask(self, pause: Paused, told: Sequence[str]) -> Any:
        """Return what the person answers. Raises EOFError if the input ends or the answer is empty: not now."""
        if not self._asks:
            raise EOFError(pause.what)
        form = form_of(pause)
        for line in (*told, *report.waiting(pause, with_schema=form is None)):
            self.note(line)
        while True:
            line = self._typed(_asked(pause, form), needed=form is None or form.is_required)
            try:
                if form is None:
                    return answers.typed(pause, line)
                form.take(line)
                if not form.fields:
                    return fitting(pause, form.value)
            except ValueError as error:
                self.note(str(error))
                form = form if form is None or form.fields else form_of(pause)

    def _typed(self, question: str, *, needed: bool) -> str:
        sys.stderr.write(f"{question}: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line or (needed and not line.strip()):
            raise EOFError
        return line.strip()


def _asked(pause: Paused, form: Form | None) -> str:
    return f"{answers.question(pause)} ({_LATER})" if form is None else form.question(required=_LATER)
