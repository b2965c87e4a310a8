"""Fixtures of the report's tests: a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a Chromium that opens no connection of its own.

    For one module only: while it runs, its thread has an event loop, and no test can start another.
    """
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium: install the package of that name")
    quiet = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync")
    closed = ("disable-background-networking", "disable-component-update")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=[f"--{word}" for word in (*quiet, *closed)]
        )
        yield started
        started.close()
