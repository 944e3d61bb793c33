"""Load a `*.test.json` file: to cases that can be played, or to everything that is wrong with it,
with lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from llm_fsm._json import JsonDict, JsonMap, is_list_of, list_at, pointer_of, without
from llm_fsm.definition import json_source as source
from llm_fsm.definition.models import Definition
from llm_fsm.definition.subflows import Flows
from llm_fsm.definition.validation import describe
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.files import FilePath, beside, name_of, read, stem_of
from llm_fsm.documents.loader import load_dict, load_text
from llm_fsm.documents.subflows import gather
from llm_fsm.errors import DefinitionError
from llm_fsm.testing.scenarios.checks import inconsistencies, plays_nothing, vocabulary_of
from llm_fsm.testing.scenarios.models import DIALOGUE_KEYS, Case, Suite, User, merged
from llm_fsm.testing.scenarios.parametrize import expanded, lacking, named_apart
from llm_fsm.testing.scenarios.problems import (
    CaseFileText,
    FileFault,
    SuiteError,
    in_order,
    meant,
    quoted,
)

ENDING = ".test.json"
"""End of the names of files of tests."""

M = TypeVar("M", bound=BaseModel)
_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One case to be played. `pointer`: its place; `setup`: its settings before the first
    message.
    """

    name: str
    case: Case
    pointer: str
    setup: JsonMap


@dataclass(frozen=True, kw_only=True)
class LoadedCases:
    """A loaded file of tests. `shared`: settings for all its cases; `definition_file`: None for an
    inline one; `registered`: the definitions of `flows`.
    """

    text: CaseFileText
    shared: Case
    users: Sequence[User]
    definition: Definition
    definition_file: str | None
    flows: Flows
    plays: tuple[Play, ...]
    registered: Mapping[str, Definition]

    @property
    def file(self) -> str:
        """The name of the file as you gave it."""
        return self.text.file


def read_suite(path: FilePath) -> LoadedCases:
    """Read the cases of a file.

    Args:
        path: The file.

    Returns:
        The cases, and the definition that they test.

    Raises:
        SuiteError: The file cannot be used. The error says everything that is wrong.
    """
    name = name_of(path) or ""
    try:
        text = read(name)
    except DefinitionError as error:
        [found] = error.findings
        raise SuiteError([FileFault(message=found.message, hint=found.hint, file=name)]) from error
    return suite_of(text, file=name)


def suite_of(
    text: str, *, file: str, drafts: bool = False, definition_file: str | None = None
) -> LoadedCases:
    """Read the cases of a text. `file` is the name in faults, and paths are relative to it.

    `drafts`: cases may have nothing to play yet. `definition_file`: the definition that they test,
    whichever the text names.

    Raises:
        SuiteError: The text cannot be used.
    """
    whole = CaseFileText(file=file, text=text)
    document = _document(whole)
    if "states" in document and "definition" not in document:
        said = (
            "this is a definition, not a file of tests, which names its definition and ends in"
            " .test.json"
        )
        hint = "to make tests of it: llm-fsm test --generate"
        raise SuiteError([whole.fault(said, hint=hint)])
    if definition_file is not None:
        document = {**document, "definition": definition_file}
    reader = _CaseReader(whole, document)
    suite, shared = reader.suite()
    plays = reader.plays(shared or Case(), with_users=suite is not None and bool(suite.users))
    definition, place = reader.definition()
    flows = None if definition is None else reader.flows(definition, place)
    if suite is not None and shared is not None and flows is not None:
        reader.check_names(flows, shared, plays)
    if not drafts and not reader.faults:
        reader.idle(plays)
    if reader.faults or suite is None or shared is None or definition is None or flows is None:
        raise SuiteError(in_order(reader.faults))
    return LoadedCases(
        text=reader.text,
        shared=shared,
        users=suite.users,
        definition=definition,
        definition_file=place,
        flows=flows,
        registered=reader.registered(),
        plays=tuple(plays),
    )


def _document(text: CaseFileText) -> JsonDict:
    """Return the object of a text.

    Raises:
        SuiteError: It is no JSON object.
    """
    try:
        found = text.places
    except source.SourceError as error:
        place = FileFault(
            message=error.message,
            hint=error.hint,
            file=text.file,
            line=error.line,
            column=error.column,
        )
        raise SuiteError([place]) from error
    if found.duplicates:
        raise SuiteError([_twice(duplicate, text.file) for duplicate in found.duplicates])
    if not isinstance(found.value, dict):
        raise SuiteError(
            [text.fault(f"a file of tests is one JSON object, not {describe(found.value)}")]
        )
    return found.value


