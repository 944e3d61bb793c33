"""`llm-fsm run`."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import click

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import host_code as host
from llm_fsm.cli import pick as choice
from llm_fsm.cli import run_report as report
from llm_fsm.cli.batch import BatchFiles, play_batch, unnamed_place
from llm_fsm.cli.chat_session import Talk
from llm_fsm.cli.commands.chat import context_of
from llm_fsm.cli.failures import show_failures
from llm_fsm.cli.options import (
    GlobalOptions,
    base_url_option,
    context_option,
    db_option,
    example,
    mcp_option,
    model_option,
    stored_option,
    timeout_option,
    tools_option,
    turn_time,
    verbose_option,
)
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
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.engine.batch import LIMIT
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.host_files import HostTools
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The run that the command line asks for. `answer`: NOTHING where none is given."""

    file: str
    input: Any
    model: str | None
    base_url: str | None
    timeout: float | None = None
    db: str | None
    context: Mapping[str, Any] | None
    background: Mapping[str, Any] | None
    id: str | None
    resume: str | None
    last: bool
    answer: Any
    tools: tuple[str, ...]
    mcp: str | None
    summaries: bool
    json: bool
    verbose: bool


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
            console.error(str(error))
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
        options = _again_options(wanted if command == "run" else replace(wanted, summaries=True))
        return shlex.join([*parts, *options])


@click.command(epilog=example('llm-fsm run flow.json --input "a text" --tools tools.py'))
@click.argument("file", required=False)
@click.option("--fsm", metavar="FILE", help="The same as FILE.")
@click.option(
    "--input",
    "given",
    metavar="TEXT",
    help="The input: a text, JSON, @FILE, or - for standard input.",
)
@context_option
@click.option(
    "--background",
    metavar="JSON",
    help="What the work is for: vision_mission, goals, todo_list, custom_fields.",
)
@model_option
@base_url_option
@timeout_option
@db_option
@click.option(
    "--id", "conversation_id", metavar="ID", help="The id of the new run, or of the batch."
)
@click.option(
    "--resume",
    metavar="ID",
    help="Go on with a run that was parked or waits; its id, or how it begins.",
)
@click.option("--last", is_flag=True, help="Resume the last run of FILE.")
@click.option(
    "--answer", metavar="JSON", help="With --resume or --last: the answer that the run waits for."
)
@tools_option
@mcp_option
@click.option(
    "--batch", metavar="INPUTS.jsonl", help='Play each line: {"input": …} or {"messages": […]}.'
)
@click.option(
    "-o", "results", metavar="RESULTS.jsonl", help="With --batch: the file for the results."
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="With --batch: lines at a time.  [default: 8]",
)
@temporal_option
@click.option(
    "--no-summaries", is_flag=True, help="Summarise nothing, whatever the definition says."
)
@click.option(
    "--json", "as_json", is_flag=True, help="One event a line as JSON, also on a terminal."
)
@verbose_option
@click.pass_context
def run(
    ctx: click.Context,
    *,
    file: str | None,
    fsm: str | None,
    given: str | None,
    context: str | None,
    background: str | None,
    model: str | None,
    base_url: str | None,
    timeout: float | None,
    db: str | None,
    conversation_id: str | None,
    resume: str | None,
    last: bool,
    answer: str | None,
    tools: tuple[str, ...],
    mcp: str | None,
    batch: str | None,
    results: str | None,
    limit: int | None,
    temporal: str | None,
    no_summaries: bool,
    as_json: bool,
) -> None:
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
    if (file is None) is (fsm is None):
        raise click.UsageError("name a definition FILE, once", ctx)
    new = {
        "--input": given,
        "--context": context,
        "--background": background,
        "--id": conversation_id,
    }
    _check_options(ctx, resume, new, answer, last=last)
    files = _files(ctx, batch, results, limit, conversation_id)
    if temporal is not None:
        if files is None:
            raise click.UsageError("--temporal belongs to --batch", ctx)
        if db == _FORGETS:
            raise click.UsageError("--temporal needs a --db that its workers share", ctx)
        temporal_module()
        files = replace(files, temporal=temporal)
    if files is not None:
        stored = stored_option(resume, last=last)
        named = [] if stored is None else [stored]
        for option, value in (("--input", given), ("--background", background)):
            if value is not None:
                named.append(option)
        if named:
            raise click.UsageError(f"{named[0]} belongs to a single run, not to --batch", ctx)
    verbose = ctx.ensure_object(GlobalOptions).verbose
    ctx.call_on_close(show_failures(verbose=verbose > 0))
    if verbose:
        level = "DEBUG" if verbose > 1 else "INFO"
        from llm_fsm.engine.logging import enable_logging

        ctx.call_on_close(enable_logging(level))
    wanted = RunOptions(
        file=str(fsm if file is None else file),
        input=host.input_of(given),
        model=model,
        base_url=base_url,
        timeout=timeout,
        db=db,
        context=None if context is None else context_of(context),
        background=None if background is None else host.object_of(background, "--background"),
        id=conversation_id,
        resume=resume,
        last=last,
        answer=NOTHING if answer is None else host.json_of(answer, "--answer"),
        tools=tools,
        mcp=mcp,
        summaries=not no_summaries,
        json=as_json or not console.is_screen(sys.stdout),
        verbose=verbose > 0,
    )
    ctx.exit(_run(wanted, files))


