"""Nothing is paid twice, everything paid is counted, and trouble with the disk is said clearly."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from pipelines.errors import ConfigError, ReplyError, Unavailable
from pipelines.llm.ledger import Attempt, Entry, Ledger
from tests.llm.conftest import KEY, Make, Server, ask, completion, http, refusal

ENTRY = Entry("d1", "test", "tea", "p@1", "openai:m", '{"a": 1}', "stop", 100, 10, 5, 1)
PAID = Attempt("d1", "test", "tea", "openai:m", 1, "reply", prompt_tokens=100, cached_tokens=40, reply_tokens=10, cost=0.5)


async def test_the_same_question_is_sent_once_also_when_asked_together(server: Server, make: Make):
    server.delay = 0.05
    llm = make()

    await asyncio.gather(*(ask(llm) for _ in range(20)))
    await ask(llm)

    assert len(server.bodies) == 1


async def test_another_session_another_key_and_another_concurrency_pay_nothing_again(
    server: Server, make: Make, monkeypatch: pytest.MonkeyPatch
):
    first = make()
    await ask(first)
    await first.close()
    monkeypatch.setenv("OPENAI_API_KEY", "another-key-entirely")

    again = make(concurrency=9, timeout_s=77)
    await ask(again)

    assert len(server.bodies) == 1
    assert again.ledger.total().calls == 1


async def test_a_repeat_and_another_prompt_are_other_questions(server: Server, make: Make):
    llm = make()
    await ask(llm)
    await ask(llm, repeat=1)
    await ask(llm, "soup")

    assert len(server.bodies) == 3


async def test_a_refusal_is_kept_in_its_run_and_asked_again_only_on_wish(server: Server, make: Make):
    server.answers = [http(completion("", refusal="no"))]
    first = make()
    with pytest.raises(ReplyError):
        await ask(first)
    await first.close()
    server.answers = [http(completion())]

    with pytest.raises(ReplyError):
        await ask(make())
    assert (await ask(make(reask_refused=True))).title == "Tea"
    assert len(server.bodies) == 2


async def test_tokens_and_money_add_up_over_sessions_and_include_rejected_work(server: Server, make: Make, tmp_path: Path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {m: {prompt: 10, cached: 5, reply: 100}}\n", encoding="utf-8")
    server.answers = [http(completion("bad")), http(completion("worse")), http(completion())]
    first = make(prices=str(prices))
    with pytest.raises(ReplyError):
        await ask(first)
    await first.close()
    second = make(prices=str(prices))
    await ask(second, "soup")

    total = second.ledger.total()
    assert (total.calls, total.prompt_tokens, total.cached_tokens, total.reply_tokens, total.unpriced) == (3, 300, 120, 30, 0)
    assert total.cost == pytest.approx(3 * (60 * 10 + 40 * 5 + 10 * 100) / 1e6)


async def test_numbering_of_attempts_goes_on_after_a_kill(server: Server, make: Make):
    server.answers = [refusal(429, "slow", retry_after="30")]
    first = make()
    asked = asyncio.create_task(ask(first))
    for _ in range(500):
        if first.ledger.faults():
            break
        await asyncio.sleep(0.01)
    first.hurry()
    with pytest.raises(asyncio.CancelledError):
        await asked
    server.answers = [http(completion())]

    llm = make()
    await ask(llm)

    assert llm.ledger._rows(sa.text("select number, outcome from attempts order by id")) == [
        {"number": 1, "outcome": "throttled"},
        {"number": 2, "outcome": "reply"},
    ]


async def test_a_full_disk_is_a_clear_stop_and_what_was_there_stays(tmp_path: Path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    await ledger.keep(PAID, ENTRY)
    pages = ledger._rows(sa.text("PRAGMA page_count"))[0]["page_count"]
    ledger._connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    async def fill() -> None:
        for number in range(100):
            await ledger.keep(replace(PAID, digest=f"x{number}"), replace(ENTRY, digest=f"x{number}", content="y" * 5000))

    with pytest.raises(Unavailable, match="free the disk"):
        await fill()
    ledger.close()

    again = Ledger(tmp_path / "ledger.sqlite")
    assert again.get("d1") == ENTRY
    assert again._rows(sa.text("PRAGMA integrity_check")) == [{"integrity_check": "ok"}]
    again.close()


async def test_when_replies_cannot_be_kept_nothing_more_is_sent(server: Server, make: Make):
    llm = make(concurrency=2)
    await ask(llm)
    llm.ledger._connection.exec_driver_sql("PRAGMA query_only=1")

    found = await asyncio.gather(*(ask(llm, str(n)) for n in range(50)), return_exceptions=True)

    assert all(isinstance(one, Unavailable) for one in found)
    assert len(server.bodies) <= 1 + 2 + 2
    llm.ledger._connection.exec_driver_sql("PRAGMA query_only=0")


async def test_a_locked_ledger_is_a_clear_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger._connection.exec_driver_sql("PRAGMA busy_timeout=50")
    other = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    with pytest.raises(Unavailable, match="locked"):
        await ledger.keep(PAID, ENTRY)
    other.execute("ROLLBACK")
    await ledger.keep(PAID, ENTRY)

    assert ledger.get("d1") == ENTRY
    ledger.close()


def test_a_file_that_is_no_ledger_is_said_so(tmp_path: Path):
    (tmp_path / "ledger.sqlite").write_bytes(b"nonsense" * 1000)

    with pytest.raises(Unavailable, match=r"ledger\.sqlite"):
        Ledger(tmp_path / "ledger.sqlite")


@pytest.mark.parametrize("place", ["mysql://host/db", "nonsense", "sqlite://"])
def test_another_database_is_refused(place: str):
    with pytest.raises(ConfigError, match="postgresql"):
        Ledger(place)


async def test_the_ledger_can_be_read_while_it_is_written(tmp_path: Path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    reader = Ledger(tmp_path / "ledger.sqlite")
    for number in range(5):
        await ledger.keep(replace(PAID, digest=str(number)), replace(ENTRY, digest=str(number)))
        assert reader.total().calls == number + 1
    ledger.close()
    reader.close()


# PostgreSQL: a server of our own, where the binaries are

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").exists() else []


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty database."""
    pytest.importorskip("psycopg", reason="PostgreSQL: psycopg is not installed")
    if not BINARIES:
        pytest.skip("PostgreSQL: no server binaries in /usr/lib/postgresql")
    folder = tmp_path_factory.mktemp("pg")
    run = ["setpriv", "--reuid=nobody", "--clear-groups"] if os.getuid() == 0 else []
    if run:
        if shutil.which("setpriv") is None:
            pytest.skip("PostgreSQL: does not run as root, and there is no setpriv")
        for place in (folder, folder.parent, folder.parent.parent):
            place.chmod(0o777)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"
    made = subprocess.run([*run, BINARIES[-1] / "initdb", "-D", data, "-U", "ptool", "-A", "trust"], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"PostgreSQL: initdb: {made.stderr[-200:]}")
    server = subprocess.Popen(
        [*run, BINARIES[-1] / "postgres", "-D", data, "-p", str(port), "-k", folder, "-h", "127.0.0.1"], stderr=subprocess.DEVNULL
    )
    url = f"postgresql://ptool@127.0.0.1:{port}/postgres"
    try:
        for _ in range(100):
            if subprocess.run([BINARIES[-1] / "pg_isready", "-h", "127.0.0.1", "-p", str(port)], capture_output=True).returncode == 0:
                break
            subprocess.run(["sleep", "0.1"], check=True)
        yield url
    finally:
        server.terminate()
        server.wait()


