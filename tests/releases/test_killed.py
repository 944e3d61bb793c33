"""Two servers of a release that are killed in turn while its share changes: each conversation stays
on its arm.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
import uuid
from itertools import count

import httpx
import pytest

from killable_servers import KillableServer
from llm_fsm._json import of_kind
from llm_fsm.session import events as ev
from llm_fsm.session.turn_record import events_of, parse
from llm_fsm.stores.registry import resolve
from shops import CANDIDATE, write_release

pytestmark = pytest.mark.anyio
KILLS = int(os.environ.get("CRASH_KILLS", "2"))
NEWER = json.loads(json.dumps(CANDIDATE).replace("Thanks.", "Thank you!"))
STORES = ["sqlite", "postgresql", *(["file", "redis"] if KILLS > 2 else [])]
"""`make kills` kills more often, and on every store."""
THANKS = {"Which item?": "Thanks.", "What may it be?": "Thank you!"}


def url_of(kind, folder, shared_service):
    if kind in ("postgresql", "redis"):
        name = f"k{uuid.uuid4().hex}"
        suffix = f"?schema={name}" if kind == "postgresql" else f"?lease=2&prefix={name}"
        return shared_service(kind) + suffix
    return f"{kind}:///{folder / 'shop.db'}"


def ask(servers, path, body):
    """Post to one server after the other until one answers."""
    deadline = time.monotonic() + 90
    for number in count():
        assert time.monotonic() < deadline, "no answer"
        try:
            url = servers[number % len(servers)].url + path
            answer = httpx.post(url, json=body, timeout=30, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.02)
            continue
        if answer.status_code != 503:
            return answer
    raise AssertionError


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", STORES)
async def test_each_conversation_stays_on_its_arm(kind, tmp_path, shared_service):
    url = url_of(kind, tmp_path, shared_service)
    write_release(tmp_path, candidate=NEWER)
    servers = [KillableServer(tmp_path, url, "--model", "offline") for _ in range(2)]
    chance = random.Random(5)
    begun, is_over = [], threading.Event()

    def begin():
        for number in count():
            if is_over.is_set():
                return
            order = servers if number % 2 else servers[::-1]
            wish = {"definition": "shop", "id": f"c{number}"}
            assert ask(order, "/conversations", wish).status_code in (201, 409)
            begun.append(wish["id"])

    with servers[0].running(), servers[1].running():
        thread = threading.Thread(target=begin)
        thread.start()
        for number in range(KILLS):
            time.sleep(chance.uniform(0.1, 0.5))
            victim = servers[number % 2]
            victim.kill()
            write_release(tmp_path, candidate=NEWER, share=chance.choice([0, 0.3, 0.7, 1]))
            victim.start()
        is_over.set()
        thread.join(120)
        assert len(begun) > KILLS
        store, arms = resolve(url), set()
        for number, name in enumerate(begun):
            answer = ask(servers[number % 2 :], f"/conversations/{name}/messages", {"text": "tea"})
            records = [parse(text) for text in await store.records(name)]
            assert answer.json()["text"] == THANKS[records[0].text]
            chosen = of_kind(events_of(records), ev.ReleaseChosen)
            arms.add(tuple(event.arm for event in chosen))
            is_newer = records[0].text == "What may it be?"
            assert is_newer == ("candidate" in {event.arm for event in chosen})
        await store.close()
    assert arms <= {(), ("stable",), ("candidate",)}
    assert len(arms) > 1
