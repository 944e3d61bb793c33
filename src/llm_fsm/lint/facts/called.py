"""The definitions that a document's subflows call, as far as they can be read: what they take and give."""

from __future__ import annotations

from collections.abc import Mapping

from llm_fsm.lint.document import Placed, Subject
from llm_fsm.lint.facts.subflows import Side, is_absolute, is_path


def called(subject: Subject) -> Mapping[str, Subject]:
    """Id of a subflow state to the definition in the file that it names; made once."""
    return subject.once(_called)


def _called(subject: Subject) -> Mapping[str, Subject]:
    found: dict[str, Subject] = {}
    for name, state in subject.states.items():
        flow = state.value.get("flow")
        if subject.flow is None or not isinstance(flow, str) or subject.kind_of(name) != "subflow":
            continue
        document = subject.flow(flow, None).document if is_path(flow) and not is_absolute(flow) else None
        if document is not None:
            found[name] = Subject(Placed("", document))
    return found


def side(subject: Subject) -> Side:
    """What a mapping finds on one side of a call."""
    name = subject.root.value.get("name")
    return Side(name if isinstance(name, str) else "", subject.keys)

