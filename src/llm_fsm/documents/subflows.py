"""Find and load the definitions that a machine calls, before anything runs.

A subflow names a registered definition, or a file in the folder tree of the calling file. Each is
loaded once. Its name in the machine is the registered name, or the path from the first file's
folder. A file that a registered file calls is named `name:path`. These names are stored with
conversations.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from llm_fsm._json import JsonMap, step
from llm_fsm._text import nearest
from llm_fsm.definition import json_source as source
from llm_fsm.definition.models import Definition
from llm_fsm.definition.subflows import MAX_DEPTH, Flow, Flows
from llm_fsm.documents.files import FilePath, beside, name_of, read_called
from llm_fsm.documents.loader import load_dict, load_text
from llm_fsm.errors import DefinitionError, Finding
from llm_fsm.lint import catalogue
from llm_fsm.lint.facts.subflows import Side, is_absolute, is_path, leads_out, mapping_fault
from llm_fsm.lint.rule import Fault, LintRule
from llm_fsm.lint.rules.subflows import flow_mapping, missing_flow, subflow_recursion

Registered = FilePath | JsonMap | Definition
"""A definition as a host may register it: a file, JSON data, or a definition."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """The origin of a definition. `file` None: from no file. `home` is the first file of its folder
    tree.

    `path`: from the folder of `home`; `prefix`: the prefix of its files' names.
    """

    name: str
    file: str | None = None
    home: str | None = None
    path: str = ""
    prefix: str = ""


def gather(
    definition: Definition,
    *,
    file: FilePath | None = None,
    registered: Mapping[str, Registered] | None = None,
) -> Flows:
    """Find a definition and all that it calls.

    Args:
        definition: The definition.
        file: The file that it was read from; None: relative paths cannot be called.
        registered: Further definitions, by the names that subflows call.

    Returns:
        The definitions by name.

    Raises:
        DefinitionError: A called definition does not exist, is wrong, calls itself, or nests deeper
            than `MAX_DEPTH`.
        ValueError: A registered value is no definition.
    """
    name = None if file is None else name_of(file)
    path = "" if name is None else posixpath.basename(name.replace("\\", "/"))
    search = _Search(registered or {})
    place = _Origin("", name, name, path)
    root = search.visit(definition, place, ())
    called = {name: flow for name, (flow, _) in search.found.items()}
    for flow, where in ((root, place), *search.found.values()):
        _check_mappings(flow, where, called)
    return Flows(root=root, called=called)


class _Search:
    """A depth-first search that loads each definition once."""

    def __init__(self, registered: Mapping[str, Registered]) -> None:
        self.registered = registered
        self.found: dict[str, tuple[Flow, _Origin]] = {}
        self.depths: dict[str, int] = {}

    def visit(self, definition: Definition, place: _Origin, chain: tuple[str, ...]) -> Flow:
        """Return one definition with all that it calls; `chain` are the names of its callers."""
        calls = {}
        here = (*chain, place.name or place.path or repr(definition.name))
        for state_id, state in definition.states.items():
            if state.kind != "subflow" or not state.flow:
                continue
            after, given = self.named(state.flow, place, state_id)
            calls[state_id] = after.name
            self.enter(after, given, place, state_id, here)
        return Flow(definition=definition, calls=calls)

    def enter(
        self,
        after: _Origin,
        given: Registered | None,
        place: _Origin,
        state_id: str,
        here: tuple[str, ...],
    ) -> None:
        """Follow one call. A definition that was found before is followed again, to limit the depth
        of every path.
        """
        way = " → ".join((*here, after.name))
        if after.name in here:
            message = f"state {state_id!r} calls what it is part of: {way}"
            hint = "lead back by a transition instead"
            raise _fault(place, state_id, subflow_recursion, message, hint)
        if len(here) > MAX_DEPTH:
            message = f"flows are nested deeper than {MAX_DEPTH}: {way}"
            hint = "let one flow call several after another instead"
            raise _fault(place, state_id, catalogue.RULES["flow-nesting"], message, hint)
        if self.depths.get(after.name, -1) >= len(here):
            return
        self.depths[after.name] = len(here)
        known = self.found.get(after.name)
        definition = (
            self.load(after, given, place, state_id) if known is None else known[0].definition
        )
        self.found[after.name] = self.visit(definition, after, here), after

    def named(self, flow: str, place: _Origin, state_id: str) -> tuple[_Origin, Registered | None]:
        """Return the origin of the definition that a state calls. Raises DefinitionError."""
        if flow in self.registered:
            given = self.registered[flow]
            file = None if isinstance(given, Definition | Mapping) else name_of(given)
            if file is None and not isinstance(given, Definition | Mapping):
                kind = type(given).__name__
                raise ValueError(
                    f"flows[{flow!r}] is a file, a definition or one as JSON data, not {kind}"
                )
            path = "" if file is None else posixpath.basename(file.replace("\\", "/"))
            return _Origin(flow, file, file, path, f"{flow}:"), given
        refused = partial(_fault, place, state_id, missing_flow)
        if not is_path(flow):
            guess = nearest(flow, self.registered)
            hint = (
                f"did you mean {guess!r}?"
                if guess
                else f"register it with flows={{{flow!r}: …}}, or name a file"
            )
            raise refused(f"no definition is registered under the name {flow!r}", hint)
        if is_absolute(flow):
            raise refused(f"{flow!r} is not a relative path", "name a file beside it")
        if place.home is None:
            hint = f"register it with flows={{{flow!r}: …}}, or load this definition from its file"
            raise refused(f"{flow!r} is a path, and this definition comes from no file", hint)
        path = posixpath.normpath(
            posixpath.join(posixpath.dirname(place.path), flow.replace("\\", "/"))
        )
        if leads_out(path):
            hint = "keep a machine's files in one folder tree"
            raise refused(f"{flow!r} leads out of the folder of {place.home}", hint)
        return _Origin(
            place.prefix + path, beside(place.home, path), place.home, path, place.prefix
        ), None

    def load(
        self, after: _Origin, given: Registered | None, place: _Origin, state_id: str
    ) -> Definition:
        """Load the definition of an origin. Raises DefinitionError."""
        match given:
            case Definition():
                return given
            case Mapping():
                return load_dict(given, file=after.name).definition
        file = after.file or ""
        try:
            text = read_called(file, after.home or file)
        except DefinitionError as error:
            [found] = error.findings
            message = f"{file!r} cannot be used: {found.message}"
            raise _fault(place, state_id, missing_flow, message, found.hint) from error
        return load_text(text, file=file).definition


def _check_mappings(flow: Flow, place: _Origin, flows: Mapping[str, Flow]) -> None:
    """Raise DefinitionError if a mapping sends a secret to a key that is not secret, or names an
    unknown key.
    """
    definition = flow.definition
    for state_id, name in flow.calls.items():
        called = flows[name].definition
        state = definition.states[state_id]
        for option, mapping, taker, giver in (
            ("input", state.input, called, definition),
            ("output", state.output, definition, called),
        ):
            for key, source_key in mapping.items():
                reason = mapping_fault(key, source_key, _side(taker), _side(giver))
                if reason is not None:
                    raise _fault(place, state_id, flow_mapping, *reason, option=option + step(key))


def _side(definition: Definition) -> Side:
    return Side(
        definition.name, None if definition.context_schema is None else definition.key_schemas
    )


def _fault(
    place: _Origin,
    state_id: str,
    rule: LintRule,
    message: str,
    hint: str | None,
    *,
    option: str = "flow",
) -> DefinitionError:
    pointer = f"/states{step(state_id)}/{option}"
    made = rule.finding(Fault(message, pointer, hint, "error"))
    return DefinitionError(
        [_located(replace(made, file=place.file or place.name or None), place.file)]
    )


def _located(found: Finding, file: str | None) -> Finding:
    """Return the finding with line and column, if its file can still be read."""
    if file is None:
        return found
    try:
        position = source.scan(read_called(file, file)).position(found.pointer)
    except (DefinitionError, source.SourceError):
        return found
    return replace(found, line=position.line, column=position.column)
