"""What a function for `execute` works with: its `ctx`.

Its models and tools are those of the state: every call goes through the same loop, scope and limits as in a
task without a function, is on record, and is not made again when the function runs again after a crash or
after a break. So a function that asks a person, itself or through a tool, is run from its beginning once the
answer is there; what it did outside `ctx.llm` before that, it does again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from llm_fsm._json import copied
from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape
from llm_fsm.session import events as ev
from llm_fsm.session.memory import Background, Memory
from llm_fsm.session.messages import LLMMessage, ModelReply, ToolSpec
from llm_fsm.turn.effects import Execute, subject
from llm_fsm.turn.tool_results import result_value, shortened

T = TypeVar("T")


class Break(Exception):
    """The function stops here until somebody answers; let it pass. `asked` is what the pause will say."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.asked = asked
        super().__init__(f"waiting for an answer: {asked.get('what', '')}")


class RunLimit(Exception):
    """A limit of the run was reached inside a function; let it pass."""

    def __init__(self, limit: str) -> None:
        self.limit = limit
        super().__init__(f"the limit {limit} of the run was reached")


class Shared:
    """Values that states share beside the context: any JSON value under a name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        return self._values.get(name, default)

    def set(self, name: str, value: Any) -> None:
        """Keep a value. Raises ValueError for what has no JSON form, and where all together would be too large."""
        self._values = result_value({**self._values, name: value})

    def delete(self, name: str) -> None:
        """Forget a name; nothing happens where it is not known."""
        self._values.pop(name, None)

    def to_dict(self) -> dict[str, Any]:
        """All values. Raises ValueError where one was given what has no JSON form since."""
        return dict(result_value(self._values))


class WorkingMemory:
    """The ten buckets and the background of the conversation, for a function. Raises MemoryFault.

    It is the memory that the model's memory tools work on, too.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.load(document)

    def load(self, document: Mapping[str, Any]) -> None:
        """Take over all of a JSON form."""
        self._memory = Memory.from_dict({key: text for key, text in document.items() if key.isdecimal()})
        self.background = Background.from_dict(document.get("background", {}))

    def set(self, index: int, content: str) -> None:
        """Keep a text in a bucket, whatever was there."""
        self._memory = self._memory.set(index, content)

    def append(self, index: int, content: str) -> None:
        """Add lines to a bucket."""
        self._memory = self._memory.append(index, content)

    def get(self, index: int) -> str:
        """What a bucket holds."""
        return self._memory.get(index)

    def delete(self, index: int) -> None:
        """Empty a bucket."""
        self._memory = self._memory.clear(index)

    def get_non_empty(self) -> dict[int, str]:
        """Bucket number to content."""
        return self._memory.non_empty()

    def to_context(self) -> dict[str, str]:
        """What a prompt shows."""
        return self._memory.to_context()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        background = self.background.to_dict()
        return {**self._memory.to_dict(), **({"background": background} if background else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a function asks of a model.

    `tools`: those of the state may be called. `functions`: further ones, functions or `Tool`s. `offered`: the model
    is told of these instead, None: of those. `rounds`: replies at most. `whole`: one reply is wanted, and the calls
    in it are the function's own matter. The rest are settings of the call.
    """

    messages: Sequence[LLMMessage]
    tools: bool = False
    offered: tuple[ToolSpec, ...] | None = None
    functions: Sequence[Any] = ()
    rounds: int | None = None
    whole: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Asks(Protocol):
    """How a function's questions to models are performed."""

    async def __call__(self, question: Question) -> ModelReply:
        """The model's answer. Raises Break, RunLimit, ModelError and RuntimeError."""


def _messages(messages: Sequence[LLMMessage | Mapping[str, Any]]) -> list[LLMMessage]:
    for item in messages:
        if not isinstance(item, LLMMessage) and not (isinstance(item, Mapping) and {"role", "content"} <= item.keys()):
            raise ValueError('messages are a list of {"role": "user", "content": "…"}')
    return [
        item if isinstance(item, LLMMessage) else LLMMessage(item["role"], str(item["content"]))
        for item in messages
    ]


class BoundModel:
    """The model and the tools of one state, for async functions."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks

    async def run_with_tools(
        self, system: str, user: str, max_rounds: int | None = None, *, tools: Sequence[Any] = ()
    ) -> str:
        """Ask until the model answers without calling tools. `max_rounds`: replies, beside the run's limits.

        `tools`: functions that it may call beside the tools of the state. Raises RuntimeError when the rounds are used
        up, never gives an empty answer for that; ValueError for a tool whose name another one has.
        """
        messages = [LLMMessage("system", system), LLMMessage("user", user)]
        return (await self.ask(Question(messages=messages, tools=True, functions=tools, rounds=max_rounds))).text

    async def chat(self, messages: Sequence[LLMMessage | Mapping[str, Any]]) -> str:
        """One reply to these messages ({"role", "content"} each), without tools."""
        return (await self.ask(Question(messages=_messages(messages), rounds=1))).text

    async def ask(self, question: Question) -> ModelReply:
        """Ask whatever a question says, and give the reply as a whole."""
        return await self._asks(question)


class SyncModel:
    """The same for plain functions, which run in a thread of their own."""

    def __init__(self, asks: Asks, loop: asyncio.AbstractEventLoop) -> None:
        self._bound = BoundModel(asks)
        self._loop = loop

    def run_with_tools(
        self, system: str, user: str, max_rounds: int | None = None, *, tools: Sequence[Any] = ()
    ) -> str:
        """See `BoundModel.run_with_tools`."""
        return self._wait(self._bound.run_with_tools(system, user, max_rounds, tools=tools))

    def chat(self, messages: Sequence[LLMMessage | Mapping[str, Any]]) -> str:
        """See `BoundModel.chat`."""
        return self._wait(self._bound.chat(messages))

    def ask(self, question: Question) -> ModelReply:
        """See `BoundModel.ask`."""
        return self._wait(self._bound.ask(question))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed: the thread of a function that was given up may still be running
            work.close()
            raise
        return asked.result()


class Workbench:
    """`ctx` of one attempt.

    `input`: what the state before put out, and `context`, are copies; `shared` and `memory`: changes count when the
    attempt passes; `history`: (user or None, system) exchanges; `attempt` counts from 1, `retry_count` from 0;
    `feedback`: what failed in the attempt before, "" in the first. `llm`: `run_with_tools` and `chat`, to be
    awaited in async functions.
    """

    def __init__(
        self, effect: Execute, llm: BoundModel | SyncModel, publish: Callable[[ev.Progressed], None]
    ) -> None:
        session = effect.session
        self.state = effect.state
        self.conversation_id = session.conversation_id
        self.input = copied(effect.input)
        self.context: dict[str, Any] = copied(session.context)
        self.shared = Shared(copied(session.shared))
        self.memory = WorkingMemory(session.memory)
        self.history = session.window
        self.summary = session.summary
        self.attempt = effect.attempt
        self.retry_count = effect.attempt - 1
        self.feedback = effect.feedback
        self.key = effect.key
        self.llm = llm
        self.changes: dict[str, Any] = {}
        given = copied(list(effect.answers))
        told = zip(effect.about, given, strict=True)
        self._answers = [(*item, number == len(given)) for number, item in enumerate(told, 1)]
        self.home: asyncio.Task[Any] | None = None
        self.broke: Break | RunLimit | None = None
        self._publish = publish

    def set_context(self, **changes: Any) -> None:
        """Change context keys, as a handler would: None deletes, schemas are checked.

        Raises ValueError for what has no JSON form.
        """
        self.changes.update(result_value(changes))

    def emit(self, report: Any) -> None:
        """Tell whoever watches the run how far it is, in any JSON value; a long one is shortened."""
        self._publish(ev.Progressed(state=self.state, report=shortened(result_value(report))))

    def ask(self, what: str, schema: Mapping[str, Any] | None = None) -> Any:
        """Ask a person: the answer, or the function stops here and is run again when there is one.

        Raises ValueError for a schema that is none: no answer could ever fit it.
        """
        try:
            compile_shape(dict(schema or {}))
        except (ShapeError, TypeError, ValueError) as error:
            said = f"ctx.ask({what!r:.80}): the schema of the answer is no JSON Schema: {error}"
            raise ValueError(said) from error
        found = self.answer("break", str(what), None)
        if found is not None:
            return found[0]
        raise self.stop(Break({"kind": "break", "what": what, "schema": dict(schema or {})}))

    def answer(self, kind: str, what: str, call: Mapping[str, Any] | None) -> tuple[Any, bool] | None:
        """The answer to what is asked, and whether it is the newest; None where there is none yet.

        Several questions may be asked at once, in another order than before: an answer is for what it was given to.
        Only in the function's own task, where questions come in order, one may have other words than before.
        """
        wanted = subject(kind, what, call)
        fits = [item for item in self._answers if item[0] is None or item[0] == wanted]
        alone = self.home is None or asyncio.current_task() is self.home
        if not fits and call is None and alone:
            fits = [item for item in self._answers if item[0][2] is None]
        if not fits:
            return None
        self._answers.remove(fits[0])
        return fits[0][1], fits[0][2]

    def stop(self, reason: Break | RunLimit) -> Break | RunLimit:
        """Remember why the function must stop, even if it catches the exception."""
        self.broke = self.broke or reason
        return self.broke

