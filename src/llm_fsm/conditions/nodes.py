"""The compiled parts of a rule, and the functions that combine them.

A part is a closure over the data in scope and the meter. In the body of a loop, the data is the
element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from llm_fsm._json import step as step_to
from llm_fsm.conditions.coercion import Meter, OperatorFault
from llm_fsm.conditions.operators import ABSENT, OPERATIONS, SLOT
from llm_fsm.errors import hinted

Run = Callable[[Any, Meter], Any]


class ConditionError(ValueError):
    """A rule that cannot be compiled, or not be evaluated for some data.

    Attributes:
        reason: The fault.
        pointer: JSON pointer, inside the rule, of the faulty part; "" is the rule itself. For an
            operator, it ends in the operator's key.
        hint: A way to fix it, if there is a guess.
    """

    def __init__(self, reason: str, pointer: str = "", hint: str | None = None) -> None:
        self.reason = reason
        self.pointer = pointer
        self.hint = hint
        place = f" (at {pointer})" if pointer else ""
        super().__init__(hinted(f"{reason}{place}", hint))


class Node(NamedTuple):
    """One compiled part of a rule.

    `operator` is "" for literals and lists. `name` is the literal name that a `var` reads. `size`
    counts operators. `reads` and `reads_unknown` are as in `CompiledRule`.
    """

    run: Run
    operator: str = ""
    arguments: Nodes = ()
    literal: Any = ABSENT
    name: str | None = None
    size: int = 0
    reads: frozenset[str] = frozenset()
    reads_unknown: bool = False


Nodes = tuple[Node, ...]
"""The compiled arguments of an operation."""


class RulePlace(NamedTuple):
    """The compiler's place in a rule.

    `inside`: in the body of a loop, in which names read the element.
    """

    pointer: str = ""
    depth: int = 1
    inside: bool = False

    def under(self, step: str | int) -> RulePlace:
        """Step one level down: into an operator, a list or an object."""
        return RulePlace(self.pointer + step_to(step), self.depth + 1, self.inside)

    def argument(self, index: int | None, *, inside: bool) -> RulePlace:
        """Step to an operator's argument, on the same level. None: the argument that has no list
        around it.
        """
        pointer = self.pointer if index is None else self.pointer + step_to(index)
        return RulePlace(pointer, self.depth, self.inside or inside)


def constant(value: Any) -> Node:
    """Make the node of a literal."""

    def run(_data: Any, _meter: Meter) -> Any:
        return value

    return Node(run, "", (), value)


NULL: Final = constant(None)


def joined(
    run: Run,
    operator: str,
    nodes: Nodes,
    *,
    name: str | None = None,
    reads: Iterable[str] = (),
    reads_unknown: bool = False,
) -> Node:
    """Make a node that reads what its arguments read, and these names."""
    names = frozenset(reads)
    size = 1
    for node in nodes:
        size += node.size
        if node.reads:
            names = names | node.reads if names else node.reads
        reads_unknown = reads_unknown or node.reads_unknown
    return Node(run, operator, nodes, ABSENT, name, size, names, reads_unknown)


def guarded(compute: Run, operator: str, place: RulePlace) -> Run:
    """Wrap a closure so that its faults become errors with a place."""

    def run(data: Any, meter: Meter) -> Any:
        try:
            return compute(data, meter)
        except OperatorFault as fault:
            raise ConditionError(f'"{operator}": {fault.reason}', place.pointer) from fault

    return run


def list_of(nodes: Nodes, place: RulePlace) -> Node:
    """Make the node of a list, which may contain operations."""
    if all(node.literal is not ABSENT for node in nodes):
        return constant([node.literal for node in nodes])
    runs = [node.run for node in nodes]

    def run(data: Any, meter: Meter) -> Any:
        meter.build(SLOT * len(runs))
        return [part(data, meter) for part in runs]

    return joined(guarded(run, "[]", place), "", nodes)


def call_of(nodes: Nodes, operator: str, place: RulePlace) -> Node:
    """Make the node of an operator of the table."""
    operation = OPERATIONS[operator]
    runs = [node.run for node in nodes[: operation.most]]

    def run(data: Any, meter: Meter) -> Any:
        return operation.call(meter, *[part(data, meter) for part in runs])

    return joined(guarded(run, operator, place), operator, nodes)
