"""The front door without asyncio: its methods wait for their results.

It is a facade. Each machine keeps one event loop in its own thread. So turns of several threads run
side by side, and connections are reused. See `llm_fsm.engine.portal`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm.definition.models import Definition
from llm_fsm.documents.loader import load, load_dict
from llm_fsm.engine.conversation import AsyncConversation, Turn, TurnStream
from llm_fsm.engine.handlers.registry import Function, Handler
from llm_fsm.engine.listing import Filter
from llm_fsm.engine.machine import AsyncMachine, Closing
from llm_fsm.engine.observers import Observer
from llm_fsm.engine.pauses import OpenPause
from llm_fsm.engine.portal import Portal
from llm_fsm.engine.settings import MachineSettings, check_names
from llm_fsm.releases.file import stable_file
from llm_fsm.session.events import Event, Migrated
from llm_fsm.session.messages import Message, Paused
from llm_fsm.stores.base import Listed, Order
from llm_fsm.turn.choices import Choice
from llm_fsm.turn.effects import Point

if TYPE_CHECKING:
    from llm_fsm.records.explain import Explanation


class SyncStream:
    """The events of one turn as they happen. After the last event, the turn is saved and `turn` is
    set.

    Text arrives as `MessageDelta`, and is provisional until then. Leaving the loop early cancels
    the turn, unless it is saved already or the stream was made with `keep=True`;
    `Conversation.turns` shows which. You can iterate over a
    stream once, because it is one message.

    Raises:
        RuntimeError: You iterate a second time, or in another process after a fork.
    """

    def __init__(self, machine: Machine, stream: TurnStream) -> None:
        self._machine = machine  # keeps the machine open, as in `Conversation`
        self._portal = machine._portal
        self._stream = stream

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._stream!r}>"

    @property
    def turn(self) -> Turn | None:
        """The turn; None until it is saved."""
        return self._stream.turn

    def finish(self) -> Turn:
        """As `TurnStream.finish`."""
        return self._portal.run(self._stream.finish())

    def __iter__(self) -> Iterator[Event]:
        events, forks = aiter(self._stream), self._portal.forks

        async def following() -> list[Event]:
            """Return the next event and all that wait, because each trip to the loop costs more
            than an event."""
            try:
                # With a default, Python 3.11 dies where it is cancelled at its beginning.
                found = [await anext(events)]
                while self._stream._waiting:
                    found.append(await anext(events))
            except StopAsyncIteration:
                return []
            return found

        try:
            while found := self._portal.run(following()):
                for event in found:
                    yield event
                    if self._portal.forks != forks:
                        raise RuntimeError(
                            "this stream began before its process was forked, and continues in "
                            "the other one"
                        )
            # Closing the machine ended the stream in between two events.
            if self._stream.turn is None:
                raise CancelledError
        finally:
            close: Callable[[], Coroutine[Any, Any, None]] | None = getattr(events, "aclose", None)
            if close is not None and self._portal.forks == forks:
                self._portal.let_go(close)


class Conversation:
    """One conversation with a user: send messages, and read its state.

    `state`, `context` and the other properties are read from the store each time. They raise
    ConversationNotFound if the conversation was deleted; `history` and `turns` are then empty.
    `Machine.start` and `Machine.resume` make conversations.
    """

    def __init__(self, machine: Machine, conversation: AsyncConversation) -> None:
        self._machine = machine  # a machine that nothing refers to closes itself
        self._portal = machine._portal
        self._conversation = conversation

    def _fresh(self) -> AsyncConversation:
        self._portal.run(self._conversation.refresh())
        return self._conversation

    @property
    def id(self) -> str:
        """The id under which the conversation can be resumed. It never changes."""
        return self._conversation.id

    def __repr__(self) -> str:
        return self._conversation._described(type(self).__name__)

    @property
    def greeting(self) -> str:
        """The opening message; empty if there was none."""
        return self._conversation.greeting

    @property
    def is_new(self) -> bool:
        """True if the call that gave this object began the conversation, as `open` may."""
        return self._conversation.is_new

    @property
    def state(self) -> str:
        """The id of the current state."""
        return self._fresh().state

    @property
    def context(self) -> JsonDict:
        """A copy of the outermost context, with secrets and without system names."""
        return self._fresh().context

    def data(self) -> JsonDict:
        """Return the values that conditions read.

        Returns:
            The context and the system names, by name.
        """
        return self._fresh().data()

    @property
    def ended(self) -> bool:
        """True if no further message can be sent."""
        return self._fresh().ended

    @property
    def metadata(self) -> dict[str, str]:
        """The labels that it was begun with, as {key: text}."""
        return self._conversation.metadata

    @property
    def generation(self) -> int:
        """The number of its beginnings: `open(id, anew=True)` begins it again after an end."""
        return self._conversation.generation

    @property
    def paused(self) -> Paused | None:
        """The pause of the run; None if it waits for nothing but the user."""
        return self._fresh().paused

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices that the user has now; see `Turn.choices`."""
        return self._fresh().choices

    @property
    def memory(self) -> JsonDict:
        """The working memory as JSON: bucket number to text, and `background`, without empty
        ones."""
        return self._fresh().memory

    @property
    def history(self) -> tuple[Message, ...]:
        """All messages so far, oldest first."""
        return self._portal.run(self._conversation.history())

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Every turn on record, undone or not, with its events. The context of each is the current
        one."""
        return self._portal.run(self._conversation.turns())

    def why(self, number: int | None = None) -> Explanation:
        """Explain a turn: replies of the model, possible moves, values, and failures of your own
        functions.

        Values are those that were kept or refused.

        Args:
            number: The number of the turn, as in `Turn.number`; None: the last one.

        Returns:
            The explanation. Its `notes` are in the order in which things happened. Secret values
            are masked.

        Raises:
            ValueError: There is no such turn, or it was undone.
            ConversationNotFound: The conversation was deleted.
        """
        return self._portal.run(self._conversation.why(number))

    def send(
        self, text: str | Choice, *, request_id: str | None = None, durable: bool = False
    ) -> Turn:
        """Send one message, and return the answer.

        After an error, nothing has changed, and you may send the same message again. There are two
        exceptions. A HandlerError at END_CONVERSATION comes after the turn is stored. If a store's
        server is gone for good, the result is unknown. With a `request_id`, the message is then
        answered once.

        Args:
            text: The message, or one of the `choices` of the turn before. A choice whose value is
                certain needs no model call.
            request_id: Your id of the message, 1 to 200 characters. The same id gives the recorded
                turn.
            durable: True writes the message to the store before its turn begins. If this process
                dies after that, a worker answers it. It needs a `request_id`, and costs a write.

        Returns:
            The turn, with the answer in `text`.

        Raises:
            ValueError: The message is empty or too long, or the request id is wrong or missing.
            ConversationEnded: The conversation is over.
            ConversationNotFound: The conversation was deleted.
            ConversationConflict: The request id belongs to another message, the definition changed,
                or the run waits for an answer.
            ModelError: The model failed.
            HandlerError: A handler failed and stopped the turn.
            StoreError: The store failed.

        Example:
            >>> chat = machine.start()
            >>> chat.send("large", request_id="msg-17").text
            'One pizza, large.'
            >>> chat.send("large", request_id="msg-17").number  # the message is answered once
            1
        """
        return self._portal.run(
            self._conversation.send(text, request_id=request_id, durable=durable)
        )

    def stream(
        self,
        text: str | Choice,
        *,
        request_id: str | None = None,
        keep: bool = False,
        durable: bool = False,
    ) -> SyncStream:
        """Send one message, and return the events of its turn as they happen.

        Args:
            text: The message, or one of the `choices` of the turn before.
            request_id: Your id of the message. The same id gives the recorded turn and its events.
            keep: True finishes the turn even if you leave the loop early, as a caller does who
                interrupts. The next message may come at once, and waits for it. `close` waits, too.
            durable: As in `send`.

        Returns:
            The stream. Iterating over it sends the message, and raises the errors of `send`. Its
            `turn` is set after the last event.

        Example:
            >>> from llm_fsm.events import MessageDelta
            >>> stream = machine.start().stream("large")
            >>> [event.text for event in stream if isinstance(event, MessageDelta)]
            ['One pizza, large.']
            >>> stream.turn.state
            'done'
        """
        return SyncStream(
            self._machine,
            self._conversation.stream(text, request_id=request_id, keep=keep, durable=durable),
        )

    def heard(self, number: int, text: str) -> None:
        """Record that the user heard only the beginning of a turn's text.

        `history` and later prompts then show that part, with the mark `… [interrupted]`. The
        record of the turn keeps the whole text. A later call for the same turn replaces the part.

        Args:
            number: The number of the turn, as in `Turn.number`.
            text: What was heard. Spaces, punctuation and case may differ from the turn's text.

        Raises:
            ValueError: There is no such turn, or it said nothing.
            ConversationNotFound: The conversation was deleted.

        Example:
            >>> chat = machine.start()
            >>> turn = chat.send("large")
            >>> chat.heard(turn.number, "one pizza")
            >>> chat.history[-1].text
            'One pizza… [interrupted]'
        """
        self._portal.run(self._conversation.heard(number, text))

    def answer(
        self, value: object, *, pause: str | None = None, request_id: str | None = None
    ) -> Turn:
        """Answer the pause of the run, and continue the run.

        Args:
            value: The answer, a JSON value that fits the schema of `paused`.
            pause: The id of the pause; None: the one of the last turn or property that was read.
            request_id: Your id of the answer. The same id gives the recorded turn.

        Returns:
            The turn.

        Raises:
            ValueError: The answer does not fit the schema of `paused`.
            ConversationNotFound: The conversation was deleted.
            ConversationConflict: The pause was answered or has expired, or the run waits for
                nothing.
            ModelError: The model failed. Nothing has changed, and you may answer again.
            StoreError: The store failed.
        """
        return self._portal.run(
            self._conversation.answer(value, pause=pause, request_id=request_id)
        )

    def stream_answer(
        self, value: object, *, pause: str | None = None, request_id: str | None = None
    ) -> SyncStream:
        """Answer the pause of the run, and return the events as they happen.

        Args:
            value: The answer, a JSON value that fits the schema of `paused`.
            pause: As for `answer`.
            request_id: Your id of the answer. The same id gives the recorded turn and its events.

        Returns:
            The stream. Iterating over it gives the answer, and raises the errors of `answer`.
        """
        stream = self._conversation.stream_answer(value, pause=pause, request_id=request_id)
        return SyncStream(self._machine, stream)

    def update(
        self,
        context: JsonMap | None = None,
        state: str | None = None,
        *,
        request_id: str | None = None,
        agreed: bool = False,
    ) -> Turn:
        """Change a conversation between messages, for example from a webhook or for an operator.

        Automatic transitions, deciding states and tasks run as after a message. The text of the
        turn holds only fixed replies, because nobody asked anything.

        Args:
            context: Values by key; None deletes a key. Their source is `host`.
            state: Id of the state to move to. Digressions and flows are left.
            request_id: Your id of the update. The same id gives the recorded turn.
            agreed: True if your program says yes to what a state does that acts.

        Returns:
            The turn.

        Raises:
            ValueError: A value is refused, there is no such state, or nothing is to be changed.
            ConversationEnded: The conversation is over.
            ConversationNotFound: The conversation was deleted.
            ConversationConflict: The request id belongs to something else, or the run waits and
                cannot be moved.
        """
        return self._portal.run(
            self._conversation.update(context, state, request_id=request_id, agreed=agreed)
        )

    def say(self, text: str, *, by: str = "", request_id: str | None = None) -> Turn:
        """Say something to the user between messages, also after the end.

        Args:
            text: The message to the user. It is not changed.
            by: The name of the person who says it. The history and the model's prompts name them.
                "" speaks for the machine.
            request_id: Your id of the message. The same id gives the recorded turn.

        Returns:
            The turn.

        Raises:
            ValueError: The text is empty or too long, or the name is too long.
            ConversationNotFound: The conversation was deleted.
            ConversationConflict: The request id belongs to something else.
        """
        return self._portal.run(self._conversation.say(text, by=by, request_id=request_id))

    def end(self) -> None:
        """Close the conversation for good.

        An interrupted turn that had acted is finished first.

        Raises:
            ConversationNotFound: The conversation was deleted.
            ModelError: The model failed while the interrupted turn was finished. The conversation
                is then unchanged.
            HandlerError: A handler failed.
            StoreError: The store failed.
        """
        self._portal.run(self._conversation.end())

    def undo(self) -> None:
        """Undo the last turn.

        The undo is an event on record. Effects of the turn's tools and handlers outside stay.

        An interrupted turn that had acted is finished first, and is the last one. A conversation
        that had ended continues. Its END_CONVERSATION handlers have run, and run again when it ends
        again. The turn's `request_id`
        stays used: the same message gets the recorded answer.

        Raises:
            ConversationConflict: There is no turn, or the turn cannot be undone because its
                definition is unknown.
            ConversationNotFound: The conversation was deleted.
            StoreError: The store failed.
        """
        self._portal.run(self._conversation.undo())


def _close(closing: Closing, portal: Portal) -> None:
    portal.stop(closing.close())


class Machine:
    """A definition with a model and a store, ready for conversations.

    Its methods wait for their results. You may call them from several threads; turns of different
    conversations run side by side. A machine that you do not close closes itself when nothing
    refers to it any more, or at exit.

    Args:
        definition: The definition.
        file: The file that paths in subflows are relative to; see `from_file`.
        settings: See `llm_fsm.engine.settings.MachineSettings`.

    Raises:
        DefinitionError: The definition cannot be used.
        ConfigurationError: The model, the store or the key cannot be used.
        ValueError: A setting has a wrong value.
        TypeError: A setting has a wrong type.

    Example:
        >>> from llm_fsm import Machine
        >>> with Machine.from_file("pizza.json", model="offline") as machine:
        ...     chat = machine.start()
        ...     turn = chat.send("large")
        >>> turn.text
        'One pizza, large.'
        >>> turn.state, turn.ended
        ('done', True)
    """

    def __init__(
        self,
        definition: Definition,
        *,
        file: str | Path | None = None,
        **settings: Unpack[MachineSettings],
    ) -> None:
        check_names(settings, "Machine.__init__")
        self._machine = AsyncMachine(definition, file=file, **settings)
        self._portal = Portal()
        self._closing = weakref.finalize(self, _close, self._machine.closing, self._portal)

    @classmethod
    def from_file(cls, path: str | Path, **settings: Unpack[MachineSettings]) -> Self:
        """Make a machine from a definition file.

        Args:
            path: The JSON file. Comments and trailing commas are allowed. Paths in its subflows are
                relative to it.
            settings: See `llm_fsm.engine.settings.MachineSettings`.

        Returns:
            The machine.

        Raises:
            DefinitionError: The file cannot be read, or the definition cannot be used. The error
                has all findings.
            ConfigurationError: The model, the store or the key cannot be used.
            ValueError: A setting has a wrong value.
            TypeError: A setting is unknown or has a wrong type.

        Example:
            >>> settings = {"model": "offline", "store": "memory", "timeout": 60}
            >>> machine = Machine.from_file("pizza.json", **settings)
            >>> machine.start().greeting
            'Which size?'
            >>> machine.close()
        """
        check_names(settings, "Machine.from_file")
        return cls(load(path), file=path, **settings)

    @classmethod
    def from_release(cls, path: str | Path, **settings: Unpack[MachineSettings]) -> Self:
        """Make a machine that begins a share of its conversations on a newer definition.

        Args:
            path: The release file; docs/how-to/release-a-change.md describes it. It is read again
                when it changes. Without `NAME.release.json` the machine is that of `NAME.json`, and
                follows the release in the store.
            settings: As for `from_file`, without `on_change`.

        Returns:
            The machine of the stable definition.

        Raises:
            DefinitionError: The stable definition cannot be used.
            ConfigurationError: The release, the model, the store or the key cannot be used.
        """
        machine = cls.from_file(stable_file(path), **settings)
        machine._machine._follow(path)
        return machine

    @classmethod
    def from_dict(
        cls,
        document: JsonMap,
        *,
        file: str | Path | None = None,
        **settings: Unpack[MachineSettings],
    ) -> Self:
        """Make a machine from a definition as JSON data.

        Args:
            document: The definition as a mapping, as `json.load` returns it.
            file: The file that paths in subflows are relative to; None: they name no files.
            settings: See `llm_fsm.engine.settings.MachineSettings`.

        Returns:
            The machine.

        Raises:
            DefinitionError: The definition cannot be used. The error has all findings.
            ConfigurationError: The model, the store or the key cannot be used.
            ValueError: A setting has a wrong value.
            TypeError: A setting is unknown or has a wrong type.

        Example:
            >>> hello = {"purpose": "Greet", "kind": "final", "reply": "Hello!"}
            >>> document = {"name": "greeter", "initial_state": "hello", "states": {"hello": hello}}
            >>> machine = Machine.from_dict(document, model="offline")
            >>> machine.start().greeting
            'Hello!'
            >>> machine.close()
        """
        check_names(settings, "Machine.from_dict")
        return cls(load_dict(document).definition, file=file, **settings)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.definition!r}>"

    @property
    def definition(self) -> Definition:
        """The definition that this machine runs."""
        return self._machine.definition

    def start(
        self,
        context: JsonMap | None = None,
        conversation_id: str | None = None,
        greet: bool = True,
        state: str | None = None,
        background: JsonMap | None = None,
        *,
        on_event: Observer | None = None,
        history: Iterable[Any] | None = None,
        timezone: str = "",
        metadata: TextMap | None = None,
        anew: bool = False,
        agreed: bool = False,
        language: str = "",
    ) -> Conversation:
        """Begin a conversation, and greet the user unless `greet` is False.

        Args:
            context: The first values of the context, by key.
            conversation_id: An id of 1 to 200 characters; None makes a new one.
            greet: False begins without a message to the user.
            state: Id of the state to begin in; None is the initial state.
            background: The purpose of the work; see `llm_fsm.session.memory.Background`.
            on_event: A plain function of (conversation id, event), called on another thread. It
                receives the greeting's events as they happen, and its text as `MessageDelta`.
            history: Earlier messages from elsewhere, as (role, text) pairs or messages. Roles are
                user and assistant, and the last message is not the user's. Prompts show them, and
                `chat.history` begins with them.
            timezone: The user's time zone as an IANA name, for dates and times in prompts. "" takes
                the definition's.
            metadata: Labels for `conversations`, `count` and `delete_matching`, such as {"user":
                "ada"}. They never change, and neither prompts nor conditions see them. At most 16
                texts of 1 to 512 characters. A key has 1 to 64 letters, digits, `_`, `-` and `.`.
            anew: True begins a conversation of this id again if it has ended. The record goes on,
                request ids stay known, and its labels stay.
            agreed: True if your program says yes to what a state does that acts.
            language: The user's language, if the definition has several `languages`: a BCP 47 tag,
                or the header `Accept-Language`. An unknown one is logged once, and the
                definition's own counts.

        Returns:
            The conversation. Its `greeting` is the first message to the user.

        Raises:
            ConversationConflict: The id exists, and is not to begin `anew` after an end.
            ValueError: The id, the context, the state, the history, the time zone or the metadata
                is wrong.
            ConfigurationError: A tool or function that the definition names is missing.
            ModelError: The model failed. As after any error, nothing is stored.
            TypeError: `on_event` is async. An error that it raises is raised.

        Example:
            >>> chat = machine.start({"size": "small"}, conversation_id="visitor-7", greet=False)
            >>> chat.state, chat.context
            ('order', {'size': 'small'})
            >>> machine.resume("visitor-7").id
            'visitor-7'
        """
        started = self._machine.start(
            context,
            conversation_id,
            greet,
            state,
            background,
            on_event=on_event,
            history=history,
            timezone=timezone,
            metadata=metadata,
            anew=anew,
            agreed=agreed,
            language=language,
        )
        return Conversation(self, self._portal.run(started))

    def open(
        self,
        conversation_id: str,
        context: JsonMap | None = None,
        greet: bool = True,
        *,
        on_event: Observer | None = None,
        history: Iterable[Any] | None = None,
        timezone: str = "",
        metadata: TextMap | None = None,
        anew: bool = False,
        language: str = "",
    ) -> Conversation:
        """Resume the conversation of an id, or begin it if there is none.

        Any number of callers may open the same id at once, in any process. One of them begins the
        conversation and greets; the others resume it.

        Args:
            conversation_id: An id of 1 to 200 characters.
            context: The first values of the context, by key. It counts only if this call begins the
                conversation, and so do all other arguments.
            greet: False begins without a message to the user.
            on_event: As in `start`.
            history: As in `start`.
            timezone: As in `start`.
            metadata: As in `start`.
            anew: True begins again if the conversation has ended, under the same id. The record
                goes on, request ids stay known, and its labels stay.
            language: As in `start`.

        Returns:
            The conversation. `is_new` is true if this call began it.

        Raises:
            ValueError: The id, the context, the history, the time zone or the metadata is wrong.
            ConfigurationError: A tool or function that the definition names is missing.
            ModelError: The model failed to greet. As after any error, nothing is stored.
            UnreadableError: A part of the conversation is damaged.

        Example:
            >>> machine.open("visitor-7", {"size": "small"}, greet=False).is_new
            True
            >>> machine.open("visitor-7", {"size": "large"}).context
            {'size': 'small'}
            >>> machine.resume("visitor-7").end()
            >>> machine.open("visitor-7", greet=False, anew=True).generation
            2
        """
        opened = self._machine.open(
            conversation_id,
            context,
            greet,
            on_event=on_event,
            history=history,
            timezone=timezone,
            metadata=metadata,
            anew=anew,
            language=language,
        )
        return Conversation(self, self._portal.run(opened))

    def resume(self, conversation_id: str) -> Conversation:
        """Resume a conversation, in any process, at any time.

        Due time-outs happen first.

        Args:
            conversation_id: Its id.

        Returns:
            The conversation.

        Raises:
            ConversationNotFound: There is no conversation with this id.
            UnreadableError: A part of it is damaged.
        """
        return Conversation(self, self._portal.run(self._machine.resume(conversation_id)))

    def run(
        self,
        input: Any = None,
        context: JsonMap | None = None,
        conversation_id: str | None = None,
        background: JsonMap | None = None,
        *,
        state: str | None = None,
        shared: JsonMap | None = None,
        memory: TextMap | None = None,
    ) -> Turn:
        """Run a machine without a user as far as possible.

        Args:
            input: The input of the first task, any JSON value.
            context: The first values of the context, by key.
            conversation_id: The id of the run; None makes a new one. An id that exists resumes that
                run, after a crash too, and repeats no finished work. A run that waits or is over
                stays as it is.
            background: The purpose of the work, as JSON; see `llm_fsm.session.memory.Background`.
            state: Id of the state to begin in; None is the initial state.
            shared: Values that states share.
            memory: First texts of the working memory, as {bucket number: text}, such as {"0": "…"}.

        Returns:
            The turn. Its `outcome` says how the run ended, or that it is paused.

        Raises:
            ConversationConflict: The run with this id began with another input.
            ConfigurationError: A tool or function that the definition names is missing.
            ModelError: The model failed. Run the same id again to resume.
            ValueError: The input or another value is wrong.
        """
        running = self._machine.run(
            input, context, conversation_id, background, state=state, shared=shared, memory=memory
        )
        return self._portal.run(running)

    def step(
        self,
        input: Any = None,
        context: JsonMap | None = None,
        conversation_id: str | None = None,
        background: JsonMap | None = None,
        *,
        state: str | None = None,
        shared: JsonMap | None = None,
        memory: TextMap | None = None,
    ) -> Turn:
        """Run one task, and stop before the next state.

        The run is saved there. Call `step` with the id of a run to take its next step.

        Args:
            input: The input of the task, any JSON value. None takes the output of the task before.
            context: The first values of the context, by key.
            conversation_id: The id of the run; None makes a new one.
            background: The purpose of the work, as JSON; see `llm_fsm.session.memory.Background`.
            state: Id of the state to begin in; None is the initial state.
            shared: Values that states share.
            memory: First texts of the working memory, as {bucket number: text}, such as {"0": "…"}.

        Returns:
            The turn.

        Raises:
            ConversationConflict: Another caller began the same run with another input.
            ConfigurationError: A tool or function that the definition names is missing.
            ModelError: The model failed. Take the same step again to resume.
            ValueError: The input or another value is wrong.
        """
        running = self._machine.step(
            input, context, conversation_id, background, state=state, shared=shared, memory=memory
        )
        return self._portal.run(running)

    def outputs(self, conversation_id: str) -> tuple[tuple[str, Any], ...]:
        """Return the outputs of all tasks that passed.

        Args:
            conversation_id: The id of the run.

        Returns:
            Pairs of state id and output, oldest first. They are empty for an unknown id.
        """
        return self._portal.run(self._machine.outputs(conversation_id))

    def run_stream(
        self,
        input: Any = None,
        context: JsonMap | None = None,
        conversation_id: str | None = None,
        background: JsonMap | None = None,
    ) -> SyncStream:
        """Run a machine without a user, as a stream of events.

        Args:
            input: The input of the first task, any JSON value.
            context: The first values of the context, by key.
            conversation_id: The id of the run, as for `run`.
            background: The purpose of the work, as JSON; see `llm_fsm.session.memory.Background`.

        Returns:
            The stream. Iterating over it runs the machine, and raises the errors of `run`.
        """
        return SyncStream(
            self, self._machine.run_stream(input, context, conversation_id, background)
        )

    def answer(
        self,
        conversation_id: str,
        value: object,
        *,
        pause: str | None = None,
        request_id: str | None = None,
        step: bool = False,
    ) -> Turn:
        """Answer the pause of a run, and continue the run.

        Args:
            conversation_id: The id of the run.
            value: The answer, a JSON value that fits the schema of `paused`.
            pause: The id of the pause; None takes the current one.
            request_id: Your id of the answer. The same id gives the recorded turn.
            step: True runs only the task that waits, and stops before the next state.

        Returns:
            The turn.

        Raises:
            ValueError: The answer does not fit the schema of the pause.
            ConversationNotFound: There is no conversation with this id.
            ConversationConflict: The pause was answered or has expired, or the run waits for
                nothing.
            ModelError: The model failed. Nothing has changed, and you may answer again.
        """
        return self._portal.run(
            self._machine.answer(
                conversation_id, value, pause=pause, request_id=request_id, step=step
            )
        )

    def export(self, conversation_id: str) -> str:
        """Export a conversation as one JSON text.

        Args:
            conversation_id: Its id.

        Returns:
            The JSON, with secrets; `take_in` reads it.

        Raises:
            ConversationNotFound: There is no conversation with this id.
            UnreadableError: A part of it is damaged.
        """
        return self._portal.run(self._machine.export(conversation_id))

    def take_in(self, text: str, conversation_id: str | None = None) -> str:
        """Import a conversation that `export` wrote.

        Args:
            text: The exported JSON.
            conversation_id: A new id; None keeps its own.

        Returns:
            The id of the conversation in this store.

        Raises:
            ValueError: The text is no exported conversation. The message says why.
            ConversationConflict: The id exists.
            StoreError: A newer version exported it.
        """
        return self._portal.run(self._machine.take_in(text, conversation_id))

    def take_up(self, conversation_id: str, now: float | None = None) -> Turn | None:
        """Finish the turn that a dead process left in a conversation; else fire what is due there.

        Three attempts that end their process park the turn. Nobody takes up a turn that somebody
        stopped.

        Args:
            conversation_id: The conversation.
            now: Seconds since the epoch; None is the current time.

        Returns:
            The turn; None if there was none, or this machine cannot play it.

        Raises:
            LLMFSMError: The turn failed. It is tried again later.
        """
        return self._portal.run(self._machine.take_up(conversation_id, now))

    def run_due(self, now: float | None = None) -> tuple[Turn, ...]:
        """Fire every time-out and reminder of this machine's conversations that is due, and finish
        turns that a dead process left.

        Neither happens by itself. Call this about once a minute, or run `llm-fsm worker`. It also
        sends undelivered events to sinks, in the background.

        Args:
            now: Seconds since the epoch; None is the current time.

        Returns:
            The turns. A turn that fails stays due and does not delay others.

        Raises:
            LLMFSMError: The first error of a turn that failed, after all others have run.
        """
        return self._portal.run(self._machine.run_due(now))

    def conversations(
        self,
        after: str | Listed | None = None,
        limit: int = 100,
        order: Order = "id",
        **wanted: Unpack[Filter],
    ) -> Sequence[Listed]:
        """List conversations of the store.

        Args:
            after: Start after this id, or after this line; None starts at the first conversation.
                An order by time needs the line.
            limit: At most this many conversations. To read on, pass the last line as `after`.
            order: "id", or "updated" for the time of the last turn. "-updated" begins with the
                newest.
            wanted: Filters that all match: `metadata`, `updated_since`, `updated_before`,
                `definition`, `state`, `ended`; see `llm_fsm.engine.listing.Filter`.

        Returns:
            One `Listed` for each conversation, with its id, state and times in seconds since the
            epoch.

        Raises:
            ValueError: A filter or the order has a wrong value.
        """
        return self._portal.run(self._machine.conversations(after, limit, order, **wanted))

    def paused(
        self,
        kind: str | None = None,
        limit: int = 100,
        after: OpenPause | None = None,
        **wanted: Unpack[Filter],
    ) -> Sequence[OpenPause]:
        """List the conversations of the store that wait for an answer, for an operators' list.

        The one that nobody touched for longest comes first. The store finds them by an index.

        Args:
            kind: Only pauses of this kind: wait, approval, break or unknown_outcome; None: all.
            limit: At most this many.
            after: The last pause of the page before; None: from the first.
            wanted: Filters, as of `conversations`.

        Returns:
            One `OpenPause` for each, with `conversation_id`, `kind`, `what`, `id` and `call`.

        Raises:
            ValueError: There is no such kind, or a filter has a wrong value.

        Example:
            for pause in machine.paused("approval"):
                machine.answer(pause.conversation_id, {"approved": True}, pause=pause.id)
        """
        return self._portal.run(self._machine.paused(kind, limit, after, **wanted))

    def count(self, **wanted: Unpack[Filter]) -> int:
        """Count conversations of the store.

        Args:
            wanted: Filters, as of `conversations`. Without any, all are counted.

        Returns:
            Their number.

        Raises:
            ValueError: A filter has a wrong value.
        """
        return self._portal.run(self._machine.count(**wanted))

    def delete_matching(self, **wanted: Unpack[Filter]) -> int:
        """Delete everything about all conversations that match, for example those of one person.

        Conversations that begin meanwhile are deleted, too.

        Args:
            wanted: Filters, as of `conversations`; at least one.

        Returns:
            The number of deleted conversations.

        Raises:
            ValueError: There is no filter, or a filter has a wrong value.
        """
        return self._portal.run(self._machine.delete_matching(**wanted))

    def definition_of(self, conversation_id: str) -> Definition:
        """Return the definition that a conversation runs on.

        Args:
            conversation_id: Its id.

        Returns:
            The definition; the machine's own if the store does not have the conversation's.

        Raises:
            ConversationNotFound: There is no conversation with this id.
        """
        return self._portal.run(self._machine.definition_of(conversation_id))

    def migrate(self, conversation_id: str, *, dry_run: bool = False) -> Migrated | str | None:
        """Move a conversation to this machine's definition, by the map of `on_change`.

        Args:
            conversation_id: Its id.
            dry_run: True only plans the migration, and changes nothing.

        Returns:
            The event. A sentence if the conversation stays on its own definition: it says why. None
            if the conversation is over or runs on this definition already.

        Raises:
            ConversationNotFound: There is no conversation with this id.
        """
        return self._portal.run(self._machine.migrate(conversation_id, dry_run=dry_run))

    def delete(self, conversation_id: str) -> bool:
        """Delete everything about a conversation.

        Args:
            conversation_id: Its id.

        Returns:
            True if there was such a conversation.

        Raises:
            ValueError: The id is not a possible one.
        """
        return self._portal.run(self._machine.delete(conversation_id))

    def close(self) -> None:
        """Close all connections and files.

        The machine's thread ends too. Events that sinks have not received yet are sent first, if
        the sinks take them at once. Others stay in the store. Closing twice does nothing.
        """
        self._closing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def add_handler(self, handler: Handler) -> None:
        """Register a handler made by `create_handler`.

        Args:
            handler: The handler. It runs from the next turn on.

        Raises:
            ConfigurationError: It names an unknown state.
            ValueError: It is no handler.
        """
        self._machine.add_handler(handler)

    def on(
        self,
        *points: str | Point,
        state: str | Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        priority: int = 100,
        critical: bool = False,
        timeout: float | None = None,
    ) -> Callable[[Function], Function]:
        """Decorate a function that runs as a handler at these points.

        Args:
            points: Names of points; see `llm_fsm.turn.effects.Point`.
            state: Ids of states in which it runs; None: all.
            target: Ids of target states of moves for which it runs; None: all.
            priority: Handlers with a lower number run first.
            critical: True stops the turn if the function fails.
            timeout: Seconds that the function may take; None: the time of the turn.

        Returns:
            A decorator that registers the function and returns it.

        Raises:
            ValueError: A point is unknown, or the time-out is not above 0.
            ConfigurationError: A state is unknown.
        """
        return self._machine.on(
            *points,
            state=state,
            target=target,
            priority=priority,
            critical=critical,
            timeout=timeout,
        )

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a tool, for definitions that name it.

        Args:
            function: The function; None returns a decorator.
            options: The options of `llm_fsm.tools.registry.make_tool`, such as `name` and
                `timeout`.

        Returns:
            The function, or a decorator that registers one.

        Raises:
            ValueError: Another tool has the name, or the function cannot be a tool.
        """
        return (
            self._machine.tool(**options)
            if function is None
            else self._machine.tool(function, **options)
        )

    def function(
        self, function: Callable[..., Any] | None = None, /, *, name: str | None = None
    ) -> Any:
        """Register a function for `execute` or for a check of a key result; see
        `llm_fsm.tools.task_functions`.

        Args:
            function: The function; None returns a decorator.
            name: The name in definitions; None takes the function's own.

        Returns:
            The function, or a decorator that registers one.

        Raises:
            ValueError: Another function has the name.
        """
        return self._machine.function(function, name=name)
