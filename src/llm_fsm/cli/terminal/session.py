"""Conversation on a terminal: a line editor, colours, a clock while the model thinks, and slash
commands.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import run_report as report
from llm_fsm.cli.chat_session import Hear, Talk
from llm_fsm.cli.terminal import answers, console, escape
from llm_fsm.cli.terminal import slash_commands as slash
from llm_fsm.cli.terminal.answers import TypedAnswer
from llm_fsm.cli.terminal.wrap import Words
from llm_fsm.engine.conversation import AsyncConversation, Turn
from llm_fsm.engine.observers import Observer
from llm_fsm.errors import (
    ConversationConflict,
    ConversationEnded,
    LLMFSMError,
    ModelError,
    StoreError,
)
from llm_fsm.session.events import Event, MessageDelta, PromptRead
from llm_fsm.turn.choices import Choice, pick

try:
    import termios
    import tty
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

_CHOICE_CHARS = 60
_LONG_WAIT = 2.0
"""Seconds before the first word after which the wait is told."""
_Done = TypeVar("_Done")
_UNCHANGED = "Nothing has changed; ↑ brings the message back."
_BROKEN_OFF = {
    "kept": "This turn was saved with all its text.",
    "begun": "This turn is unfinished. It finishes with your next message.",
    "gone": "This turn was discarded. Send your message again.",
}


def note(*lines: str) -> None:
    """Show something about the conversation."""
    console.err(*lines, style=console.DIM, wrapped=True)


def reply(text: str) -> None:
    """Show what the machine said."""
    words = Words(lambda: console.of(sys.stdout).width)
    words.say(text)
    words.end()
    console.out("")


def show_choices(choices: Sequence[Choice]) -> None:
    """Show what can be chosen, by numbers that can be typed; nothing where there is no choice."""
    shown = []
    for number, choice in enumerate(choices, start=1):
        label = escape.shortened(choice.label, _CHOICE_CHARS).replace(" ", "\u00a0")
        shown += [
            (f"{number} ", "bold cyan"),
            (label + ("" if number == len(choices) else "   "), ""),
        ]
    if shown:
        console.err(shown, wrapped=True)


class _Wait:
    """The wait for the first word of some work."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._read = ""
        self.first: float | None = None

    def text(self) -> str:
        """The line that is shown meanwhile."""
        return f"thinking {monotonic() - self._began:.1f} s{self._read}"

    def read(self, progress: PromptRead) -> None:
        """Note how much of the prompt a local server has read."""
        self._read = f" · prompt read: {progress.read} of {progress.total} tokens"

    def end(self) -> None:
        """Note the first word."""
        if self.first is None:
            self.first = monotonic() - self._began


def hear_out(work: Callable[[Hear], _Done]) -> _Done:
    """Show the words of some work as they come; until then a spinner, the seconds, and the prompt
    that was read.

    After a long wait, the time to the first word is shown below the words.
    """
    wait, words = _Wait(), Words(lambda: console.of(sys.stdout).width)
    try:
        with _unseen_keys(), console.working(wait.text) as stop:

            def hear(delta: MessageDelta | PromptRead) -> None:
                if isinstance(delta, PromptRead):
                    wait.read(delta)
                    return
                wait.end()
                stop()
                if delta.restart:
                    words.end()
                    note("The text above was withdrawn. The answer is:")
                words.say(delta.text)

            return work(hear)
    finally:
        words.end()
        if wait.first is not None and wait.first >= _LONG_WAIT:
            note(f"first word after {wait.first:.1f} s")


@contextmanager
def _unseen_keys() -> Iterator[None]:
    """Keep keys that are typed meanwhile off the screen; the line editor gets them afterwards."""
    if termios is None or not sys.stdin.isatty():
        yield
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard, termios.TCSANOW)  # a line would swallow Ctrl-D
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)


@dataclass(slots=True)
class ShownOpening:
    """The opening of a new conversation: its head, and its greeting as the words come.

    `head`: gives the lines for a conversation id. They stand above the first word, and are shown
    once. All but the first are to be copied. `id`: that of the conversation whose head is shown, ""
    before.
    """

    head: Callable[[str], Sequence[str]]
    heard: bool = False
    id: str = ""

    def show_head(self, conversation_id: str) -> None:
        """Show the head, unless it stands there."""
        if not self.id:
            self.id = conversation_id
            whose, *to_copy = self.head(conversation_id)
            note(whose)
            console.err(*to_copy, style=console.DIM)

    def begin(self, start: Callable[[Observer], AsyncConversation]) -> AsyncConversation:
        """The conversation that `start` begins; its greeting is shown meanwhile."""

        def observe(hear: Hear, conversation_id: str, event: Event) -> None:
            match event:
                case PromptRead():
                    hear(event)
                case MessageDelta():
                    self.heard = True
                    self.show_head(conversation_id)
                    hear(event)

        return hear_out(lambda hear: start(partial(observe, hear)))


class _Remembered(FileHistory):
    """The lines typed so far, in a file that only the user reads. A full disk does not stop the
    chat.
    """

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string.encode("utf-8", "backslashreplace").decode())
        except OSError:
            return


