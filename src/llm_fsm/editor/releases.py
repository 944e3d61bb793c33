"""The releases of a folder, as the first page shows them: one line each."""

from __future__ import annotations

from llm_fsm._text import sha256_of
from llm_fsm.definition.subflows import document_of
from llm_fsm.documents.loader import load
from llm_fsm.documents.subflows import gather
from llm_fsm.editor.folder import Folder, beside_in
from llm_fsm.editor.models import ReleaseRow
from llm_fsm.errors import LLMFSMError
from llm_fsm.releases.file import Release, release_of
from llm_fsm.server.problems import Problem

_SHOWN = 12
"""Characters of an identity, by which two definitions are told apart."""


def release_row(folder: Folder, path: str) -> ReleaseRow:
    """Return the line of a release file. One that is at fault says why."""
    row = ReleaseRow(path=path, name=path, state="")
    try:
        release = release_of(folder.read(path).text, path)
        row.name = release.release
        row.state = _state(release)
        row.arms.append(_arm(folder, path, "stable", release.stable))
        if release.candidate is not None:
            row.arms.append(_arm(folder, path, "candidate", release.candidate))
    except (Problem, LLMFSMError) as error:
        row.state = folder.shortened(str(error))
    return row


def _state(release: Release) -> str:
    if release.stopped:
        return f"a guard has stopped it: {release.stopped}"
    if release.runs:
        return f"{100 * release.share:g} % of new conversations begin on the candidate"
    return "all new conversations begin on the stable definition"


def _arm(folder: Folder, path: str, arm: str, name: str) -> str:
    """Return an arm with its file and the beginning of its identity, as conversations have it."""
    place = folder.place(beside_in(path, name))
    flows = gather(load(place), file=place, registered={})
    return f"{arm} {name} {sha256_of(document_of(flows))[:_SHOWN]}"
