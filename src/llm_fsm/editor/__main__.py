"""`python -m llm_fsm.editor` is the command `llm-fsm studio`."""

import sys

from llm_fsm.cli import main

if __name__ == "__main__":
    sys.exit(main(["studio", *sys.argv[1:]]))
