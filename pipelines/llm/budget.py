"""Hard limits in calls, tokens and money, and what a token costs.

A request is let through only when what is paid, what is in flight and what it may cost itself stay below
the limit. What a reply may cost is reckoned from the replies so far, so the limit on tokens and money is
kept up to one unusually long reply per request in flight; the limit on calls is exact.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from pipelines.config import Limits, Strict, read_yaml
from pipelines.errors import ConfigError, Stopped
from pipelines.llm.account import Usage

CHARS_PER_TOKEN = 3
"""A cautious guess for the prompt of a request that is about to be sent."""
FIRST_REPLY = 1_000
"""Tokens reckoned for a reply while none was seen."""


class Price(Strict):
    """What one model costs."""

    prompt: float = Field(ge=0)
    """Per `per` prompt tokens."""

    reply: float = Field(ge=0)
    """Per `per` reply tokens."""

    cached: float | None = Field(default=None, ge=0)
    """Per `per` prompt tokens read from the provider's cache; left out: as `prompt`."""

    batch: float | None = Field(default=None, ge=0, le=1)
    """What the Batch API charges, as a share of these prices; left out: unknown."""


class Prices(Strict):
    """A price file."""

    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    """Three letters."""

    per: int = Field(default=1_000_000, ge=1)
    """Tokens that a price is for."""

    models: dict[str, Price] = Field(default={})
    """By the name in the config, `openai:gpt-4o-mini`, or without its scheme."""

    def cost(self, model: str, prompt: int, cached: int, reply: int, batch: bool = False) -> float | None:
        """What an exchange costs; None when the price is unknown."""
        if model == "offline":
            return 0.0
        price = self.models.get(model) or self.models.get(model.partition(":")[2])
        if price is None or (batch and price.batch is None):
            return None
        kept = min(cached, prompt)
        full = price.prompt * (prompt - kept) + (price.prompt if price.cached is None else price.cached) * kept + price.reply * reply
        return full / self.per * (price.batch if batch and price.batch is not None else 1)


def read_prices(limits: Limits) -> Prices:
    """The price file of the limits, or one that knows nothing.

    Raises:
        ConfigError: when it cannot be read, or holds something else.
    """
    if limits.prices is None:
        return Prices()
    data = read_yaml(Path(limits.prices))
    try:
        return Prices.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"{limits.prices}: {where + ': ' if where else ''}{first['msg']}; "
            "write e.g. models: {gpt-4o-mini: {prompt: 0.15, reply: 0.6}}"
        ) from None


@dataclass
class Budget:
    """What may still be spent."""

    limits: Limits
    prices: Prices
    spent: Usage
    in_flight: int = 0
    reserved_tokens: int = 0
    reserved_cost: float = 0.0
    _chars: int = 0
    _prompts: int = 0
    _changed: asyncio.Future[None] | None = None

    async def reserve(self, model: str, chars: int) -> tuple[int, float]:
        """Set aside what a request may cost: (tokens, money). Give it back with `release`.

        While only what is in flight stands in the way, it is waited for: it may turn out cheaper.

        Raises:
            Stopped: when a limit would be passed whatever becomes of what is in flight.
        """
        while True:
            prompt = self._typical_prompt(chars)
            reply = self._typical_reply()
            tokens, cost = prompt + reply, self.prices.cost(model, prompt, 0, reply, self.limits.batch) or 0.0
            problem = self._problem(0, tokens, 0, cost)
            if problem is not None:
                raise problem
            if self._problem(self.in_flight, self.reserved_tokens + tokens, self.reserved_cost, cost) is None:
                break
            if self._changed is None or self._changed.done():
                self._changed = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._changed)
        self.in_flight += 1
        self.reserved_tokens += tokens
        self.reserved_cost += cost
        return tokens, cost

    def release(self, reserved: tuple[int, float]) -> None:
        """The request is over, whatever came of it."""
        self.in_flight -= 1
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        self.reserved_tokens -= reserved[0]
        self.reserved_cost -= reserved[1]

    def pay(self, chars: int, prompt: int, cached: int, reply: int, cost: float | None) -> None:
        """A reply came and counts; `chars` is the size of its prompt."""
        self._chars += chars
        self._prompts += prompt
        self.spent = self.spent + Usage(1, prompt, reply, cached, cost or 0.0, int(cost is None))

    def check_prices(self, models: list[str]) -> None:
        """A limit in money needs prices.

        Raises:
            ConfigError: naming the model whose price is unknown.
        """
        unknown = [model for model in models if self.prices.cost(model, 1, 0, 1, self.limits.batch) is None]
        if self.limits.max_cost is not None and unknown:
            raise ConfigError(
                f"limits.max_cost is set, but the {'batch ' if self.limits.batch else ''}price of {', '.join(unknown)} is unknown; "
                "write it into a file and name that in limits.prices"
            )

    def _problem(self, calls: int, tokens: int, reserved: float, cost: float) -> Stopped | None:
        """The limit that these would pass on top of what is spent."""
        limits, spent = self.limits, self.spent
        if limits.max_calls is not None and spent.calls + calls >= limits.max_calls:
            return _used_up("max_calls", f"{limits.max_calls:,}", f"{spent.calls:,}")
        if limits.max_tokens is not None and spent.tokens + tokens > limits.max_tokens:
            return _used_up("max_tokens", f"{limits.max_tokens:,}", f"{spent.tokens:,}")
        if limits.max_cost is not None and spent.cost + reserved + cost > limits.max_cost:
            return _used_up("max_cost", f"{limits.max_cost:,.4g} {self.prices.currency}", f"{spent.cost:,.4g}")
        return None

    def _typical_prompt(self, chars: int) -> int:
        """Tokens of a prompt, by what the provider counted so far."""
        return math.ceil(chars * max(1 / CHARS_PER_TOKEN, self._prompts / self._chars if self._chars else 0))

    def _typical_reply(self) -> int:
        return self.spent.reply_tokens // self.spent.calls if self.spent.calls >= 5 else FIRST_REPLY


def _used_up(name: str, limit: str, spent: str) -> Stopped:
    used = f"limits.{name} of {limit} is used up ({spent} spent)"
    return Stopped(f"{used}; what is paid for is kept: raise it and run the same command again")


def money(cost: float, unpriced: int, currency: str) -> str:
    """A sum for people; an unknown price is unknown, never nothing."""
    if not unpriced:
        return f"{cost:,.4f} {currency}"
    return f"unknown ({unpriced:,} calls without a price; the others {cost:,.4f} {currency})" if cost else "unknown (no price known)"
