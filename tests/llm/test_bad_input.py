"""Whatever comes back over the wire is a reply, or a failure of a known kind: never a crash, never a silent None."""

from __future__ import annotations

import asyncio
import json

import pytest

from pipelines.errors import ReplyError
from pipelines.llm import wire
from tests.llm.conftest import GOOD, Make, Server, ask, completion, http

GOOD_BODY = json.dumps(completion()).encode()
TITLE = json.dumps({**GOOD, "title": "Teapot"})
BROKEN = {
    "empty choices": (http({**completion(), "choices": []}), "body_without_choices"),
    "no choices": (http({"id": "x"}), "body_without_choices"),
    "choices that are no objects": (http({"choices": [None]}), "body_without_choices"),
    "a list": (http([1, 2]), "body_without_choices"),
    "half a body": (http(GOOD_BODY[: len(GOOD_BODY) // 2]), "body_not_json"),
    "an empty body": (http(b""), "body_not_json"),
    "an HTML error page": (http(b"<html><h1>Bad gateway</h1></html>", kind="text/html"), "body_html"),
    "HTML that calls itself JSON": (http(b"<!doctype html><p>maintenance</p>"), "body_html"),
    "an event stream": (http(b"data: {}\n\n", kind="text/event-stream"), "body_not_json"),
    "a 200 with an error object": (http({"error": {"message": "upstream broke", "code": "upstream"}}), "body_error"),
    "a 200 with a rate limit in it": (http({"error": {"message": "slow down", "code": 429}}), "throttled"),
    "invalid UTF-8": (http(GOOD_BODY.replace(b"Tea", b"T\xff\xfea")), "body_not_utf8"),
    "a server that closes mid-reply": (http(GOOD_BODY)[:-40], "connection"),
    "a server that closes at once": (b"HTTP/1.1 200 X\r\ncontent-length: 5\r\n\r\n", "connection"),
    "no HTTP at all": (b"\x00\x01\x02 hello\r\n\r\n", "connection"),
    "a server that hangs up": (b"", "connection"),
    "deep nesting": (http(b'{"choices":' + b"[" * 200_000), "body_not_json"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_reply_is_counted_by_its_kind_and_asked_again(server: Server, make: Make, name: str):
    bad, kind = BROKEN[name]
    server.answers = [bad, http(completion())]
    llm = make()

    assert (await ask(llm)).title == "Tea"
    assert llm.ledger.faults() == {kind: 1}
    assert llm.ledger.total().calls == 1


async def test_a_reply_of_ten_megabytes_is_cut_off_and_asked_again(server: Server, make: Make):
    server.answers = [http(completion("x" * 10_000_000)), http(completion())]
    llm = make()

    assert (await ask(llm)).title == "Tea"
    assert llm.ledger.faults() == {"body_too_large": 1}


async def test_an_endless_reply_without_a_length_does_not_fill_the_memory(server: Server, make: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "MAX_REPLY_BYTES", 100_000)
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    server.answers = [b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n" + 4 * chunk, http(completion())]
    llm = make()

    assert (await ask(llm)).title == "Tea"
    assert llm.ledger.faults() == {"body_too_large": 1}


@pytest.mark.parametrize("content", [None, "", "  \n"])
async def test_null_content_gets_a_repair_turn_and_then_rejects_as_empty(server: Server, make: Make, content: str | None):
    body = completion()
    body["choices"][0]["message"]["content"] = content
    server.answers = [http(body)]
    llm = make()

    with pytest.raises(ReplyError) as caught:
        await ask(llm)

    assert caught.value.reason == "empty_reply"
    assert len(server.bodies) == 2
    assert llm.ledger.outcomes() == {"empty": 2}
    assert llm.ledger.total().calls == 2


async def test_a_good_body_of_the_wrong_content_type_is_used_and_flagged(server: Server, make: Make):
    server.answers = [http(completion(), kind="text/plain")]
    llm = make()

    assert (await ask(llm)).title == "Tea"
    assert llm.ledger.outcomes() == {"wrong_content_type": 1}


@pytest.mark.parametrize(("second", "flag"), [(GOOD, "duplicate_tool_calls"), ({**GOOD, "title": "Soup"}, "several_tool_calls")])
async def test_of_several_tool_calls_the_first_counts_and_it_is_flagged(server: Server, make: Make, second: object, flag: str):
    calls = [
        {"id": str(n), "type": "function", "function": {"name": "f", "arguments": json.dumps(value)}}
        for n, value in enumerate((GOOD, second))
    ]
    server.answers = [http(completion("", tool_calls=calls))]
    llm = make()

    assert (await ask(llm)).title == "Tea"
    assert llm.ledger.outcomes() == {flag: 1}


@pytest.mark.parametrize("written", ["\\ud800", "\\u0000", "\\u001b[2J"])
async def test_characters_that_no_text_may_hold_reject_and_the_ledger_stays_readable(server: Server, make: Make, written: str):
    inner = json.dumps({**GOOD, "title": "TITLE"}).replace("TITLE", f"a{written}b")
    server.answers = [http(completion(inner))]
    llm = make()

    with pytest.raises(ReplyError) as caught:
        await ask(llm)

    assert caught.value.reason == "invalid_reply"
    assert llm.ledger.total().calls == 2


async def test_half_a_surrogate_pair_in_the_body_itself_is_replaced(server: Server, make: Make):
    server.answers = [http(json.dumps(completion(TITLE)).replace("Teapot", "Tea\\ud800").encode())]
    llm = make()

    assert (await ask(llm)).title.startswith("Tea")
    assert llm.ledger.total().calls == 1


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity", "-Infinity"])
async def test_a_number_that_no_json_file_holds_is_an_invalid_reply(server: Server, make: Make, number: str):
    server.answers = [http(completion(f'{{"title": "Tea", "score": {number}, "tags": []}}'))]

    with pytest.raises(ReplyError) as caught:
        await ask(make())

    assert caught.value.reason == "invalid_reply"


async def test_nonsense_in_the_usage_is_no_usage(server: Server, make: Make):
    server.answers = [http({**completion(), "usage": {"prompt_tokens": "many", "completion_tokens": -5, "prompt_tokens_details": []}})]
    llm = make()

    await ask(llm)

    assert llm.ledger.total().tokens == 0


async def test_a_request_that_fails_while_others_succeed_is_rejected_as_the_endpoints_fault(server: Server, make: Make):
    def answer(body: dict[str, object]) -> bytes:
        return http(b"{", status=200) if "poison" in str(body["messages"]) else http(completion())

    server.answers = [answer]
    llm = make(attempts=2)
    poisoned = asyncio.create_task(ask(llm, "poison"))
    for number in range(200):
        await ask(llm, f"fine {number}")
        if poisoned.done():
            break

    with pytest.raises(ReplyError) as caught:
        await poisoned

    assert caught.value.reason == "endpoint_failed"
    assert "body_not_json" in caught.value.detail
