"""Measure the page of the studio in Chromium: `python -m benchmarks.studio`.

It opens a machine of 500 states with and without positions, drags a state, and weighs the files of
the page. The machine that runs it may be shared, so it tells the CPU time of the browser beside the
time that passed, and the load.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

STATIC = Path(__file__).parents[1] / "src" / "llm_fsm" / "editor" / "static"
STATES = 500
WINDOW = {"width": 1400, "height": 860}
# The page tells by itself when it drew: `aria-busy` of the canvas says that places are still being
# looked for.
WATCH = """
window.seen = {};
const look = () => {
  const canvas = document.querySelector(".canvas");
  const isDrawn = canvas?.querySelector(".state") != null;
  if (isDrawn) seen.first ??= performance.now();
  if (isDrawn && canvas.getAttribute("aria-busy") === "false") {
    seen.ready = performance.now();
    seen.drawn = canvas.querySelectorAll(".state").length;
  } else {
    requestAnimationFrame(look);
  }
};
requestAnimationFrame(look);
"""
COUNT_FRAMES = """
window.frames = [];
window.counting = true;
const count = (now) => { frames.push(now); if (counting) requestAnimationFrame(count); };
requestAnimationFrame(count);
"""
DRAG_SECONDS = 2.0


def machine(states: int) -> dict[str, Any]:
    """Return a machine of questions: a binary tree with ways across and back.

    Args:
        states: How many states it has, at least 2.

    Returns:
        The definition.
    """
    topics = ("address", "order number", "reason", "payment", "time", "size")
    made: dict[str, Any] = {}
    for n in range(states):
        nexts = [k for k in (2 * n + 1, 2 * n + 2) if k < states]
        if n % 5 == 0 and n + 7 < states:
            nexts.append(n + 7)
        ways = [_way(n, k, topics[k % 6]) for k in nexts]
        if n % 9 == 4 and n > 10:
            ways.append({"target_state": f"ask_{n // 3}", "description": "The customer goes back"})
        topic = topics[n % 6]
        made[f"ask_{n}"] = {
            "purpose": f"Find out the {topic} of the customer, step {n}",
            "required_context_keys": [f"key_{n % 20}"],
            "transitions": ways,
        }
    keys = {f"key_{n}": {"type": "string", "description": f"Answer {n}"} for n in range(20)}
    return {
        "name": f"questions_{states}",
        "description": f"A machine of {states} states",
        "initial_state": "ask_0",
        "context_schema": {"type": "object", "properties": keys},
        "states": made,
    }


def _way(source: int, target: int, topic: str) -> dict[str, Any]:
    answer = "yes" if target % 2 else "no"
    logic = {"==": [{"var": f"key_{source % 20}"}, answer]}
    return {
        "target_state": f"ask_{target}",
        "description": f"The customer names the {topic}",
        "conditions": [{"description": f"the answer is {answer}", "logic": logic}],
    }


@contextmanager
def studio(folder: Path) -> Iterator[str]:
    """Run a studio of a folder on a free port.

    Args:
        folder: The folder.

    Yields:
        Its address with the token.
    """
    command = [sys.executable, "-m", "llm_fsm.editor", str(folder), "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        words = server.stdout.readline().split()
        yield next(word for word in words if word.startswith("http"))
    finally:
        server.terminate()
        server.wait()


def of_file(address: str, file: str) -> str:
    """Return the address at which the studio opens a file.

    Args:
        address: The address of the studio with its token.
        file: The path of the file below its folder.

    Returns:
        The address.
    """
    base, _, token = address.partition("#")
    return f"{base}?file={file}#{token}"


def bytes_of_the_page() -> int:
    """Return the bytes of all scripts, styles and pages, each packed by gzip."""
    files = [path for path in STATIC.rglob("*") if path.suffix in {".js", ".css", ".html"}]
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in files)


def renderer_seconds(session: CDPSession) -> float:
    """Return the CPU seconds of all renderers of the browser so far."""
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return sum(float(one["cpuTime"]) for one in processes if one["type"] == "renderer")


def opening(browser: Browser, address: str) -> dict[str, float]:
    """Open a file once in a fresh context.

    Args:
        browser: The browser.
        address: The address that opens the file.

    Returns:
        Milliseconds until the first states are drawn (`first`) and all places are final (`ready`),
        the number of states drawn then, and CPU seconds of the renderer.
    """
    session = browser.new_browser_cdp_session()
    context = browser.new_context(viewport=WINDOW)  # type: ignore[arg-type]
    page = context.new_page()
    page.add_init_script(WATCH)
    before = renderer_seconds(session)
    page.goto(address)
    page.wait_for_function("() => window.seen?.ready !== undefined", timeout=60_000)
    page.wait_for_timeout(200)
    found: dict[str, float] = page.evaluate("window.seen")
    found["cpu"] = renderer_seconds(session) - before
    context.close()
    return found


def dragging(browser: Browser, address: str) -> dict[str, float]:
    """Drag the first state to and fro.

    Args:
        browser: The browser.
        address: The address that opens the file.

    Returns:
        Frames a second, the longest pause between two in milliseconds, and CPU seconds of the
        renderer.
    """
    session = browser.new_browser_cdp_session()
    context = browser.new_context(viewport=WINDOW)  # type: ignore[arg-type]
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(address)
    page.wait_for_function("() => window.seen?.ready !== undefined", timeout=60_000)
    page.wait_for_timeout(500)
    box = page.get_by_role("group", name="State ask_0,").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    before = renderer_seconds(session)
    page.evaluate(COUNT_FRAMES)
    _shake(page, x, y)
    stamps: list[float] = page.evaluate("counting = false, frames")
    used = renderer_seconds(session) - before
    page.mouse.up()
    context.close()
    pauses = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    seconds = (stamps[-1] - stamps[0]) / 1000
    return {"frames": len(pauses) / seconds, "longest": max(pauses), "cpu": used / seconds}


def _shake(page: Page, x: float, y: float) -> None:
    """Move the mouse in a circle for some time."""
    ends = page.evaluate("performance.now()") + DRAG_SECONDS * 1000
    step = 0
    while page.evaluate("performance.now()") < ends:
        step += 1
        page.mouse.move(x + 60 + 4 * (step % 30), y + 3 * (step % 20))


def main() -> None:
    """Measure, and print one line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3, help="how often each file is opened")
    rounds = parser.parse_args().rounds
    path = shutil.which("chromium")
    if path is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    switches = ["--no-sandbox"] if os.geteuid() == 0 else []
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, {STATES} states")
    print(f"first load, gzipped: {bytes_of_the_page() / 1000:.0f} kB")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        text = json.dumps(machine(STATES), indent=2)
        (folder / "free.json").write_text(text, encoding="utf-8")
        (folder / "placed.json").write_text(text, encoding="utf-8")
        places = {f"ask_{n}": [(n // 20) * 420, (n % 20) * 120] for n in range(STATES)}
        layout = json.dumps({"positions": places})
        (folder / "placed.layout.json").write_text(layout, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=path, args=switches)
        with studio(folder) as address:
            for file, words in (
                ("placed.json", "with positions"),
                ("free.json", "without positions"),
            ):
                for _ in range(rounds):
                    _tell(words, opening(browser, of_file(address, file)))
            moved = dragging(browser, of_file(address, "placed.json"))
        browser.close()
    print(
        f"drag: {moved['frames']:.0f} frames a second, longest pause {moved['longest']:.0f} ms, "
        f"{moved['cpu']:.2f} CPU seconds a second"
    )
    print(f"load {os.getloadavg()[0]:.1f}")


def _tell(words: str, found: dict[str, float]) -> None:
    print(
        f"{words}: first states {found['first'] / 1000:.2f} s, final {found['ready'] / 1000:.2f} s, "
        f"{found['drawn']:.0f} states in view, CPU of the renderer {found['cpu']:.2f} s"
    )


if __name__ == "__main__":
    main()
