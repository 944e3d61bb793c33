"""The command `llm-fsm`: its table of commands, and how it ends.

A command's module is imported when the command is used. Help and completion read the table, so they
need neither the engine nor its dependencies.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from llm_fsm import __version__
from llm_fsm._json import TextMap
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import installation
from llm_fsm.cli.options import VERBOSE, GlobalOptions, example
from llm_fsm.cli.terminal import console

COMMANDS: TextMap = {
    "chat": "Talk to a machine in the terminal or through a pipe.",
    "completion": "Print the completion script of a shell.",
    "conversations": "List, show, count, replay, copy, move, migrate, check, retry and delete stored conversations.",
    "convert": "Read Mermaid, XState and older definitions; write those, DOT and SCXML.",
    "diff": "Say what a change of a definition means, also for running conversations.",
    "evaluate": "Measure how well a real model plays a definition.",
    "mcp": "Serve definitions to an assistant over MCP, on standard input and output.",
    "new": "Start a definition with a test and a CI file.",
    "prompt": "Show what the model reads in a state, and what it takes.",
    "release": "Give a share of new conversations a candidate definition; watch, promote or take it back.",
    "rename": "Rename a state or a context key in a definition, its tests and its texts.",
    "run": "Run a machine without a user and show what it does.",
    "schema": "Print the JSON Schema of definition files.",
    "serve": "Serve definitions: a chat page, REST, the OpenAI form, AG-UI and MCP.",
    "show": "Draw a definition: text, boxes, Mermaid, DOT, SVG or PNG.",
    "studio": "Edit definitions in the browser, talk to them, and look into past turns.",
    "test": "Run conversation tests and report failures.",
    "texts": "Write and check the texts of a definition in its further languages.",
    "validate": "Check definition files and report everything that is wrong.",
    "worker": "Finish turns and fire time-outs of stored conversations, without a server.",
}
"""Command to the first sentence of its help. Its module has the command's name and so has the
command in it.
"""

_NEW_OBJECTS = 50_000
"""Objects that may be made before garbage is looked for: commands are short, and most of what they
make is kept.
"""


_GROUPS: TextMap = {"conversations": "conversations.listing", "test": "test.run"}


@contextmanager
def _pipe_closed() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise exits.PipeClosed from error


class Commands(click.Group):
    """A group whose commands are the modules of a table."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names of the table."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command."""
        if cmd_name not in COMMANDS:
            return None
        # what an import makes is there to stay: looking for garbage in it costs a tenth of the time
        gc.disable()
        try:
            with _undisturbed():
                module = f"llm_fsm.cli.commands.{_GROUPS.get(cmd_name, cmd_name)}"
                found = getattr(import_module(module), cmd_name)
        finally:
            gc.freeze()
            gc.set_threshold(_NEW_OBJECTS)
            gc.enable()
        return found if isinstance(found, click.Command) else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; `--fsm FILE` without a command is for `chat`."""
        if args and args[0].partition("=")[0] == "--fsm":
            args = ["chat", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a near name for an unknown one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(name, COMMANDS, n=1)
            known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
            ctx.fail(f"there is no command {name[:50]!r}; {known}")
        return super().resolve_command(ctx, args)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """As click does, which must not see that help met a closed pipe: it would choose the exit
        code.
        """
        with _pipe_closed():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> object:
        """As click does, and as above."""
        with _pipe_closed():
            return super().invoke(ctx)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table as part of the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of the table that begin so, and the group's options."""
        names = [
            CompletionItem(name, help=COMMANDS[name])
            for name in COMMANDS
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    cls=Commands,
    invoke_without_command=True,
    params=[VERBOSE],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example("llm-fsm new table-booking", "llm-fsm chat table-booking/table-booking.json"),
)
@click.version_option(
    __version__, "-V", "--version", prog_name=console.PROGRAM, message="%(prog)s %(version)s"
)
@click.pass_context
def group(context: click.Context) -> None:
    """Conversations and workflows as state machines in JSON: the model understands, the machine
    decides.

    Exit codes: 0 done, 1 the definition is at fault, 2 usage, 3 model or provider, 4 store, 5
    paused, 130 interrupted. Those of `test` are its own.
    """
    if context.invoked_subcommand is None:
        console.text(context.get_help(), sys.stderr)
        context.exit(exits.USAGE)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold Ctrl-C back until an import is done: pydantic would make an error of its own of it."""
    # a program around this one has its own
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = []
    try:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    except ValueError:  # not the main thread, to which no interrupt comes
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    console.note(f"warning: {message!s}")


def _say_foreign() -> None:
    # A shell asks for completions: the line that is typed must stay as it is.
    if "_LLM_FSM_COMPLETE" in os.environ:
        return
    version = installation.foreign_version(sys.path)
    if version is not None:
        console.note(installation.foreign_warning(version))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; `arguments` are those of the process by default."""
    console.prepare_streams()
    _say_foreign()
    settings, on_interrupt = GlobalOptions(), signal.getsignal(signal.SIGINT)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            given = group.main(
                arguments, prog_name=console.PROGRAM, standalone_mode=False, obj=settings
            )
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        return exits.end(error, verbose=settings.verbose > 0)
    finally:
        gc.freeze()  # the process ends now, and need not look through everything once more
        # or a caller goes on
        if arguments is not None and signal.getsignal(signal.SIGINT) is not on_interrupt:
            signal.signal(signal.SIGINT, on_interrupt)
    return given if isinstance(given, int) else exits.OK