def history_in(folder: Path | None) -> History:
    """The history of all chats, kept in `folder`; only in memory where there is none, or it cannot
    be written.
    """
    if folder is None:
        return InMemoryHistory()
    path = folder / "history"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return _Remembered(str(path))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def line_editor(folder: Path | None) -> PromptSession[str]:
    """The line editor: history, pasted lines stay one message, slash commands are completed."""
    commands = {name: command.help for name, command in slash.COMMANDS.items()}
    return PromptSession(
        message=FormattedText([("bold ansigreen", "› ")]),
        history=history_in(folder),
        completer=WordCompleter(list(commands), meta_dict=commands, sentence=True),
        complete_while_typing=True,
        reserve_space_for_menu=4,
        auto_suggest=AutoSuggestFromHistory(),
        enable_suspend=True,
        key_bindings=_keys(),
        prompt_continuation="  ",
    )


def converse(talk: Talk, editor: PromptSession[str], *, opening: str, resumed: bool) -> int:
    """Hold the conversation until it or the user ends it; gives the exit code.

    One that is resumed and over takes commands alone, until its end is taken back.
    KeyboardInterrupt goes through, and so does a StoreError that will not pass by itself.
    """
    if opening:
        reply(opening)
    answer = None
    taken_over = ""
    fresh = True
    over = resumed and talk.ended
    if over:
        note("The conversation has ended; /undo takes its last turn back, Ctrl-D leaves.")
    while over or not talk.ended:
        answer = _asked(talk, answer)
        taken_over = _show_who_took_over(talk, taken_over)
        if fresh:
            show_choices(talk.choices)
        try:
            line = _typed(talk, editor)
        except EOFError:
            return _left(talk)
        if line is None:
            continue
        message = slash.message_of(line)
        if message is None:
            outcome = slash.obey(talk, line)
            if outcome.leave:
                return _left(talk)
            _obeyed(talk, outcome)
            fresh = outcome.again or bool(outcome.value)
        elif message.strip() or (answer is not None and not answer.is_required):
            answer = _take(talk, message, answer)
            fresh = True
        over = over and talk.ended
    note("The conversation has ended.")
    return exits.OK


def _left(talk: Talk) -> int:
    return exits.OK if talk.paused is None else exits.PAUSED


def _show_who_took_over(talk: Talk, shown: str) -> str:
    """Say once that lines go to a person now. `shown` is the pause of which it was said; return
    that of now.
    """
    pause = talk.paused
    if pause is None or pause.messages == "refuse":
        return ""
    if pause.id != shown:
        note(*answers.shown(pause))
    return pause.id


def _asked(talk: Talk, answer: TypedAnswer | None) -> TypedAnswer | None:
    """Show once what is waited for, and each time the field that is asked for."""
    pause = talk.paused
    if pause is None or pause.messages == "record":
        return None
    if answer is None or answer.pause.id != pause.id:
        answer = TypedAnswer(pause)
        said = talk.last_words()
        told = [line for line in report.before(talk.program(), talk.session()) if line not in said]
        note(*told, *answers.shown(pause))
    if answer.fields:
        note(answer.question())
    return answer


def _obeyed(talk: Talk, outcome: slash.Outcome) -> None:
    """Show what a command says, and do what is left of it."""
    for part in outcome.parts:
        if isinstance(part, str):
            note(part)
        elif part:
            console.table(part, style=console.DIM, to=sys.stderr)
    if outcome.again and (words := talk.last_words()):
        reply(words)
    for value in outcome.value:
        _turn(talk, partial(talk.answer, value))


def _take(talk: Talk, message: str, answer: TypedAnswer | None) -> TypedAnswer | None:
    """Take a line that is no command: a message, or an answer, or a part of one. Return what is
    left to answer.
    """
    if answer is None:
        said = pick(talk.choices, message) or message
        _turn(talk, lambda hear: talk.send(said, hear))
        return None
    try:
        if not answer.take(message):
            return answer
    except ValueError as error:
        console.error(error)
        return answer
    _turn(talk, lambda hear: talk.answer(answer.value, hear))
    return TypedAnswer(answer.pause)


class _Due(Exception):
    """Something happens by itself while the user types; `text` is what was typed so far."""

    def __init__(self, text: str) -> None:
        self.text = text


def _typed(talk: Talk, editor: PromptSession[str]) -> str | None:
    """The line that the user types; None where the conversation ended meanwhile. What becomes due
    is shown above it.
    """
    typed, over = "", talk.ended
    while over or not talk.ended:
        seconds = talk.seconds_left()

        def watch(seconds: float | None = seconds) -> None:
            if seconds is not None:
                asyncio.get_running_loop().call_later(seconds, interrupt)

        def interrupt() -> None:
            if editor.app.is_running:
                editor.app.exit(exception=_Due(editor.default_buffer.text), style="class:aborting")

        try:
            return editor.prompt(default=typed, pre_run=watch)
        except _Due as due:
            typed = due.text
            for words in talk.due():
                reply(words)
    return None


def _turn(talk: Talk, work: Callable[[Hear], Turn]) -> None:
    """Take one turn. After an error or an interrupt the user may go on; a second interrupt goes
    through.
    """
    before = talk.data()
    try:
        hear_out(work)
    except KeyboardInterrupt:
        if not talk.is_idle():  # a second one came before the turn had stopped
            raise
        with suppress(LLMFSMError):
            note(f"Stopped. {_BROKEN_OFF[talk.left_by_interrupt(before)]} Ctrl-C again leaves.")
    except (ModelError, ConversationConflict) as error:
        console.error(error)
        note(_UNCHANGED)
        talk.refresh()
    except ConversationEnded as error:
        console.error(error)
        talk.refresh()
    except StoreError as error:
        if not error.retryable:
            raise
        console.error(error)
        note(_UNCHANGED)
    except ValueError as error:
        console.error(error)
