"""A chatbot in ten lines: the machine keeps to its definition, whatever the model replies.

Run:  python examples/first_steps/ten_lines.py offline              no model and no key needed
      python examples/first_steps/ten_lines.py openai/gpt-4o-mini   or any other model;
      LLM_FSM_MODEL without it
"""

import sys
from pathlib import Path

from llm_fsm import Machine

path = Path(__file__).parents[2] / "fsm_definitions" / "greeting.json"
with Machine.from_file(path, model=sys.argv[1] if len(sys.argv) > 1 else None) as machine:
    chat = machine.start()
    print(chat.greeting, flush=True)
    for line in sys.stdin:
        print(chat.send(line).text if line.strip() else "Please say something.", flush=True)
        if chat.ended:
            break
