"""`llm-fsm run`."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import click

from llm_fsm._json import JsonMap
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import host_code as host
from llm_fsm.cli import pick as choice
from llm_fsm.cli import run_report as report
from llm_fsm.cli.batch import BatchFiles, play_batch, unnamed_place
from llm_fsm.cli.chat_session import Talk
from llm_fsm.cli.failures import reporting
from llm_fsm.cli.machine import closed_with, machine_of
from llm_fsm.cli.machine_options import OneMachineOptions, stored_option
from llm_fsm.cli.options import argument, command, option, taken
from llm_fsm.cli.output import own_output
from llm_fsm.cli.stores import (
    check_follows,
    identified,
    latest,
    new_id,
    open_holding,
    open_store,
    unknown,
)
from llm_fsm.cli.temporal import temporal_module, temporal_option
from llm_fsm.cli.terminal import console, escape
from llm_fsm.definition.models import Definition
from llm_fsm.engine.batch import LIMIT
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.observers import TurnAborted, TurnSaved, observe
from llm_fsm.errors import (
    ConversationConflict,
    ConversationNotFound,
    DefinitionError,
    LLMFSMError,
    ModelError,
    StoreError,
)
from llm_fsm.records.script_place import keep_place
from llm_fsm.session.events import Event
from llm_fsm.session.messages import Paused
from llm_fsm.stores.base import Store

NOTHING = object()
"""No answer was given; null is one."""

_FORGETS = "memory"
"""The store that is gone with the command: nothing can be gone on with."""


def _answer(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
    return NOTHING if text is None else host.json_of(text, "--answer")


def _background(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
    return None if text is None else host.object_of(text, "--background")


@dataclass(frozen=True, kw_only=True)
class RunOptions(OneMachineOptions):
    """The run that the command line asks for. `answer`: NOTHING where none is given."""

    file: str = argument("file", required=False)
    input: Any = option(
        "--input", metavar="TEXT", help="The input: a text, JSON, @FILE, or - for standard input."
    )
    background: JsonMap | None = option(
        "--background",
        metavar="JSON",
        callback=_background,
        help="What the work is for: vision_mission, goals, todo_list, custom_fields.",
    )
    id: str | None = option("--id", metavar="ID", help="The id of the new run, or of the batch.")
    resume: str | None = option(
        "--resume",
        metavar="ID",
        help="Go on with a run that was parked or waits; its id, or how it begins.",
    )
    last: bool = option("--last", is_flag=True, help="Resume the last run of FILE.")
    answer: Any = option(
        "--answer",
        metavar="JSON",
        callback=_answer,
        help="With --resume or --last: the answer that the run waits for.",
    )
    batch: str | None = option(
        "--batch", metavar="INPUTS.jsonl", help='Play each line: {"input": …} or {"messages": […]}.'
    )
    results: str | None = option(
        "-o", "results", metavar="RESULTS.jsonl", help="With --batch: the file for the results."
    )
    limit: int | None = option(
        "--limit",
        metavar="N",
        type=click.IntRange(1, 1000),
        help="With --batch: lines at a time.  [default: 8]",
    )
    temporal: str | None = taken(temporal_option)
    no_summaries: bool = option(
        "--no-summaries", is_flag=True, help="Summarise nothing, whatever the definition says."
    )
    json: bool = option(
        "--json", is_flag=True, help="One event a line as JSON, also on a terminal."
    )
    verbose: bool = False

    def again(self) -> list[str]:
        """Return the options with which a run, or a batch, goes on."""
        options = super().again()
        return ["--no-summaries", *options] if self.no_summaries else options


@dataclass(slots=True, kw_only=True)
class RunSession:
    """One run from the command line. `answering`: what is being answered now."""

    wanted: RunOptions
    path: Path
    runner: asyncio.Runner
    machine: AsyncMachine
    view: report.View
    id: str
    answering: Any = NOTHING

    def play(self) -> int:
        """Play it as far as it goes, with the answers of whoever sits there; gives the exit code."""
        try:
            turn = self._begun()
            while turn.paused is not None:
                try:
                    value = self.view.ask(turn.paused, self._told())
                except EOFError:
                    break
                turn = self._answered(turn.paused, value) or turn
        except (KeyboardInterrupt, LLMFSMError) as error:
            return self._broken(error)
        self.view.ended(turn)
        if self.wanted.db == _FORGETS:
            return report.CODES.get(turn.outcome, exits.OK)
        if turn.paused is not None:
            console.note(f"to go on: {self.again()} --answer JSON", to_copy=True)
        elif not turn.outcome:
            console.note(f"it waits for a user: {self.again('chat')}", to_copy=True)
        return report.CODES.get(turn.outcome, exits.OK)

    def _told(self) -> list[str]:
        """Return the lines that somebody reads before they answer."""
        conversation = self.runner.run(self.machine.resume(self.id))
        return report.before(
            self.machine.program, Talk(self.runner, self.machine, conversation).session()
        )

    def _begun(self) -> Turn:
        wanted, machine = self.wanted, self.machine
        if wanted.resume is None:
            if self.runner.run(machine.store.load(self.id)) is not None:
                again = f"--resume {shlex.quote(self.id)}"
                raise exits.Failure(
                    f"there is a conversation {self.id!r} already; {again} goes on with it"
                )
            return self._watched(
                machine.run(wanted.input, wanted.context, self.id, wanted.background)
            )
        self._known()
        if wanted.answer is NOTHING:
            return self._watched(machine.run(conversation_id=self.id))
        with suppress(LLMFSMError):  # what fails stays due, and is said when it is its turn
            self.runner.run(machine.run_due())
        self.answering = wanted.answer
        turn = self._watched(machine.answer(self.id, wanted.answer))
        self.answering = NOTHING
        return turn

    def _known(self) -> None:
        """Raise Failure where the conversation to go on with is none, or waits for a user."""
        try:
            found = self.runner.run(self.machine.resume(self.id))
        except ConversationNotFound as error:
            raise unknown(self.id) from error
        talks = found.kind == "converse"
        if talks and not found.ended and found.paused is None:
            raise exits.Failure(f"{self.id!r} waits for a user: {self.again('chat')}")

    def _answered(self, pause: Paused, value: Any) -> Turn | None:
        """Return the turn of an answer. Return None, and print why, if it was rejected."""
        self.answering = value
        try:
            turn = self._watched(self.machine.answer(self.id, value, pause=pause.id))
        except exits.Failure as error:
            console.error(error.format_message())
            return None
        except ConversationConflict as error:
            console.error(error)
            turn = self._watched(self.machine.run(conversation_id=self.id))
        self.answering = NOTHING
        return turn

    def _watched(self, work: Coroutine[Any, Any, Turn]) -> Turn:
        try:
            return self.view.during(lambda: self.runner.run(work))
        except DefinitionError as error:
            raise choice.placed(error, self.path) from error
        except ValueError as error:
            raise exits.Failure(str(error)) from error

    def _broken(self, error: BaseException) -> int:
        """Say what stopped it, and how to go on where something is on record."""
        code = exits.end(error, verbose=self.wanted.verbose)
        if self.wanted.db == _FORGETS or not isinstance(
            error, KeyboardInterrupt | ModelError | StoreError
        ):
            return code
        with suppress(LLMFSMError, KeyboardInterrupt):
            if self.runner.run(self.machine.store.load(self.id)) is not None:
                again = self.again()
                if self.answering is not NOTHING:
                    again += f" --answer {shlex.quote(escape.as_json(self.answering, None))}"
                self.view.parked(self.id, again)
                console.note(f"the run is parked; to go on: {again}", to_copy=True)
        return code

    def again(self, command: str = "run") -> str:
        """The command that goes on with this run. An address with a password is left out."""
        wanted = self.wanted
        parts = [console.program(), command, wanted.file, "--resume", self.id]
        options = wanted.again() if command == "run" else super(RunOptions, wanted).again()
        return shlex.join([*parts, *options])


@command('llm-fsm run flow.json --input "a text" --tools tools.py', options=RunOptions)
def run(ctx: click.Context, wanted: RunOptions) -> int:
    """Run a machine without a user and show what it does.

    FILE is a definition file, or the name of a shipped definition. On a terminal you watch its
    states, tool calls and key results. Through a pipe every event is one line of JSON, and the last
    line is the outcome. Ctrl-C pauses the run, and --resume ID or --last resumes it. --tools runs
    the Python file that it names: name only your own.

    --batch plays a file of inputs, also of conversations. The same command resumes after a
    kill. On several machines with one --db it shares the work.

    Exit codes: 0 passed. 1 failed, exhausted or limited, or the definition is at fault. 2 usage. 3
    model, provider or Temporal. 4 store. 5 paused. 130 interrupted.
    """
    if (wanted.file is None) is (wanted.fsm is None):
        ctx.fail("name a definition FILE, once")
    _check_options(ctx, wanted)
    files = _files(ctx, wanted)
    if wanted.temporal is not None:
        if files is None:
            ctx.fail("--temporal belongs to --batch")
        if wanted.db == _FORGETS:
            ctx.fail("--temporal needs a --db that its workers share")
        temporal_module()
    if files is not None:
        stored = stored_option(wanted.resume, last=wanted.last)
        named = [] if stored is None else [stored]
        for name, value in (("--input", wanted.input), ("--background", wanted.background)):
            if value is not None:
                named.append(name)
        if named:
            ctx.fail(f"{named[0]} belongs to a single run, not to --batch")
    ctx.with_resource(reporting(ctx.obj.verbose))
    wanted = replace(
        wanted,
        file=wanted.fsm or wanted.file,
        input=host.input_of(wanted.input),
        json=wanted.json or not console.is_screen(sys.stdout),
        verbose=ctx.obj.verbose > 0,
    )
    return _run(wanted, files)


def _files(ctx: click.Context, wanted: RunOptions) -> BatchFiles | None:
    """Return the files of a batch; None for a single run. Raises UsageError."""
    if wanted.batch is None:
        for name, value in (("-o", wanted.results), ("--limit", wanted.limit)):
            if value is not None:
                ctx.fail(f"{name} belongs to --batch")
        return None
    if wanted.results is None:
        ctx.fail("--batch needs -o RESULTS.jsonl, the file for the results")
    return BatchFiles(
        inputs=wanted.batch,
        results=wanted.results,
        limit=wanted.limit or LIMIT,
        name=wanted.id,
        temporal=wanted.temporal,
    )


def _check_options(ctx: click.Context, wanted: RunOptions) -> None:
    if wanted.resume is not None and wanted.last:
        ctx.fail("--resume and --last each name a run: give one of them")
    stored = stored_option(wanted.resume, last=wanted.last)
    for name in ("input", "context", "background", "id"):
        if stored and getattr(wanted, name) is not None:
            ctx.fail(f"--{name} belongs to a new run, not to {stored}")
    if wanted.answer is not NOTHING and not stored:
        ctx.fail("--answer goes to a run that waits: name it with --resume or --last")


def _run(wanted: RunOptions, files: BatchFiles | None) -> int:
    if files is not None:
        return _run_batch(wanted, files)
    if not wanted.json:
        return _perform(wanted, None)
    with own_output() as out:
        return _perform(wanted, out)


def _run_batch(wanted: RunOptions, files: BatchFiles) -> int:
    path = choice.located(wanted.file)
    definition = choice.opened(path)
    equipment = host.equipment(definition, path, wanted.tools, wanted.mcp)
    with ExitStack() as stack:
        out = stack.enter_context(own_output())
        runner = stack.enter_context(asyncio.Runner())
        store = closed_with(stack, runner, open_store(wanted.db))
        machine = _machine(wanted, definition, path, equipment, store)
        closed_with(stack, runner, machine)
        code, counts = play_batch(
            files,
            machine,
            runner,
            context=wanted.context,
            unnamed=unnamed_place(wanted.db, store),
            again=_same_batch(wanted, files),
        )
        if wanted.json:
            console.json(counts, indent=None, to=out)
    return code


def _same_batch(wanted: RunOptions, files: BatchFiles) -> str:
    """Return the command that goes on with a batch. An address with a password is left out."""
    parts = [console.program(), "run", wanted.file, "--batch", files.inputs, "-o", files.results]
    if files.name is not None:
        parts += ["--id", files.name]
    if files.temporal is not None:
        parts += ["--temporal", files.temporal]
    if files.limit != LIMIT:
        parts += ["--limit", str(files.limit)]
    if wanted.context is not None:
        parts += ["--context", escape.as_json(dict(wanted.context), None)]
    return shlex.join([*parts, *wanted.again()])


def _perform(wanted: RunOptions, out: TextIO | None) -> int:
    path = choice.located(wanted.file)
    definition = choice.opened(path)
    if definition.kind_of(definition.initial_state) == "converse":
        raise exits.Failure(
            f"{wanted.file} begins by talking to a user: llm-fsm chat {shlex.quote(wanted.file)}"
        )
    equipment = host.equipment(definition, path, wanted.tools, wanted.mcp)
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        opened = open_holding(wanted.db, wanted.resume, last=wanted.last)
        store = closed_with(stack, runner, opened)
        if wanted.resume is not None:
            wanted = replace(wanted, resume=runner.run(identified(store, wanted.resume)))
        elif wanted.last:
            wanted = replace(wanted, resume=runner.run(latest(store, definition.name)))
        machine = _machine(wanted, definition, path, equipment, store)
        closed_with(stack, runner, machine)
        if wanted.resume is not None:
            runner.run(check_follows(store, wanted.resume, definition.name, wanted.file))
            runner.run(keep_place(machine.llm, store, wanted.resume))
        name = wanted.resume or (new_id() if wanted.id is None else wanted.id)
        view = _view(wanted, machine, out)

        def show(who: str, event: Event) -> None:
            # the view tells the end itself
            if who == name and not isinstance(event, TurnSaved | TurnAborted):
                view.take(event)

        stack.callback(observe(show))
        running = RunSession(
            wanted=wanted, path=path, runner=runner, machine=machine, view=view, id=name
        )
        return running.play()


def _machine(
    wanted: RunOptions, definition: Definition, path: Path, equipment: host.Equipment, store: Store
) -> AsyncMachine:
    return machine_of(
        definition,
        path,
        *equipment,
        wanted.timeout,
        model=wanted.model,
        base_url=wanted.base_url,
        store=store,
        summaries=not wanted.no_summaries,
    )


def _view(wanted: RunOptions, machine: AsyncMachine, out: TextIO | None) -> report.View:
    if wanted.json:
        return report.JsonLines(machine.program, out)
    from llm_fsm.cli.terminal import progress as live

    view: report.View = live.Screen(
        machine.definition, asks=sys.stdin.isatty() and wanted.answer is NOTHING
    )
    return view
