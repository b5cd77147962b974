"""What models do to JSON is forgiven and flagged where nothing is guessed; the rest gets one repair turn."""

from __future__ import annotations

import json

import pytest

from pipelines.errors import ReplyError
from pipelines.llm.hygiene import read_reply
from pipelines.llm.ladder import strict_form
from pipelines.llm.schemas import first_error
from pipelines.replies import REPLIES
from tests.llm.conftest import GOOD, Item, Make, Server, ask, completion, http, refusal

SCHEMA = Item.model_json_schema()
TEXT = json.dumps(GOOD)
LIST = {"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": {"type": "integer"}}}}
FORGIVEN = [
    (TEXT, SCHEMA, GOOD, set()),
    (f"```json\n{TEXT}\n```", SCHEMA, GOOD, {"fenced"}),
    (f"Here you are:\n```\n{TEXT}\n```\nEnjoy!", SCHEMA, GOOD, {"fenced", "text_before", "text_after"}),
    (f"<think>maybe {{}} or {{'a': 1}}</think>\n{TEXT}", SCHEMA, GOOD, {"reasoning"}),
    (f"I think so.</think>{TEXT}", SCHEMA, GOOD, {"reasoning"}),
    (f"{TEXT}\nLet me know.", SCHEMA, GOOD, {"text_after"}),
    (f"For example {{}} gives {TEXT}", SCHEMA, GOOD, {"text_before"}),
    (f"\ufeff{TEXT}", SCHEMA, GOOD, set()),
    (json.dumps({**GOOD, "score": "7"}), SCHEMA, GOOD, {"number_as_string"}),
    (json.dumps({**GOOD, "score": "7.0"}), SCHEMA, GOOD, {"number_as_string"}),
    (json.dumps({**GOOD, "note": None}), SCHEMA, GOOD, {"null_for_missing"}),
    (json.dumps([GOOD]), SCHEMA, GOOD, {"list_for_single"}),
    (json.dumps(TEXT), SCHEMA, GOOD, {"object_as_string"}),
    ("[1, 2]", LIST, {"items": [1, 2]}, {"bare_list"}),
    ('{"items": {"a": 1}}', {"type": "object", "properties": {"items": {"type": "array"}}}, {"items": [{"a": 1}]}, {"single_for_list"}),
    ('{"a": "true"}', {"type": "object", "properties": {"a": {"type": "boolean"}}}, {"a": True}, {"boolean_as_string"}),
    ('{"a": ""}', {"type": "object", "properties": {"a": {"type": "object"}}}, {"a": {}}, {"empty_arguments"}),
    (
        '{"a": "3"}',
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "integer"}]}}},
        {"a": 3},
        {"number_as_string"},
    ),
]


@pytest.mark.parametrize(("text", "schema", "value", "flags"), FORGIVEN)
def test_a_liberty_is_taken_back_and_flagged(text: str, schema: dict[str, object], value: object, flags: set[str]):
    found, noted = read_reply(text, schema)

    assert found == value
    assert set(noted) == flags


REFUSED = [
    "",
    "I cannot do that.",
    "{",
    '{"title": "Tea", "score": 7',
    json.dumps({**GOOD, "score": "7 (good)"}),
    json.dumps({**GOOD, "score": "7.5"}),
    json.dumps({**GOOD, "score": 11}),
    json.dumps({"title": "Tea"}),
    json.dumps({**GOOD, "extra": 1}),
    "<think>all of it is thinking " + TEXT[:20],
    "[" * 100_000,
    "{" * 100_000,
    "{'title': 'Tea'}",
    '{"title": ' + "9" * 5000 + "}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_have_to_be_guessed_is_an_invalid_reply(text: str):
    with pytest.raises(ReplyError) as caught:
        read_reply(text, SCHEMA)

    assert caught.value.reason == "invalid_reply"
    assert len(caught.value.detail) < 600


async def test_an_invalid_reply_gets_one_repair_turn_that_quotes_the_error(server: Server, make: Make):
    server.answers = [http(completion({**GOOD, "score": 70})), http(completion())]
    llm = make()

    assert (await ask(llm)).score == 7
    told = server.bodies[1]["messages"]
    assert told[-2] == {"role": "assistant", "content": json.dumps({**GOOD, "score": 70})}
    assert "score: 70 is greater than the maximum of 10" in told[-1]["content"]
    assert llm.ledger.outcomes() == {"invalid_reply": 1}


async def test_two_invalid_replies_reject_and_both_are_paid(server: Server, make: Make):
    server.answers = [http(completion("no"))]
    llm = make()

    with pytest.raises(ReplyError):
        await ask(llm)

    assert llm.ledger.total().calls == len(server.bodies) == 2


async def test_a_cut_reply_raises_the_limit_once_and_then_says_so(server: Server, make: Make):
    server.answers = [http(completion(TEXT[:10], "length"))]
    llm = make()

    with pytest.raises(ReplyError, match="limit raised to 4,096 tokens") as caught:
        await ask(llm)

    assert caught.value.reason == "reply_cut"
    assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 4096]
    assert llm.ledger.outcomes()["length"] == 2


