"""The quirk catalogue as data: what the published scorer does with each input, per docs/scoring.md.

Each row: id, gold answer, query_params, profile_params, prediction, then either a failure word ("syntax", "crash",
"unsafe_expression": everything is 0) or the six figures overall, platform, name, param, value, query hits.
"""

from __future__ import annotations

from typing import Any

X = ["A", [{"f": {"q": ["x"]}}]]
Q = ["q"]


def gold(*alternatives: Any, name: str = "A") -> list[Any]:
    return [name, [{"f": {"q": list(alternatives)}}]]


PASS = (1, 1, 1, 1, 1, 1)
WRONG_VALUE = (0, 1, 1, 1, 0, 0)
WRONG_PARAM = (0, 1, 1, 0, 0, 0)
WRONG_NAME = (0, 1, 0, 0, 0, 0)
SYNTAX, CRASH, UNSAFE = "syntax", "crash", "unsafe_expression"
TWO = ["A", [{"f": {"q": ["x"]}}, {"f": {"q": ["y"]}}]]
F_G = ["A", [{"f": {"q": ["x"]}}, {"g": {"q": ["x"]}}]]

ROWS: list[tuple[str, Any, Any, Any, Any, Any]] = [
    ("Q01", gold("x", name="Uber Eats"), Q, [], "Uber Eats:[f(q='x')]", SYNTAX),
    ("Q01", gold("x", name="A.b"), Q, [], "A.b:[f(q='x')]", SYNTAX),
    ("Q01", gold("x", name="A-b"), Q, [], "A-b:[f(q='x')]", SYNTAX),
    ("Q01", gold("x", name="7eleven"), Q, [], "7eleven:[f(q='x')]", SYNTAX),
    ("Q01", gold("x", name="Uber Eats"), Q, [], "\"Uber Eats\":[f(q='x')]", PASS),
    ("Q02", gold("running shoes"), Q, [], "A:[f(q=running shoes)]", SYNTAX),
    ("Q03", X, Q, [], "A:[f(q=x)]", PASS),
    ("Q04", gold("2024-10-15"), Q, [], "A:[f(q=2024-10-15)]", CRASH),
    ("Q04", gold(1999), Q, [], "A:[f(q=2024-10-15)]", PASS),
    ("Q04", gold("2024-10-05"), Q, [], "A:[f(q=2024-10-05)]", SYNTAX),
    ("Q05", gold("10:30"), Q, [], "A:[f(q=10:30)]", SYNTAX),
    ("Q06", gold(1), Q, [], "A:[f(q=+1)]", WRONG_VALUE),
    ("Q06", gold(-1), Q, [], "A:[f(q=+1)]", PASS),
    ("Q06", gold(-2), Q, [], "A:[f(q=~1)]", WRONG_VALUE),
    ("Q06", gold(False), Q, [], "A:[f(q=not True)]", WRONG_VALUE),
    ("Q07", gold(-3), Q, [], "A:[f(q=-(1+2))]", SYNTAX),
    ("Q07", gold(1), Q, [], "A:[f(q=--1)]", SYNTAX),
    ("Q07", gold("-x"), Q, [], "A:[f(q=-x)]", SYNTAX),
    ("Q08", gold(5), Q, [], "A:[f(q=2+3)]", PASS),
    ("Q08", gold("ab"), Q, [], "A:[f(q='a'+'b')]", PASS),
    ("Q08", gold("x"), Q, [], "A:[f(q=running-shoes)]", SYNTAX),
    ("Q09", X, Q, [], "A:[f(q=__import__('os').getcwd()+'')]", UNSAFE),
    ("Q10", X, Q, [], "A:[f(q=exit()+1)]", UNSAFE),
    ("Q11", X, Q, [], "A:[f(q=9**9**9)]", UNSAFE),
    ("Q12", ["A", [{"f": {}}]], Q, [], "A:[f('z')]", (1, 1, 1, 1, 1, 0)),
    ("Q12", X, Q, [], "A:[f('z',q='x')]", PASS),
    ("Q13", X, Q, [], "A:[f(q='z',q='x')]", PASS),
    ("Q14", X, Q, [], "A:[f(**{'q':'x'})]", WRONG_PARAM),
    ("Q15", X, Q, [], "A:[A.f(q='x')]", WRONG_NAME),
    ("Q16", X, Q, [], "A:[g().f(q='x')]", PASS),
    ("Q17", X, Q, [], "A:f(q='x')", PASS),
    ("Q17", X, Q, [], "A:(f(q='x'),)", PASS),
    ("Q17", X, Q, [], "A:{f(q='x')}", PASS),
    ("Q18", X, Q, [], "A:[f(q='x')], B:[f(q='x')]", PASS),
    ("Q18", X, Q, [], "B:[f(q='x')], A:[f(q='x')]", (0, 0, 1, 1, 1, 1)),
    ("Q19", X, Q, [], "A:[f(q='x')]}# any text", PASS),
    ("Q20", X, Q, [], "A:[f(q='x')] # note", SYNTAX),
    ("Q20", X, Q, [], "A:[f(q='x')] # note\n", PASS),
    ("Q21", X, Q, [], "```\nA:[f(q='x')]\n```", SYNTAX),
    ("Q21", X, Q, [], "<think>hm</think>A:[f(q='x')]", SYNTAX),
    ("Q21", X, Q, [], "A:[f(q='x')].", SYNTAX),
    ("Q21", X, Q, [], "A:[f(q='x')];", SYNTAX),
    ("Q21", X, Q, [], "A:[f(q=‘x’)]", SYNTAX),
    ("Q21", X, Q, [], "**A**:[f(q='x')]", SYNTAX),
    ("Q21", X, Q, [], "{A:[f(q='x')]}", SYNTAX),
    ("Q22", X, Q, [], "", SYNTAX),
    ("Q22", X, Q, [], None, SYNTAX),
    ("Q22", X, Q, [], "None", SYNTAX),
    ("Q23", X, Q, [], "None:[f(q='x')]", (0, 0, 1, 1, 1, 1)),
    ("Q23", X, Q, [], "5:[f(q='x')]", (0, 0, 1, 1, 1, 1)),
    ("Q24", gold("null"), Q, [], "A:[f(q=null)]", PASS),
    ("Q24", gold(None), Q, [], "A:[f(q=None)]", PASS),
    ("Q24", gold("null"), Q, [], "A:[f(q=None)]", WRONG_VALUE),
    ("Q25", gold("g(1)"), Q, [], "A:[f(q=g(1))]", PASS),
    ("Q25", gold({"g": {"a": 1}}), Q, [], "A:[f(q=g(a=1))]", PASS),
    ("Q25", gold("a[0]"), Q, [], "A:[f(q=a[0])]", PASS),
    ("Q25", gold("a.b"), Q, [], "A:[f(q=a.b)]", SYNTAX),
    ("Q26", X, Q, [], "Ａ:[f(q=x)]", PASS),
    ("Q27", X, Q, [], "A:[]", (0, 1, 0, 0, 0, 0)),
    ("Q27", ["A", []], Q, [], "A:[]", (1, 1, 1, 1, 1, 0)),
    ("Q28", gold(5), Q, [], "A:[f(q='5')]", CRASH),
    ("Q28", gold("5"), Q, [], "A:[f(q=5)]", CRASH),
    ("Q29", gold(True), Q, [], "A:[f(q='True')]", CRASH),
    ("Q29", gold(True), Q, [], "A:[f(q=true)]", PASS),
    ("Q29", gold("true"), Q, [], "A:[f(q=true)]", WRONG_VALUE),
    ("Q29", gold("true"), Q, [], "A:[f(q=True)]", WRONG_VALUE),
    ("Q29", gold("true"), Q, [], "A:[f(q='True')]", PASS),
    ("Q30", gold(5, 6), Q, [], "A:[f(q=6)]", WRONG_VALUE),
    ("Q30", gold(5, 6), Q, [], "A:[f(q=6.0)]", PASS),
    ("Q31", gold(5.009), Q, [], "A:[f(q=5)]", PASS),
    ("Q31", gold(5), Q, [], "A:[f(q=5.005)]", WRONG_VALUE),
    ("Q31", gold(5.01), Q, [], "A:[f(q=5)]", PASS),
    ("Q31", gold(5.02), Q, [], "A:[f(q=5)]", WRONG_VALUE),
    ("Q32", gold(1), Q, [], "A:[f(q=True)]", PASS),
    ("Q32", gold(True), Q, [], "A:[f(q=1)]", PASS),
    ("Q33", ["A", [{"f": {"q": "shoes"}}]], Q, [], "A:[f(q='s')]", PASS),
    ("Q33", ["A", [{"f": {"q": "shoes"}}]], Q, [], "A:[f(q='shoes')]", WRONG_VALUE),
    ("Q34", gold("SHOES"), Q, [], "A:[f(q='shoes')]", PASS),
    ("Q34", gold("SHOES"), Q, [], "A:[f(q='shoes ')]", WRONG_VALUE),
    ("Q34", gold("2024-01-05"), Q, [], "A:[f(q='2024-1-5')]", WRONG_VALUE),
    ("Q35", gold(["a", "b"]), Q, [], "A:[f(q=['B','a','a'])]", PASS),
    ("Q36", gold("ab"), Q, [], "A:[f(q=['b','a'])]", PASS),
    ("Q37", gold([1, 2]), Q, [], "A:[f(q=[1,2])]", CRASH),
    ("Q37", gold([{"a": 1}]), Q, [], "A:[f(q=[{'a':1}])]", CRASH),
    ("Q38", gold(["x"]), Q, [], "A:[f(q=('x',))]", WRONG_VALUE),
    ("Q39", gold({"a": "x"}), Q, [], "A:[f(q={'a':'X'})]", WRONG_VALUE),
    ("Q40", gold("x", ["y"]), Q, [], "A:[f(q='x')]", CRASH),
    ("Q40", gold(None, "x"), Q, [], "A:[f(q='x')]", CRASH),
    ("Q41", gold(), Q, [], "A:[f(q=5)]", CRASH),
    ("Q41", ["A", [{"f": {"q": 5}}]], Q, [], "A:[f(q=5)]", CRASH),
    ("Q42", TWO, Q, [], "A:[f(q='x'), f(q='y')]", (0, 1, 1, 1, 0, 1)),
    ("Q43", ["A", [{"f": {"q": ["x"]}}] * 2], Q, [], "A:[f(q='x')]", PASS),
    ("Q44", X, Q, [], "A:[f(q='x'),f(q='x'),f(q='x')]", (1, 1, 1, 1, 1, 3)),
    ("Q45", X, Q, [], "A:[f(q='x'), f(q='WRONG')]", (0, 1, 1, 1, 0, 1)),
    ("Q46", X, Q, [], "B:[f(q='x')]", (0, 0, 1, 1, 1, 1)),
    ("Q47", X, Q, [], "a:[f(q='x')]", (0, 0, 1, 1, 1, 1)),
    ("Q48", X, Q, Q, "A:[f(q='x')]", PASS),
    ("Q49", F_G, Q, [], "A:[f(q='x'), g(q='x')]", (1, 1, 1, 1, 1, 2)),
    ("Q50", X, Q, ["p"], "A:[f(q='x', p='x')]", (0, 1, 1, 0, 0, 1)),
    ("Q51", ["A", [{"f": {"q": ["x"]}, "g": {"q": ["x"]}}]], Q, [], "A:[f(q='x')]", PASS),
    ("Q52", F_G, Q, [], "A:[g(q='x'), f(q='x')]", (1, 1, 1, 1, 1, 2)),
]

ERRORS: list[tuple[str, Any, str, tuple[str, ...]]] = [
    ("Q42", TWO, "A:[f(q='x'), f(q='y')]", ("value_error",)),
    ("Q45", X, "A:[f(q='x'), f(q='WRONG')]", ()),
    ("Q46", X, "B:[f(q='x')]", ()),
    ("Q53", F_G, "A:[f(q='x')]", ("func_excessive_error",)),
    ("Q54", X, "A:[f(q='x'), g(q='x')]", ("func_missing_error",)),
    ("Q55", X, "A:[f()]", ("param_excessive_error",)),
    ("Q56", X, "A:[f(q='x', z=1)]", ("param_missing_error",)),
    ("Q57", X, "A:[f(z=1)]", ("param_missing_error", "param_excessive_error")),
    ("Q58", X, "no answer", ()),
    ("Q58", gold(5), "A:[f(q='5')]", ()),
    ("Q58", X, "B:[f(q='x')]", ()),
]
