"""The facade: the same words without asyncio, from any thread."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import ConversationEnded, Machine, ModelError, StoreError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.events import MessageDelta
from llm_fsm.stores.memory import MemoryStore
from machines import GREETER, reply


def scripted(*replies: Any, **options: Any) -> Machine:
    return Machine.from_dict(GREETER, model=ScriptedLLM(list(replies)), **options)


def test_conversation_from_start_to_end() -> None:
    with scripted(reply("hello", "Hi!"), reply("bye", "Bye Ada", name="Ada")) as machine:
        chat = machine.start(context={"tier": "gold"})
        assert (chat.greeting, chat.state, chat.context, chat.ended, chat.paused) == (
            "Hi!",
            "hello",
            {"tier": "gold"},
            False,
            None,
        )
        assert chat.send("I'm Ada").text == "Bye Ada"
        assert (chat.ended, [m.role for m in chat.history]) == (
            True,
            ["assistant", "user", "assistant"],
        )
        with pytest.raises(ConversationEnded):
            chat.send("more")
        chat.undo()
        assert chat.state == "hello"


def test_attributes_show_what_another_handle_did() -> None:
    with scripted(reply("bye", "Bye", name="Ada")) as machine:
        chat = machine.start(conversation_id="c", greet=False)
        machine.resume("c").send("Ada")
        assert (chat.state, chat.ended, chat.context) == ("bye", True, {"name": "Ada"})


def test_data_is_the_context_with_the_system_names() -> None:
    with scripted(reply("bye", "Bye Ada", name="Ada")) as machine:
        chat = machine.start(greet=False)
        chat.send("Ada")
        data = chat.data()
        assert (data["name"], data["_turn"], data["_current_state"]) == ("Ada", 1, "bye")
        assert chat.context == {"name": "Ada"}


def test_stream_gives_words_and_then_the_turn() -> None:
    with scripted(reply("hello", "Name?")) as machine:
        stream = machine.start(greet=False).stream("hi")
        assert [event.text for event in stream if isinstance(event, MessageDelta)] == ["Name?"]
        assert stream.turn is not None
        assert stream.turn.text == "Name?"


def test_events_of_a_stream_that_happen_together_take_one_way_to_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with scripted(reply("bye", "Bye Ada", name="Ada")) as machine:
        stream = machine.start(greet=False).stream("Ada")
        ways, run = [], machine._portal.run
        monkeypatch.setattr(machine._portal, "run", lambda work: ways.append(work) or run(work))
        events = list(stream)
        assert stream.turn is not None
        assert (
            tuple(event for event in events if not isinstance(event, MessageDelta))
            == stream.turn.events
        )
        assert len(ways) < len(events)


def test_stream_raises_and_can_be_left() -> None:
    with scripted(ModelError("down"), reply("hello"), reply("hello", "again")) as machine:
        chat = machine.start(greet=False)
        with pytest.raises(ModelError):
            list(chat.stream("m"))
        for _ in chat.stream("m"):
            break
        assert chat.send("m").number >= 1


def test_a_stream_is_gone_through_once_and_sends_its_message_once() -> None:
    with scripted(reply("hello", "Name?"), reply("hello", "again")) as machine:
        chat = machine.start(greet=False)
        stream = chat.stream("m")
        whole = list(stream)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="a stream is gone through once"):
                list(stream)
        assert stream.turn is not None
        assert (stream.turn.number, len(whole), len(chat.turns)) == (1, 5, 2)


def test_many_threads_share_a_machine() -> None:
    with Machine.from_dict(GREETER, model=ScriptedLLM([reply("hello")], loop=True)) as machine:

        def talk(number: int) -> int:
            chat = machine.start(conversation_id=f"c{number}", greet=False)
            return [chat.send("m").number for _ in range(5)][-1]

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(talk, range(20))) == [5] * 20
        assert len(machine.conversations()) == 20


def test_decorators_register_on_the_machine_and_threads_end_with_it() -> None:
    of_others = set(threading.enumerate())
    machine = scripted(reply("hello", "ok"))

    @machine.on("post_processing")
    def shout(event: Any) -> str:
        return str(event.text).upper()

    @machine.tool
    def lookup(order_id: str) -> dict[str, str]:
        return {"id": order_id}

    assert lookup("7") == {"id": "7"}
    assert machine.start(greet=False).send("m").text == "OK"
    own = set(threading.enumerate()) - of_others
    assert "llm_fsm loop" in {thread.name for thread in own}
    machine.close()
    assert not any(thread.name == "llm_fsm loop" and thread.is_alive() for thread in own)


def test_machine_that_nobody_closes_ends_quietly(tmp_path: Path) -> None:
    program = """
