"""Vectors of short texts from an endpoint that has them, kept in the ledger like any other reply."""

from __future__ import annotations

import json
from collections.abc import Sequence

import httpx2
import numpy as np
import numpy.typing as npt
import openai

from pipelines.errors import ConfigError
from pipelines.jsonio import canonical, digest
from pipelines.llm.ledger import Entry, Ledger

BATCH = 256
"""Texts per request."""


async def embed(
    model: str, texts: Sequence[str], ledger: Ledger, timeout_s: float, http_client: httpx2.AsyncClient | None = None
) -> npt.NDArray[np.float64] | None:
    """One vector per text, shape (texts, dimensions), or None when the endpoint has no such model.

    The address and the key come from OPENAI_BASE_URL and OPENAI_API_KEY.

    Args:
        model: The embedding model's name.
        http_client: Only for tests: the transport.

    Raises:
        ConfigError: when there is no key, or the vectors that come back cannot be used.
    """
    try:
        client = openai.AsyncOpenAI(timeout=timeout_s, max_retries=3, http_client=http_client)
    except openai.OpenAIError:
        raise ConfigError("embedding_model is set, but OPENAI_API_KEY is not; set it, or leave embedding_model out") from None
    rows: list[list[float]] = []
    try:
        for start in range(0, len(texts), BATCH):
            batch = list(texts[start : start + BATCH])
            found = await _batch(client, model, batch, ledger)
            if found is None:
                return None
            rows.extend(found)
    finally:
        await client.close()
    if len({len(row) for row in rows}) != 1 or not np.isfinite(rows).all():
        raise ConfigError(f"embedding_model {model!r} gives vectors of different lengths or with no numbers; use another, or leave it out")
    return np.array(rows)


async def _batch(client: openai.AsyncOpenAI, model: str, texts: list[str], ledger: Ledger) -> list[list[float]] | None:
    key = digest(canonical(["embeddings", str(client.base_url), model, texts])) + digest(canonical([model, texts]))
    known = ledger.get(key)
    if known is not None:
        return [list(map(float, row)) for row in json.loads(known.content)]
    try:
        reply = await client.embeddings.create(model=model, input=texts, encoding_format="float")
    except (openai.NotFoundError, openai.BadRequestError):
        return None
    except openai.APIError as error:
        raise ConfigError(f"embedding_model {model!r}: {type(error).__name__}; try again, or leave embedding_model out") from None
    rows = [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
    if len(rows) != len(texts):
        raise ConfigError(f"embedding_model {model!r} gave {len(rows)} vectors for {len(texts)} texts; use another, or leave it out")
    ledger.put(
        Entry(
            digest=key, stage="features", subject="embeddings", prompt="embeddings", model=model, content=json.dumps(rows),
            finish="stop", prompt_tokens=reply.usage.prompt_tokens if reply.usage else 0, reply_tokens=0, latency_ms=0, attempts=1,
        )
    )  # fmt: skip
    return rows
