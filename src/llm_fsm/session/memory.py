"""Working memory: ten numbered buckets of text, and the background of the work.

Both are frozen values; every change gives a new value. The model reaches the buckets by the tools
in `SPECS`. `call` performs such a tool call.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from llm_fsm._json import JsonDict, JsonMap, filled, json_text, read
from llm_fsm._text import nearest
from llm_fsm.conditions.coercion import is_whole
from llm_fsm.errors import UnreadableError
from llm_fsm.session.messages import ToolSpec
from llm_fsm.session.values import ValueFault, to_json_value

BUCKETS = 10
MAX_BUCKET = 4000
"""Characters that one bucket may hold."""

MAX_BACKGROUND = 16_000
"""Characters that the background may have as JSON."""


class MemoryFault(ValueError):
    """The memory cannot hold this. The message says why, and what would be right."""


class Memory(Struct, frozen=True):
    """Ten buckets of text, numbered 0 to 9; an empty one is ""."""

    buckets: tuple[str, ...] = ("",) * BUCKETS

    def set(self, index: int, content: str) -> Memory:
        """Replace the content of a bucket.

        Raises:
            MemoryFault: The number, the type or the length is wrong. Nothing is ever cut.
        """
        number = _index(index)
        if not isinstance(content, str):
            raise MemoryFault(f"the content is text, not {type(content).__name__}")
        if not _is_text(content):
            raise MemoryFault(
                "the content contains half of a surrogate pair, which is not a character"
            )
        if len(content) > MAX_BUCKET:
            raise MemoryFault(
                f"bucket {number} holds at most {MAX_BUCKET} characters, and this would be "
                f"{len(content)}; "
                "shorten it, or use another bucket"
            )
        return Memory((*self.buckets[:number], content, *self.buckets[number + 1 :]))

    def append(self, index: int, content: str) -> Memory:
        """Add the content as further lines.

        Raises:
            MemoryFault: The number, the type or the length is wrong.
        """
        # Asked first, so that a wrong number is told before a wrong content.
        old = self.get(index)
        if not isinstance(content, str):
            raise MemoryFault(f"the content is text, not {type(content).__name__}")
        return self.set(index, f"{old}\n{content}" if old and content else old or content)

    def get(self, index: int) -> str:
        """Return the content of a bucket; "" if it is empty.

        Raises:
            MemoryFault: The number is not 0 to 9.
        """
        return self.buckets[_index(index)]

    def clear(self, index: int) -> Memory:
        """Empty a bucket.

        Raises:
            MemoryFault: The number is not 0 to 9.
        """
        return self.set(index, "")

    def non_empty(self) -> dict[int, str]:
        """Map bucket numbers to contents, without empty buckets."""
        return {index: content for index, content in enumerate(self.buckets) if content}

    def to_context(self) -> dict[str, str]:
        """Return the content of a prompt: {"bucket 3": content} without empty buckets."""
        return {f"bucket {index}": content for index, content in self.non_empty().items()}

    def to_dict(self) -> dict[str, str]:
        """Return the JSON form: {"3": content} without empty buckets."""
        return {str(index): content for index, content in self.non_empty().items()}

    @classmethod
    def from_dict(cls, document: JsonMap) -> Memory:
        """Return the memory of a JSON form.

        Raises:
            MemoryFault: The document is no memory.
        """
        memory = cls()
        for index, content in document.items():
            memory = memory.set(_index(index), content)
        return memory


def _index(value: object) -> int:
    """Return a bucket's number. Models also write it as text or with a decimal point."""
    number = value
    match value:
        case str() if len(value) == 1 and value in "0123456789":
            number = int(value)
        case float() if value.is_integer():
            number = int(value)
    if not is_whole(number) or not 0 <= number < BUCKETS:
        raise MemoryFault(
            f"bucket_index is a whole number from 0 to {BUCKETS - 1}, not {value!r:.60}"
        )
    return number


