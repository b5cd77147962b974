"""Budgets are hard, what is paid stays, and an unknown price is never nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pipelines.config import Limits
from pipelines.errors import ConfigError, Stopped
from pipelines.llm.budget import Prices, money, read_prices
from tests.llm.conftest import Make, Server, ask

PRICES = "models: {m: {prompt: 10, cached: 5, reply: 100, batch: 0.5}}\n"


async def spend(llm, count: int) -> int:
    found = await asyncio.gather(*(ask(llm, str(n)) for n in range(count)), return_exceptions=True)
    stopped = [one for one in found if isinstance(one, BaseException)]
    assert all(isinstance(one, Stopped) and one.exit_code == 3 for one in stopped)
    return len(found) - len(stopped)


async def test_max_calls_is_exact_at_any_concurrency_and_a_higher_one_goes_on(server: Server, make: Make):
    server.delay = 0.01
    assert await spend(make(max_calls=7, concurrency=5), 20) == 7
    assert len(server.bodies) == 7

    assert await spend(make(max_calls=9), 20) == 9
    assert await spend(make(), 20) == 20
    assert len(server.bodies) == 20


async def test_max_tokens_stops_before_it_is_passed(server: Server, make: Make):
    llm = make(max_tokens=2000, concurrency=2)

    kept = await spend(llm, 40)

    assert 0 < kept < 40
    assert llm.ledger.total().tokens <= 2000


async def test_max_cost_stops_before_it_is_passed(server: Server, make: Make, tmp_path: Path):
    (tmp_path / "p.yaml").write_text(PRICES, encoding="utf-8")
    llm = make(max_cost=0.2, prices=str(tmp_path / "p.yaml"), concurrency=2)

    kept = await spend(llm, 300)

    assert 0 < kept < 300
    assert 0.05 < llm.ledger.total().cost <= 0.2


async def test_what_was_in_flight_when_the_budget_ran_out_is_kept(server: Server, make: Make):
    server.delay = 0.1
    llm = make(max_calls=4, concurrency=4)
    tasks = [asyncio.create_task(ask(llm, str(n))) for n in range(8)]
    await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()  # as a stage does to the siblings of what failed
    await llm.close()

    assert llm.ledger.total().calls == len(server.bodies) == 4


async def test_a_limit_in_money_without_a_price_is_refused_before_anything_is_sent(server: Server, make: Make):
    with pytest.raises(ConfigError, match=r"openai:m.*limits\.prices"):
        make(max_cost=1)

    assert server.bodies == []


async def test_an_unknown_price_is_unknown(server: Server, make: Make):
    llm = make()
    await ask(llm)
    total = llm.ledger.total()

    assert total.unpriced == 1
    assert money(total.cost, total.unpriced, "USD").startswith("unknown")
    assert money(1.5, 0, "EUR") == "1.5000 EUR"
    assert "unknown" in money(1.5, 2, "EUR")
    assert "1.5000" in money(1.5, 2, "EUR")


def test_prices_know_the_cache_the_batch_and_what_they_are_per():
    prices = Prices.model_validate(
        {"per": 1000, "models": {"m": {"prompt": 1, "cached": 0.1, "reply": 2, "batch": 0.5}, "n": {"prompt": 1, "reply": 2}}}
    )

    assert prices.cost("openai:m", 1000, 500, 100) == pytest.approx(0.5 + 0.05 + 0.2)
    assert prices.cost("openai:m", 1000, 500, 100, batch=True) == pytest.approx(0.375)
    assert prices.cost("openai:n", 1000, 500, 100) == pytest.approx(1.2)
    assert prices.cost("openai:n", 1000, 0, 100, batch=True) is None
    assert prices.cost("openai:other", 1, 0, 1) is None
    assert prices.cost("offline", 1, 0, 1) == 0


@pytest.mark.parametrize(
    "text",
    [
        "models: {m: {prompt: -1, reply: 1}}",
        "models: {m: 3}",
        "prices: {}",
        "[]",
        "models: {m: {prompt: cheap, reply: 1}}",
        "currency: dollars",
    ],
)
def test_a_price_file_that_cannot_be_used_is_named_with_the_field(tmp_path: Path, text: str):
    path = tmp_path / "prices.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"prices\.yaml"):
        read_prices(Limits(prices=str(path)))
