"""Data clean-up with a judge, and a person who signs it off.

Run:  python examples/agents/cleanup.py openai/gpt-4o-mini
      llm-fsm run cleanup --tools examples/agents/cleanup.py --input @rows.json

A rule counts the rows, a function looks at each of them, a judge asks whether anything was made up.
Then the run waits, for three days at most: `machine.run_due()` reminds after one day and gives up
after three.
"""

import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

from llm_fsm import Machine

DEFINITION = Path(__file__).parents[2] / "fsm_definitions" / "cleanup.json"
ROWS = [
    {"name": "LOVELACE, ada", "mail": "Ada@Example.COM ", "birthday": "10.12.1815"},
    {"name": "grace  hopper", "mail": "grace(at)example.com", "birthday": "?"},
]


def well_formed(output: Any) -> tuple[bool, str]:
    """The key result of `clean`: what each row must look like."""
    if not isinstance(output, list):
        return False, "the output is no JSON list"
    faults = [
        f"row {number}: {fault}" for number, row in enumerate(output, 1) for fault in _faults(row)
    ]
    return not faults, "; ".join(faults)


def _faults(row: Any) -> list[str]:
    if not isinstance(row, dict) or set(row) != {"name", "email", "born"}:
        return ["it has name, email and born, and nothing else"]
    found = []
    if not isinstance(row["name"], str) or row["name"] != " ".join(row["name"].split()):
        found.append("the name is no text with single spaces")
    if row["email"] is not None and not re.fullmatch(
        r"[^\s@A-Z]+@[^\s@A-Z]+\.[a-z]+", str(row["email"])
    ):
        found.append(f"{row['email']!r} is no address in lower case")
    if row["born"] is not None:
        try:
            date.fromisoformat(str(row["born"]))
        except ValueError:
            found.append(f"{row['born']!r} is no date YYYY-MM-DD")
    return found


TOOLS: list[Any] = []
FUNCTIONS = [well_formed]


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else None
    with Machine.from_file(DEFINITION, model=model, functions=FUNCTIONS) as machine:
        turn = machine.run(ROWS)
        if turn.paused is None:
            print(f"{turn.outcome} in {turn.state}")
            return
        for row in turn.output:
            print(row)
        print("Your name, to sign it off; an empty line does not:", flush=True)
        by = sys.stdin.readline().strip()
        turn = machine.answer(turn.conversation_id, {"accepted": bool(by), "by": by or "nobody"})
        print(turn.text)


if __name__ == "__main__":
    main()
