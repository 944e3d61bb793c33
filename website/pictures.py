"""Take the pictures of the documents from the product itself: `python -m website.pictures`.

Needs tmux, Graphviz and Chromium. The pictures are in `docs/pictures`; look at them before you
commit them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from website import studio_pictures
from website.prepare import DOCS, ROOT

PICTURES = DOCS / "pictures"
WIDTH = 84
# rich's own picture loads a font from outside. This one takes a font of the reader's machine.
_SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
    <title>{title}</title>
    <style>
    .{unique_id}-matrix {{
        font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
        font-size: {char_height}px; line-height: {line_height}px;
    }}
    .{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
    {styles}
    </style>
    <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
    </clipPath>
    {lines}
    </defs>
    {chrome}
    <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">{matrix}</g>
    </g>
</svg>
"""

# The page shows so many messages and waits for none.
_ANSWERED = """count => document.querySelectorAll("#messages li").length >= count
    && document.querySelector("#messages").getAttribute("aria-busy") === "false" """


def main() -> None:
    """Take every picture anew."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_examples(folder)
        refused = ("llm-fsm chat coffee.json --model scripted:eager.json", "Serve me now.", "/why")
        title = "The model serves, and the machine refuses"
        terminal(PICTURES / "terminal-refusal.svg", folder, refused, title)
        validate = ("llm-fsm validate broken.json",)
        terminal(PICTURES / "terminal-validate.svg", folder, validate, "The checker on broken.json")
        why = (
            "echo 'A large one, please' | llm-fsm chat coffee.json --model offline",
            "clear",
            "llm-fsm conversations show --last --why | tail -n 9",
        )
        terminal(PICTURES / "terminal-why.svg", folder, why, "Why the last turn went as it did")
        drawn(PICTURES / "order.svg")
        chat_page(PICTURES, folder)
    studio_pictures.main()


def _write_examples(folder: Path) -> None:
    """Write the files of the README and of the reference, as a reader would."""
    for page in (ROOT / "README.md", DOCS / "reference" / "command-line.md"):
        text = page.read_text(encoding="utf-8")
        for part in text.split("<!-- file: ")[1:]:
            name, _, rest = part.partition(" -->\n")
            content = rest.partition("\n")[2].partition("```")[0]
            (folder / name).write_text(content, encoding="utf-8")


def terminal(path: Path, folder: Path, lines: Sequence[str], title: str) -> None:
    """Type lines into a real terminal, and write its screen as an SVG file."""
    name = f"llm-fsm-pictures-{os.getpid()}"
    tmux = ("tmux", "-L", name)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    environment.update(LLM_FSM_HOME=str(folder / "home"), TERM="xterm-256color")
    environment.pop("NO_COLOR", None)
    shell = ("bash", "--norc", "--noprofile")
    started = (
        *tmux,
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-x",
        str(WIDTH),
        "-y",
        "32",
        shlex.join(shell),
    )
    subprocess.run(started, cwd=folder, env=environment, check=True)
    try:
        time.sleep(1)
        subprocess.run((*tmux, "send-keys", "PS1='$ '; clear", "Enter"), check=True)
        time.sleep(1)
        for line in lines:
            subprocess.run((*tmux, "send-keys", "-l", line), check=True)
            subprocess.run((*tmux, "send-keys", "Enter"), check=True)
            time.sleep(4)
        shown = subprocess.run(
            (*tmux, "capture-pane", "-p", "-e"), check=True, capture_output=True, text=True
        )
    finally:
        subprocess.run((*tmux, "kill-server"), check=False)
    screen = shown.stdout.rstrip().removesuffix("$").rstrip()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(
            record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        console.print(Text.from_ansi(screen))
        named = _SVG.replace("{title}", title)
        picture = console.export_svg(
            title=title, theme=MONOKAI, code_format=named, unique_id="terminal"
        )
    path.write_text(picture, encoding="utf-8")


def drawn(path: Path) -> None:
    """Draw a shipped definition."""
    order = str(ROOT / "fsm_definitions" / "order.json")
    command = (sys.executable, "-m", "llm_fsm", "show", order, "--format", "svg", "-o", str(path))
    subprocess.run(command, check=True)


def chat_page(folder: Path, data: Path) -> None:
    """Order a pizza on the chat page, and take its picture in light and in dark colours."""
    with _served(data) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for scheme in schemes:
            page = browser.new_page(viewport={"width": 760, "height": 520}, color_scheme=scheme)
            page.goto(address)
            page.wait_for_selector("#messages li")
            for number, message in enumerate(("A large funghi, please", "1"), 1):
                page.fill("#text", message)
                page.keyboard.press("Enter")
                page.wait_for_function(_ANSWERED, arg=2 * number + 1)
            page.screenshot(path=folder / f"chat-page-{scheme}.png")
            page.close()
        browser.close()


@contextmanager
def _served(data: Path) -> Iterator[str]:
    """Serve a shipped definition on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    definition = str(ROOT / "fsm_definitions" / "order.json")
    options = ("--model", "offline", "--port", str(port), "--db", "memory")
    command = (sys.executable, "-m", "llm_fsm", "serve", definition, *options)
    server = subprocess.Popen(
        command, cwd=data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(address, timeout=1).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
