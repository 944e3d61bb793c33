"""The command itself: help without the engine, one sentence per error, the table of exit codes."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from cli_command import Desk, command, desk
from llm_fsm import __version__, errors
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.group import COMMANDS, group
from llm_fsm.errors import Finding

__all__ = ["desk"]

HEAVY = (
    "pydantic",
    "asyncio",
    "aiohttp",
    "litellm",
    "jinja2",
    "rich",
    "prompt_toolkit",
    "loguru",
    "llm_fsm.engine.engine",
)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says(name: str) -> None:
    found = group.get_command(click.Context(group), name)
    assert found is not None
    assert found.name == name
    assert " ".join((found.help or "").split()).startswith(COMMANDS[name])


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["completion", "zsh"]])
def test_help_needs_neither_the_engine_nor_its_dependencies(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom llm_fsm.cli import main\n"
        f"code = main({arguments!r})\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_said(desk: Desk, option: str) -> None:
    assert desk.run(option).out == f"llm-fsm {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(desk: Desk, name: str) -> None:
    done = desk.run(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: llm-fsm {name} ")


def every_command(command: click.Command, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield names
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from every_command(found, (*names, name))


@pytest.mark.parametrize("names", [*every_command(group)], ids=" ".join)
def test_every_help_ends_with_an_example_that_the_command_takes(
    desk: Desk, names: tuple[str, ...]
) -> None:
    shown = desk.run(*names, "--help").out
    lines = re.split(r"\n  Examples?:\n", shown)[-1].splitlines()
    assert len(lines) < len(shown.splitlines())
    for line in lines:
        words = shlex.split(line.split(">")[0].removeprefix('    eval "$(').removesuffix(')"'))
        assert words[: 1 + len(names)] == ["llm-fsm", *names]
        command: click.Command = group
        words = words[1:]
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None
            command = found
        for argument in (word for word in words if word.endswith((".json", ".jsonl"))):
            desk.write(argument.rpartition("/")[2], "{}")
            words[words.index(argument)] = argument.rpartition("/")[2]
        command.make_context("llm-fsm", words)


def test_without_a_command_the_help_goes_to_standard_error(desk: Desk) -> None:
    done = desk.run()
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: llm-fsm")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chta"], "there is no command 'chta'; did you mean 'chat'?"),
        (["zzz"], f"there is no command 'zzz'; there are {', '.join(COMMANDS)}"),
        (["--foo"], "--foo"),
        (["validate"], "Missing argument"),
        (["completion", "tcsh"], "tcsh"),
        (["completion"], "Choose from: bash, zsh, fish"),
        (["conversations"], "Missing command (see 'llm-fsm conversations --help')"),
        (["new", "a", "b"], "unexpected extra argument"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_2(
    desk: Desk, arguments: list[str], said: str
) -> None:
    done = desk.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("llm-fsm: error: ")
    assert done.err.count("\n") == 1
    assert said in done.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_asks_the_command(desk: Desk, shell: str) -> None:
    done = desk.run("completion", shell)
    assert done.code == 0
    assert "_LLM_FSM_COMPLETE" in done.out


def test_commands_and_options_are_completed(desk: Desk) -> None:
    def completed(words: str, position: int) -> str:
        env = {
            "_LLM_FSM_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(position),
        }
        return desk.process(env=env).stdout.decode()

    assert completed("llm-fsm c", 1).split() == [
        "plain,chat",
        "plain,completion",
        "plain,conversations",
        "plain,convert",
    ]
    assert "plain,--resume" in completed("llm-fsm chat --re", 2).split()


FINDING = Finding(
    code="F101",
    name="unknown-target",
    level="error",
    message="wrong",
    file="a.json",
    line=1,
    column=2,
)
UNREADABLE = Finding(
    code="E001", name="unreadable-file", level="error", message="gone", file="a.json"
)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            errors.DefinitionError([FINDING]),
            1,
            "llm-fsm: error: a.json cannot be used: 1 error\na.json:1:2: error: ",
        ),
        (
            errors.DefinitionError([UNREADABLE]),
            2,
            "llm-fsm: error: a.json cannot be used: 1 error\n",
        ),
        (errors.ConfigurationError("no key"), 3, "llm-fsm: error: no key\n"),
        (errors.ModelError("down"), 3, "llm-fsm: error: down\n"),
        (errors.ConversationNotFound("none"), 2, "llm-fsm: error: none\n"),
        (errors.ConversationConflict("two"), 2, "llm-fsm: error: two\n"),
        (errors.StoreError("full"), 4, "llm-fsm: error: full\n"),
        (exits.Failure("no", 4), 4, "llm-fsm: error: no\n"),
        (click.UsageError("what"), 2, "llm-fsm: error: what\n"),
        (
            click.BadParameter("what", param_hint="--x"),
            2,
            "llm-fsm: error: Invalid value for --x: what\n",
        ),
        (KeyboardInterrupt(), 130, "llm-fsm: interrupted\n"),
        (click.Abort(), 130, "llm-fsm: interrupted\n"),
        (OSError(28, "No space left", "/x/y"), 74, "llm-fsm: error: /x/y: no space left\n"),
        (
            RuntimeError("bug\x1b[2J"),
            70,
            "llm-fsm: internal error: RuntimeError: bug\\x1b[2J; please report\n",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_error_has_a_sentence_and_a_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        assert exits.end(error, verbose=False) == code
    finally:
        signal.signal(signal.SIGINT, on_interrupt)
    assert capsys.readouterr().err.startswith(said)


def test_every_error_of_the_package_is_in_the_table() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    missing = [
        found.__name__
        for found in classes
        if issubclass(found, errors.LLMFSMError)
        and found not in (errors.LLMFSMError, errors.HandlerError)
        and not any(base in exits.CODES for base in found.__mro__)
    ]
    assert missing == []


def test_a_bug_shows_its_traceback_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    exits.end(RuntimeError("bug"), verbose=True)
    assert "RuntimeError: bug" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["schema"], ["--help"], ["--version"], ["schema", "--help"]])
def test_a_reader_that_has_gone_is_no_reason_to_complain(arguments: list[str]) -> None:
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


@pytest.mark.parametrize("arguments", [["schema"], ["--help"]])
def test_output_that_cannot_be_written_is_said(desk: Desk, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command(*arguments), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 74
    assert done.stderr == b"llm-fsm: error: standard output: no space left on device\n"


def test_a_current_folder_that_was_removed_is_said(desk: Desk) -> None:
    gone = desk.folder / "gone"
    gone.mkdir()
    desk.patch.chdir(gone)
    gone.rmdir()
    done = desk.run("validate", str(desk.folder / "greeter.json"))
    assert (done.code, done.err) == (
        74,
        "llm-fsm: error: the current folder: no such file or directory\n",
    )


def test_the_schema_is_json(desk: Desk) -> None:
    done = desk.run("schema")
    assert done.code == 0
    assert '"$schema": "https://json-schema.org/draft/2020-12/schema"' in done.out


def test_a_further_interrupt_ends_the_process_without_a_traceback() -> None:
    program = (
        "import gc, signal, sys\nfrom llm_fsm.cli import group\n"
        "def broken(): raise KeyboardInterrupt\n"
        "group.group.main = lambda *_, **__: broken()\n"
        "gc.freeze = lambda: signal.raise_signal(signal.SIGINT)\n"
        "sys.exit(group.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "llm-fsm: interrupted\n")


def test_a_caller_of_main_has_its_interrupts_back(desk: Desk) -> None:
    def broken(**_: object) -> None:
        raise KeyboardInterrupt

    found = group.get_command(click.Context(group), "schema")
    assert found is not None
    desk.patch.setattr(found, "callback", broken)
    before = signal.getsignal(signal.SIGINT)
    assert desk.run("schema").code == exits.INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is before


_AT_IMPORT = """
import signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
from llm_fsm.cli import main
code = main(["schema"])
assert sys.argv[1] in sys.modules
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("module", "said"), [("click", ""), ("llm_fsm.cli.commands.schema", "\nllm-fsm: interrupted\n")]
)
def test_an_interrupt_while_something_is_imported_shows_no_traceback(
    module: str, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AT_IMPORT, module], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (exits.INTERRUPTED, "", said)
