"""Primitives for your own loop: a map of states, and its description for a model.

You write the loop. `FSM` knows the allowed moves, and a `ToolRegistry` runs the calls.
`generate_orchestrator_guide` and `tools_to_google_ai_schema` describe both to a model. Nothing here
calls a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_fsm._json import JsonDict
    from llm_fsm.tools.registry import ToolRegistry


class FSM:
    """A table of states, and the current one.

    Args:
        states: Id of a state to the ids of the states that may follow it.
        initial_state: The state to begin in.
        terminal_states: The states that end the work; None means the states that nothing follows.

    Raises:
        ValueError: `states` lacks a state that is named.

    Example:
        >>> fsm = FSM({"draft": ["review"], "review": ["draft", "end"], "end": []}, "draft", ["end"])
        >>> fsm.transition("review")
        'review'
        >>> fsm.get_next_states()
        ['draft', 'end']
    """

    def __init__(
        self,
        states: Mapping[str, Sequence[str]],
        initial_state: str,
        terminal_states: Iterable[str] | None = None,
    ) -> None:
        self.states: dict[str, list[str]] = {}
        for name, following in states.items():
            if isinstance(following, str):
                raise ValueError(f"the states after {name!r} are a list; write [{following!r}]")
            self.states[name] = list(following)
        ends = [name for name, following in self.states.items() if not following]
        self.terminal_states = ends if terminal_states is None else list(terminal_states)
        named = [initial_state]
        for following in self.states.values():
            named += following
        for name in self.terminal_states:
            # An end needs no list of its own, but one list leads there, or it is a typo.
            if name in named:
                self.states.setdefault(name, [])
        for name in (*named, *self.terminal_states):
            if name not in self.states:
                raise ValueError(
                    f"there is no state {name!r}; the states are {_listed(self.states)}"
                )
        self.initial_state = initial_state
        self._current = initial_state

    @property
    def current_state(self) -> str:
        """The state that you are in."""
        return self._current

    def get_next_states(self) -> list[str]:
        """Return the states that may follow the current one.

        Returns:
            Their ids.
        """
        return list(self.states[self._current])

    def transition(self, next_state: str) -> str:
        """Move to a state.

        Args:
            next_state: One of `get_next_states()`.

        Returns:
            The new current state.

        Raises:
            ValueError: The move is not allowed; the message lists the allowed ones. The state
                stays.
        """
        allowed = self.states[self._current]
        if next_state not in allowed:
            raise ValueError(
                f"no transition from {self._current!r} to {next_state!r}; allowed: {_listed(allowed)}"
            )
        self._current = next_state
        return next_state

    def is_terminal(self) -> bool:
        """Return true in a terminal state.

        Returns:
            True if the current state is terminal.
        """
        return self._current in self.terminal_states

    def reset(self) -> None:
        """Go back to the initial state."""
        self._current = self.initial_state


def generate_orchestrator_guide(fsm: FSM, tools: ToolRegistry) -> str:
    """Describe the current state, the states that may follow, and the tools that can be called now.

    Args:
        fsm: The map of states.
        tools: The tools; one with a `scope` is listed only in the states of its scope.

    Returns:
        Lines of text for a system prompt.
    """
    following = fsm.get_next_states()
    lines = [f"Current State: {fsm.current_state}", f"Available Next States: {_listed(following)}"]
    if fsm.is_terminal():
        lines.append("This is a terminal state: the work is done.")
    usable = tools.specs(fsm.current_state)
    lines.append("Available Tools:" if usable else "Available Tools: none")
    lines += [
        f"- {spec.name}: {' '.join(spec.description.split())}".rstrip(": ") for spec in usable
    ]
    return "\n".join(lines)


def tools_to_google_ai_schema(tools: ToolRegistry) -> list[JsonDict]:
    """Return the tools as `GenerateContentConfig(tools=…)` of google-genai takes them.

    Args:
        tools: The tools.

    Returns:
        A list with one object, {"function_declarations": […]}; an empty list if there are no tools.
    """
    return tools.schemas("google")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
