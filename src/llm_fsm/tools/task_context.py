"""The `ctx` of a function for `execute`.

Its model and tools are those of the state. Every call goes through the same loop, scope and limits
as in a task without a function, and is on record. When the function runs again after a crash or a
pause, recorded calls are not repeated. A function that asks a person runs again from its beginning
after the answer. It then repeats everything that it did outside `ctx.llm`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from llm_fsm._json import JsonDict, JsonMap, copied
from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape
from llm_fsm.session import events as ev
from llm_fsm.session.memory import Background, memory_of
from llm_fsm.session.messages import LLMMessage, ModelReply, ToolSpec
from llm_fsm.turn.effects import Execute, subject
from llm_fsm.turn.tool_results import result_value, shortened

T = TypeVar("T")


class Break(Exception):
    """The function stops here until it gets an answer. Do not catch it. `asked` is the text of the
    pause.
    """

    def __init__(self, asked: JsonMap) -> None:
        self.asked = asked
        super().__init__(f"waiting for an answer: {asked.get('what', '')}")


class RunLimit(Exception):
    """A limit of the run was reached inside a function. Do not catch it."""

    def __init__(self, limit: str) -> None:
        self.limit = limit
        super().__init__(f"the limit {limit} of the run was reached")


class Shared:
    """Values that states share beside the context: any JSON value by name."""

    def __init__(self, values: JsonMap) -> None:
        self._values = dict(values)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name.

        Args:
            name: The name.
            default: The value if the name is not set.
        """
        return self._values.get(name, default)

    def set(self, name: str, value: Any) -> None:
        """Set a value for later states.

        Args:
            name: The name.
            value: Any value that has a JSON form.

        Raises:
            ValueError: The value has no JSON form, or there is too much of it.
        """
        self._values = result_value({**self._values, name: value})

    def delete(self, name: str) -> None:
        """Delete a name; do nothing if it is unknown."""
        self._values.pop(name, None)

    def to_dict(self) -> JsonDict:
        """Return all values as JSON data.

        Raises:
            ValueError: A value was changed since, and has no JSON form any more.
        """
        return dict(result_value(self._values))