def _twice(found: source.Duplicate, file: str) -> FileFault:
    """Make the fault of a key that one object has twice."""
    said = f"the key {quoted(found.key)} is repeated here, first in line {found.first.line}"
    line, column = found.position
    return FileFault(message=said, hint="keep one of them", file=file, line=line, column=column)


class _CaseReader:
    """Reads one document and collects all faults."""

    def __init__(self, text: CaseFileText, document: JsonDict) -> None:
        self.text = text
        self.document = document
        self.faults: list[FileFault] = []

    def fault(
        self, message: str, pointer: str, *, hint: str | None = None, at_key: bool = False
    ) -> None:
        self.faults.append(self.text.fault(message, pointer, hint=hint, at_key=at_key))

    # -- the form

    def suite(self) -> tuple[Suite | None, Case | None]:
        """Return the file without its cases, which may be tables, and its settings for all of
        them.
        """
        outer = dict(self.document)
        if isinstance(outer.get("cases"), list):
            outer["cases"] = []
        if isinstance(outer.get("table"), list):
            rows = outer.pop("table")
            outer = {**_first(outer, rows), "table": rows}
        of_file = {key: outer.pop(key) for key in Suite.known_keys() if key in outer}
        return self.valid(Suite, of_file, ""), self.valid(Case, outer, "")

    def plays(self, shared: Case, *, with_users: bool) -> Sequence[Play]:
        """Return every case of the file, and each row of a table as a case."""
        listed = [
            (f"/cases/{number}", case)
            for number, case in enumerate(list_at(self.document, "cases"))
        ]
        if shared.model_fields_set & {"steps", "turns", "start", "expect", "table"}:
            if listed:
                self.fault("a file has steps of its own or cases, not both", "/cases", at_key=True)
            of_case = Case.known_keys() | DIALOGUE_KEYS.keys()
            own = {key: self.document[key] for key in of_case if key in self.document}
            listed = [("", own)]
        plays: list[Play] = []
        for number, (pointer, case) in enumerate(listed, start=1):
            plays += self.rows(
                shared,
                case,
                pointer,
                f"case {number}" if pointer else stem_of(stem_of(self.text.file)),
            )
        if not plays and not with_users and not self.faults:
            self.fault(
                "there is no case in this file",
                "",
                hint='write "steps": [{"say": "…", "expect": "…"}]',
            )
        self.same_names(plays)
        return plays

    def idle(self, plays: Sequence[Play]) -> None:
        """Note cases with nothing to play."""
        for play in plays:
            if plays_nothing(play.case):
                said = "this case plays nothing"
                hint = 'write "steps": [{"say": "…", "expect": "…"}]'
                self.fault(said, f"{play.pointer}/steps", hint=hint)

    def rows(self, shared: Case, case: Any, pointer: str, default: str) -> Iterator[Play]:
        rows = None
        if isinstance(case, dict):
            rows = case.get("table")
        if rows == []:
            self.fault("the table has no rows", f"{pointer}/table")
            return
        if not rows or not is_list_of(rows, dict):
            found = self.valid(Case, case, pointer)
            if found is not None:
                yield self.play(shared, found, pointer, found.name or default)
            return
        wrong = list(lacking(case, rows))
        for inner, message in wrong:
            self.fault(message, pointer + inner, at_key="nowhere" in message)
        if wrong:
            return
        template = without(case, {"table"})
        made = [self.valid(Case, expanded(template, row), pointer) for row in rows]
        cases = [one for one in made if one is not None]
        names = named_apart([one.name or default for one in cases])
        yield from (
            self.play(shared, one, pointer, name) for one, name in zip(cases, names, strict=True)
        )

    def play(self, shared: Case, case: Case, pointer: str, name: str) -> Play:
        return Play(name=name, case=case, pointer=pointer, setup=merged(shared, case))

    def same_names(self, plays: Sequence[Play]) -> None:
        seen: dict[str, str] = {}
        for play in plays:
            if play.name in seen:
                first = self.text.position(seen[play.name]).line
                self.fault(
                    f"a case {play.name!r} stands in line {first} already",
                    f"{play.pointer}/name",
                    hint="rename one",
                )
            seen[play.name] = play.pointer

    def valid(self, model: type[M], value: object, pointer: str) -> M | None:
        """Return the value as a model; None if it does not fit, with its faults noted."""
        try:
            return model.model_validate(value)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self.note(detail, pointer)
            return None

    def note(self, detail: ErrorDetails, pointer: str) -> None:
        place = pointer + pointer_of(detail["loc"])
        context = detail.get("ctx", {})
        kind = detail["type"]
        name = _named(detail["loc"], "a case" if pointer else "the file")
        if kind == "unknown_key":
            key = context["key"]
            self.fault(
                f'unknown key "{key[:60]}"',
                f"{place}/{context['pointer']}",
                hint=meant(
                    key, [*context["known"], *(() if place else sorted(Suite.known_keys()))]
                ),
                at_key=True,
            )
        elif kind == "choice":
            self.fault(
                f'there is no event "{context["value"]}"',
                place,
                hint=meant(context["value"], context["known"]),
            )
        elif kind == "missing":
            self.fault(f'the key "{name}" is missing', place.rpartition("/")[0])
        elif kind == "literal_error" and context["expected"] == "True":
            self.fault(f"{name}: it can only be true, found {describe(detail['input'])}", place)
        elif kind == "too_short":
            self.fault(f"{name}: there must be at least one", place)
        elif kind == "literal_error":
            self.fault(
                f"{name}: expected one of {context['expected']}, found {describe(detail['input'])}",
                place,
            )
        elif kind == "value":
            self.fault(str(context["reason"]), place)
        elif kind in _EXPECTED:
            self.fault(
                f"{name}: expected {_EXPECTED[kind]}, found {describe(detail['input'])}", place
            )
        else:
            self.fault(f"{name}: {detail['msg'].replace('Input should', 'it must')}", place)

    def check_names(self, flows: Flows, shared: Case, plays: Sequence[Play]) -> None:
        """Note the faults that the definition, with those that it calls, makes impossible."""
        known = vocabulary_of(flows, [shared, *(play.case for play in plays)])
        wrong = list(inconsistencies(known, shared, "", shared=True))
        for play in plays:
            wrong += inconsistencies(known, play.case, play.pointer)
        for found in wrong:
            self.fault(found.message, found.pointer, hint=found.hint, at_key=found.at_key)

    # -- the definition

    def definition(self) -> tuple[Definition | None, str | None]:
        """Return the definition and its file."""
        given = self.document.get("definition")
        try:
            match given:
                case dict():
                    return load_dict(given).definition, None
                case str():
                    return self.from_file(given)
        except DefinitionError as error:
            self.refused(error, given)
        return None, None

    def flows(self, definition: Definition, place: str | None) -> Flows | None:
        """Return the definition with all that it calls."""
        try:
            file = self.text.file if place is None else place
            return gather(definition, file=file, registered=self.registered())
        except DefinitionError as error:
            self.refused(error, self.document.get("definition"))
        return None

    def registered(self) -> Mapping[str, Definition]:
        """Return the definitions that the file itself names. Raises DefinitionError."""
        given = self.document.get("flows")
        if not isinstance(given, dict):  # there are none, or the form was reported
            return {}
        whole = {name: one for name, one in given.items() if isinstance(one, dict)}
        return {name: load_dict(one).definition for name, one in whole.items()}

    def refused(self, error: DefinitionError, given: object) -> None:
        """Note why a definition cannot be used, at its place in its own file or in this one."""
        for found in error.findings:
            if found.level != "error":
                continue
            if found.line is not None and isinstance(given, str):
                self.faults.append(
                    FileFault(
                        message=found.message,
                        hint=found.hint,
                        file=found.file,
                        line=found.line,
                        column=found.column,
                    )
                )
            else:
                inner = "/definition"
                if isinstance(given, dict):
                    inner = f"/definition{found.pointer}"
                self.fault(
                    f"the definition cannot be used: {found.message}", inner, hint=found.hint
                )

    def from_file(self, given: str) -> tuple[Definition | None, str | None]:
        path = beside(self.text.file, given)
        if not os.path.lexists(path):
            shipped = definition_paths()
            if given not in shipped:
                self.fault(
                    f"there is no definition {given!r} beside this file",
                    "/definition",
                    hint=_near(path, shipped),
                )
                return None, None
            path = os.fspath(shipped[given])
        return load_text(read(path), file=path).definition, path


def _named(loc: tuple[int | str, ...], whole: str) -> str:
    """Name a place in a message."""
    if not loc:
        return whole
    if isinstance(loc[-1], int):
        return f"item {loc[-1] + 1} of {_named(loc[:-1], whole)}"
    return loc[-1]


def _first(outer: JsonDict, rows: list[Any]) -> JsonDict:
    """Return the outer object with the values of its first row."""
    if not rows or not isinstance(rows[0], dict):
        return outer
    inner: JsonDict = expanded(outer, rows[0])
    return inner


def _near(path: str, shipped: JsonMap) -> str:
    folder = os.path.dirname(path) or "."
    try:
        beside_it = [
            name
            for name in sorted(os.listdir(folder))
            if name.endswith(".json") and not name.endswith(ENDING)
        ]
    except OSError:
        beside_it = []
    return meant(os.path.basename(path), [*beside_it, *shipped])
