"""The commands that can be typed in a conversation beside messages: lines that begin with a slash.

A line that begins with two slashes is a message that begins with one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_fsm._text import nearest
from llm_fsm.cli import transcript
from llm_fsm.cli.chat_session import Talk
from llm_fsm.cli.commands.test import save as saved_test
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.output import write_new
from llm_fsm.cli.terminal import answers, escape
from llm_fsm.cli.terminal import explain as explained
from llm_fsm.errors import ConversationConflict
from llm_fsm.records.explain import explain_turn
from llm_fsm.session.context import has
from llm_fsm.session.redaction import shown_values
from llm_fsm.session.session import Session
from llm_fsm.turn.available import Option, asides, available_moves

_CONTEXT_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command, for standard error: lines, and tables as lists of rows.

    `again`: the last words are shown again. `leave`: the chat ends. `value`: one JSON value that
    answers what the conversation waits for.
    """

    parts: Sequence[str | Sequence[tuple[str, ...]]] = ()
    again: bool = False
    leave: bool = False
    value: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the chat, its argument as the help shows it, and what it does."""

    run: Callable[[Talk, str], Outcome]
    argument: str
    help: str


def message_of(line: str) -> str | None:
    """The message of a line; None when the line is a command."""
    if not line.startswith("/"):
        return line
    return line[1:] if line.startswith("//") else None


def obey(talk: Talk, line: str) -> Outcome:
    """Do what a line that begins with a slash says."""
    word, _, rest = line.strip().partition(" ")
    command = COMMANDS.get(word)
    if command is None:
        near = nearest(word, COMMANDS)
        hint = f"; did you mean {near}?" if near else "; /help lists the commands"
        known = f"there is no command {escape.shortened(word, 40)}{hint}"
        return Outcome([f"{known} (a message that begins with / is typed with //)"])
    if rest.strip() and not command.argument:
        return Outcome([f"{word} takes nothing after it"])
    try:
        return command.run(talk, rest.strip())
    except (Failure, ConversationConflict) as error:
        return Outcome([str(error)])


def _help(_: Talk, __: str) -> Outcome:
    rows = [
        (f"  {name} {command.argument}".rstrip(), command.help)
        for name, command in COMMANDS.items()
    ]
    rows += [("  1, 2, …", "choose what stands beside the number; no model reads it")]
    rows += [
        ("  //…", "send a message that begins with /"),
        ("  Alt-Enter", "begin a new line in the message"),
    ]
    rows += [
        ("  Ctrl-D", "leave"),
        ("  Ctrl-C", "stop the turn; between turns leave. The conversation can be resumed"),
    ]
    return Outcome([rows])


def _state(talk: Talk, _: str) -> Outcome:
    session = talk.session()
    program = talk.program().at(session)
    state = None if program is None else program.definition.states.get(session.state)
    if program is None or state is None:
        return Outcome([f"state {session.state}, which this definition does not have"])
    lines = [
        f"state {session.state} ({program.definition.kind_of(session.state)})",
        *_stack(session),
    ]
    if state.purpose or state.description:
        lines.append(f"  purpose: {escape.shortened(state.purpose or state.description, 200)}")
    keys = [
        (f"  {key}", "known" if has(session.context, key) else "still missing")
        for key in state.required_context_keys
    ]
    available = available_moves(program, session, asides(talk.program(), session))
    ways = [_way(option) for option in available.options]
    return Outcome([*lines, keys, ways])


def _way(option: Option) -> tuple[str, str, str]:
    """Return the row of an option: where it leads, whether it is open, and when it is taken."""
    words = escape.shortened(option.move.description, 80)
    if option.kind == "left_open" or option.move.place is not None:
        words = "back to what was left open"
    elif option.kind == "beside":
        words = f"{words}, of what calls this"
    return f"  → {option.move.target}", "open" if option.is_open else "closed now", words


def _stack(session: Session) -> list[str]:
    """Return the places that the conversation comes back to, the nearest first."""
    lines = [f"  in the flow {session.flow}"] if session.flow else []
    for frame in reversed(session.stack):
        what = "called by" if frame.kind == "subflow" else "in a digression from"
        lines.append(f"  {what} {frame.saved['state']}")
    return lines


def _context(talk: Talk, _: str) -> Outcome:
    context = shown_values(talk.session().context, talk.program().is_secret)
    rows = [
        (f"  {key}", f"= {explained.shown(value, _CONTEXT_CHARS)}")
        for key, value in context.items()
    ]
    return Outcome([rows or "nothing has been collected yet"])


def _why(talk: Talk, argument: str) -> Outcome:
    if argument and not argument.isdecimal():
        return Outcome(["/why takes the number of a turn, such as /why 3"])
    number = int(argument) if argument else None
    found = explain_turn(talk.program(), talk.id, talk.records(), number)
    if found is None:
        return Outcome([f"there is no turn {argument}" if argument else "nothing has happened yet"])
    return Outcome(list(explained.lines(found)))


def _undo(talk: Talk, _: str) -> Outcome:
    talk.undo()
    return Outcome(
        [f"the last turn was taken back; the state is {talk.session().state} again"], again=True
    )


def _file(argument: str, ending: str) -> str:
    """Return the name of the file that is to be written; by default it tells the time."""
    return os.path.expanduser(argument or time.strftime(f"conversation-%Y%m%d-%H%M%S{ending}"))


def _save(talk: Talk, argument: str) -> Outcome:
    name = _file(argument, ".json")
    whole = (talk.program(), talk.session(), talk.records())
    readable = name.lower().endswith((".md", ".markdown"))
    write_new(
        name,
        (transcript.markdown(*whole) if readable else escape.as_json(transcript.document(*whole)))
        + "\n",
    )
    return Outcome([f"saved to {name}"])


def _answer(talk: Talk, argument: str) -> Outcome:
    if talk.paused is None:
        return Outcome(["the conversation waits for no answer"])
    if not argument:
        return Outcome(answers.shown(talk.paused))
    try:
        return Outcome(value=(answers.given(argument),))
    except ValueError as error:
        return Outcome([str(error)])


def _test(talk: Talk, argument: str) -> Outcome:
    return Outcome([saved_test.write(talk, _file(argument, ".test.json"))])


COMMANDS: Mapping[str, Command] = {
    "/help": Command(_help, "", "this list"),
    "/state": Command(_state, "", "where the conversation stands and where it can go"),
    "/context": Command(_context, "", "what has been collected"),
    "/why": Command(_why, "[N]", "why the last turn, or turn N, went as it did"),
    "/answer": Command(
        _answer, "JSON", "answer what the conversation waits for; alone: what that is"
    ),
    "/undo": Command(_undo, "", "take the last turn back"),
    "/save": Command(_save, "[FILE]", "write the conversation to a file, JSON or Markdown (.md)"),
    "/test": Command(
        _test, "[FILE]", "write the conversation as a test that plays it again (.test.json)"
    ),
    "/quit": Command(lambda *_: Outcome(leave=True), "", "leave; the conversation can be resumed"),
}