class TaskMemory:
    """The ten buckets and the background of the conversation, for a function.

    The model's memory tools work on the same memory. Numbers of buckets are 0 to 9.

    Raises:
        MemoryFault: The number of a bucket or its text cannot be used.
    """

    def __init__(self, document: JsonMap) -> None:
        self.load(document)

    def load(self, document: JsonMap) -> None:
        """Replace everything by a JSON form."""
        self._memory = memory_of(document)
        self.background = Background.from_dict(document.get("background", {}))

    def set(self, index: int, content: str) -> None:
        """Replace the text of a bucket.

        Args:
            index: Number of the bucket.
            content: The text.
        """
        self._memory = self._memory.set(index, content)

    def append(self, index: int, content: str) -> None:
        """Add lines to a bucket.

        Args:
            index: Number of the bucket.
            content: The lines.
        """
        self._memory = self._memory.append(index, content)

    def get(self, index: int) -> str:
        """Return the text of a bucket; empty if there is none."""
        return self._memory.get(index)

    def delete(self, index: int) -> None:
        """Empty a bucket."""
        self._memory = self._memory.clear(index)

    def get_non_empty(self) -> dict[int, str]:
        """Return bucket number to text, without empty buckets."""
        return self._memory.non_empty()

    def to_context(self) -> dict[str, str]:
        """Return the part of the memory that prompts show."""
        return self._memory.to_context()

    def to_dict(self) -> JsonDict:
        """Return the JSON form."""
        background = self.background.to_dict()
        return {**self._memory.to_dict(), **({"background": background} if background else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of a function to a model.

    Attributes:
        messages: The messages, in order.
        tools: True lets the model call the tools of the state.
        offered: Tools that are shown to the model instead; None shows those that it may call.
        functions: Further tools: functions or `Tool`s.
        rounds: The most replies; None: only the limits of the run count.
        whole: True wants one reply. The function itself handles the calls in it.
        temperature: Temperature of the call; None leaves it to the model.
        max_tokens: The most tokens of a reply.
        options: Further settings of the provider, such as `top_p`.
    """

    messages: Sequence[LLMMessage]
    tools: bool = False
    offered: tuple[ToolSpec, ...] | None = None
    functions: Sequence[Any] = ()
    rounds: int | None = None
    whole: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    options: JsonMap = field(default_factory=dict)


class Asks(Protocol):
    """Performs a function's questions to models."""

    async def __call__(self, question: Question) -> ModelReply:
        """Ask the model.

        Raises:
            Break: The run must pause first.
            RunLimit: A limit of the run is reached.
            ModelError: The model failed.
            RuntimeError: The rounds of the question are used up.
        """


def _messages(messages: Sequence[LLMMessage | JsonMap]) -> list[LLMMessage]:
    for item in messages:
        if not isinstance(item, LLMMessage) and not (
            isinstance(item, Mapping) and {"role", "content"} <= item.keys()
        ):
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
        """Ask until the model answers without calling tools.

        Args:
            system: The system message.
            user: The user message.
            max_rounds: The most replies, beside the limits of the run.
            tools: Functions that it may call beside the tools of the state.

        Returns:
            The answer.

        Raises:
            RuntimeError: The rounds are used up.
            ValueError: Two tools have the same name.
            ModelError: The model failed.
        """
        messages = [LLMMessage("system", system), LLMMessage("user", user)]
        return (
            await self.ask(
                Question(messages=messages, tools=True, functions=tools, rounds=max_rounds)
            )
        ).text

    async def chat(self, messages: Sequence[LLMMessage | JsonMap]) -> str:
        """Ask for one reply, without tools.

        Args:
            messages: {"role", "content"} each.

        Returns:
            The text of the reply.

        Raises:
            ValueError: A message has another form.
            ModelError: The model failed.
        """
        return (await self.ask(Question(messages=_messages(messages), rounds=1))).text

    async def ask(self, question: Question) -> ModelReply:
        """Ask a question, and return the whole reply. It raises the errors of `Asks`."""
        return await self._asks(question)


class SyncModel:
    """The model and the tools of one state, for plain functions, which run in a thread."""

    def __init__(self, asks: Asks, loop: asyncio.AbstractEventLoop) -> None:
        self._bound = BoundModel(asks)
        self._loop = loop

    def run_with_tools(
        self, system: str, user: str, max_rounds: int | None = None, *, tools: Sequence[Any] = ()
    ) -> str:
        """Ask until the model answers without calling tools; see `BoundModel.run_with_tools`."""
        return self._wait(self._bound.run_with_tools(system, user, max_rounds, tools=tools))

    def chat(self, messages: Sequence[LLMMessage | JsonMap]) -> str:
        """Ask for one reply, without tools; see `BoundModel.chat`."""
        return self._wait(self._bound.chat(messages))

    def ask(self, question: Question) -> ModelReply:
        """Ask a question, and return the whole reply; see `BoundModel.ask`."""
        return self._wait(self._bound.ask(question))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            # the loop is closed: the thread of a function that was given up may still be running
            work.close()
            raise
        return asked.result()


class Workbench:
    """The `ctx` of one attempt.

    Attributes:
        state: Id of the state.
        conversation_id: Id of the conversation.
        input: The output of the state before, as a copy.
        context: The context, as a copy; `set_context` changes it.
        shared: Values that states share. Changes count if the attempt passes.
        memory: The working memory. Changes count if the attempt passes.
        history: (user or None, system) exchanges.
        summary: The summary of earlier exchanges.
        attempt: Number of the attempt, from 1.
        retry_count: Number of attempts before, from 0.
        feedback: Failures of the attempt before; "" in the first.
        key: The idempotency key of the attempt.
        agreed: The user's last yes, with `keys`, `values` and `turn`; None if there was none.
        llm: The model: `run_with_tools` and `chat`. Async functions await them.
    """

    def __init__(
        self, effect: Execute, llm: BoundModel | SyncModel, publish: Callable[[ev.Progressed], None]
    ) -> None:
        session = effect.session
        self.state = effect.state
        self.conversation_id = session.conversation_id
        self.input = copied(effect.input)
        self.context: JsonDict = copied(session.context)
        self.shared = Shared(copied(session.shared))
        self.memory = TaskMemory(session.memory)
        self.history = session.window
        self.summary = session.summary
        self.attempt = effect.attempt
        self.retry_count = effect.attempt - 1
        self.feedback = effect.feedback
        self.key = effect.key
        self.agreed = session.agreement
        self.llm = llm
        self.changes: JsonDict = {}
        given = copied(list(effect.answers))
        told = zip(effect.about, given, strict=True)
        self._answers = [(*item, number == len(given)) for number, item in enumerate(told, 1)]
        self.home: asyncio.Task[Any] | None = None
        self.broke: Break | RunLimit | None = None
        self._publish = publish

    def set_context(self, **changes: Any) -> None:
        """Change context keys, as a handler does. Their schemas are checked.

        Args:
            changes: Key to value; None deletes the key.

        Raises:
            ValueError: A value has no JSON form.
        """
        self.changes.update(result_value(changes))

    def emit(self, report: Any) -> None:
        """Report progress to the observers of the run.

        Args:
            report: Any JSON value. A long one is shortened.
        """
        self._publish(ev.Progressed(state=self.state, report=shortened(result_value(report))))

    def ask(self, what: str, schema: JsonMap | None = None) -> Any:
        """Ask a person. Without an answer, the function stops here, and runs again when there is
        one.

        Args:
            what: The question.
            schema: JSON Schema of the answer; None accepts everything.

        Returns:
            The answer.

        Raises:
            ValueError: The schema is no JSON Schema, so no answer could ever fit it.
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

    def answer(self, kind: str, what: str, call: JsonMap | None) -> tuple[Any, bool] | None:
        """Return the answer to a question, and true if it is the newest answer; None if there is
        none yet.

        Several questions may be asked at once, in any order. An answer belongs to the text of its
        question. In the function's own task, questions come in order, so a text may have changed.

        Args:
            kind: Kind of the pause.
            what: The question.
            call: The tool call that it is about, if any.
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
