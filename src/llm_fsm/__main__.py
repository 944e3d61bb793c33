"""`python -m llm_fsm` is the command `llm-fsm`."""

import sys

from llm_fsm.cli import main

if __name__ == "__main__":
    sys.exit(main())
