"""The offline model is a pure function, reads like a reader, and tells the truth about its mistakes."""

from __future__ import annotations

import json
import random
from datetime import date

import pytest
from making import Made, make_run

from pipelines.jsonio import read_lines
from pipelines.llm import prompts
from pipelines.llm.ledger import Ledger
from pipelines.llm.offline import knowledge
from pipelines.llm.offline.model import Unanswerable, answer
from pipelines.llm.offline.wording import Fact, Market, read_capability, read_facts, read_situation, request
from pipelines.records import Query, Rejection

TODAY = date(2026, 3, 2)
KNOWN = ["shopping", "takeout", "entertainment", "work", "travel"]


def body(prompt: str, seed: int = 1, **values: object) -> dict:
    messages = prompts.load(prompt).render(**values)
    messages[0]["content"] += f"\n\nAnswer with one JSON object that fits the schema `{prompt}`."
    return {"messages": messages, "seed": seed}


def market_of(name: str) -> tuple[knowledge.Knowledge, Market]:
    known = knowledge.load(name, "en")
    assert known is not None
    scenario = {
        "name": known.scenario,
        "contexts": [{"name": s.name, "description": s.phrase} for s in known.situations],
        "capabilities": [{"name": c.name, "description": c.text} for c in known.capabilities],
    }
    return known, Market(scenario, "en")


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_scenario_has_rich_knowledge(name: str):
    known, _ = market_of(name)

    assert len(known.capabilities) == 24
    assert len(known.platforms) == 3
    assert sum(c.open for c in known.capabilities) >= 15
    assert any("." in use.path for c in known.capabilities for api in c.apis.values() for use in api.uses)
    for platform in known.platforms:
        uses = [use for c in known.capabilities for use in c.apis[platform.name].uses]
        assert len({c.apis[platform.name].name for c in known.capabilities}) == 24
        assert {"string", "enum", "integer", "money", "boolean", "array", "date"} <= {known.concepts[u.concept].type for u in uses}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_written_can_be_read_back_from_the_text_alone(name: str):
    known, market = market_of(name)
    rng = random.Random(11)
    for capability in known.capabilities:
        for situation in known.situations:
            api = rng.choice(list(capability.apis.values()))
            facts = [Fact(use.path, use.concept, known.concepts[use.concept]) for use in api.uses]
            stated = [fact for fact, use in zip(facts, api.uses, strict=True) if use.required or rng.random() < 0.4]
            ability = market.ability(capability.name, capability.text)
            text = request(rng, ability, stated, situation, TODAY, "en")
            assert read_capability(text, market) == capability.name, text
            assert read_situation(text, market) == situation.name, text
            assert set(read_facts(text, ability, facts, TODAY)) == {fact.path for fact in stated}, text


@pytest.mark.parametrize("name", KNOWN)
def test_requests_for_the_same_thing_are_worded_in_many_ways(name: str):
    known, market = market_of(name)
    capability = known.capabilities[0]
    api = next(iter(capability.apis.values()))
    facts = [Fact(use.path, use.concept, known.concepts[use.concept]) for use in api.uses if use.required]
    rng = random.Random(3)
    texts = {request(rng, market.ability(capability.name, ""), facts, rng.choice(known.situations), TODAY, "en") for _ in range(200)}

    assert len(texts) >= 199


def test_the_same_request_gets_the_same_answer_and_another_seed_another():
    values = {"known": {"life_stage": "student", "region": "Northeast"}, "features": [], "count": 2, "problems": [], "branch": "x"}
    features = [{"id": k, "description": k, "schema": {"type": "string"}} for k in ("home_city", "occupation")]
    one = body("profiles.branch", **{**values, "features": features})

    assert answer(one, 0) == answer(one, 0)
    assert answer(one, 0)[0] != answer({**one, "seed": 2}, 0)[0]
    assert answer(one, 0)[0] != answer(one, 5)[0]


def test_a_request_that_is_none_of_the_pipelines_is_refused():
    with pytest.raises(Unanswerable):
        answer({"messages": [{"role": "user", "content": "Tell me a joke"}]}, 0)
    with pytest.raises(Unanswerable):
        answer({"messages": []}, 0)


def test_every_planted_mistake_that_breaks_a_rule_is_rejected(tmp_path):
    rates = {"wrong_platform": 0.1, "invented_parameter": 0.1, "missing_argument": 0.1, "wrong_value": 0.1, "wrong_source": 0.1}
    rates |= {"platform_named": 0.1, "leaked_value": 0.2, "stated_preference": 0.1}
    make_run(tmp_path / "run", rates, samples={"train": 50, "test_trained_users": 10, "test_untrained_users": 30})
    made = Made.read(tmp_path / "run")
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    solver = {subject for stage, subject, _ in ledger.mistakes() if stage == "solutions"}
    writer = {mistake.partition(":")[0] for stage, _, all_of in ledger.mistakes() if stage == "queries" for mistake in all_of.split(";")}
    ledger.close()
    kept = {item.query.id for item in made.items()}
    rejected = {
        r.subject for name in ("06_queries", "08_samples") for r in read_lines(tmp_path / "run" / "rejected" / f"{name}.jsonl", Rejection)
    }

    assert len(solver) >= 10
    assert len(writer) >= 5
    assert not kept & solver
    assert solver <= rejected | {q.id for q in read_lines(tmp_path / "run" / "06_queries.jsonl", Query) if q.id not in kept}
    for slot in writer:
        assert any(subject.startswith(f"{slot}-") for subject in rejected)


def test_bad_json_is_repaired_in_one_turn_and_counted_as_two_calls(tmp_path):
    make_run(tmp_path / "broken", {"bad_json": 1.0})
    make_run(tmp_path / "sound", {})
    ledgers = [Ledger(tmp_path / name / "ledger.sqlite") for name in ("broken", "sound")]
    broken, sound = [{stage: used.calls for stage, used in ledger.usage().items()} for ledger in ledgers]
    for ledger in ledgers:
        ledger.close()

    for stage in ("scenarios", "apis", "features"):  # later stages ask more or less often, as the words turn out
        assert broken[stage] == 2 * sound[stage]
    assert len(Made.read(tmp_path / "broken").samples) == 24


def test_every_response_of_the_server_says_what_it_is():
    import asyncio

    from pipelines.llm.offline.app import offline_http_client

    async def go() -> dict:
        async with offline_http_client() as client:
            reply = await client.post("http://offline.invalid/v1/chat/completions", json=body("features.group", features=[]))
            stats = await client.get("http://offline.invalid/stats")
            return {**reply.json(), "stats": stats.json()}

    found = asyncio.run(go())
    assert set(found["offline"]) == {"mistake"}
    assert json.loads(found["choices"][0]["message"]["content"]) == {"groups": []}
    assert {"requests": 1, "duplicates": 0, "peak_in_flight": 1}.items() <= found["stats"].items()
