"""The page of the studio in Debian's Chromium."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from npm_client import folder as packages

WIDE = {"width": 1400, "height": 860}
AXE = "axe-core@4.14.1"
NARROW = {"width": 390, "height": 800}


@contextlib.contextmanager
def chromium(path: str) -> Iterator[Browser]:
    """Start a browser that has no network of its own to reach."""
    switches = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=switches)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(
    browser: Browser, address: str, file: str | None = None, **options: Any
) -> Iterator[Page]:
    """Open the page in a context of its own. A fault of its scripts fails the test.

    Args:
        browser: The browser.
        address: The address of the studio without its path, and the token behind `#token=`.
        file: The file to open; None: the first page.
        options: Options of the browser's context; `viewport` is wide if it is not given.
    """
    context = browser.new_context(**{"viewport": WIDE, **options})
    faults: list[str] = []
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("pageerror", lambda error: faults.append(str(error)))
    base, _, token = address.partition("#")
    page.goto(f"{base}/?file={file}#{token}" if file else f"{base}/#{token}")
    try:
        yield page
    finally:
        context.close()
    assert not faults


def write(path: Path, text: str) -> Path:
    """Write a file with the line ends as they are given."""
    path.write_bytes(text.encode())
    return path


def barriers(page: Page) -> list[list[object]]:
    """Return what axe finds wrong for readers and keyboards: its rule, and where.

    Args:
        page: The page, in a context with `bypass_csp=True`.
    """
    page.wait_for_timeout(300)  # colours glide
    page.add_script_tag(path=packages(AXE) / "node_modules" / "axe-core" / "axe.min.js")
    found: list[list[object]] = page.evaluate("""async () => (await axe.run()).violations.map(
        (one) => [one.id, one.nodes.map((node) => node.target.join(' ')).slice(0, 3)])""")
    return found
