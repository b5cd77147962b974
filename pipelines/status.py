"""How a run is doing, from its ledger and its folder, while it is going or after it stopped."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from pipelines.jsonio import raw_lines
from pipelines.llm.account import Usage
from pipelines.llm.budget import money
from pipelines.run import LOOP, Run

STALE = 15.0
"""Seconds without a sign of life after which a session counts as gone."""
RECENT = 600.0
"""Seconds that the speed is measured over."""


def live(run: Run, now: float | None = None) -> dict[str, Any]:
    """Progress, cost, faults and endpoints; the run must be open for reading.

    Args:
        now: For tests; a clock behind that of the run gives no negative times.
    """
    now = time.time() if now is None else now
    ledger = run.ledger
    total = ledger.total()
    sessions = ledger.sessions()
    last = sessions[-1] if sessions else None
    going = last is not None and last["ended_at"] is None and now - last["seen_at"] < STALE
    wanted, accepted = run.config.samples.total, _accepted(run)
    return {
        "going": going,
        "sessions": len(sessions),
        "samples": {"accepted": accepted, "wanted": wanted, "verified": ledger.subjects("verify")},
        "eta_s": _eta(run, last, accepted, wanted, now) if going else None,
        "calls": total.calls,
        "prompt_tokens": total.prompt_tokens,
        "reply_tokens": total.reply_tokens,
        "cached_share": round(total.cached_tokens / total.prompt_tokens, 4) if total.prompt_tokens else 0.0,
        "cost": None if total.unpriced else round(total.cost, 6),
        "cost_known": round(total.cost, 6),
        "unpriced_calls": total.unpriced,
        "currency": last["state"].get("currency", "USD") if last else "USD",
        "cost_per_accepted": round(total.cost / accepted, 6) if accepted and not total.unpriced else None,
        "rejects": _rejects(run),
        "model_mistakes": ledger.outcomes(),
        "endpoint_faults": ledger.faults(),
        "endpoints": last["state"].get("endpoints", []) if last else [],
        "stopped": last["state"].get("stopped", "") if last else "",
    }


def live_text(run: Run) -> str:
    """The same for people."""
    found = live(run)
    total = Usage(unpriced=found["unpriced_calls"], cost=found["cost_known"])
    samples = found["samples"]
    eta = f"; about {_span(found['eta_s'])} left" if found["eta_s"] is not None else ""
    lines = [
        f"{'going on now' if found['going'] else 'not running'}; session {found['sessions']}",
        f"samples: {samples['accepted']:,} of {samples['wanted']:,} accepted, {samples['verified']:,} judged{eta}",
        f"tokens: {found['prompt_tokens']:,} prompt ({found['cached_share']:.0%} from the provider's cache), "
        f"{found['reply_tokens']:,} reply",
        f"cost of all sessions, rejected work included: {money(total.cost, total.unpriced, found['currency'])}",
    ]
    if found["cost_per_accepted"] is not None:
        lines.append(f"cost per accepted sample: {found['cost_per_accepted']:.6f} {found['currency']}")
    for title, counts in (
        ("rejects", found["rejects"]),
        ("model mistakes and forgiven liberties", found["model_mistakes"]),
        ("endpoint faults", found["endpoint_faults"]),
    ):
        if counts:
            lines.append(f"{title}: " + ", ".join(f"{name} {count:,}" for name, count in list(counts.items())[:8]))
    for e in found["endpoints"]:
        lines.append(
            f"endpoint {e['model']} at {e['base_url']}: {e['slots']} of {e['most']} slots, {e['in_flight']} in flight, "
            f"{e['waiting']:,} waiting, halved {e['times_halved']} times, asks by {e['rung']}"
            + (f"; failing for {e['failing_s']:.0f} s" if e["failing_s"] else "")
            + (f"; last words: {e['last_words']}" if e["last_words"] else "")
        )
    if found["stopped"] and not found["going"]:
        lines.append(f"stopped: {found['stopped']}")
    return "\n".join(lines)


def _accepted(run: Run) -> int:
    entry = run.manifest["stages"].get("08_samples")
    if entry is not None:
        return int(entry["kept"])
    return sum(sum(1 for _ in raw_lines(done.with_name("08_samples.jsonl"))) for done in _done(run))


def _done(run: Run) -> list[Path]:
    """Marks of the finished shards of sample stages that are not merged yet."""
    return sorted((run.root / "parts").glob("*/done"))


def _rejects(run: Run) -> dict[str, int]:
    """By reason: finished stages, and finished shards of those that are not."""
    counts: dict[str, int] = {}
    for entry in run.manifest["stages"].values():
        for reason, count in entry["rejected"].items():
            counts[reason] = counts.get(reason, 0) + count
    if "08_samples" not in run.manifest["stages"]:
        for done in _done(run):
            for name in LOOP:
                for _, line in raw_lines(done.with_name(f"{name}.rejected.jsonl")):
                    reason = str(json.loads(line)["reason"])
                    counts[reason] = counts.get(reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _eta(run: Run, session: dict[str, Any] | None, accepted: int, wanted: int, now: float) -> float | None:
    """Seconds until all samples are judged at the speed of the last minutes; None before any was."""
    if session is None:
        return None
    since = max(session["started_at"], now - RECENT)
    recent = run.ledger.subjects("verify", since)
    judged = run.ledger.subjects("verify")
    span = now - since
    if not recent or span <= 0:
        return None
    share = min(1.0, max(0.1, accepted / judged)) if "08_samples" in run.manifest["stages"] else 1.0
    return max(0.0, round((wanted - judged * share) * float(span) / recent, 1))


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
