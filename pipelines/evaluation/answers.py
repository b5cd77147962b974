"""How our scorers read an answer: tolerant of writing, strict about acting, and never by running anything.

Read are the published text form `Platform:[api(parameter='value'), ...]`, a JSON object `{"platform", "calls"}`, and the two
ways of not calling: `ask: <question>` and `none: <reason>`. What is forgiven is flagged; what is not is a failure
with a name: `empty`, `refusal`, `truncation`, `multi_platform`, `trailing_text`, `too_long`, `syntax`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

MAX_CHARS = 32_768
MAX_DEPTH = 40
MAX_CALLS = 64
FAILURES = (
    "empty", "refusal", "truncation", "multi_platform", "trailing_text", "too_long", "syntax",
    "missing_prediction", "broken_line", "duplicate_prediction",
)  # fmt: skip
_REFUSAL = re.compile(
    r"\s*(?:i['’]?m (?:sorry|unable)|i am (?:sorry|unable)|sorry\b|i can(?:no|['’])t\b|as an ai\b|unfortunately\b|抱歉|对不起|无法|很遗憾)",
    re.IGNORECASE,
)
_ACT = re.compile(r"\s*(ask|none|no[ _]tool)\s*:(?!\s*[\[({])", re.IGNORECASE)
_OPENS = re.compile(r"\s*(?:[\[({]|[^\W\d][\w.]*\s*\()")
_NAME = re.compile(r"\s*([^\W\d][\w.\-]*)\s*")
_KEYWORD = re.compile(r"\s*([^\W\d][\w.\-]*)\s*=(?!=)\s*")
_NEXT = re.compile(r"\s*(?:[^\W\d][\w.\-]*\s*=(?!=)|\)|\*\*)")
_INT = re.compile(r"[+-]?\d{1,300}")
_FLOAT = re.compile(r"[+-]?(?:\d{1,300}\.\d{0,300}|\.\d{1,300}|\d{1,300})(?:[eE][+-]?\d{1,3})?")
_BRACKET = re.compile(r"[,()\[\]{}'\"]")
_WORDS: dict[str, Any] = {"none": None, "null": None, "nil": None, "true": True, "false": False}
_QUOTES = {"'": "'", '"': '"', "‘": "’", "“": "”"}
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "/": "/"}


@dataclass
class Call:
    """One call as it was written."""

    api: str
    arguments: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    """`positional`, `repeated <name>`: arguments that no API takes."""


@dataclass
class Answer:
    """What a prediction says, or why it cannot be read."""

    act: str = "call"
    """`call`, `ask` or `no_tool`."""
    platform: str = ""
    calls: list[Call] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    """What was forgiven: `fence`, `thinking`, `bare_text`, `comment`, `no_list` ..."""
    failure: str = ""
    detail: str = ""


class Unread(Exception):
    """The text is no answer: failure and detail."""

    def __init__(self, failure: str, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail


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
    return _Reader(text, flags).answer()


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


def _json_call(item: Any) -> Call:
    if isinstance(item, dict) and isinstance(item.get("function"), dict):
        item = item["function"]
    name = next((item[k] for k in ("api", "name") if k in item), None) if isinstance(item, dict) else None
    arguments: Any = next((item[k] for k in ("arguments", "parameters") if k in item), {}) if isinstance(item, dict) else None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Unread("syntax", "the arguments of a call are no JSON") from None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise Unread("syntax", "a call without name and arguments")
    twice = arguments.pop("\0repeated", None)
    return Call(name, arguments, [f"repeated {twice}"] if twice else [])


class _Reader:
    """The text form, read from left to right; every step moves on, so time is linear in the length."""

    def __init__(self, text: str, flags: list[str]) -> None:
        self.text = text
        self.flags = flags
        self.at = 0

    def flag(self, name: str) -> None:
        if name not in self.flags:
            self.flags.append(name)

    def answer(self) -> Answer:
        text = self.text
        braces = text.startswith("{")
        if braces:
            self.flag("braces")
            self.at = 1
        platform = self._platform()
        calls = self._calls()
        if braces and self._peek() == "}":
            self.at += 1
        self._ending()
        return Answer(platform=platform, calls=calls, flags=self.flags)

    def _platform(self) -> str:
        text = self.text
        while self.at < len(text) and text[self.at].isspace():
            self.at += 1
        if self._peek() in _QUOTES:
            name = self._quoted(":")
            if self._peek() != ":":
                raise Unread("syntax", "no colon after the platform")
            self.at += 1
            return self._named(name)
        start, colon = self.at, text.find(":", self.at)
        while colon >= 0 and colon - start <= 200:
            if _OPENS.match(text, colon + 1):
                self.at = colon + 1
                return self._named(text[start:colon].strip())
            colon = text.find(":", colon + 1)
        raise Unread("syntax", "no `platform: calls`")

    def _named(self, name: str) -> str:
        if not name or name.lower() in _WORDS or _FLOAT.fullmatch(name) or "\n" in name:
            raise Unread("syntax", f"{name[:40]!r} is no platform")
        return name

    def _peek(self) -> str:
        text = self.text
        mark = text[self.at : self.at + 1]
        if mark and not mark.isspace():
            return mark
        while self.at < len(text) and text[self.at].isspace():
            self.at += 1
        return text[self.at] if self.at < len(text) else ""

    def _calls(self) -> list[Call]:
        opening = self._peek()
        if opening not in _CLOSES:
            self.flag("no_list")
            return [self._call()]
        if opening != "[":
            self.flag("no_list")
        self.at += 1
        calls: list[Call] = []
        while True:
            mark = self._peek()
            if mark == _CLOSES[opening]:
                self.at += 1
                return calls
            if not mark:
                raise Unread("truncation", "the list of calls never ends")
            if mark == "," and calls:
                self.at += 1
                continue
            if len(calls) >= MAX_CALLS:
                raise Unread("syntax", f"more than {MAX_CALLS} calls")
            calls.append(self._call())
            if self._peek() not in (",", _CLOSES[opening], ""):
                raise Unread("syntax", f"{self._peek()!r} after a call")

    def _call(self) -> Call:
        name = _NAME.match(self.text, self.at)
        if name is None:
            raise Unread("syntax", f"no call at {self.text[self.at : self.at + 30]!r}")
        self.at = name.end()
        if self._peek() != "(":
            raise Unread("truncation" if not self._peek() else "syntax", f"no argument list after {name[1][:60]!r}")
        self.at += 1
        call = Call(name[1], {})
        while True:
            mark = self._peek()
            if mark == ")":
                self.at += 1
                return call
            if not mark:
                raise Unread("truncation", "a call never ends")
            if mark == ",":
                self.at += 1
                continue
            if mark == "*":
                raise Unread("syntax", "`*` in a call")
            keyword = _KEYWORD.match(self.text, self.at)
            if keyword is None:
                self._value(0, False)
                call.problems.append("positional")
                continue
            self.at = keyword.end()
            value = self._value(0, True)
            if keyword[1] in call.arguments:
                call.problems.append(f"repeated {keyword[1]}")
            call.arguments[keyword[1]] = value

    def _value(self, depth: int, keyword: bool) -> Any:
        if depth > MAX_DEPTH:
            raise Unread("syntax", "nested too deep")
        mark = self._peek()
        if mark in _QUOTES:
            return self._quoted(",)]}:")
        if mark in ("[", "("):
            return self._items(depth, _CLOSES[mark])
        if mark == "{":
            return self._object(depth)
        return self._bare(keyword)

    def _items(self, depth: int, closing: str) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        while True:
            mark = self._peek()
            if mark == closing:
                self.at += 1
                return found
            if not mark:
                raise Unread("truncation", "a list never ends")
            if mark == ",":
                self.at += 1
                continue
            if mark in ")]}":
                raise Unread("syntax", f"{mark!r} ends a list")
            found.append(self._value(depth + 1, False))

    def _object(self, depth: int) -> Any:
        self.at += 1
        found: dict[str, Any] = {}
        loose: list[Any] = []
        while True:
            mark = self._peek()
            if mark == "}":
                self.at += 1
                return loose if loose and not found else found
            if not mark:
                raise Unread("truncation", "an object never ends")
            if mark == ",":
                self.at += 1
                continue
            if mark in ")]":
                raise Unread("syntax", f"{mark!r} ends an object")
            key = self._quoted(":,}") if mark in _QUOTES else self._key()
            if self._peek() == ":":
                self.at += 1
                found[str(key)] = self._value(depth + 1, False)
            else:
                loose.append(key)

    def _key(self) -> str:
        end = self.at
        while end < len(self.text) and self.text[end] not in ":,}":
            end += 1
        key, self.at = self.text[self.at : end].strip(), end
        return key

    def _quoted(self, after: str) -> str:
        """A text in quotes; a quote that nothing of `after` follows belongs to the text, as in 'McDonald's'."""
        text, quote = self.text, _QUOTES[self.text[self.at]]
        if quote not in "'\"":
            self.flag("curly_quotes")
        parts: list[str] = []
        start = at = self.at + 1
        while True:
            end = text.find(quote, at)
            slash = text.find("\\", at, end if end >= 0 else len(text))
            if slash >= 0:
                parts.append(text[start:slash])
                nxt = text[slash + 1 : slash + 2]
                if nxt == "u" and re.fullmatch(r"[0-9a-fA-F]{4}", text[slash + 2 : slash + 6]):
                    parts.append(chr(int(text[slash + 2 : slash + 6], 16)))
                    start = at = slash + 6
                else:
                    parts.append(_ESCAPES.get(nxt, "\\" + nxt))
                    start = at = slash + 2
                continue
            if end < 0:
                raise Unread("truncation", "a text never ends")
            tail = end + 1
            while tail < len(text) and text[tail] in " \t\n":
                tail += 1
            if tail >= len(text) or text[tail] in after:
                parts.append(text[start:end])
                self.at = end + 1
                return "".join(parts)
            self.flag("inner_quote")
            at = end + 1

    def _bare(self, keyword: bool) -> Any:
        """Text without quotes, up to what must end it; brackets inside belong to it."""
        text, start, depth = self.text, self.at, 0
        at = start
        while True:
            mark = _BRACKET.search(text, at)
            if mark is None:
                raise Unread("truncation", "an argument never ends")
            at, sign = mark.end(), mark[0]
            if sign in _CLOSES:
                depth += 1
                if depth > MAX_DEPTH:
                    raise Unread("syntax", "nested too deep")
            elif sign in ")]}":
                if depth == 0:
                    at -= 1
                    break
                depth -= 1
            elif sign == "," and depth == 0 and (not keyword or _NEXT.match(text, at)):
                at -= 1
                break
            elif sign in "'\"" and depth:
                end = text.find(sign, at)
                at = end + 1 if end >= 0 else at
        word, self.at = text[start:at].strip(), at
        if not word:
            raise Unread("syntax", "an argument without a value")
        low = word.lower()
        if low in _WORDS:
            return _WORDS[low]
        if _INT.fullmatch(word):
            return int(word)
        if _FLOAT.fullmatch(word):
            return float(word)
        if not word.isidentifier():
            self.flag("bare_text")
        return word

    def _ending(self) -> None:
        """Nothing may follow but a full stop or a comment."""
        rest = self.text[self.at :].strip()
        if not rest:
            return
        if rest in (".", ";"):
            self.flag("full_stop")
        elif rest.startswith("#") and "\n" not in rest:
            self.flag("comment")
        elif re.match(r"[,;\n]?\s*[\"']?[^\[\](){}:]{1,200}[\"']?\s*:\s*(?:[\[({]|[^\W\d][\w.]*\s*\()", rest):
            raise Unread("multi_platform", "a second platform after the first")
        else:
            raise Unread("trailing_text", rest[:60])
