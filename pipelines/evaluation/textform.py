"""The published text form, `Platform:[api(parameter='value'), ...]`, read from left to right without running anything."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

MAX_CALLS = 64
MAX_DEPTH = 40
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


class TextForm:
    """The text form, read from left to right; every step moves on, so time is linear in the length."""

    def __init__(self, text: str, flags: list[str]) -> None:
        self.text = text
        self.flags = flags
        self.at = 0

    def flag(self, name: str) -> None:
        """Note something that was forgiven, once."""
        if name not in self.flags:
            self.flags.append(name)

    def answer(self) -> Answer:
        """The whole text as one answer.

        Raises:
            Unread: when it is none.
        """
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
