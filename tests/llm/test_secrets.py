"""A key in the environment reaches the endpoint's header and nothing else."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest

from pipelines.config import Models, ModelSpec, RunConfig, load
from pipelines.errors import ConfigError, PtoolError, ReplyError
from pipelines.llm.advice import warnings_of
from pipelines.llm.endpoint import unsafe_url
from tests.llm.conftest import GOOD, KEY, Make, Server, ask, completion, http, refusal

FAILURES = [
    [refusal(401, f"Incorrect API key provided: {KEY}")],
    [refusal(429, f"quota of {KEY} exceeded", "insufficient_quota")],
    [refusal(400, f"bad request by Bearer {KEY}")],
    [refusal(500, f"broke for {KEY}"), http(completion())],
    [http({"error": {"message": f"upstream says {KEY}"}}), http(completion())],
    [http(f"<html>{KEY}</html>".encode(), kind="text/html"), http(completion())],
    [http(f"{{{KEY}".encode()), http(completion())],
    [http({KEY: 1}), http(completion())],
    [http(completion("", refusal=f"I will not, {KEY}"))],
    [http(completion({**GOOD, "title": f"Your key is {KEY}"}))],
    [http(completion(f"no JSON but {KEY}"))],
    [b"", http(completion())],
]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("answers", FAILURES)
async def test_a_canary_key_appears_in_no_file_log_or_error(
    server: Server, make: Make, answers: list[bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    caplog.set_level(logging.DEBUG)
    server.answers = list(answers)
    llm = make()
    told = ""
    try:
        told = (await ask(llm)).model_dump_json()
    except (PtoolError, ReplyError) as error:
        told = "".join(traceback.format_exception(error)) + repr(error)
    await llm.close()

    out = capsys.readouterr()
    assert server.bodies
    for text in (told, caplog.text, out.out, out.err, str(llm.state())):
        assert KEY not in text
    for path in files(tmp_path):
        assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    "text",
    [
        "api_key: whatever-it-is",
        "models: {judge: {model: 'openai:x', api_key: abcdefgh}}",
        "limits: {ledger: 'postgresql://me:pass@host/db'}",
        "model: openai:sk-abcdefghijklmnopqrstuvwx",
        "models: {judge: {model: 'openai:x', key_variable: sk-abcdefghijklmnopqrstuvwx}}",
        "models: {judge: {model: 'openai:x', base_url: 'https://user:word@host/v1'}}",
    ],
)
def test_a_key_in_a_config_is_refused_and_not_repeated(tmp_path: Path, text: str):
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"config\.yaml: .*(key|password)") as caught:
        load("tiny", path)

    for secret in ("whatever-it-is", "abcdefgh", "pass@", "word@"):
        assert secret not in str(caught.value)


def test_a_key_on_the_command_line_is_refused():
    with pytest.raises(ConfigError, match="--set"):
        load("tiny", None, {"models.judge.api_key": "abcdefgh"})


def test_a_key_that_cannot_go_into_a_header_is_refused_without_repeating_it(make: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "schlüssel-with-ü")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        make()
    assert "schl" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://me:secretword@host/v1", "ftp://host", "host:80", "http://", "http://host:99999/v1", "http://[::1/v1"]
)
def test_a_base_url_that_cannot_be_used_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch, url: str):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ConfigError, match="base URL") as caught:
        make()
    assert "secretword" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "unsafe"),
    [
        ("http://127.0.0.1:1/v1", False),
        ("http://localhost/v1", False),
        ("http://[::1]:8/v1", False),
        ("https://api.example.com/v1", False),
        ("http://api.example.com/v1", True),
        ("http://10.0.0.5:8000/v1", True),
        ("http://127.0.0.1.example.com/v1", True),
    ],
)
def test_plain_http_to_another_machine_is_warned_of(url: str, unsafe: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    config, _ = load("tiny", None, {"model": "openai:x", "models.judge.model": "openai:y"})

    assert unsafe_url(url) is unsafe
    assert any("plain http" in warning for warning in warnings_of(config)) is unsafe


def tiny(**more: object) -> RunConfig:
    return load("tiny", None, more)[0]


def test_a_judge_of_the_model_that_wrote_is_warned_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    assert any("judges what it made" in warning for warning in warnings_of(tiny(model="openai:x")))
    assert warnings_of(tiny(**{"model": "openai:x", "models.judge.model": "openai:y"})) == []
    assert warnings_of(tiny(**{"model": "openai:x", "judge": False})) == []
    assert warnings_of(tiny()) == []


async def test_each_role_has_its_own_model_url_and_key(server: Server, make: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTHER_KEY", "other-key-value")
    other = ModelSpec(model="openai:other", base_url=server.url, key_variable="OTHER_KEY")
    llm = make(models=Models(judge=other))

    assert llm._roles["judge"]._client.api_key == "other-key-value"
    assert llm._roles["writer"]._client.api_key == KEY
    await ask(llm)
    assert server.bodies[-1]["model"] == "m"
    llm._roles["writer"] = llm._roles["judge"]
    await ask(llm)
    assert server.bodies[-1]["model"] == "other"


def test_tls_is_checked(make: Make):
    import ssl

    transport = make()._roles["writer"].client._client._transport._inner

    assert transport.ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert transport.ssl_context.check_hostname is True


async def test_the_pool_is_as_large_as_the_concurrency(make: Make):
    assert make(concurrency=300)._roles["writer"].client._client._transport._inner.limits.max_connections >= 300
