"""Shares with their uncertainty."""

from __future__ import annotations

import math
from typing import Any

Z = 1.959964
"""95 % two-sided."""


def wilson(hits: int, total: int) -> tuple[float, float]:
    """95 % interval of a share; (0, 1) when nothing was counted.

    Source: Wilson (1927), J. Am. Stat. Assoc. 22(158).
    """
    if total == 0:
        return 0.0, 1.0
    share = hits / total
    middle = (share + Z * Z / (2 * total)) / (1 + Z * Z / total)
    half = Z / (1 + Z * Z / total) * math.sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    return round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)


def share(hits: int, total: int) -> dict[str, Any]:
    """Hits, total, share and interval, as JSON."""
    return {"hits": hits, "of": total, "share": round(hits / total, 4) if total else None, "interval": list(wilson(hits, total))}


def told(found: dict[str, Any]) -> str:
    """`98.0 % (94.1 to 99.5, n = 200)`."""
    if not found["of"]:
        return "none"
    low, high = found["interval"]
    return f"{100 * found['share']:.1f} % ({100 * low:.1f} to {100 * high:.1f}, n = {found['of']:,})"
