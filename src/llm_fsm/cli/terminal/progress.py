"""A run on a terminal: lines as things happen, one line below them that counts, and questions to
the person.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

from llm_fsm._json import TextMap
from llm_fsm.cli import run_report as report
from llm_fsm.cli.terminal import console, escape
from llm_fsm.cli.terminal.answers import TypedAnswer
from llm_fsm.definition.models import Definition
from llm_fsm.engine.conversation import Turn
from llm_fsm.session import events as ev
from llm_fsm.session.messages import Paused

T = TypeVar("T")

_LATER = "empty: later"
_STYLES: TextMap = {"head": "bold", "good": "green", "bad": "red", "plain": "", "dim": "dim"}


class Screen:
    """The display that a person watches, on standard error; standard output holds the outcome
    alone.
    """

    def __init__(self, definition: Definition, *, asks: bool) -> None:
        self._asks = asks
        self._tally = report.RunTally()
        self._began = monotonic()
        self._note(definition.name)

    def take(self, event: ev.Event) -> None:
        """Show an event."""
        self._tally.take(event)
        found = report.line_of(event)
        if found is not None:
            style, line = found
            console.err(line, style=_STYLES[style], wrapped=True)

    def during(self, work: Callable[[], T]) -> T:
        """Do the work with the counts and the elapsed time below it."""
        with console.working(lambda: f"{self._tally.state} · {self._counts()}"):
            return work()

    def _note(self, *lines: str) -> None:
        console.err(*lines, style=console.DIM, wrapped=True)

    def _counts(self) -> str:
        return f"{self._tally.text()} · {monotonic() - self._began:.1f} s"

    def _ended(self, how: str, style: str) -> None:
        console.err(f"{how} · {self._counts()}", style=_STYLES[style], wrapped=True)

    def ended(self, turn: Turn) -> None:
        """Show how the run stands: its words or its output on standard output."""
        style = "bad"
        if turn.outcome == "passed":
            style = "good"
        elif turn.paused is not None:
            style = "head"
        self._ended(turn.outcome or "talking", style)
        if turn.paused is not None:
            self._note(*report.waiting(turn.paused))
        elif turn.text:
            console.text(turn.text)
        elif turn.outcome == "passed" and turn.output is not None:
            console.text(
                turn.output if isinstance(turn.output, str) else escape.as_json(turn.output)
            )

    def parked(self, conversation_id: str, again: str) -> None:
        """Show that the run was left in the middle; how to go on is said by the command."""
        del conversation_id, again
        self._ended("parked", "bad")

    def ask(self, pause: Paused, told: Sequence[str]) -> Any:
        """Return what the person answers. Raises EOFError if the input ends or the answer is empty:
        not now.
        """
        if not self._asks:
            raise EOFError(pause.what)
        answer = TypedAnswer(pause)
        self._note(*told, *report.waiting(pause, with_schema=not answer.fields))
        while True:
            line = console.ask(answer.question(required=_LATER), answer.words)
            if not line.strip() and answer.is_required:
                raise EOFError
            try:
                if answer.take(line):
                    return answer.value
            except ValueError as error:
                self._note(str(error))