async def test_postgresql_keeps_replies_for_all_runs_and_accounts_for_each(database: str):
    one, other = Ledger(database, run="one"), Ledger(database, run="other")
    one.begin_session()
    other.begin_session()
    await asyncio.gather(
        *(one.keep(replace(PAID, digest=f"d{n}", subject=str(n)), replace(ENTRY, digest=f"d{n}", session=one.session)) for n in range(50))
    )

    found = await other.find("d7")
    assert found is not None
    assert found.content == ENTRY.content
    assert one.total().calls == 50
    assert other.total().calls == 0
    assert one.total().cost == pytest.approx(25)
    assert one.subjects("test") == 50
    one.tell({"x": 1}, ended=True)
    one.remember_rung("u", "m", "text")
    assert other.rung("u", "m") == "text"
    assert one.sessions()[0]["state"] == {"x": 1}
    one.close()
    other.close()


async def test_a_run_works_the_same_on_postgresql(server: Server, make: Make, database: str, monkeypatch: pytest.MonkeyPatch):
    llm = make()
    llm.ledger.close()
    llm.ledger = Ledger(database, run="three")
    llm.ledger.begin_session()
    server.answers = [refusal(429, "slow"), http(completion())]

    await asyncio.gather(*(ask(llm, str(n)) for n in range(20)))
    await asyncio.gather(*(ask(llm, str(n)) for n in range(20)))

    assert llm.ledger.total().calls == 20
    assert llm.ledger.faults() == {"throttled": 1}
    assert KEY not in str(llm.ledger._rows(sa.text("select * from attempts")))


def test_a_postgresql_that_is_not_there_is_said_so_without_the_password():
    pytest.importorskip("psycopg", reason="PostgreSQL: psycopg is not installed")
    with pytest.raises(Unavailable) as caught:
        Ledger("postgresql://someone:hidden-word@127.0.0.1:1/none")

    assert "hidden-word" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)
