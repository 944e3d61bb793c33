"""Code review with a linter as key result: what the model hands in counts when the linter has
nothing to say.

Run:  python examples/agents/code_review.py openai/gpt-4o-mini some_module.py
      llm-fsm run code_review --tools examples/agents/code_review.py --input @some_module.py

The linter here is Python's own compiler and forty lines over its syntax tree; source that is
reviewed is read, never run. `review` is a function of the host inside a state: it asks the state's
model by itself.
"""

import ast
import builtins
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from llm_fsm import Machine
from llm_fsm.events import KeyResultChecked

DEFINITION = Path(__file__).parents[2] / "fsm_definitions" / "code_review.json"
SAMPLE = "import os\n\ndef total(prices=[]):\n    try:\n        return sum(prices)\n    except:\n        return None\n"


def lint(source: Annotated[str, "The whole source of a module"]) -> list[str]:
    """Check Python source: one finding a line, none if there is nothing to be said."""
    try:
        tree = ast.parse(source)
        compile(tree, "source", "exec")
    except (SyntaxError, ValueError) as error:
        return [
            f"line {getattr(error, 'lineno', 1)}: does not compile: {getattr(error, 'msg', error)}"
        ]
    found = [*_faults(tree), *_unused_imports(tree)]
    return [f"line {line}: {words}" for line, words in sorted(found)]


def _faults(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield node.lineno, "a bare except catches even the wish to stop"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(
                isinstance(default, ast.List | ast.Dict | ast.Set) for default in node.args.defaults
            ):
                yield node.lineno, f"{node.name} keeps a mutable default between calls"
            if node.name in dir(builtins):
                yield node.lineno, f"{node.name} hides the builtin of that name"


def _unused_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = (alias.asname or alias.name).split(".")[0]
                if name not in used:
                    yield node.lineno, f"{name} is imported and not used"


def _names(source: str) -> set[str]:
    return {
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.name[0] != "_"
    }


async def review(ctx: Any) -> dict[str, Any]:
    """The work of the state `review`: the linter's findings, and one question to the model."""
    source = ctx.input if isinstance(ctx.input, str) else str((ctx.input or {}).get("source", ""))
    findings = lint(source)
    ctx.emit({"linter": len(findings)})
    said = await ctx.llm.chat(
        [
            {
                "role": "system",
                "content": "You review Python. Answer with a JSON list of faults in behaviour, [] if none.",
            },
            {"role": "user", "content": json.dumps({"source": source, "linter": findings})},
        ]
    )
    findings += [str(item) for item in json.loads(said)]
    return {
        "_transition": "repair" if findings else "approve",
        "source": source,
        "findings": findings,
    }


def lints(output: str) -> tuple[bool, str]:
    """The key result: nothing to be said by the linter."""
    found = lint(output)
    return not found, "; ".join(found)


def keeps_names(output: str, input: dict[str, Any]) -> tuple[bool, str]:
    """The key result: nothing that others import went away."""
    try:
        lost = _names(input["source"]) - _names(output)
    except SyntaxError as error:
        return False, f"does not compile: {error.msg}"
    return not lost, f"gone: {', '.join(sorted(lost))}" if lost else ""


TOOLS = [lint]
FUNCTIONS = [review, lints, keeps_names]


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else None
    source = Path(sys.argv[2]).read_text(encoding="utf-8") if len(sys.argv) > 2 else SAMPLE
    with Machine.from_file(DEFINITION, model=model, tools=TOOLS, functions=FUNCTIONS) as machine:
        turn = machine.run(source)
    for event in turn.events:
        if isinstance(event, KeyResultChecked):
            print("✓" if event.passed else "✗", event.name, event.reason)
    print(f"-- {turn.state}")
    print(turn.output["source"] if turn.state == "approved" else "")


if __name__ == "__main__":
    main()
