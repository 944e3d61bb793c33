"""Conversations in a Redis server (redis-py; server 5 or newer, one server or one primary, no
cluster of several).

Every turn is one script, which the server runs as a whole. The server's settings decide its
durability. Only with `appendonly yes` and `appendfsync always`, a turn is on the disk before `save`
returns. Other settings cause a RuntimeWarning on first use.

A lock names its holder, and a holder lives as long as its lease, which is renewed while locks are
held. Every write checks the lock. So a process that stopped for longer than the lease, and lost it,
writes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from llm_fsm._json import TextMap, json_text
from llm_fsm.errors import ConfigurationError
from llm_fsm.stores.base import (
    AcceptedMessage,
    AcceptedQuery,
    Commit,
    DueRow,
    FindsJournals,
    JournalQuery,
    Listed,
    ListQuery,
    Loaded,
    LoadedWithJournal,
    OutboxQuery,
    Posted,
    Wake,
    just_before,
    labels_of,
)
from llm_fsm.stores.errors import (
    answered_already,
    lock_lost,
    step_exists,
    unknown_definition,
    wrong_version,
)
from llm_fsm.stores.locks.conversation_lock import finished
from llm_fsm.stores.per_loop import PerLoop
from llm_fsm.stores.redis import scripts
from llm_fsm.stores.redis.connection import RedisLink, RedisReply, pool_of
from llm_fsm.stores.redis.errors import sound
from llm_fsm.stores.registry import seconds, taken

_PAGE = 500
_LISTED = (
    "definition",
    "state",
    "ended",
    "version",
    "created",
    "updated",
    "sha",
    "labels",
    "paused",
)


class RedisStore(FindsJournals, PerLoop[RedisLink]):
    """A `Store` in the server of `url` (`redis://`, `rediss://` or `unix://`), as redis-py takes
    it.

    `prefix` separates several stores in one database. `timeout`: seconds after which a command
    without an answer is given up. `lease`: seconds after which the locks of a dead process are
    free. The URL may have all three, as `?prefix=NAME&timeout=5&lease=30`. May be used from several
    event loops at once, each with its own connections. `close` closes those of its own event loop.
    Raises ConfigurationError for a URL that redis-py does not understand.
    """

    def __init__(
        self, url: str, *, prefix: str = "llm-fsm", timeout: float = 10.0, lease: float = 5.0
    ) -> None:
        try:
            self._url, settings = taken(url, "prefix", "timeout", "lease")
            self.timeout = seconds("timeout", settings.get("timeout", timeout))
            self.lease = seconds("lease", settings.get("lease", lease))
            parts = urlsplit(self._url)
            port = f":{parts.port}" if parts.port else ""
            pool: Any = pool_of(self._url, self.timeout)
            pool.make_connection()  # opens nothing, but checks the options
        except (ValueError, TypeError) as error:
            raise ConfigurationError(
                "this is no URL of a Redis server; for example redis://localhost:6379/0"
            ) from error
        self.place = f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
        # Braces keep all keys of a store on one node of a cluster, as its scripts need.
        self.prefix = f"{{{settings.get('prefix', prefix)}}}:"
        super().__init__()

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        answer = await self._do(scripts.LOAD, conversation_id, request_id or "")
        session, version, sha, record, left = answer.value
        if session is None:
            return None
        with sound(self.place, ValueError, TypeError):
            kind = LoadedWithJournal if left else Loaded
            return kind(session, int(version), record, sha)

    async def save(self, commit: Commit) -> None:
        """See `Store.save`. After a broken connection, it searches the commit."""
        name = commit.conversation_id
        answer = await self._write(
            scripts.SAVE, name, self._held.get(name, ""), *_arguments(commit)
        )
        said, *more = answer.value
        # A repeated script may find its own commit, which is no conflict.
        if said == "version" and not (answer.again and more[1]):
            raise wrong_version(commit, int(more[0]))
        if said == "lost":
            raise lock_lost(name)
        if said == "answered":
            raise answered_already(commit)
        if said == "undefined":
            raise unknown_definition(commit)

    async def records(
        self, conversation_id: str, after: int = 0, limit: int | None = None
    ) -> Sequence[str]:
        first = max(after, 0)
        last = -1 if limit is None else first + max(limit, 0) - 1
        # A last place before the first would count from the end of the list.
        if limit is not None and limit <= 0:
            self._own()
            return ()
        found = await self._ask("LRANGE", self._key("r", conversation_id), first, last)
        return tuple(found)

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        holder = self._held.get(conversation_id, "")
        answer = await self._write(scripts.JOURNAL, conversation_id, holder, step, text)
        said, *more = answer.value
        if said == "lost":
            raise lock_lost(conversation_id)
        # A repeated script may find the step that it wrote itself.
        if said == "exists" and not (answer.again and more[0] == text):
            raise step_exists(conversation_id, step)

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        steps: TextMap = await self._ask("HGETALL", self._key("j", conversation_id))
        return tuple(steps[step] for step in sorted(steps, key=int))

    async def forget_journal(self, conversation_id: str) -> None:
        answer = await self._write(
            scripts.FORGET, conversation_id, self._held.get(conversation_id, "")
        )
        if answer.value == "lost":
            raise lock_lost(conversation_id)

    async def _unfinished(self, query: JournalQuery) -> Sequence[str]:
        found: list[str] = []
        start = "-" if query.after is None else f"({query.after}"
        # A whole page may match nothing, so the loop ends only when no names are left.
        while len(found) < query.limit:
            names = await self._ask(
                "ZRANGEBYLEX", f"{self.prefix}journals", start, "+", "LIMIT", 0, _PAGE
            )
            if not names:
                break
            answer = await self._do(scripts.JOURNALS, *names)
            found += [name for name, first, last in answer.value if query.admits(first, last)]
            start = f"({names[-1]}"
        return tuple(found[: max(query.limit, 0)])

    async def accept(self, message: AcceptedMessage) -> AcceptedMessage:
        name, request_id = message.conversation_id, message.request_id
        text = json_text([name, request_id, message.definition, message.text, message.due])
        answer = await self._write(scripts.ACCEPT, name, request_id, repr(float(message.due)), text)
        return self._message(answer.value)

    async def listen(self, wake: Wake) -> None:
        await self._own().listen(wake)

    async def accepted(self, query: AcceptedQuery) -> Sequence[AcceptedMessage]:
        if query.conversation_id is not None:
            name = query.conversation_id
            requests = await self._ask("HKEYS", self._key("a", name))
            return query.page(await self._messages([(name, request_id) for request_id in requests]))
        latest = "+inf" if query.now is None else repr(float(query.now))
        found: list[AcceptedMessage] = []
        start = 0
        while len(found) < query.limit:
            key = f"{self.prefix}accepted"
            names = await self._ask("ZRANGEBYSCORE", key, "-inf", latest, "LIMIT", start, _PAGE)
            if not names:
                break
            kept = await self._messages([_named(name) for name in names])
            # A page may hold none that match, so the loop ends when enough are found.
            found += [message for message in kept if query.admits(message)]
            start += len(names)
        return query.page(found)

    async def _messages(self, names: Sequence[tuple[str, str]]) -> Sequence[AcceptedMessage]:
        if not names:
            return ()
        answer = await self._do(scripts.ACCEPTED, *chain.from_iterable(names))
        return [self._message(row) for row in answer.value]

    def _message(self, row: Sequence[str]) -> AcceptedMessage:
        with sound(self.place, ValueError, TypeError):
            written, place, state = row
            return AcceptedMessage.of_row((*json.loads(written), int(place), state))

    async def mark_accepted(
        self, conversation_id: str, request_id: str, state: str, before: Collection[str]
    ) -> str | None:
        asked = (conversation_id, request_id, state, *before)
        answer = await self._write(scripts.MARK_ACCEPTED, *asked)
        found: str | None = answer.value
        return found

    async def drop_accepted(self, conversation_id: str, request_id: str) -> None:
        await self._write(scripts.DROP_ACCEPTED, conversation_id, request_id)

    async def list(self, query: ListQuery) -> Sequence[Listed]:
        if query.order != "id":
            return query.page([line async for line in self._lines(query)])
        found: list[Listed] = []
        async for line in self._lines(query):
            if len(found) >= query.limit:
                break
            found.append(line)
        return tuple(found)

    async def count(self, query: ListQuery) -> int:
        found = 0
        async for _ in self._lines(query):
            found += 1
        return found

    async def _lines(self, query: ListQuery) -> AsyncIterator[Listed]:
        """Yield the lines that match a query, in order of ids, without its limit."""
        async for name in self._wanted(query):
            line = await self._line(name)
            if line is not None and query.admits(line):
                yield line

    async def _wanted(self, query: ListQuery) -> AsyncIterator[str]:
        """Yield ids in order, among them those of all lines that match a query."""
        if query.ids is not None or query.metadata:
            names = query.ids
            if query.metadata:
                labels = [self._key("m", label) for label in labels_of(query.metadata)]
                labelled = frozenset(await self._ask("SINTER", *labels))
                names = labelled if names is None else names & labelled
            for name in sorted(names or ()):
                yield name
            return
        after = query.after if query.order == "id" else None
        if query.begins:
            # Whichever comes later in the order of ids.
            after = max(after or "", just_before(query.begins))
        async for name in self._names("all" if query.paused is None else "waiting", after):
            if query.begins and not name.startswith(query.begins):
                return
            yield name

    async def definition(self, sha: str) -> str | None:
        found: str | None = await self._ask("HGET", f"{self.prefix}defs", sha)
        return found

    async def due(
        self, now: float, limit: int = 100, definition: str | None = None
    ) -> Sequence[DueRow]:
        # `repr` keeps all digits of a time.
        members = await self._ask("ZRANGEBYSCORE", f"{self.prefix}due", "-inf", repr(float(now)))
        with sound(self.place, ValueError, TypeError):
            rows = sorted((float(at), name, kind) for name, kind, at in map(json.loads, members))
        found: list[DueRow] = []
        for at, name, kind in rows:
            if len(found) >= limit:
                break
            if definition is None or await self._definition_of(name) == definition:
                found.append(DueRow(name, at, kind))
        return tuple(found)

    async def outbox(self, query: OutboxQuery) -> Sequence[Posted]:
        found: list[Posted] = []
        async for name in self._names("out", query.after):
            if len(found) >= query.limit:
                break
            of = query.definition if query.definition is None else await self._definition_of(name)
            if not query.admits(name, of or ""):
                continue
            texts = await self._ask("LRANGE", self._key("o", name), 0, -1)
            with sound(self.place, ValueError, TypeError):
                rows = [Posted(name, *json.loads(text)) for text in texts]
            found += [row for row in rows if query.sink in (None, row.sink)]
        return tuple(found[: max(query.limit, 0)])

    async def acknowledge(self, posted: Posted) -> None:
        await self._write(
            scripts.ACKNOWLEDGE, posted.conversation_id, posted.sink, posted.number, posted.index
        )

    async def delete(self, conversation_id: str) -> bool:
        # Asked first: a repeated deletion finds nothing, although it was this call that deleted.
        before = await self._ask("EXISTS", self._key("c", conversation_id))
        answer = await self._write(scripts.DELETE, conversation_id)
        return bool(answer.value or (answer.again and before))

    async def _line(self, name: str) -> Listed | None:
        values = await self._ask("HMGET", self._key("c", name), *_LISTED)
        definition, state, ended, version, created, updated, sha, labels, paused = values
        # It was deleted after its name was read.
        if version is None:
            return None
        with sound(self.place, ValueError, TypeError):
            return Listed(
                name,
                definition,
                state,
                ended == "1",
                int(version),
                float(created),
                float(updated),
                sha,
                dict(map(json.loads, json.loads(labels or "[]"))),
                paused or "",
            )

    async def _definition_of(self, name: str) -> str | None:
        found: str | None = await self._ask("HGET", self._key("c", name), "definition")
        return found

    async def _names(self, which: str, after: str | None) -> AsyncIterator[str]:
        """Yield ids in order. The server compares bytes of UTF-8, which is the order of code
        points.
        """
        start = "-" if after is None else f"({after}"
        while page := await self._ask(
            "ZRANGEBYLEX", f"{self.prefix}{which}", start, "+", "LIMIT", 0, _PAGE
        ):
            for name in page:
                yield name
            start = f"({page[-1]}"

    def _key(self, kind: str, name: str) -> str:
        return f"{self.prefix}{kind}:{name}"

    async def _ask(self, *command: Any) -> Any:
        with sound(self.place, UnicodeDecodeError):
            return (
                await self._own().call(
                    lambda client: client.execute_command(*command)  # type: ignore[no-untyped-call]
                )
            ).value

    async def _write(self, script: str, *values: Any) -> RedisReply:
        async def work() -> RedisReply:
            await self._own().may_write()
            return await self._do(script, *values)

        return await finished(asyncio.ensure_future(work()))

    async def _do(self, script: str, *values: Any) -> RedisReply:
        parts = self._own()
        run = parts.client.register_script(script)
        with sound(self.place, UnicodeDecodeError):
            return await parts.call(lambda _: run(args=[self.prefix, *values]))

    def _new_parts(self) -> RedisLink:
        return RedisLink(self._url, self.place, self.prefix, self.timeout, self.lease)


def _named(name: str) -> tuple[str, str]:
    """Return the conversation and the request id of a member of `accepted`.

    A member is the number of the id's bytes, `:`, and both ids.
    """
    size, _, both = name.partition(":")
    written = both.encode()
    return written[: int(size)].decode(), written[int(size) :].decode()


def _arguments(commit: Commit) -> Sequence[Any]:
    """Return the arguments of the script after prefix, id and holder."""
    due = [
        [json.dumps([commit.conversation_id, kind, at]), repr(float(at))]
        for at, kind in sorted(set(commit.due))
    ]
    outbox = [
        json_text([commit.number, index, event.sink, event.key, event.text])
        for index, event in enumerate(commit.outbox)
    ]
    fields = ["definition", commit.definition, "state", commit.state]
    fields += ["ended", str(int(commit.ended)), "updated", repr(float(commit.time))]
    if commit.metadata and not commit.expected:
        fields += ["labels", json_text(labels_of(commit.metadata))]
    answered = [[request_id, str(number)] for request_id, number in commit.answered]
    return (
        commit.expected,
        commit.number,
        commit.definition_sha or "",
        commit.definition_text or "",
        json_text(due),
        json_text(outbox),
        json_text(fields),
        json_text(answered),
        commit.paused,
        repr(float(commit.began)),
        commit.session,
        *(record for _, record, _ in commit.numbered),
    )
