"""`llm-fsm completion`."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from llm_fsm.cli.options import command
from llm_fsm.cli.terminal import console

SHELLS: dict[str, type[ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


@command('eval "$(llm-fsm completion bash)"')
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash  llm-fsm completion bash > ~/.local/share/bash-completion/completions/llm-fsm
    zsh   llm-fsm completion zsh > a file _llm-fsm in a folder of $fpath
    fish  llm-fsm completion fish > ~/.config/fish/completions/llm-fsm.fish
    """
    command = context.find_root().command
    variable = f"_{console.PROGRAM}_COMPLETE".replace("-", "_").upper()
    console.text(SHELLS[shell](command, {}, console.PROGRAM, variable).source())
