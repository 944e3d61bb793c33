"""Names of tools that providers refuse, and names that are taken."""

from __future__ import annotations

import re
from collections.abc import Iterable

from llm_fsm._json import TextMap, step
from llm_fsm.definition.names import MEMORY_TOOLS, REPLY_TOOL
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.rules.format.characters import seen_as

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that OpenAI and most other providers take."""
_STRICT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""Names that Google takes, too."""
_LONGEST = 64


@lint_rule("S128", "error", at_key=True, blocks=False)
def bad_tool_name(document: Document) -> Faults:
    """A tool has a name that providers refuse.

    Why it is bad:
    A provider refuses the whole request because of one name. In every state with that tool, no
    message is answered. Names are 1 to 64 ASCII letters, digits, `_` and `-`. Google also refuses
    names that begin with a digit or `-`: a warning.

    Example:
        "tools": {"look up": {"registered": "look_up"}},
        "states": {"find": {"kind": "task", "purpose": "Find it", "tools": ["look up"],
                            "key_results": [{"name": "found", "description": "It was found"}]}}

    Fix:
    Rename the tool. `registered` or `tool` may keep the other name.
    """
    for name in document.root.at("tools").value:
        place = "/tools" + step(name)
        if _NAME.fullmatch(name) is None:
            yield Fault(
                f"no provider takes a tool called {quoted(name[:_LONGEST])}",
                pointer=place,
                hint="names of tools are 1 to 64 ASCII letters, digits, _ and -",
            )
        elif _STRICT_NAME.fullmatch(name) is None:
            yield Fault(
                f"Google takes no tool called {quoted(name)}",
                pointer=place,
                hint="begin its name with a letter or _",
                level="warning",
            )


@lint_rule("S129", "error", blocks=False)
def taken_tool_name(document: Document) -> Faults:
    """A tool has the name of a built-in one.

    Why it is bad:
    A state with `"memory": true` has tools of the working memory. Providers refuse two tools of one
    name, and yours is never called. `reply` is the function by which some models are asked for a
    reply: a warning.

    Example:
        "tools": {"get_memory": {"registered": "get_memory"}},
        "states": {"find": {"kind": "task", "purpose": "Find it", "memory": true,
                            "tools": ["get_memory"],
                            "key_results": [{"name": "found", "description": "It was found"}]}}

    Fix:
    Rename the tool. `registered` may keep the name.
    """
    taken = {seen_as(name): name for name in MEMORY_TOOLS}
    for state in document.states.values():
        if state.get("memory") is True:
            yield from _in_memory(state.texts("tools"), taken)
    for name in document.root.at("tools").value:
        if seen_as(name) == REPLY_TOOL:
            yield Fault(
                f"a tool called {quoted(name)} is mixed up with the reply itself",
                pointer="/tools" + step(name),
                hint="choose a word for what the tool does",
                level="warning",
            )


def _in_memory(listed: Iterable[tuple[str, str]], taken: TextMap) -> Faults:
    for pointer, name in listed:
        built_in = taken.get(seen_as(name))
        if built_in is not None:
            yield Fault(
                f"the working memory of this state has a tool {quoted(built_in)}, "
                f"so {quoted(name)} is never called",
                pointer=pointer,
                hint="give your tool another name",
            )
