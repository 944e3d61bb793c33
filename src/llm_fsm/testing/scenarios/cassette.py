"""Recorded replies of the cases of one file: JSON Lines beside it, one reply a line, with a head
and an end.

    {"cassette": 1, "definition": "order", "sha256": "…"} {"case": "pickup", "step": 1, "state":
    "choose", "said": "…", "prompt": {"system": "…", "user": {…}}, "reply": {…}} {"end": 1}

`said` and the members of `prompt` are beginnings of SHA-256 sums: of the user's message, and of the
prompt's sections. No message, key or header is written. If a reply repeats a secret value of the
conversation, the line refers to the user's message in the test file (`⟦say 1 10 14⟧`). Otherwise it
has other digits and letters in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct, ValidationError, convert, structs, to_builtins

from llm_fsm._json import JsonDict, JsonMap, TextMap, json_text
from llm_fsm._text import sha256_of
from llm_fsm.definition.models import Definition
from llm_fsm.documents.files import read_replies, write
from llm_fsm.errors import os_reason
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplyForm
from llm_fsm.testing.scenarios.loader import ENDING
from llm_fsm.testing.scenarios.problems import FileFault, SuiteError
from llm_fsm.testing.scenarios.redaction import disguised

FORMAT = 1
_SECTION = re.compile(r"<([a-z_]+)>(.*?)</\1>", re.DOTALL)
_SAID = re.compile(r"⟦say (\d+) (\d+) (\d+)⟧")
_DIGITS = 12

Prompt = Mapping[str, TextMap]


class CassetteEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recorded reply, with the step and prompt that it answers. `step` 0 is the start.

    `sha256`: of the definition that it was recorded with; empty: the cassette's.
    """

    case: str
    step: int
    state: str
    said: str
    prompt: Prompt
    reply: ModelReply
    sha256: str = ""
    form: ReplyForm = "object"

    def to_json(self) -> str:
        """Return the entry as one line."""
        return json.dumps(to_builtins(self), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassette:
    """All recorded replies of one file. `sha256`: of the definition that it was recorded with."""

    definition: str
    sha256: str
    entries: tuple[CassetteEntry, ...] = ()
    file: str = ""

    def of(self, case: str) -> list[CassetteEntry]:
        """Return the replies of a case, in order."""
        return [entry for entry in self.entries if entry.case == case]

    def text(self) -> str:
        """Return the file."""
        head = {"cassette": FORMAT, "definition": self.definition, "sha256": self.sha256}
        lines = [
            json.dumps(head),
            *(entry.to_json() for entry in self.entries),
            json.dumps({"end": len(self.entries)}),
        ]
        return "\n".join(lines) + "\n"


def place_of(file: str) -> str:
    """Return the path of the cassette of a file of tests."""
    return f"{file.removesuffix(ENDING).removesuffix('.json')}.cassette.jsonl"


def digest(text: str) -> str:
    """Return the beginning of a text's SHA-256."""
    return sha256_of(text)[:_DIGITS]


def prompt_of(request: LLMRequest) -> Prompt:
    """Return the sums of a prompt's sections, by the role of the message. The key "" is for text
    between sections.
    """
    found = {}
    for number, message in enumerate(request.messages):
        name = message.role if message.role not in found else f"{message.role} {number}"
        sections = {part[1]: digest(part[2]) for part in _SECTION.finditer(message.content)}
        rest = digest(
            _SECTION.sub("", message.content) + json.dumps(message.to_dict().get("tool_calls"))
        )
        found[name] = {**sections, "": rest}
    return found


def read_cassette(path: str, definition: Definition) -> Cassette | None:
    """Read the cassette of this path; None if there is no file.

    Raises:
        SuiteError: The file is no cassette, is cut off, or was recorded with another definition.
            The error has the line.
    """
    try:
        lines = read_replies(path).decode().split("\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise _fault(
            path, 1, "this is no cassette: it is not UTF-8", "record again with --record"
        ) from error
    except OSError as error:
        reason = os_reason(error)
        raise SuiteError(
            [FileFault(message=f"the cassette cannot be read: {reason}", file=path)]
        ) from error
    documents = [
        _document(line, number, path) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    again = "record again with --record"
    head = documents[0] if documents else {}
    if head.get("cassette") != FORMAT:
        raise _fault(path, 1, "this is no cassette", again)
    if head.get("definition") != definition.name:
        said = f"this cassette was recorded with the definition {head.get('definition')!r}"
        raise _fault(path, 1, f"{said}, and the tests are of {definition.name!r}", again)
    last = documents[-1]
    if last.get("end") != len(documents) - 2:
        raise _fault(path, len(documents), "the recording was cut off: its end is missing", again)
    entries = tuple(
        _entry(item, number, path) for number, item in enumerate(documents[1:-1], start=2)
    )
    return Cassette(
        definition=definition.name, sha256=str(head.get("sha256")), entries=entries, file=path
    )


def _fault(path: str, line: int, message: str, hint: str | None = None) -> SuiteError:
    return SuiteError([FileFault(message=message, hint=hint, file=path, line=line, column=1)])


def _document(line: str, number: int, path: str) -> JsonDict:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _fault(
            path, number, "the recording was cut off or is damaged: this line is not JSON"
        ) from error
    if not isinstance(found, dict):
        raise _fault(path, number, "each line of a cassette is one JSON object")
    return found


def _entry(item: JsonMap, number: int, path: str) -> CassetteEntry:
    try:
        return convert(item, CassetteEntry)
    except ValidationError as error:
        raise _fault(
            path, number, "this line is no recorded reply", "record again with --record"
        ) from error


def write_cassette(path: str, cassette: Cassette) -> None:
    """Write the file at once, so that a crash leaves the old one.

    Raises:
        OSError: The file cannot be written.
    """
    write(path, cassette.text().encode(errors="backslashreplace"))


def without(secrets: Collection[str], said: Sequence[str], entry: CassetteEntry) -> CassetteEntry:
    """Return the entry with references to the user's messages, or with other characters, in place
    of secrets.
    """
    reply = entry.reply

    def clean(text: str) -> str:
        for secret in sorted(secrets, key=len, reverse=True):
            for written in {secret, json.dumps(secret)[1:-1], json_text(secret)[1:-1]}:
                text = text.replace(written, _reference(secret, said))
        return text

    calls = tuple(
        structs.replace(call, arguments=clean(call.arguments)) for call in reply.tool_calls
    )
    return structs.replace(
        entry, reply=structs.replace(reply, text=clean(reply.text), tool_calls=calls)
    )


def _reference(secret: str, said: Iterable[str]) -> str:
    for number, text in enumerate(said):
        start = text.find(secret)
        if start >= 0:
            return f"⟦say {number} {start} {start + len(secret)}⟧"
    return disguised(secret)


def restored(reply: ModelReply, said: Sequence[str]) -> ModelReply:
    """Return the reply with the user's text in place of references, escaped inside JSON."""

    def whole(text: str) -> str:
        return _SAID.sub(lambda found: _quoted(said, found), text)

    calls = tuple(
        structs.replace(call, arguments=whole(call.arguments)) for call in reply.tool_calls
    )
    return structs.replace(reply, text=whole(reply.text), tool_calls=calls)


def _quoted(said: Sequence[str], found: re.Match[str]) -> str:
    step, start, end = (int(part) for part in found.groups())
    text = ""
    if step < len(said):
        text = said[step][start:end]
    return json_text(text)[1:-1]