from llm_fsm import Machine
from llm_fsm.testing import reply, serve_scripted
definition = {"name": "d", "initial_state": "a", "states": {"a": {"transitions": [{"target_state": "a"}]}}}
with serve_scripted([reply("a", "Hi"), reply("a", "there")]) as server:
    chat = Machine.from_dict(definition, model="m", base_url=server.base_url, store="sqlite:///x.db").start()
    print(chat.greeting, chat.send("m").text)
"""
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("Hi there\n", "", 0)


def test_machine_may_be_collected_wherever_a_loop_is_running(tmp_path: Path) -> None:
    program = """
import asyncio, gc
from llm_fsm import Machine
from llm_fsm.testing import ScriptedLLM, reply
definition = {"name": "d", "initial_state": "a", "states": {"a": {"transitions": [{"target_state": "a"}]}}}
held = [Machine.from_dict(definition, model=ScriptedLLM([reply("a", "Hi")]), store="sqlite:///x.db")]
held.append(held[0].start())
async def elsewhere():
    held.clear()
    gc.collect()
asyncio.run(elsewhere())
held.append(Machine.from_dict(definition, model=ScriptedLLM([])))
async def within(loop_of):
    del loop_of
    held.clear()
    gc.collect()
held[0]._portal.run(within(None))
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


FORKS = """
import os, sys
from llm_fsm import Machine
from llm_fsm.testing import reply, serve_scripted
definition = {"name": "d", "initial_state": "a", "states": {"a": {"transitions": [{"target_state": "a"}]}}}

def forked(work):
    child = os.fork()
    if child == 0:
        try:
            print(work(), flush=True)
        except RuntimeError as error:
            print(error, flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)

with serve_scripted([reply("a", "Hi")], loop=True) as server:
    options = {"model": "m", "base_url": server.base_url, "store": "sqlite:///x.db", "timeout": 10}
    machine = Machine.from_dict(definition, **options)
    chat = machine.start(greet=False)
    print(chat.send("m").text, flush=True)
    WORK
    print(chat.send("m").text, len(chat.history), flush=True)
    machine.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("forked(lambda: chat.send('m').text)", "Hi\nHi\nHi 6\n"),
        ("forked(lambda: type([*chat.stream('m')][-1]).__name__)", "Hi\nBotSaid\nHi 6\n"),
        ("forked(machine.close)", "Hi\nNone\nHi 4\n"),
        (
            "forked(lambda: machine.close() or chat.send('m'))",
            "Hi\nthis machine is closed; make another one\nHi 4\n",
        ),
        (
            "events = iter(chat.stream('m')); next(events); forked(lambda: list(events)); list(events)",
            "Hi\nthis stream began before its process was forked, and continues in the other one\nHi 6\n",
        ),
    ],
    ids=["talks", "streams", "closes", "has closed", "goes on"],
)
def test_a_forked_child_has_its_own_loop_and_takes_nothing_from_its_parents(
    work: str, said: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            FORKS.replace("WORK", work),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == (said, "")


def test_a_machine_of_something_else_than_a_definition_says_what_takes_it() -> None:
    with pytest.raises(TypeError, match="from_dict takes a dict, from_file a path"):
        Machine({"name": "x"}, model="offline")  # type: ignore[arg-type]


def test_a_closed_machine_refuses_every_call() -> None:
    with scripted(reply("hello")) as machine:
        chat = machine.start(greet=False)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="closed"):
            chat.send("hi")


class Hanging:
    """A model that never answers, and says when it was given up."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.cancelled = threading.Event()

    async def complete(self, request: Any) -> Any:
        self.asked.set()
        try:
            await asyncio.sleep(600)
        finally:
            self.cancelled.set()


def test_an_interrupt_of_the_caller_cancels_the_turn() -> None:
    model = Hanging()
    with Machine.from_dict(GREETER, model=model) as machine:
        chat = machine.start(greet=False)

        def interrupt() -> None:
            model.asked.wait()
            os.kill(os.getpid(), signal.SIGINT)

        meddler = threading.Thread(target=interrupt)
        meddler.start()
        with pytest.raises(KeyboardInterrupt):
            chat.send("hi")
        meddler.join()
        assert model.cancelled.is_set()
        assert chat.state == "hello"


def test_what_stops_an_interpreter_reaches_the_caller_and_the_machine_goes_on() -> None:
    class Leaving:
        async def complete(self, request: Any) -> Any:
            raise SystemExit(4)

    with Machine.from_dict(GREETER, model=Leaving()) as machine:
        chat = machine.start(greet=False)
        for _ in range(2):
            with pytest.raises(SystemExit, match="4"):
                chat.send("hi")