def _is_text(content: str) -> bool:
    try:
        content.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class Background(Struct, frozen=True, kw_only=True):
    """The purpose of the work. `custom_fields` maps names to JSON values."""

    vision_mission: str = ""
    goals: tuple[str, ...] = ()
    todo_list: tuple[str, ...] = ()
    custom_fields: JsonMap = {}

    def with_todo_list(self, todo_list: tuple[str, ...] | list[str]) -> Background:
        """Replace the to-do list.

        Raises:
            MemoryFault: The list holds other things than text, or is too long.
        """
        return Background.from_dict({**self.to_dict(), "todo_list": list(todo_list)})

    def to_dict(self) -> JsonDict:
        """Return the JSON form, without empty fields."""
        document: JsonDict = {
            "vision_mission": self.vision_mission,
            "goals": list(self.goals),
            "todo_list": list(self.todo_list),
            "custom_fields": dict(self.custom_fields),
        }
        return filled(document)

    @classmethod
    def from_dict(cls, document: JsonMap) -> Background:
        """Return the background of a JSON form.

        Raises:
            MemoryFault: The document is no background. The message names the field.
        """
        if not isinstance(document, Mapping):
            raise MemoryFault(f"the background is an object, not {type(document).__name__}")
        known = cls.__struct_fields__
        for name in document:
            if name not in known:
                guess = nearest(name, known)
                hint = (
                    f"; did you mean {guess!r}?"
                    if guess
                    else f"; the fields are {', '.join(known)}"
                )
                raise MemoryFault(f"the background has no field {name!r}{hint}")
        try:
            return _checked(read(document, cls, "background"))
        except UnreadableError as error:
            raise MemoryFault(str(error)) from error


def _checked(background: Background) -> Background:
    try:
        custom = to_json_value(background.custom_fields)
        background = replace(background, custom_fields=custom)
        text = json_text(background.to_dict())
    except ValueFault as fault:
        raise MemoryFault(f"custom_fields: {fault}") from fault
    if not _is_text(text):
        raise MemoryFault(
            "the background contains half of a surrogate pair, which is not a character"
        )
    if len(text) > MAX_BACKGROUND:
        raise MemoryFault(
            f"the background would have {len(text)} characters; at most {MAX_BACKGROUND} are "
            "kept: shorten it"
        )
    return background


# -- the model's tools

_BUCKET = {"type": "integer", "description": f"Number of the bucket, 0 to {BUCKETS - 1}"}
_CONTENT = {
    "type": "string",
    "description": f"Text; a bucket holds at most {MAX_BUCKET} characters",
}


def _spec(name: str, description: str, **properties: JsonMap) -> ToolSpec:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, parameters=parameters)


SPECS: tuple[ToolSpec, ...] = (
    _spec(
        "set_memory",
        "Keep a text in a bucket of your working memory; it replaces what is there.",
        bucket_index=_BUCKET,
        content=_CONTENT,
    ),
    _spec(
        "append_memory",
        "Add lines to a bucket of your working memory.",
        bucket_index=_BUCKET,
        content=_CONTENT,
    ),
    _spec("get_memory", "Read one bucket of your working memory.", bucket_index=_BUCKET),
    _spec("clear_memory", "Empty one bucket of your working memory.", bucket_index=_BUCKET),
    _spec("view_all_memory", "Read all buckets of your working memory that hold something."),
)
NAMES = frozenset(spec.name for spec in SPECS)
_WANTED = {spec.name: tuple(spec.parameters["properties"]) for spec in SPECS}


def call(memory: Memory, name: str, arguments: JsonMap) -> tuple[Memory, str]:
    """Perform a model's call of a tool in `SPECS`.

    Returns:
        The memory after the call, and the text for the model. If the call fails, the memory stays
        as it is, and the text begins with "error: ".
    """
    try:
        return _perform(memory, name, arguments)
    except MemoryFault as fault:
        return memory, f"error: {fault}"


def _perform(memory: Memory, name: str, arguments: JsonMap) -> tuple[Memory, str]:
    wanted = _WANTED.get(name)
    if wanted is None:
        raise MemoryFault(f"there is no memory tool {name!r}; there are {', '.join(_WANTED)}")
    unknown = [key for key in arguments if key not in wanted]
    missing = [key for key in wanted if key not in arguments]
    if unknown or missing:
        takes = " and ".join(wanted) or "no arguments"
        raise MemoryFault(f"{name} takes {takes}, and was given {', '.join(arguments) or 'none'}")
    if name == "view_all_memory":
        held = memory.to_dict()
        return memory, json_text(held) if held else "all buckets are empty"
    number = _index(arguments["bucket_index"])
    if name == "get_memory":
        return memory, memory.get(number) or f"bucket {number} is empty"
    if name == "clear_memory":
        return memory.clear(number), f"bucket {number} is empty now"
    change = memory.set if name == "set_memory" else memory.append
    changed = change(number, arguments["content"])
    return (
        changed,
        f"bucket {number} holds {len(changed.get(number))} of {MAX_BUCKET} characters now",
    )


def memory_of(document: JsonMap) -> Memory:
    """Return the buckets of a session's memory, which holds the background as well."""
    return Memory.from_dict({key: text for key, text in document.items() if key.isdecimal()})