def _files(
    ctx: click.Context, batch: str | None, results: str | None, limit: int | None, name: str | None
) -> BatchFiles | None:
    """Return the files of a batch; None for a single run. Raises UsageError."""
    if batch is None:
        for option, value in (("-o", results), ("--limit", limit)):
            if value is not None:
                raise click.UsageError(f"{option} belongs to --batch", ctx)
        return None
    if results is None:
        raise click.UsageError("--batch needs -o RESULTS.jsonl, the file for the results", ctx)
    return BatchFiles(inputs=batch, results=results, limit=limit or LIMIT, name=name)


def _check_options(
    ctx: click.Context,
    resume: str | None,
    new: Mapping[str, str | None],
    answer: str | None,
    *,
    last: bool,
) -> None:
    if resume is not None and last:
        raise click.UsageError("--resume and --last each name a run: give one of them", ctx)
    stored = stored_option(resume, last=last)
    for name, value in new.items():
        if value is not None and stored:
            raise click.UsageError(f"{name} belongs to a new run, not to {stored}", ctx)
    if answer is not None and not stored:
        raise click.UsageError(
            "--answer goes to a run that waits: name it with --resume or --last", ctx
        )


def _run(wanted: RunOptions, files: BatchFiles | None) -> int:
    if files is not None:
        return _run_batch(wanted, files)
    if not wanted.json:
        return _perform(wanted, None)
    with own_output() as out:
        return _perform(wanted, out)


def _run_batch(wanted: RunOptions, files: BatchFiles) -> int:
    path = choice.located(wanted.file, definition_paths())
    definition = choice.opened(path)
    brought, servers = host.equipment(definition, path, wanted.tools, wanted.mcp)
    with ExitStack() as stack:
        out = stack.enter_context(own_output())
        runner = stack.enter_context(asyncio.Runner())
        store = open_store(wanted.db)
        stack.callback(lambda: runner.run(store.close()))
        machine = _machine(wanted, definition, store, brought, servers=servers, path=path)
        stack.callback(lambda: runner.run(machine.close()))
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
    return shlex.join([*parts, *_again_options(wanted)])


def _again_options(wanted: RunOptions) -> list[str]:
    """Return the options with which a run, or a batch, goes on."""
    base_url = None if wanted.base_url and "@" in wanted.base_url else wanted.base_url
    timeout = None if wanted.timeout is None else f"{wanted.timeout:g}"
    options = [("--db", wanted.db), ("--model", wanted.model)]
    options += [("--base-url", base_url), ("--timeout", timeout)]
    options += [*(("--tools", name) for name in wanted.tools), ("--mcp", wanted.mcp)]
    parts: list[str] = []
    for name, value in options:
        if value is not None:
            parts += (name, value)
    return parts if wanted.summaries else ["--no-summaries", *parts]


def _perform(wanted: RunOptions, out: TextIO | None) -> int:
    path = choice.located(wanted.file, definition_paths())
    definition = choice.opened(path)
    if definition.kind_of(definition.initial_state) == "converse":
        raise exits.Failure(
            f"{wanted.file} begins by talking to a user: llm-fsm chat {shlex.quote(wanted.file)}"
        )
    brought, servers = host.equipment(definition, path, wanted.tools, wanted.mcp)
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        store = open_holding(wanted.db, wanted.resume, last=wanted.last)
        stack.callback(lambda: runner.run(store.close()))
        if wanted.resume is not None:
            wanted = replace(wanted, resume=runner.run(identified(store, wanted.resume)))
        elif wanted.last:
            wanted = replace(wanted, resume=runner.run(latest(store, definition.name)))
        machine = _machine(wanted, definition, store, brought, servers=servers, path=path)
        stack.callback(lambda: runner.run(machine.close()))
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
    wanted: RunOptions,
    definition: Definition,
    store: Store,
    brought: HostTools,
    *,
    servers: Mapping[str, Any],
    path: Path,
) -> AsyncMachine:
    machine = AsyncMachine(
        definition,
        model=wanted.model,
        base_url=wanted.base_url,
        **turn_time(wanted.timeout),
        store=store,
        tools=brought.tools,
        handlers=brought.handlers,
        mcp=servers,
        summaries=wanted.summaries,
        file=path,
    )
    for name, function in brought.functions.items():
        machine.function(function, name=name)
    return machine


def _view(wanted: RunOptions, machine: AsyncMachine, out: TextIO | None) -> report.View:
    if wanted.json:
        return report.JsonLines(machine.program, out)
    from llm_fsm.cli.terminal import progress as live

    view: report.View = live.Screen(
        machine.definition, asks=sys.stdin.isatty() and wanted.answer is NOTHING
    )
    return view
