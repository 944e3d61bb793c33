"""Research and write: tools, working memory, a summary, and key results checked by rules, a
function and a judge.

Run:  python examples/agents/research.py openai/gpt-4o-mini "How do lighthouses save power?"
      llm-fsm run research --tools examples/agents/research.py --input "How do lighthouses save
      power?"

The search is over three texts in this file, so that the example needs no network but the model's.
"""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

from llm_fsm import Machine, ToolRegistry
from llm_fsm.events import AttemptFailed

DEFINITION = Path(__file__).parents[2] / "fsm_definitions" / "research.json"
LIBRARY = {
    "led-2019": "Between 2009 and 2019 most lighthouses of the northern coast changed from halogen to LED lamps. "
    "An LED lamp of 60 watts replaces a halogen lamp of 1000 watts.",
    "solar-2021": "On islands without mains, solar panels of 400 watts charge the batteries of the light by day.",
    "fog-2015": "The fog horns were switched off in 2015; ships have radar.",
}

TOOLS = ToolRegistry()


@TOOLS.register(parallel=True)
def search(words: Annotated[str, "What to look for"]) -> list[dict[str, str]]:
    """Find documents by words: the id and the beginning of each."""
    wanted = set(re.findall(r"\w{3,}", words.lower()))
    hits = {
        key: len(wanted & set(re.findall(r"\w{3,}", f"{key} {text}".lower())))
        for key, text in LIBRARY.items()
    }
    best = sorted((key for key, hit in hits.items() if hit), key=lambda key: -hits[key])
    return [{"id": key, "begins": LIBRARY[key][:60]} for key in best]


@TOOLS.register(parallel=True)
def read(id: Annotated[str, "Id of a document, as the search gave it"]) -> str:
    """Read a document."""
    if id not in LIBRARY:
        raise ValueError(f"there is no document {id!r}; search gives the ids")
    return LIBRARY[id]


def sourced(output: Any) -> tuple[bool, str]:
    """The check of `gather`: findings with an answer name a document of the library."""
    if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
        return False, "the output is no JSON list of findings"
    wrong = [
        str(item.get("source"))
        for item in output
        if item.get("answer") and item.get("source") not in LIBRARY
    ]
    return not wrong, f"there is no document {', '.join(wrong)}" if wrong else ""


def cites(output: Any, input: Any) -> tuple[bool, str]:
    """The check of `write`: the sources in square brackets are those of the findings."""
    wanted = {item["source"] for item in input if item.get("answer")}
    found = set(re.findall(r"\[([\w-]+)\]", str(output)))
    if found == wanted:
        return True, ""
    return False, f"cited are {sorted(found)}, the findings stand on {sorted(wanted)}"


FUNCTIONS = [sourced, cites]


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else None
    question = sys.argv[2] if len(sys.argv) > 2 else "How do lighthouses save power?"
    with Machine.from_file(DEFINITION, model=model, tools=TOOLS, functions=FUNCTIONS) as machine:
        turn = machine.run(question)
    for event in turn.events:
        if isinstance(event, AttemptFailed):
            print(
                f"{event.state}, attempt {event.attempt}: {json.dumps(event.failures, ensure_ascii=False)}"
            )
    print(turn.output if turn.state == "done" else f"no article: {turn.outcome} in {turn.state}")


if __name__ == "__main__":
    main()
