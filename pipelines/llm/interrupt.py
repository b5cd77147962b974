"""Ctrl-C in two steps: the first stops new work and finishes what is paid for, the second stops at once.

A terminal sends Ctrl-C to the temporary Prefect server too, and a flow without its server waits for it for
minutes. So once the requests in flight are in the ledger, the rest gets a few seconds to end by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.errors import Interrupted

if TYPE_CHECKING:
    from pipelines.llm.client import LLM

Result = TypeVar("Result")
RESUME = "what is paid for is kept: run the same command again to go on"
GRACE = 4.0
"""Seconds that each step of the ending may take once nothing is in flight."""
_LIVE: weakref.WeakSet[LLM] = weakref.WeakSet()


def listen(llm: LLM) -> None:
    """Let a model layer know when the user wants to stop."""
    _LIVE.add(llm)


async def interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work; Ctrl-C once ends it softly, twice at once, three times without a word.

    Raises:
        Interrupted: after Ctrl-C, whatever else the ending work raised.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    presses = 0
    ending: asyncio.Task[None] | None = None

    def pressed() -> None:
        nonlocal presses, ending
        presses += 1
        if presses == 1:
            flying = sum(llm.in_flight for llm in _LIVE)
            print(f"\nptool: stopping: finishing {flying} requests in flight; press Ctrl-C again to drop them", file=sys.stderr)
            logging.disable(logging.CRITICAL)  # Prefect would tell at length that its server went first
            for llm in list(_LIVE):
                llm.stop(Interrupted(f"interrupted; {RESUME}"))
            ending = loop.create_task(_end(task))
        elif presses == 2:
            for llm in list(_LIVE):
                llm.hurry()
            task.cancel()
            _leave_within(GRACE)
        else:
            os._exit(Interrupted.exit_code)

    loop.add_signal_handler(signal.SIGINT, pressed)
    try:
        done, _ = await asyncio.wait({task})
        if presses and (task.cancelled() or task.exception() is not None):
            raise Interrupted(f"interrupted; {RESUME}")
        return done.pop().result()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if ending is not None:
            ending.cancel()


async def _end(task: asyncio.Future[Any]) -> None:
    """Wait for what is in flight, then see to it that the rest ends."""
    for llm in list(_LIVE):
        await llm.landed()
    await asyncio.sleep(GRACE)
    _leave_within(2 * GRACE)
    task.cancel()


def _leave_within(seconds: float) -> None:
    """End the process, come what may: everything that counts is in the ledger."""

    def leave() -> None:
        print(f"ptool: interrupted; {RESUME}", file=sys.stderr, flush=True)
        os._exit(Interrupted.exit_code)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
