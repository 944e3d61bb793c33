"""In-process stand-ins for the LLM call: the same answers as fake_llm.py, with no HTTP at all."""

import json
from types import SimpleNamespace as NS

from policy import FormPolicy

POLICY = FormPolicy()
CALLS = [0]


def completion_object(**body):
    """Shaped as an OpenAI/litellm response object, as cheaply as possible."""
    CALLS[0] += 1
    r = POLICY.reply(body)
    calls = [
        NS(
            id=f"c{i}",
            type="function",
            function=NS(name=t["name"], arguments=json.dumps(t["arguments"])),
        )
        for i, t in enumerate(r.tool_calls)
    ] or None
    msg = NS(
        role="assistant", content=r.content, tool_calls=calls, refusal=None, reasoning_content=None
    )
    return NS(
        id="x",
        model="fake",
        created=0,
        choices=[NS(index=0, finish_reason="tool_calls" if calls else "stop", message=msg)],
        usage=NS(prompt_tokens=1, completion_tokens=1, total_tokens=2),
    )


async def acompletion_object(**body):
    return completion_object(**body)


class Completions:
    def __init__(self, fn):
        self.create = fn


class StubOpenAI:
    """Has only `chat.completions.create`."""

    def __init__(self, is_async=False):
        self.chat = NS(
            completions=Completions(acompletion_object if is_async else completion_object)
        )
