"""The command line, `llm-fsm`.

Enters: arguments, files and what a person types. Leaves: words, JSON and an exit code. Open
`group.py` first: it has the table of commands, which are imported when they are used. `commands/`
has a module for each command, and `terminal/` has the parts that a person sees and types.
`options.py` has options that commands share, `output.py` writes results, and `exit_codes.py` turns
errors into a sentence and an exit code. `host_code.py` loads the host's functions and MCP servers.
"""

try:
    from llm_fsm.cli.group import main
except KeyboardInterrupt:
    # nothing of the command has begun, and nobody wants to see which import it was
    raise SystemExit(130) from None

__all__ = ["main"]
