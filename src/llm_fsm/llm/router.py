"""One adapter for models by name. Each request goes to the adapter of its model's provider.

A state of a definition may name another model than the machine's, also one of another provider.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.base import LLM, form_of, let_go, streamed
from llm_fsm.session.messages import LLMRequest, ModelReply, TakenForm


class Router:
    """Sends each request to the adapter of its model's provider; for the protocol see `LLM`.

    Args:
        name: The model of requests that name none.
        owner: Returns the provider's name of a model; "" means that of `name`.
        make: Makes the adapter of a model. Raises ConfigurationError, for example if the provider's
            key is missing.
    """

    def __init__(
        self, name: str, *, owner: Callable[[str], str], make: Callable[[str], LLM]
    ) -> None:
        self.name = name
        self._owner = owner
        self._make = make
        self._home = owner(name)
        self.default = make(name)
        self._adapters: dict[str, LLM] = {self._home: self.default}

    def complete(self, request: LLMRequest) -> Coroutine[Any, Any, ModelReply]:
        """Answer the request. Raises ModelError."""
        return self._adapter(request).complete(request)

    def reply_form(self, model: str | None) -> TakenForm:
        """Return the form that the model's provider takes."""
        try:
            return form_of(self.default if model is None else self._of(model), model)
        except ModelError:
            return "list"  # the request will report why there is none

    def stream(self, request: LLMRequest) -> AsyncGenerator[str | ModelReply, None]:
        """Yield the reply while it arrives. Raises ModelError."""
        return streamed(self._adapter(request), request)

    async def aclose(self) -> None:
        """Close the adapters' connections of the running event loop."""
        for adapter in self._adapters.values():
            await let_go(adapter)

    def _adapter(self, request: LLMRequest) -> LLM:
        return self.default if request.model is None else self._of(request.model)

    def _of(self, model: str) -> LLM:
        owner = self._owner(model) or self._home
        if owner not in self._adapters:
            try:
                self._adapters[owner] = self._make(model)
            except ConfigurationError as error:
                raise ModelError(str(error)) from error
        return self._adapters[owner]
