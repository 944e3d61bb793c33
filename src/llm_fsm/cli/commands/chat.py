"""`llm-fsm chat`."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import click

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import host_code as host
from llm_fsm.cli import pick as choice
from llm_fsm.cli import pipe as lines
from llm_fsm.cli import run_report as report
from llm_fsm.cli.chat_session import Talk
from llm_fsm.cli.commands.test import save as saved_test
from llm_fsm.cli.failures import reporting
from llm_fsm.cli.machine import closed_with, machine_of
from llm_fsm.cli.machine_options import OneMachineOptions, stored_option
from llm_fsm.cli.options import command, option
from llm_fsm.cli.output import own_output
from llm_fsm.cli.stores import (
    check_follows,
    data_folder,
    identified,
    latest,
    new_id,
    open_holding,
    unknown,
)
from llm_fsm.cli.terminal import console
from llm_fsm.cli.terminal.prompts import PromptPrinter
from llm_fsm.definition.models import Definition
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load
from llm_fsm.engine.conversation import AsyncConversation
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.observers import Observer
from llm_fsm.errors import ConversationConflict, ConversationNotFound, DefinitionError, LLMFSMError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.registry import resolve
from llm_fsm.records.script_place import keep_place
from llm_fsm.records.transfer import line_of
from llm_fsm.stores.base import Listed, Store
from llm_fsm.stores.memory import MemoryStore


@dataclass(frozen=True, kw_only=True)
class ChatOptions(OneMachineOptions):
    """The chat that the command line asks for. `terminal`: a person sits at both ends."""

    reply: str = option(
        "--reply",
        type=click.Choice(["schema", "prompt"]),
        default="schema",
        show_default=True,
        help="Force the form of replies by a schema, or ask for it in the prompt alone.",
    )
    id: str | None = option("--id", metavar="ID", help="The id of the new conversation.")
    resume: str | None = option(
        "--resume", metavar="ID", help="Resume a stored conversation; a prefix of the id is enough."
    )
    last: bool = option(
        "--last",
        is_flag=True,
        help="Resume the last conversation; with FILE, the last one of that definition.",
    )
    save_test: str | None = option(
        "--save-test",
        metavar="FILE",
        help="At the end, write the conversation as a test: FILE.test.json.",
    )
    plain: bool = option(
        "--plain", is_flag=True, help="Plain lines, as through a pipe, also on a terminal."
    )
    show_prompt: bool = option(
        "--show-prompt",
        is_flag=True,
        help="Show what the model reads, with the size of each section.",
    )
    terminal: bool = False


@command(
    "llm-fsm chat",
    "llm-fsm chat order --model offline",
    "llm-fsm chat flow.json -m openai/gpt-4o-mini --last",
    options=ChatOptions,
)
def chat(ctx: click.Context, wanted: ChatOptions) -> int:
    """Talk to a machine in the terminal or through a pipe.

    FILE is a definition file, or the name of a shipped definition; without it you can choose. Piped
    input is one message a line. Only replies go to standard output, separated by blank lines. If
    the conversation waits for an answer, such as an approval, you are asked. A piped line must be
    the answer as JSON. --tools runs the Python file that it names: name only your own.

    Exit codes: 0 the input or the conversation ended. 1 a task was exhausted, or the definition is
    at fault. 2 usage. 3 model or provider. 4 store. 5 paused: it waits for an answer. 130
    interrupted.
    """
    if wanted.file is not None and wanted.fsm is not None:
        ctx.fail("FILE is given twice: as an argument and with --fsm")
    stored = stored_option(wanted.resume, last=wanted.last)
    if wanted.resume is not None and wanted.last:
        ctx.fail("--resume and --last each name a conversation: give one of them")
    if wanted.id is not None and stored:
        ctx.fail(f"--id names a new conversation, {stored} a stored one: give one of them")
    if wanted.context is not None and stored:
        ctx.fail(f"--context belongs to a new conversation, not to {stored}")
    fault = None if wanted.save_test is None else saved_test.refusal(wanted.save_test)
    if fault is not None:
        ctx.fail(f"--save-test: {fault}")
    if wanted.plain:
        os.environ["TERM"] = "dumb"
    file = wanted.fsm if wanted.file is None else wanted.file
    ctx.with_resource(reporting(ctx.obj.verbose))
    return _run(replace(wanted, file=file, terminal=is_terminal()), ctx)


def is_terminal() -> bool:
    """True when a person sits at both ends and the terminal can do more than print."""
    return sys.stdin.isatty() and console.is_screen(sys.stdout)


def _run(wanted: ChatOptions, ctx: click.Context) -> int:
    with ExitStack() as stack:
        out = None if wanted.terminal else stack.enter_context(own_output())
        runner = stack.enter_context(asyncio.Runner())
        opened = open_holding(wanted.db, wanted.resume, last=wanted.last)
        store = closed_with(stack, runner, opened)
        wanted = runner.run(_settled(wanted, store))
        path = _path(wanted, store, runner, ctx)
        if path is None:
            return exits.OK
        definition = choice.opened(path)
        if all(
            definition.kind_of(state_id) not in ("converse", "subflow")
            for state_id in definition.states
        ):
            name = shlex.quote(choice.called(path, definition_paths()))
            raise exits.Failure(f"nobody talks in {name}; it works by itself: llm-fsm run {name}")
        llm = _model(wanted, definition)
        runner.run(_prepare_resumed(wanted, store, definition, llm))
        machine = machine_of(
            definition,
            path,
            *host.equipment(definition, path, wanted.tools, wanted.mcp),
            wanted.timeout,
            model=PromptPrinter(llm) if wanted.show_prompt else llm,
            store=store,
            reply=wanted.reply,
        )
        closed_with(stack, runner, machine)
        if machine.program.waits:
            # what fails stays due, and is said when its conversation is resumed
            with suppress(LLMFSMError):
                runner.run(machine.run_due())
        lasts = not isinstance(store, MemoryStore)
        opening = _opening(wanted, path, definition.name, lasts=lasts) if wanted.terminal else None
        try:
            conversation = _conversation(wanted, machine, runner, path, opening)
        except (KeyboardInterrupt, LLMFSMError):
            if opening is not None and opening.id and not _is_kept(machine, runner, opening.id):
                console.note("the conversation has not begun: nothing of it is kept")
            raise
        talk = Talk(runner, machine, conversation, path)
        again = (
            resume_command(wanted, choice.called(path, definition_paths()), talk.id)
            if lasts
            else ""
        )
        saved = True
        try:
            code = _converse(talk, wanted, opening, out)
            if code == exits.OK and talk.ended and talk.session().outcome == "exhausted":
                code = exits.AT_FAULT
        except (KeyboardInterrupt, LLMFSMError) as error:
            code = exits.end(error, verbose=ctx.obj.verbose > 0)
            # deleted by another program meanwhile
            if again and not isinstance(error, ConversationNotFound):
                console.note(f"to go on: {again}", to_copy=True)
        else:
            _say_waiting(talk, again)
        finally:
            if wanted.save_test is not None:
                saved = _is_saved(talk, wanted.save_test)
        return code if saved else code or exits.OUTPUT


async def _settled(wanted: ChatOptions, store: Store) -> ChatOptions:
    """Return what is wanted with the whole id of the conversation, and with a model for the menu.
    Raises Failure.
    """
    if wanted.resume is not None:
        return replace(wanted, resume=await identified(store, wanted.resume))
    if wanted.last:
        file = None if wanted.file is None else choice.located(wanted.file)
        return replace(
            wanted, resume=await latest(store, None if file is None else load(file).name)
        )
    if wanted.file is None and not is_configured(wanted):
        return replace(wanted, model="offline")
    return wanted


async def _prepare_resumed(
    wanted: ChatOptions, store: Store, definition: Definition, llm: LLM
) -> None:
    """Check that a stored conversation is one of FILE. Give the model its place. Raises Failure."""
    if wanted.resume is None:
        return
    if wanted.file is not None:
        await check_follows(store, wanted.resume, definition.name, wanted.file)
    await keep_place(llm, store, wanted.resume)


def _is_saved(talk: Talk, name: str) -> bool:
    """Write the conversation as a test, and say so, or why not."""
    try:
        console.note(saved_test.write(talk, name), to_copy=True)
    except exits.Failure as error:
        console.error(error.format_message())
        return False
    return True


def _path(
    wanted: ChatOptions, store: Store, runner: asyncio.Runner, ctx: click.Context
) -> Path | None:
    """The definition's file; None when the user left instead of choosing one."""
    shipped = definition_paths()
    if wanted.file is not None:
        return choice.located(wanted.file)
    if wanted.resume is not None:
        found = runner.run(_listed(store, wanted.resume))
        path = choice.named(found.definition, shipped)
        if path is None:
            raise click.UsageError(
                f"conversation {wanted.resume!r} follows the definition {found.definition!r}: name its FILE too",
                ctx,
            )
        return path
    if not wanted.terminal or not shipped:
        names = f", or the name of a shipped definition: {', '.join(shipped)}" if shipped else ""
        raise click.UsageError(f"name a definition FILE{names}", ctx)
    _check_model(wanted)
    return choice.chosen(shipped, wanted.model or os.environ.get("LLM_FSM_MODEL", ""))