async def test_a_cut_reply_that_fits_the_second_time_is_used(server: Server, make: Make):
    server.answers = [http(completion(TEXT, "length")), http(completion())]

    assert (await ask(make())).title == "Tea"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (completion("", "content_filter"), "content_filter"),
        (completion("", refusal="I will not."), "refused"),
        (completion(TEXT, "content_filter"), "content_filter"),
    ],
)
async def test_a_refusal_is_a_rejection_of_its_own_kind_without_a_repair_turn(
    server: Server, make: Make, body: dict[str, object], reason: str
):
    server.answers = [http(body)]
    llm = make()

    with pytest.raises(ReplyError) as caught:
        await ask(llm)

    assert caught.value.reason == reason
    assert len(server.bodies) == 1


def form(body: dict[str, object]) -> str:
    if "tools" in body:
        return "tool_call"
    return str(body.get("response_format", {"type": "text"})["type"])


async def test_the_ladder_is_gone_down_and_the_rung_is_remembered_over_sessions(server: Server, make: Make):
    def answer(body: dict[str, object]) -> bytes:
        if form(body) != "text":
            return refusal(400, f"{'response_format' if 'response_format' in body else 'tools'} is not supported by this model")
        assert '"title"' in str(body["messages"])
        return http(completion(f"Sure: {TEXT}"))

    server.answers = [answer]
    llm = make()
    await ask(llm)
    await ask(llm, "soup")
    assert [form(body) for body in server.bodies] == ["json_schema", "json_object", "tool_call", "text", "text"]

    await llm.close()
    await ask(make(), "cake")
    assert form(server.bodies[-1]) == "text"
    assert len(server.bodies) == 6


async def test_a_tool_call_carries_the_reply(server: Server, make: Make):
    call = {"id": "1", "type": "function", "function": {"name": "send_reply", "arguments": TEXT}}

    def answer(body: dict[str, object]) -> bytes:
        return (
            refusal(400, "unknown field response_format")
            if "response_format" in body
            else http(completion("", "tool_calls", tool_calls=[call]))
        )

    server.answers = [answer]

    assert (await ask(make())).title == "Tea"


async def test_a_field_that_an_endpoint_does_not_know_is_left_out_from_then_on(server: Server, make: Make):
    server.answers = [lambda body: refusal(400, "Unsupported parameter: 'seed'") if "seed" in body else http(completion())]
    llm = make()
    await ask(llm)
    await ask(llm, "soup")

    assert ["seed" in body for body in server.bodies] == [True, False, False]


def test_the_strict_form_is_closed_and_a_strict_reply_passes_our_own_schema():
    strict = strict_form(SCHEMA)

    assert strict is not None
    assert strict["required"] == ["title", "score", "tags", "note"]
    assert strict["additionalProperties"] is False
    assert "maximum" not in json.dumps(strict)
    assert "default" not in json.dumps(strict)
    assert first_error(strict, {**GOOD, "note": None}) is None
    assert read_reply(json.dumps({**GOOD, "note": None}), SCHEMA)[0] == GOOD


def test_a_schema_with_free_objects_has_no_strict_form_and_the_others_of_the_pipeline_do():
    forms = {name: strict_form(model.model_json_schema()) for name, model in REPLIES.items()}

    assert forms["solutions.solve"] is None
    assert forms["verify.judge"] is not None
    assert forms["queries.write"] is not None
