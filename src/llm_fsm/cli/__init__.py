"""The command line: one module per command, imported when the command is used."""

try:
    from llm_fsm.cli.group import main
except KeyboardInterrupt:  # nothing of the command has begun, and nobody wants to see which import it was
    raise SystemExit(130) from None

__all__ = ["main"]
