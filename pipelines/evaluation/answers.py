"""How our scorers read an answer: tolerant of writing, strict about acting, and never by running anything.

Read are the published text form `Platform:[api(parameter='value'), ...]`, a JSON object `{"platform", "calls"}`, and the two
ways of not calling: `ask: <question>` and `none: <reason>`. What is forgiven is flagged; what is not is a failure
with a name: `empty`, `refusal`, `truncation`, `multi_platform`, `trailing_text`, `too_long`, `syntax`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from pipelines.evaluation.textform import MAX_CALLS, MAX_DEPTH, Answer, Call, TextForm, Unread

__all__ = ["Answer", "Call", "read_answer"]

MAX_CHARS = 32_768
FAILURES = (
    "empty", "refusal", "truncation", "multi_platform", "trailing_text", "too_long", "syntax",
    "missing_prediction", "broken_line", "duplicate_prediction",
)  # fmt: skip
_REFUSAL = re.compile(
    r"\s*(?:i['’]?m (?:sorry|unable)|i am (?:sorry|unable)|sorry\b|i can(?:no|['’])t\b|as an ai\b|unfortunately\b|抱歉|对不起|无法|很遗憾)",
    re.IGNORECASE,
)
_ACT = re.compile(r"\s*(ask|none|no[ _]tool)\s*:(?!\s*[\[({])", re.IGNORECASE)


def read_answer(text: object, cut: bool = False, lenient: bool = False) -> Answer:
    """Read one prediction.

    Args:
        text: The model's output, or null.
        cut: The provider said that its token limit ended the output.
        lenient: Also look for the answer between other lines.
    """
    flags: list[str] = []
    if text is None or (isinstance(text, str) and not text.strip()):
        return Answer(failure="truncation" if cut else "empty", detail="nothing was answered")
    if not isinstance(text, str):
        return Answer(failure="syntax", detail="the prediction is no text")
    if len(text) > MAX_CHARS:
        return Answer(failure="too_long", detail=f"{len(text):,} characters")
    try:
        return _read(text, flags)
    except Unread as error:
        if lenient:
            for line in text.splitlines()[:200]:
                try:
                    return _read(line, [*flags, "between_lines"])
                except (Unread, RecursionError):
                    continue
        failure = error.failure
        if failure in ("syntax", "truncation"):
            failure = "truncation" if cut else "refusal" if _REFUSAL.match(text) else failure
        return Answer(failure=failure, detail=error.detail, flags=flags)
    except RecursionError:
        return Answer(failure="syntax", detail="nested too deep", flags=flags)


def _read(text: str, flags: list[str]) -> Answer:
    text = unicodedata.normalize("NFKC", text) if not text.isascii() else text
    text = _undressed(text, flags)
    act = _ACT.match(text)
    if act:
        return Answer(act="ask" if act[1].lower() == "ask" else "no_tool", flags=flags)
    if text[:1] in "{[" and '"' in text:
        found = _json_answer(text, flags)
        if found is not None:
            return found
    return TextForm(text, flags).answer()


def _undressed(text: str, flags: list[str]) -> str:
    """Without reasoning, code fences and bold marks around the answer."""
    if "</think>" in text:
        text = text.rpartition("</think>")[2]
        flags.append("thinking")
    elif text.lstrip().startswith("<think>"):
        raise Unread("truncation", "the thinking never ended")
    text = text.strip()
    if text.startswith("```"):
        flags.append("fence")
        text = text[3:]
        first, _, rest = text.partition("\n")
        text = rest if re.fullmatch(r"\w*", first.strip()) else text
        text = text.rstrip().removesuffix("```").strip()
    if text.startswith("**"):
        flags.append("bold")
        text = text[2:].replace("**", "", 1)
    return text


def _json_answer(text: str, flags: list[str]) -> Answer | None:
    """A JSON answer, or None when the text is no JSON at all."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in found]
        twice = next((key for key in keys if keys.count(key) > 1), None) if len(keys) <= 200 else None
        return {**dict(found), "\0repeated": twice} if twice else dict(found)

    _check_depth(text)
    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and len(value) == 1 and ("ask" in value or "none" in value):
        return Answer(act="ask" if "ask" in value else "no_tool", flags=flags)
    platform = value.get("platform") if isinstance(value, dict) else ""
    listed = value if isinstance(value, list) else next((value[k] for k in ("calls", "tool_calls") if k in value), None)
    if not isinstance(value, (dict, list)) or listed is None:
        return None
    if not isinstance(listed, list) or not isinstance(platform, str) or len(listed) > MAX_CALLS:
        raise Unread("syntax", "JSON, but not a platform with a list of calls")
    if not listed and not platform:
        return Answer(act="no_tool", flags=flags)
    calls = [_json_call(item) for item in listed]
    prefixes = {call.api.split("__")[0] for call in calls if "__" in call.api}
    if not platform and len(prefixes) > 1:
        raise Unread("multi_platform", "calls on several platforms")
    if not platform and prefixes:
        platform = prefixes.pop()
        for call in calls:
            call.api = call.api.partition("__")[2] or call.api
    return Answer(platform=platform, calls=calls, flags=flags)


def _check_depth(text: str) -> None:
    """JSON that is nested too deep for comparing is no answer."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for mark in re.findall(r"[\[\]{}]", text):
        depth = depth + 1 if mark in "[{" else max(depth - 1, 0)
        if depth > MAX_DEPTH:
            raise Unread("syntax", "nested too deep")


def _json_call(item: Any) -> Call:
    if isinstance(item, dict) and isinstance(item.get("function"), dict):
        item = item["function"]
    name = next((item[k] for k in ("api", "name") if k in item), None) if isinstance(item, dict) else None
    arguments: Any = next((item[k] for k in ("arguments", "parameters") if k in item), {}) if isinstance(item, dict) else None
    if isinstance(arguments, str):
        _check_depth(arguments)
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Unread("syntax", "the arguments of a call are no JSON") from None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise Unread("syntax", "a call without name and arguments")
    twice = arguments.pop("\0repeated", None)
    return Call(name, arguments, [f"repeated {twice}"] if twice else [])
