"""A text beside another one: what the change means, and which lines differ."""

from __future__ import annotations

from difflib import unified_diff

from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.documents.diff import diff
from llm_fsm.documents.loader import load_text
from llm_fsm.editor.checked import kind_of_value
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.history import committed
from llm_fsm.editor.models import ChangeRow, DiffAnswer, DiffBody
from llm_fsm.errors import DefinitionError


def compared(body: DiffBody, folder: Folder) -> DiffAnswer:
    """Compare a text with another file, another text, or a commit.

    Args:
        body: The text, and what to compare it with.
        folder: The folder.

    Returns:
        The difference. `changes` is None if one of the texts cannot run.

    Raises:
        Problem: The other file cannot be read.
    """
    if body.before is not None:
        against, before = "before", body.before
    elif body.other is not None:
        against, before = body.other, folder.read(body.other).text
    else:
        against = body.commit
        found = committed(folder.place(body.path), against)
        if found is None:
            reason = "this file is in no commit yet"
            return DiffAnswer(against=against, before=None, unified="", changes=None, reason=reason)
        before = found
    names = (f"{body.path} ({against})", body.path)
    lines = unified_diff(before.splitlines(True), body.text.splitlines(True), *names)
    answer = DiffAnswer(against=against, before=before, unified="".join(lines), changes=None)
    try:
        kinds = {kind_of_value(parse(text), body.path) for text in (before, body.text)}
        if kinds != {"definition"}:
            answer.reason = "only definitions are compared by meaning"
            return answer
        place = folder.place(body.path)
        old, new = (load_text(text, file=place).definition for text in (before, body.text))
    except (DefinitionError, SourceError) as error:
        answer.reason = f"one of the two cannot run, so they are compared as text: {error}"
        return answer
    answer.changes = [ChangeRow.model_validate(one) for one in diff(old, new)]
    return answer
