"""An MCP server over stdio that says what its one argument scripts, without the SDK, so that it may
be wrong.

The argument is JSON: `tools` (the list, or a list of lists, one for each time that it is asked
for), `result` (of every call), `lines` (printed as they are in place of the answer to a call, with
ID for its id and a lone surrogate for a byte that is no UTF-8), `banner` (printed first),
`changes` (say before each answer that the tools have changed), `dies` (end the process after each
call), `error` (of every call), `cursors` (one after each page of the list, the last one for ever),
`pause` (seconds before each page). PID in the tools stands for the id of the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

SCRIPT: dict[str, Any] = json.loads(sys.argv[1])


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def next_page(asked: int) -> dict[str, Any]:
    cursors = SCRIPT.get("cursors")
    if cursors == "new":
        return {"nextCursor": str(asked)}
    return {"nextCursor": cursors[min(asked, len(cursors) - 1)]} if cursors else {}


def serve() -> None:
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    lists, asked = SCRIPT.get("tools", []), 0
    lists = lists if lists and isinstance(lists[0], list) else [lists]
    if "banner" in SCRIPT:
        print(SCRIPT["banner"], flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            version = message["params"]["protocolVersion"]
            info = {"name": "raw", "version": "1"}
            say(
                id=number,
                result={
                    "protocolVersion": version,
                    "capabilities": capabilities,
                    "serverInfo": info,
                },
            )
        elif method == "tools/list":
            tools = json.dumps(lists[min(asked, len(lists) - 1)]).replace("PID", str(os.getpid()))
            time.sleep(SCRIPT.get("pause", 0))
            say(id=number, result={"tools": json.loads(tools), **next_page(asked)})
            asked += 1
        elif method == "tools/call":
            if "error" in SCRIPT:
                say(id=number, error=SCRIPT["error"])
                continue
            if SCRIPT.get("changes"):
                say(method="notifications/tools/list_changed")
            for text in SCRIPT.get("lines", ()):
                print(text.replace("ID", json.dumps(number)), flush=True)
            if "lines" not in SCRIPT:
                say(
                    id=number,
                    result=SCRIPT.get("result", {"content": [{"type": "text", "text": "fine"}]}),
                )
            if SCRIPT.get("dies"):
                os._exit(1)
        elif number is not None:
            say(id=number, error={"code": -32601, "message": "no"})


if __name__ == "__main__":
    serve()