def is_configured(wanted: ChatOptions) -> bool:
    """Return True if a model or its address is named, by an option or in the environment."""
    return (wanted.model or wanted.base_url) is not None or bool(
        os.environ.get("LLM_FSM_MODEL", "").strip()
    )


def _check_model(wanted: ChatOptions) -> None:
    """Check the model before the user picks a definition. Raises ConfigurationError."""
    resolve(wanted.model, base_url=wanted.base_url, environ=os.environ)


async def _listed(store: Store, conversation_id: str) -> Listed:
    """The conversation as it stands in the store's listing. Raises Failure for an unknown id."""
    found = await line_of(store, conversation_id)
    if found is None:
        raise unknown(conversation_id)
    return found


def _model(wanted: ChatOptions, definition: Definition) -> LLM:
    """Return the model of --model, LLM_FSM_MODEL or the definition, else `offline` to try a
    machine.

    Raises:
        ConfigurationError: The model cannot be used, or there is none.
    """
    name = wanted.model
    if not is_configured(wanted):
        name = definition.model.name
        # A pipe of one's own definition must not get less than it asks for. A person reads the
        # note.
        tries = wanted.terminal or wanted.file in definition_paths()
        if name is None and wanted.resume is None and tries:
            name = "offline"
            console.note("no model is configured: `offline` answers; --model names another")
    llm = resolve(name, base_url=wanted.base_url, environ=os.environ)
    if (notice := getattr(llm, "notice", None)) is not None:
        console.note(notice)
    return llm


