"""Runs behind URLs: `file://`, and `s3://` on a local S3 server (skipped where moto and s3fs are missing)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from making import Made, files_of

import flows
from pipelines import config
from pipelines.errors import ConfigError, PtoolError, Stopped, Unavailable
from pipelines.launch import Place
from pipelines.remote import Mirror, is_url, local_path, without_secrets, work_folder


def test_a_file_url_is_a_folder_and_a_drive_is_no_url():
    assert Place.of("file:///srv/my%20run").root == Path("/srv/my run")
    assert not is_url("file:///srv/run")
    assert not is_url("C://run")
    assert local_path("runs/one") == Path("runs/one")


def test_user_names_and_passwords_are_never_shown():
    assert without_secrets("s3://me:secret@bucket/run?token=x") == "s3://bucket/run"


def test_an_unknown_scheme_is_refused_with_what_to_write(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"no storage for nosuch://.*write a folder, file:// or s3://"):
        Mirror("nosuch://bucket/run", tmp_path)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket on a local S3 server."""
    moto = pytest.importorskip("moto.server", reason="NO S3 TEST: pip install 'moto[server]' s3fs")
    pytest.importorskip("s3fs", reason="NO S3 TEST: pip install s3fs")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    patch = pytest.MonkeyPatch()
    patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    patch.setenv("AWS_ACCESS_KEY_ID", "test")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    import botocore.session

    botocore.session.get_session().create_client("s3").create_bucket(Bucket="datasets")
    yield "s3://datasets"
    server.stop()
    patch.undo()


def stored(address: str, folder: Path) -> dict[str, bytes]:
    """What a machine that has nothing fetches."""
    asyncio.run(Mirror(address, folder).fetch())
    return files_of(folder)


def test_a_run_in_a_bucket_has_the_bytes_of_a_run_in_a_folder(bucket: str, pristine: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PTOOL_CACHE", str(tmp_path / "here"))
    settings, _ = config.load("tiny")
    asyncio.run(flows.directly_in(settings, f"{bucket}/one"))
    found = stored(f"{bucket}/one", tmp_path / "there")

    assert {k: v for k, v in found.items() if k != "config.json"} == {
        k: v for k, v in files_of(pristine.root).items() if k != "config.json"
    }


def test_another_machine_resumes_a_stopped_run_and_pays_nothing_twice(
    bucket: str, pristine: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    address = f"{bucket}/two"
    monkeypatch.setenv("PTOOL_CACHE", str(tmp_path / "first"))
    settings, _ = config.load("tiny", None, {"limits": {"max_calls": 40, "concurrency": 2}})
    with pytest.raises(Stopped, match="max_calls"):
        asyncio.run(flows.directly_in(settings, address))
    monkeypatch.setenv("PTOOL_CACHE", str(tmp_path / "second"))
    asyncio.run(Place.of(address).fetch())
    paid = _calls(work_folder(address))
    asyncio.run(flows.directly_in(config.load("tiny")[0], address))

    assert paid == 40
    assert _calls(work_folder(address)) == _calls(pristine.root)
    assert (work_folder(address) / "08_samples.jsonl").read_bytes() == (pristine.root / "08_samples.jsonl").read_bytes()
    assert json.loads(stored(address, tmp_path / "third")["manifest.json"])["complete"] is True


def _calls(folder: Path) -> int:
    from pipelines.llm.ledger import Ledger

    ledger = Ledger(folder / "ledger.sqlite")
    calls = ledger.total().calls
    ledger.close()
    return calls


def test_a_missing_bucket_is_told_before_anything_is_paid_for(bucket: str, tmp_path: Path):
    with pytest.raises(Unavailable, match=r"--out s3://nowhere/run: no such bucket"):
        asyncio.run(Mirror("s3://nowhere/run", tmp_path).check())


def test_missing_credentials_are_told_by_the_names_of_their_variables(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(Unavailable, match="set AWS_ACCESS_KEY_ID"):
        asyncio.run(Mirror("s3://datasets/three", tmp_path).check())


def test_a_read_only_bucket_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mirror = Mirror("memory://bucket/run", tmp_path)

    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(mirror._store, "pipe_file", refuse)
    with pytest.raises(PtoolError, match="refuses to write; check the credentials and the bucket's policy"):
        asyncio.run(mirror.check())


def test_names_that_climb_out_of_the_folder_are_not_fetched(tmp_path: Path):
    mirror = Mirror("memory://bucket/run", tmp_path / "run")
    mirror._store.pipe_file("/bucket/run/../../escaped.jsonl", b"x")
    mirror._store.pipe_file("/bucket/run/01_scenarios.jsonl", b"y")
    asyncio.run(mirror.fetch())

    assert not (tmp_path.parent / "escaped.jsonl").exists()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["01_scenarios.jsonl"]
