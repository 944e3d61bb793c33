"""Several models in order. The next one is asked if one fails for good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing

from msgspec.structs import replace

from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM, form_of, streamed
from llm_fsm.session.messages import LLMRequest, ModelReply, TakenForm


class Fallbacks:
    """Asks the first model, and each further one only if all before it raised ModelError."""

    def __init__(self, models: Sequence[LLM]) -> None:
        self._models = tuple(models)
        self.reads_view = any(getattr(model, "reads_view", False) for model in self._models)

    def reply_form(self, model: str | None) -> TakenForm:
        """Return a form that every model takes."""
        forms = {form_of(each, model if each is self._models[0] else None) for each in self._models}
        if "list" in forms:
            return "list"
        return "object" if "object" in forms else "either"

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Return the first reply. If all models fail, raise ModelError with the message of each."""
        failures: list[ModelError] = []
        for model, asked in self._asked(request):
            try:
                return _with(failures, await model.complete(asked))
            except ModelError as error:
                failures.append(error)
        raise _all_failed(failures) from failures[-1]

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        """Yield the first reply while it arrives. A model that fails after its first piece is not
        replaced.
        """
        failures: list[ModelError] = []
        for model, asked in self._asked(request):
            begun = False
            try:
                async with aclosing(streamed(model, asked)) as items:
                    async for item in items:
                        begun = True
                        yield _with(failures, item) if isinstance(item, ModelReply) else item
            except ModelError as error:
                if begun:
                    tried, waited = _spent(failures)
                    error.attempts, error.seconds = (
                        tried + (error.attempts or 1),
                        waited + error.seconds,
                    )
                    raise
                failures.append(error)
            else:
                return
        raise _all_failed(failures) from failures[-1]

    def _asked(self, request: LLMRequest) -> Iterator[tuple[LLM, LLMRequest]]:
        """Yield each model with its request. A model that a state names only applies to the first."""
        yield self._models[0], request
        for model in self._models[1:]:
            yield model, replace(request, model=None)

    async def aclose(self) -> None:
        """Close every model that can be closed."""
        async with AsyncExitStack() as last:
            for model in self._models:
                if hasattr(model, "aclose"):
                    last.push_async_callback(model.aclose)


def _with(failures: Sequence[ModelError], reply: ModelReply) -> ModelReply:
    """Return a reply with the requests and the time of the models that failed before."""
    if not failures:
        return reply
    attempts, seconds = _spent(failures)
    return replace(reply, attempts=reply.attempts + attempts, seconds=reply.seconds + seconds)


def _spent(failures: Sequence[ModelError]) -> tuple[int, float]:
    return sum(error.attempts for error in failures), sum(error.seconds for error in failures)


def _all_failed(failures: Sequence[ModelError]) -> ModelError:
    if len(failures) == 1:
        return failures[0]
    error = ModelError(
        "every model failed: " + "; ".join(str(error) for error in failures),
        retryable=any(error.retryable for error in failures),
    )
    error.attempts, error.seconds = _spent(failures)
    return error
