"""The release file: two definitions of one name, the share of the newer one, and its guards."""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from llm_fsm._json import JsonDict, pointer_of
from llm_fsm.conditions.compiler import compile_rule
from llm_fsm.definition import json_source as source
from llm_fsm.definition.schema import docstrings
from llm_fsm.definition.validation import describe
from llm_fsm.documents.files import FilePath, beside, read
from llm_fsm.errors import ConfigurationError, DefinitionError
from llm_fsm.turn.migration import read_change

ENDING = ".release.json"
"""The end of the names of release files."""
OUTCOME = "outcome:"
"""The beginning of the figure of an outcome: the share of conversations that ended with it."""
SHARES = ("error_share", "handover_share", "missed_share")
COUNT = "errors"
"""The figure that is a number of events, and no share of conversations."""


def _rule(rule: Any) -> Any:
    compile_rule(rule)
    return rule


Name = Annotated[str, Field(pattern=r"^[\w.-]{1,100}$")]
FileName = Annotated[str, Field(pattern=r"^[^/\\\x00]+\.json$")]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ReleaseGuard(_Form):
    """A limit for the candidate. When it is broken, no new conversation begins on the candidate."""

    figure: Annotated[str, Field(pattern=rf"^({'|'.join((COUNT, *SHARES, OUTCOME))}[\w-]+)$")]
    """A figure is `errors`, `error_share`, `handover_share`, `missed_share`, or `outcome:` with the
    word of an outcome."""
    worse_by: Annotated[float, Field(gt=0, le=1)] | None = None
    """The most by which the share may be worse than that of the stable definition, 0 to 1."""
    above: Annotated[float, Field(ge=0)] | None = None
    """The highest value that the candidate may have."""
    after: Annotated[int, Field(ge=1)] = 1
    """Conversations of the candidate before which the guard does not judge."""

    @model_validator(mode="after")
    def _has_one_limit(self) -> ReleaseGuard:
        if (self.worse_by is None) == (self.above is None):
            raise ValueError("a guard has one limit: give worse_by or above")
        if self.figure == COUNT and self.worse_by is not None:
            raise ValueError("errors is a number of events and no share: give above")
        return self


class Release(_Form):
    """Which definition new conversations begin on.

    Both definitions are files beside the release, and have one name.
    """

    release: Name
    """The name of the release: letters, digits, `_`, `-` and `.`."""
    stable: FileName
    """The file of the definition for everybody."""
    candidate: FileName | None = None
    """The file of the newer definition."""
    share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The part of new conversations that begins on the candidate, from 0 to 1."""
    by: Annotated[str, Field(pattern=r"^(metadata|context)\..+")] | None = None
    """The value that chooses the definition: a label such as `metadata.user`, or a key such as
    `context.plan`. Without a value it is the conversation's id."""
    where: Annotated[JsonValue, AfterValidator(_rule)] = True
    """JsonLogic over `metadata` and `context`: which new conversations take part."""
    salt: str = ""
    """A new text shuffles who gets the candidate, and begins the figures anew."""
    map: dict[str, dict[str, str | None]] = {}
    """The renamed names from stable to candidate: `states` and `keys`, old name to new one."""
    guards: tuple[ReleaseGuard, ...] = ()
    """Limits that stop the candidate."""
    previous: FileName | None = None
    """The file that was stable before the last promotion."""
    stopped: str = ""
    """Why a guard has set the share to 0."""

    @property
    def runs(self) -> bool:
        """True if new conversations may begin on the candidate."""
        return self.candidate is not None and self.share > 0

    def back_map(self) -> JsonDict:
        """Return the map from the candidate to the stable definition."""
        change = read_change(self.map)
        states = {new: old for old, new in change.states.items()}
        return {"states": states, "keys": {new: old for old, new in change.keys.items() if new}}


def release_of(text: str, file: str) -> Release:
    """Read the text of a release file.

    Args:
        text: The JSON text. Comments and trailing commas are allowed.
        file: The name of the file, for messages.

    Raises:
        ConfigurationError: It is no release. The message has the place and what would be right.
    """
    try:
        scan = source.scan(text)
    except source.SourceError as error:
        raise ConfigurationError(f"{file}:{error.line}:{error.column}: {error}") from error
    try:
        return Release.model_validate(scan.value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    pointer = pointer_of(first["loc"])
    line, column = scan.position(pointer)
    said = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    texts = {**docstrings(Release), **docstrings(ReleaseGuard)}
    meant = [f". {texts[key]}" for key in map(str, first["loc"]) if key in texts][-1:]
    name = ".".join(map(str, first["loc"])) or "the file"
    if first["type"] != "missing":
        name += f" is {describe(first['input'])}"
    raise ConfigurationError(f"{file}:{line}:{column}: {name}: {said}{''.join(meant)}")


def read_release(path: FilePath) -> Release:
    """Read a release file.

    Raises:
        ConfigurationError: It cannot be read, or is no release.
    """
    try:
        return release_of(read(path), os.fspath(path))
    except DefinitionError as error:
        raise ConfigurationError(str(error)) from error


def stable_file(path: FilePath) -> str:
    """Return the path of the stable definition of a release file.

    Without the file it is `NAME.json` of `NAME.release.json`, whose release the store may have.

    Raises:
        ConfigurationError: There is neither, or the file is no release.
    """
    place = os.fspath(path)
    own = place.removesuffix(ENDING) + ".json"
    if not os.path.exists(place) and os.path.exists(own):
        return own
    return beside(place, read_release(place).stable)


def promoted(release: Release) -> JsonDict:
    """Return the changes of the file by which the candidate becomes the stable definition.

    Raises:
        ConfigurationError: There is no candidate.
    """
    if release.candidate is None:
        raise ConfigurationError(f"the release {release.release!r} has no candidate to promote")
    return {
        "stable": release.candidate,
        "candidate": None,
        "share": 0,
        "previous": release.stable,
        "stopped": None,
    }


def taken_back(release: Release) -> JsonDict:
    """Return the changes of the file by which no new conversation begins on the candidate.

    A candidate that was promoted becomes the candidate again.
    """
    if release.candidate is not None or release.previous is None:
        return {"share": 0}
    return {"stable": release.previous, "candidate": release.stable, "share": 0, "previous": None}
