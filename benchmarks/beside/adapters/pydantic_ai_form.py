"""pydantic-ai: one agent with a structured output (tool mode, its default), the history kept by the
caller.
"""

from __future__ import annotations

import json
from typing import Any

from adapters.common import MODEL, environment
from hand_form import SYSTEM, advance
from policy import tools_protocol


def _stub_model() -> Any:
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: Any, info: Any) -> Any:
        tool = info.output_tools[0]
        parts = [
            part
            for message in messages
            for part in message.parts
            if part.part_kind == "user-prompt"
        ]
        user = parts[-1].content
        function = {"name": tool.name, "parameters": tool.parameters_json_schema}
        request = {
            "tools": [{"function": function}],
            "messages": [{"role": "user", "content": user}],
        }
        reply = tools_protocol(request, "", user)
        return ModelResponse(parts=[ToolCallPart(tool.name, reply.tool_calls[0]["arguments"])])

    return FunctionModel(answer)


class Peer:
    """The agent is told the stage and the data as instructions of each run."""

    is_async = True

    def __init__(self, base_url: str, stub: bool = False, store: str | None = None) -> None:
        environment(base_url)
        from pydantic import BaseModel
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        class Turn(BaseModel):
            """What the user's message contains, and the reply."""

            name: str | None = None
            email: str | None = None
            date: str | None = None
            confirmed: bool | None = None
            change: str | None = None
            reply: str

        provider = OpenAIProvider(base_url=base_url, api_key="sk-fake")
        model = _stub_model() if stub else OpenAIChatModel(MODEL, provider=provider)
        self.agent = Agent(
            model, output_type=Turn, system_prompt=SYSTEM.replace("FORM-JSON", "FORM")
        )

    def open(self, _id: str) -> dict[str, Any]:
        return {"stage": "greeting", "data": {}, "history": []}

    def start(self, conversation: Any) -> None:
        """Nothing: the form greets with its first reply."""

    async def turn(self, conversation: Any, text: str) -> str:
        told = f"Current stage: {conversation['stage']}\nCollected so far: {json.dumps(conversation['data'])}"
        made = await self.agent.run(
            text, message_history=conversation["history"], instructions=told
        )
        conversation["history"] = made.all_messages()
        found = made.output
        fields = {"name": found.name, "email": found.email, "date": found.date}
        reply = {"fields": fields, "confirmed": found.confirmed, "change": found.change}
        conversation["stage"], conversation["data"] = advance(
            conversation["stage"], conversation["data"], reply
        )
        return found.reply

    def state(self, conversation: Any) -> str:
        return conversation["stage"]

    def data(self, conversation: Any) -> dict[str, Any]:
        return conversation["data"]
