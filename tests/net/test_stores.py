"""Unusable stores and failing disks: reported in one line, without loss."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import StoreError
from antecede.net.journal import Saved, SqliteStore


def test_a_store_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        foreign = tmp_path / "foreign.db"
        with sqlite3.connect(foreign) as base:
            base.execute("CREATE TABLE songs (title TEXT)")
        base.close()
        with pytest.raises(StoreError, match="another program"):
            await SqliteStore(foreign).open()
        damaged = tmp_path / "damaged.db"
        damaged.write_bytes(b"not a database at all" * 100)
        with pytest.raises(StoreError, match="add it again with an empty store"):
            await SqliteStore(damaged).open()
        with pytest.raises(StoreError, match="check that the folder exists"):
            await SqliteStore(tmp_path / "nowhere" / "a.db").open()
        with pytest.raises(StoreError, match="is closed"):
            await SqliteStore(tmp_path / "a.db").append(b"it was never opened")

    asyncio.run(main())


@pytest.mark.parametrize("table", ["checkpoint", "journal", "rest"])
@pytest.mark.parametrize("value", ["'text'", "5"])
def test_a_row_that_holds_no_bytes_is_damaged(table: str, value: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "a.db")
        await store.open()
        await store.close()
        with sqlite3.connect(store.path) as base:
            base.execute(f"INSERT INTO {table} (data) VALUES ({value})")
        base.close()
        with pytest.raises(StoreError, match="the file is damaged"):
            await SqliteStore(store.path).open()

    asyncio.run(main())


def test_a_checkpoint_that_does_not_fit_leaves_the_old_one_and_its_journal(tmp_path: Path) -> None:
    async def main() -> Saved:
        store = SqliteStore(tmp_path / "a.db")
        await store.open()
        await store.replace(b"old")
        await store.append(b"entry")
        assert store._base is not None
        store._base.execute("PRAGMA max_page_count=10")
        with pytest.raises(StoreError, match="make room on the disk"):
            await store.replace(bytes(1 << 20))
        await store.append(b"another")
        await store.close()
        await store.close()
        again = SqliteStore(tmp_path / "a.db")
        saved = await again.open()
        await again.close()
        return saved

    assert asyncio.run(main()) == Saved(b"old", [b"entry", b"another"])


def test_a_disk_that_fails_is_said_in_one_line(tmp_path: Path) -> None:
    class Failing:
        in_transaction = False

        def execute(self, statement: str, *_: object) -> None:
            if statement.startswith("INSERT"):
                msg = "disk I/O error"
                raise sqlite3.OperationalError(msg)

        def close(self) -> None: ...

    async def main() -> None:
        store: Any = SqliteStore(tmp_path / "a.db")
        store._base = Failing()
        for work in (store.append(b"x"), store.replace(b"x")):
            with pytest.raises(StoreError, match=r"disk I/O error; check the disk") as caught:
                await work
            assert "\n" not in str(caught.value)
        await store.close()

    asyncio.run(main())
