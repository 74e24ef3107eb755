"""The site in a browser: a local server, and Debian's headless Chromium."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest

from tests.site.pages import SITE

AXE = Path(__file__).parents[2] / "build" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
FLAGS = [
    f"--{flag}"
    for flag in (
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
    )
]
SIZES = {"phone": (390, 844), "desktop": (1280, 900)}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def address():
    """The URL of the site."""
    handler = functools.partial(_Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - the links need no browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, address):
    """A function that opens a page in a given window size and color scheme, and lists errors."""
    contexts = []

    def opened(name, size="desktop", scheme="light", complaints=None):
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, base_url=address
        )
        contexts.append(context)
        page = context.new_page()
        if complaints is not None:
            _listen(page, complaints)
        page.goto(name)
        return page

    yield opened
    for context in contexts:
        context.close()


def _listen(page, complaints):
    def answered(response):
        if not response.ok:
            complaints.append(f"{response.status} {response.url}")

    def said(message):
        if message.type in {"error", "warning"}:
            complaints.append(message.text)

    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("response", answered)
    page.on("console", said)
