"""How the published scorer reads an answer: as one Python expression, here without ever running it.

The whole output in braces must be a dict display; its first pair is platform and calls. This module repeats
that reading, bugs included, on the syntax tree alone. The published scorer hands binary operations to `eval`;
here they are computed by a bounded evaluator over literals, and whatever would need to run code is an
`UnsafeExpression`. Time and memory are bounded by `MAX_CHARS`, `MAX_DEPTH` and the evaluator's own bounds.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

MAX_CHARS = 16_384
"""Longer answers are format failures: the published harness stops at 128 tokens."""
MAX_DEPTH = 90
"""Nesting of brackets; CPython's own limit is 200."""
MAX_BITS = 16_384
MAX_ITEMS = 10_000

_WARNED = re.compile(r"\\|\d[^\W\d]")
"""What Python may warn of while it parses: odd escapes, a word glued to a number. Catching warnings is slow, so only then."""

Calls = list[tuple[str, dict[Any, Any]]]


class Unreadable(Exception):
    """A format failure; the published scorer fails here as well."""


class UnsafeExpression(Unreadable):
    """A format failure where the published scorer would run code of the model, die or hang."""


def read(text: object) -> tuple[Any, Calls]:
    """Platform and calls of an answer.

    Raises:
        Unreadable: when the published scorer could not read it, or it is too long or too deep.
        UnsafeExpression: when reading it would mean running it.
        Exception: whatever else the published reading trips over; all of it is a format failure.
    """
    if not isinstance(text, str):
        raise Unreadable("not a text")
    if len(text) > MAX_CHARS:
        raise Unreadable(f"longer than {MAX_CHARS} characters")
    if _depth(text) > MAX_DEPTH:
        raise Unreadable(f"nested deeper than {MAX_DEPTH}")
    if _WARNED.search(text):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse("{" + text + "}", mode="eval").body
    else:
        tree = ast.parse("{" + text + "}", mode="eval").body
    if not isinstance(tree, ast.Dict) or not tree.keys:
        raise Unreadable("no `platform: calls` pair")
    key = tree.keys[0]
    if isinstance(key, ast.Name):
        platform: Any = key.id
    elif isinstance(key, ast.Constant):
        platform = key.value
    else:
        raise Unreadable("the platform is neither a word nor a literal")
    value = tree.values[0]
    if isinstance(value, ast.Call):
        return platform, [_call(value)]
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        calls = []
        for item in value.elts:
            if not isinstance(item, ast.Call):
                raise Unreadable("an item of the list is no call")
            calls.append(_call(item))
        return platform, calls
    raise Unreadable("no call and no list of calls")


def _depth(text: str) -> int:
    if text.count("(") + text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    for mark in re.findall(r"[(\[{)\]}]", text):
        depth = depth + 1 if mark in "([{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def _call(node: ast.Call) -> tuple[str, dict[Any, Any]]:
    """Dotted name and keywords; positional arguments and a base that is no name are dropped, a repeated keyword wins."""
    parts: list[str] = []
    base: ast.expr = node.func
    while isinstance(base, ast.Attribute):
        parts.append(base.attr)
        base = base.value
    if isinstance(base, ast.Name):
        parts.append(base.id)
    return ".".join(reversed(parts)), {keyword.arg: _value(keyword.value) for keyword in node.keywords}


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return "..." if node.value is Ellipsis else node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.UnaryOp):
        if not isinstance(node.operand, ast.Constant):
            raise Unreadable("an operator before something that is no literal")
        return -node.operand.value  # type: ignore[operator]  # any operator negates; a text raises
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        if None in node.keys:
            raise Unreadable("`**` in a dict")
        return {_value(key): _value(item) for key, item in zip(node.keys, node.values, strict=True) if key is not None}
    if isinstance(node, ast.BinOp):
        return compute(node)
    if isinstance(node, ast.Call):
        if not node.keywords:
            return ast.unparse(node)
        name, arguments = _call(node)
        return {name: arguments}
    if isinstance(node, ast.Subscript):
        return ast.unparse(node)
    raise Unreadable(f"{type(node).__name__} cannot be a value")


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip
_RUNS_CODE = (
    ast.Call, ast.Attribute, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.JoinedStr, ast.NamedExpr,
    ast.Await, ast.Yield, ast.YieldFrom,
)  # fmt: skip


def compute(node: ast.BinOp) -> Any:
    """What a binary operation over literals yields, within bounds.

    Raises:
        UnsafeExpression: when it holds anything but literals that could run, or the result would be too large.
        Unreadable: when it names something; the published scorer ends in a NameError or TypeError.
    """
    if any(isinstance(part, _RUNS_CODE) for part in ast.walk(node)):
        raise UnsafeExpression("an expression that would run code")
    return _literal(node)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp):
        return _apply(node.op, _literal(node.left), _literal(node.right))
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_literal(node.operand))
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_literal(item) for item in node.elts)
    if isinstance(node, ast.Set):
        return {_literal(item) for item in node.elts}
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_literal(key): _literal(item) for key, item in zip(node.keys, node.values, strict=True) if key is not None}
    raise Unreadable(f"{type(node).__name__} in an operation")


def _apply(sign: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length()
        if isinstance(sign, ast.Pow) and right > 0:
            bits *= right
        elif isinstance(sign, ast.LShift):
            bits += max(right, 0)
        elif isinstance(sign, ast.Mult):
            bits += right.bit_length()
        if bits > MAX_BITS:
            raise UnsafeExpression("a number too large to compute")
    elif isinstance(sign, ast.Mult):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, (str, bytes, list, tuple)) and isinstance(other, int) and len(one) * max(other, 0) > MAX_ITEMS:
                raise UnsafeExpression("a repetition too large to compute")
    elif isinstance(sign, ast.Mod) and isinstance(left, (str, bytes)):
        text = left if isinstance(left, str) else left.decode("latin-1")
        if re.search(r"\*|\d{4}", text):
            raise UnsafeExpression("a format that could be too wide")
    elif isinstance(sign, ast.Add) and isinstance(left, (str, bytes, list, tuple)) and len(left) > MAX_ITEMS:
        raise UnsafeExpression("a text too long to build")
    return _OPERATORS[type(sign)](left, right)