class Halting(Hanging):
    """A model that begins to speak and never ends."""

    async def stream(self, request: Any) -> Any:
        yield '{"transition":{"target_state":"hello","context_update":{}},"message":"One moment'
        yield await self.complete(request)


def test_closing_lets_go_of_whoever_waits_and_of_streams_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    models = Hanging(), Halting()
    waiting, streaming = (Machine.from_dict(GREETER, model=model) for model in models)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(waiting.start(greet=False).send, "hi")
        models[0].asked.wait()
        waiting.close()
        assert isinstance(sent.exception(), CancelledError)
    events = iter(streaming.start(greet=False).stream("hi"))
    assert next(event.text for event in events if isinstance(event, MessageDelta)) == "One moment"
    streaming.close()
    assert all(model.cancelled.is_set() for model in models)
    with pytest.raises(RuntimeError, match="this machine is closed; make another one"):
        next(events)
    assert caplog.text == ""


def test_a_stream_whose_machine_is_being_closed_does_not_end_as_if_it_were_over() -> None:
    with Machine.from_dict(GREETER, model=Hanging()) as machine:
        stream = machine.start(greet=False).stream("hi")
        events = iter(stream)
        next(events)
        machine._portal.run(machine._portal._loop.shutdown_asyncgens())
        with pytest.raises(CancelledError):
            next(events)
        assert stream.turn is None


def test_a_stream_keeps_its_machine_open() -> None:
    stream = scripted(reply("hello", "Name?")).start(greet=False).stream("hi")
    gc.collect()
    assert [event.text for event in stream if isinstance(event, MessageDelta)] == ["Name?"]


def test_a_stream_that_is_left_when_its_machine_is_closed_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    machine = scripted(reply("hello", "Name?"))
    for event in machine.start(greet=False).stream("hi"):
        if isinstance(event, MessageDelta):
            machine.close()
            break
    gc.collect()
    assert said == []


def test_a_stream_that_is_collected_on_the_thread_of_the_loop_does_not_hold_it_up() -> None:
    def answered(request: Any) -> str:
        del request
        gc.collect()
        return reply("hello", "Name?")

    with Machine.from_dict(
        GREETER, model=ScriptedLLM([reply("hello", "One"), answered])
    ) as machine:
        chat = machine.start(greet=False)
        gc.disable()
        try:
            left: list[Any] = [iter(chat.stream("hi"))]
            next(left[0])
            left.append(left)
            del left
            with ThreadPoolExecutor(1) as pool:
                sent = pool.submit(lambda: machine.start(greet=False).send("hello").text)
                assert sent.result(30) == "Name?"
        finally:
            gc.enable()


def test_what_a_library_leaves_running_ends_with_the_machine(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ends: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ends.append("ended")

    class Leaving(ScriptedLLM):
        async def complete(self, request: Any) -> Any:
            self.left = asyncio.create_task(work())
            return await super().complete(request)

    with Machine.from_dict(GREETER, model=Leaving([reply("hello")])) as machine:
        machine.start()
    assert ends == ["ended"]
    assert capfd.readouterr().err == ""


def test_what_hosts_write_keeps_to_one_thread() -> None:
    """A lock or a connection that is held over an await may belong to the thread that took it."""
    seen: set[str] = set()
    held = threading.RLock()

    async def hold() -> None:
        with held:
            seen.add(threading.current_thread().name)
            await asyncio.sleep(0.001)
            seen.add(threading.current_thread().name)

    class Holding(MemoryStore):
        async def load(self, conversation_id: str, request_id: str | None = None) -> Any:
            await hold()
            return await super().load(conversation_id, request_id)

    for store in (None, Holding()):
        with scripted(*[reply("hello", "ok")] * 20, store=store, error_mode="raise") as machine:

            @machine.on("post_processing")
            async def look(_: Any) -> None:
                await hold()

            chat = machine.start(greet=False)
            for _ in range(17):
                assert chat.send("m").text == "ok"
    assert seen == {"llm_fsm loop"}


def test_a_handler_may_close_the_machine() -> None:
    machine = scripted(reply("hello", "ok"))

    @machine.on("post_processing")
    async def leave(_: Any) -> None:
        machine.close()

    chat = machine.start(greet=False)
    with ThreadPoolExecutor(1) as pool, pytest.raises((StoreError, CancelledError)):
        pool.submit(chat.send, "m").result(10)
    machine._portal._thread.join(5)
    assert not machine._portal._thread.is_alive()
