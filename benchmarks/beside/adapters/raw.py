"""The floor: raw clients around a form written by hand."""

from __future__ import annotations

import json
from typing import Any

from adapters.common import MODEL, HandForm
from stub import StubOpenAI, completion_object


def _piece(chunk: Any) -> str | None:
    return chunk.choices[0].delta.content if chunk.choices else None


class Httpx(HandForm):
    """httpx, async: one POST a turn."""

    is_async = True

    def setup(self) -> None:
        import httpx

        self.client = httpx.AsyncClient(
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            timeout=120,
            headers={"authorization": "Bearer sk-fake"},
        )

    async def turn(self, conversation: Any, text: str) -> str:
        body = {"model": MODEL, "messages": self.messages(conversation, text)}
        response = await self.client.post(f"{self.base_url}/chat/completions", json=body)
        return self.finish(conversation, text, response.json()["choices"][0]["message"]["content"])

    async def stream(self, conversation: Any, text: str) -> Any:
        body = {"model": MODEL, "messages": self.messages(conversation, text), "stream": True}
        async with self.client.stream(
            "POST", f"{self.base_url}/chat/completions", json=body
        ) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    yield json.loads(line[6:])["choices"][0]["delta"].get("content")


class Aiohttp(HandForm):
    """aiohttp: one POST a turn."""

    is_async = True
    session: Any = None

    def post(self, body: dict[str, Any]) -> Any:
        import aiohttp

        if self.session is None:
            self.session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), headers={"authorization": "Bearer sk-fake"}
            )
        return self.session.post(f"{self.base_url}/chat/completions", json=body)

    async def turn(self, conversation: Any, text: str) -> str:
        async with self.post(
            {"model": MODEL, "messages": self.messages(conversation, text)}
        ) as response:
            answer = json.loads(await response.read())
        return self.finish(conversation, text, answer["choices"][0]["message"]["content"])

    async def stream(self, conversation: Any, text: str) -> Any:
        body = {"model": MODEL, "messages": self.messages(conversation, text), "stream": True}
        async with self.post(body) as response:
            async for line in response.content:
                if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
                    yield json.loads(line[6:])["choices"][0]["delta"].get("content")

    async def aclose(self) -> None:
        await self.session.close()


class OpenAI(HandForm):
    """The openai SDK. With `stub`, what is left is the hand-written loop itself."""

    def setup(self) -> None:
        import openai

        self.client = StubOpenAI() if self.stub else openai.OpenAI()

    def turn(self, conversation: Any, text: str) -> str:
        made = self.client.chat.completions.create(
            model=MODEL, messages=self.messages(conversation, text)
        )
        return self.finish(conversation, text, made.choices[0].message.content)


class AsyncOpenAI(HandForm):
    """The openai SDK, async."""

    is_async = True

    def setup(self) -> None:
        import openai

        self.client = StubOpenAI(is_async=True) if self.stub else openai.AsyncOpenAI()

    async def turn(self, conversation: Any, text: str) -> str:
        messages = self.messages(conversation, text)
        made = await self.client.chat.completions.create(model=MODEL, messages=messages)
        return self.finish(conversation, text, made.choices[0].message.content)

    async def stream(self, conversation: Any, text: str) -> Any:
        messages = self.messages(conversation, text)
        async for chunk in await self.client.chat.completions.create(
            model=MODEL, messages=messages, stream=True
        ):
            yield _piece(chunk)


class Litellm(HandForm):
    """litellm."""

    def setup(self) -> None:
        import litellm

        self.completion = completion_object if self.stub else litellm.completion

    def turn(self, conversation: Any, text: str) -> str:
        made = self.completion(model=MODEL, messages=self.messages(conversation, text))
        return self.finish(conversation, text, made.choices[0].message.content)


class AsyncLitellm(HandForm):
    """litellm, async."""

    is_async = True

    def setup(self) -> None:
        import litellm

        self.completion = litellm.acompletion

    async def turn(self, conversation: Any, text: str) -> str:
        made = await self.completion(model=MODEL, messages=self.messages(conversation, text))
        return self.finish(conversation, text, made.choices[0].message.content)

    async def stream(self, conversation: Any, text: str) -> Any:
        messages = self.messages(conversation, text)
        async for chunk in await self.completion(model=MODEL, messages=messages, stream=True):
            yield _piece(chunk)
