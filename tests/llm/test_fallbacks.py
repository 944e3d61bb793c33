"""Models that are asked when one before them failed."""

from __future__ import annotations

import pytest

from llm_fsm import Machine, ModelError
from llm_fsm.llm.base import listened
from llm_fsm.llm.fallbacks import Fallbacks
from llm_fsm.llm.openai.client import CompatLLM
from llm_fsm.llm.retry import RetryPolicy
from llm_fsm.session.messages import LLMMessage, LLMRequest
from llm_fsm.testing import FaultyStream, HttpReply, reply, serve_scripted
from machines import GREETER

pytestmark = pytest.mark.anyio

BUSY = HttpReply(status=503, body={"error": {"message": "busy"}})
REQUEST = LLMRequest(messages=(LLMMessage("user", "Hello"),))


def hasty(base_url: str) -> CompatLLM:
    return CompatLLM("any", base_url=base_url, retry=RetryPolicy(attempts=3, base=0.0))


class Silent:
    """Hears words and shows none."""

    shown = False

    async def take(self, piece: str) -> None:
        pass

    def give_up(self) -> None:
        pass


@pytest.mark.parametrize("streams", [False, True])
def test_requests_to_models_that_failed_count_for_the_turn(streams: bool) -> None:
    with (
        serve_scripted([BUSY] * 3) as failing,
        serve_scripted([BUSY, reply("hello", "Hi.")]) as working,
        Machine.from_dict(
            GREETER, model=hasty(failing.base_url), fallbacks=[hasty(working.base_url)]
        ) as machine,
    ):
        chat = machine.start(greet=False)
        if streams:
            list(chat.stream("Hello"))
        else:
            chat.send("Hello")
        [turn] = chat.turns[1:]
        assert (len(failing.requests), len(working.requests)) == (3, 2)
        assert (turn.text, turn.usage.calls, turn.usage.attempts) == ("Hi.", 1, 5)


async def test_requests_before_a_stream_that_breaks_count_for_the_reply() -> None:
    broken = FaultyStream(words=reply("hello", "Hi."), cut_after=700)
    with (
        serve_scripted([BUSY] * 6) as failing,
        serve_scripted([broken, reply("hello", "Hi.")]) as working,
    ):
        models = Fallbacks([hasty(failing.base_url), hasty(working.base_url)])
        said = await listened(models, REQUEST, Silent())
        await models.aclose()
        assert said.attempts == len(failing.requests) + len(working.requests) == 8


async def test_the_failure_of_all_tells_the_requests_of_all() -> None:
    with serve_scripted([BUSY] * 3) as first, serve_scripted([BUSY] * 3) as second:
        models = Fallbacks([hasty(first.base_url), hasty(second.base_url)])
        with pytest.raises(ModelError, match="every model failed") as caught:
            await models.complete(REQUEST)
        await models.aclose()
    assert caught.value.attempts == 6