def _opening(wanted: ChatOptions, path: Path, name: str, *, lasts: bool) -> Any:
    def head(conversation_id: str) -> Sequence[str]:
        again = resume_command(wanted, choice.called(path, definition_paths()), conversation_id)
        whose = f"{name} · conversation {conversation_id}"
        kept = (
            f"to go on another time: {again}"
            if lasts
            else "kept in memory alone: it is gone when you leave"
        )
        return [f"{whose} · /help lists the commands, Ctrl-D leaves", kept]

    from llm_fsm.cli.terminal.session import ShownOpening

    return ShownOpening(head)


def _conversation(
    wanted: ChatOptions, machine: AsyncMachine, runner: asyncio.Runner, path: Path, opening: Any
) -> AsyncConversation:
    def start(on_event: Observer | None = None) -> AsyncConversation:
        name = new_id() if wanted.id is None else wanted.id
        return runner.run(machine.start(wanted.context, name, on_event=on_event))

    try:
        if wanted.resume is not None:
            return runner.run(machine.resume(wanted.resume))
        if opening is None:
            return start()
        conversation: AsyncConversation = opening.begin(start)
    except DefinitionError as error:
        raise choice.placed(error, path) from error
    except ConversationNotFound as error:
        raise unknown(wanted.resume or "") from error
    except ConversationConflict as error:
        raise exits.Failure(
            f"{error}; --resume {shlex.quote(wanted.id or '')} goes on with it"
        ) from error
    except ValueError as error:
        raise exits.Failure(str(error)) from error
    return conversation


def _is_kept(machine: AsyncMachine, runner: asyncio.Runner, conversation_id: str) -> bool:
    """False where the store is known not to have the conversation."""
    try:
        runner.run(machine.resume(conversation_id))
    except ConversationNotFound:
        return False
    except LLMFSMError:
        return True
    return True


def resume_command(wanted: ChatOptions, file: str, conversation_id: str) -> str:
    """The command that goes on with the conversation. An address with a password is left out."""
    parts = [console.program(), "chat", file, "--resume", conversation_id, *wanted.again()]
    if wanted.reply == "prompt":
        parts += ("--reply", "prompt")
    return shlex.join(parts)


def _say_waiting(talk: Talk, again: str) -> None:
    """Say what the conversation is left waiting for, if for anything, and how it is answered where
    it is kept.
    """
    if talk.paused is None or talk.ended:
        return
    for line in report.waiting(talk.paused):
        console.note(line)
    how = "with the answer as a line of JSON"
    if talk.paused.messages == "record":
        how = "where /answer JSON in a terminal hands back"
    if again:
        console.note(f"to go on, {how}: {again}", to_copy=True)


def _converse(talk: Talk, wanted: ChatOptions, opening: Any, out: TextIO | None) -> int:
    resumed = wanted.resume is not None
    if talk.ended and resumed and opening is None:
        raise exits.Failure(f"conversation {talk.id!r} has ended; start a new one without --resume")
    if opening is None:
        return lines.converse(
            talk, sys.stdin.buffer, greeting="" if resumed else talk.greeting, out=out
        )
    opening.show_head(talk.id)
    from llm_fsm.cli.terminal import session

    said = "" if opening.heard else talk.last_words()
    editor = session.line_editor(data_folder())
    code: int = session.converse(talk, editor, opening=said, resumed=resumed)
    return code
