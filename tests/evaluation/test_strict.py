"""The strict scorer: the fixed column of the quirk catalogue, typed comparison, best matching of calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.evaluation.answers import read_answer
from pipelines.evaluation.catalogue import Catalogue
from pipelines.evaluation.items import Expected, Item, item_of
from pipelines.evaluation.metrics import NAMES, vector
from pipelines.evaluation.rendering import gold_text
from pipelines.evaluation.strict import Rules, Verdict, judge
from tests.evaluation.helpers import own, seven
from tests.evaluation.quirks import F_G, TWO, X, gold
from tests.evaluation.test_official import HOSTILE

Schema = dict[str, Any]


def item(answer: Any, schemas: Schema | None = None, **more: Any) -> Item:
    found = item_of(seven(answer, **more), "here", "test", Catalogue(), 0)
    for call in found.calls:
        call.schemas.update(schemas or {})
    return found


def verdict(answer: Any, text: Any, schemas: Schema | None = None, lenient: bool = False, **more: Any) -> Verdict:
    return judge(item(answer, schemas, **more), read_answer(text, lenient=lenient), Rules(lenient))


STRING = {"q": {"type": "string"}}
NUMBER = {"q": {"type": "number"}}
INTEGER = {"q": {"type": "integer"}}
RIGHT, VALUE, EXTRA, TOOL, PLATFORM = "right", "param_value", "param_extra", "tool_extra", "platform"

FIXED: list[tuple[str, Any, Any, str, Schema | None]] = [
    ("Q01", gold("x", name="Uber Eats"), "Uber Eats:[f(q='x')]", RIGHT, None),
    ("Q01", gold("x", name="7eleven"), "7eleven:[f(q='x')]", RIGHT, None),
    ("Q02", gold("running shoes"), "A:[f(q=running shoes)]", RIGHT, None),
    ("Q03", X, "A:[f(q=x)]", RIGHT, None),
    ("Q04", gold("2024-10-05"), "A:[f(q=2024-10-05)]", RIGHT, None),
    ("Q05", gold("10:30"), "A:[f(q=10:30)]", RIGHT, None),
    ("Q06", gold(1), "A:[f(q=+1)]", RIGHT, None),
    ("Q08", gold(5), "A:[f(q=2+3)]", VALUE, None),
    ("Q09", X, "A:[f(q=__import__('os').getcwd()+'')]", VALUE, None),
    ("Q10", X, "A:[f(q=exit()+1)]", VALUE, None),
    ("Q11", X, "A:[f(q=9**9**9)]", VALUE, None),
    ("Q12", X, "A:[f('z', q='x')]", EXTRA, None),
    ("Q13", X, "A:[f(q='z', q='x')]", EXTRA, None),
    ("Q14", X, "A:[f(**{'q':'x'})]", "syntax", None),
    ("Q15", X, "A:[A.f(q='x')]", "tool_wrong", None),
    ("Q16", X, "A:[g().f(q='x')]", "syntax", None),
    ("Q17", X, "A:f(q='x')", RIGHT, None),
    ("Q17", X, "A:{f(q='x')}", RIGHT, None),
    ("Q18", X, "A:[f(q='x')], B:[f(q='x')]", "multi_platform", None),
    ("Q19", X, "A:[f(q='x')]}# any text", "trailing_text", None),
    ("Q20", X, "A:[f(q='x')] # note", RIGHT, None),
    ("Q20", X, "A:[f(q='x')] # note\n", RIGHT, None),
    ("Q21", X, "```\nA:[f(q='x')]\n```", RIGHT, None),
    ("Q21", X, "<think>hm</think>A:[f(q='x')].", RIGHT, None),
    ("Q21", X, "**A**:[f(q=‘x’)]", RIGHT, None),
    ("Q21", X, "{A:[f(q='x')]}", RIGHT, None),
    ("Q22", X, "", "empty", None),
    ("Q22", X, None, "empty", None),
    ("Q22", X, "None", "syntax", None),
    ("Q23", X, "None:[f(q='x')]", "syntax", None),
    ("Q23", X, "5:[f(q='x')]", "syntax", None),
    ("Q24", gold(None), "A:[f(q=null)]", RIGHT, None),
    ("Q24", gold(None), "A:[f(q=None)]", RIGHT, None),
    ("Q25", gold("g(a=1)"), "A:[f(q=g(a=1))]", RIGHT, None),
    ("Q25", gold("a.b"), "A:[f(q=a.b)]", RIGHT, None),
    ("Q26", X, "Ａ:[f(q=x)]", RIGHT, None),
    ("Q27", X, "A:[]", "tool_missing", None),
    ("Q28", gold(5), "A:[f(q='5')]", RIGHT, INTEGER),
    ("Q28", gold(5), "A:[f(q='5')]", VALUE, None),
    ("Q28", gold("5"), "A:[f(q=5)]", RIGHT, STRING),
    ("Q29", gold(True), "A:[f(q='True')]", RIGHT, None),
    ("Q29", gold(True), "A:[f(q=true)]", RIGHT, None),
    ("Q30", gold(5, 6), "A:[f(q=6)]", RIGHT, None),
    ("Q31", gold(5.009), "A:[f(q=5)]", RIGHT, None),
    ("Q31", gold(5), "A:[f(q=5.009)]", RIGHT, NUMBER),
    ("Q31", gold(5.02), "A:[f(q=5)]", VALUE, None),
    ("Q32", gold(1), "A:[f(q=True)]", VALUE, None),
    ("Q32", gold(True), "A:[f(q=1)]", VALUE, None),
    ("Q34", gold("SHOES"), "A:[f(q='shoes ')]", RIGHT, None),
    ("Q34", gold("2024-01-05"), "A:[f(q='2024-1-5')]", RIGHT, None),
    ("Q35", gold(["a", "b"]), "A:[f(q=['B','a','a'])]", VALUE, None),
    ("Q35", gold(["a", "b"]), "A:[f(q=['B','a'])]", VALUE, None),
    ("Q35", gold(["a", "b"]), "A:[f(q=['B','a'])]", RIGHT, {"q": {"type": "array", "uniqueItems": True}}),
    ("Q36", gold("ab"), "A:[f(q=['b','a'])]", VALUE, None),
    ("Q37", gold([1, 2]), "A:[f(q=[1,2])]", RIGHT, None),
    ("Q37", gold([{"a": 1}]), "A:[f(q=[{'a':1}])]", RIGHT, None),
    ("Q38", gold(["x"]), "A:[f(q=('x',))]", RIGHT, None),
    ("Q39", gold({"a": "x"}), "A:[f(q={'a':'X'})]", RIGHT, None),
    ("Q40", gold("x", ["y"]), "A:[f(q='x')]", RIGHT, None),
    ("Q40", gold(None, "x"), "A:[f(q='x')]", RIGHT, None),
    ("Q42", TWO, "A:[f(q='y'), f(q='x')]", RIGHT, None),
    ("Q43", ["A", [{"f": {"q": ["x"]}}] * 2], "A:[f(q='x')]", "tool_missing", None),
    ("Q44", X, "A:[f(q='x'), f(q='x'), f(q='x')]", TOOL, None),
    ("Q45", X, "A:[f(q='x'), f(q='WRONG')]", TOOL, None),
    ("Q46", X, "B:[f(q='x')]", PLATFORM, None),
    ("Q47", X, "a:[f(q='x')]", RIGHT, None),
    ("Q52", F_G, "A:[g(q='x'), f(q='x')]", RIGHT, None),
    ("Q53", F_G, "A:[f(q='x')]", "tool_missing", None),
    ("Q54", X, "A:[f(q='x'), g(q='x')]", TOOL, None),
    ("Q55", X, "A:[f()]", "param_missing", None),
    ("Q56", X, "A:[f(q='x', z=1)]", EXTRA, None),
]


@pytest.mark.parametrize(("quirk", "answer", "text", "wanted", "schemas"), FIXED)
def test_every_quirk_is_fixed(quirk: str, answer: Any, text: Any, wanted: str, schemas: Schema | None):
    found = verdict(answer, text, schemas)

    if wanted == RIGHT:
        assert (found.overall, found.classes) == (1, ()), (quirk, found)
    elif found.failure:
        assert (found.failure, found.classes) == (wanted, ("format",)), (quirk, found)
    else:
        assert (found.overall, found.classes) == (0, (wanted,)), (quirk, found)


def test_lacking_one_argument_and_adding_another_is_in_both_classes():
    assert verdict(X, "A:[f(z=1)]").classes == ("param_missing", "param_extra")


def test_hits_are_capped_and_counted_per_occurrence():
    thrice = verdict(X, "A:[f(q='x'), f(q='x'), f(q='x')]")
    twice = verdict(F_G, "A:[f(q='x'), g(q='x')]")

    assert (thrice.hits["query"], thrice.wanted["query"]) == (1, 1)
    assert (twice.hits["query"], twice.wanted["query"]) == (2, 2)


@pytest.mark.parametrize(
    ("schema", "accepted", "made", "same"),
    [
        ({"type": "string", "format": "date"}, "2024-01-05", "January 5, 2024", True),
        ({"type": "string", "format": "date"}, "2024-01-05", "2024-01-06", False),
        ({"type": "string", "format": "time"}, "15:00", "3 pm", True),
        ({"type": "string", "format": "date-time"}, "2024-01-05T10:00:00+02:00", "2024-01-05 10:00+02:00", True),
        ({"type": "string"}, "$1,250", "1250 dollars", True),
        ({"type": "string"}, "$30", "€30", False),
        ({"type": "string"}, "2 km", "2000 m", True),
        ({"type": "string"}, "2 km", "2 kg", False),
        ({"type": "string", "enum": ["Credit Card", "cash"]}, "Credit Card", "credit card", True),
        ({"type": "string", "format": "uuid"}, "AbC", "abc", False),
        ({"type": "array", "uniqueItems": True}, ["a", "b"], ["b", "a"], True),
        ({"type": "array"}, ["a", "b"], ["b", "a"], False),
        ({"type": "integer"}, 5, 5.009, False),
        ({"type": "number"}, 10**400, 5.5, False),
        ({"type": "string"}, "a cooler box", "Cooler box.", True),
        ({"type": "string"}, "a cooler box", "cooler bag", False),
    ],
)
def test_a_comparator_is_chosen_by_the_schema_and_works_both_ways(schema: Schema, accepted: Any, made: Any, same: bool):
    for one, other in ((accepted, made), (made, accepted)):
        sample = item(["A", [{"f": {"q": [one]}}]], {"q": schema})
        from pipelines.evaluation.answers import Answer, Call

        found = judge(sample, Answer(platform="A", calls=[Call("f", {"q": other})]))
        assert bool(found.overall) is same, (one, other)


def test_a_comparator_can_be_overridden_by_name():
    sample = item(gold("AbC"))

    assert judge(sample, read_answer("A:[f(q='abc')]")).overall == 1
    for name in ("q", "f.q", "A/f.q"):
        assert judge(sample, read_answer("A:[f(q='abc')]"), Rules(overrides={name: "id"})).overall == 0


def test_a_default_spelt_out_or_left_out_is_no_difference():
    schemas = {"q": {"type": "string"}, "sort": {"type": "string", "default": "price"}}
    spelt = ["A", [{"f": {"q": ["x"], "sort": ["price"]}}]]

    assert verdict(X, "A:[f(q='x', sort='price')]", schemas).overall == 1
    assert verdict(X, "A:[f(q='x', sort='rating')]", schemas).classes == (EXTRA,)
    assert verdict(spelt, "A:[f(q='x')]", schemas).overall == 1
    assert verdict(["A", [{"f": {"q": ["x"], "sort": ["rating"]}}]], "A:[f(q='x')]", schemas).classes == ("param_missing",)


def test_order_counts_only_where_the_sample_says_so():
    sample = item(F_G)
    swapped = read_answer("A:[g(q='x'), f(q='x')]")

    assert judge(sample, swapped).overall == 1
    sample.ordered = True
    assert judge(sample, swapped).classes == ("tool_wrong",)


def test_many_calls_are_paired_by_the_best_assignment():
    calls = [{"f": {"q": [f"v{i}"]}} for i in range(6)]
    text = "A:[" + ", ".join(f"f(q='v{i}')" for i in (3, 5, 0, 1, 4, 2)) + "]"

    assert verdict(["A", calls], text).overall == 1
    assert verdict(["A", calls], text.replace("v4", "v9")).classes == (VALUE,)


def test_nested_arguments_are_compared_path_by_path():
    record = own("s1", calls=[{"api": "order", "arguments": {"to": {"street": "Elm", "city": "Bonn"}},
                               "sources": {"to.street": {"kind": "profile"}, "to.city": {"kind": "query"}}}],
                 accepted=[{"to.street": ["Elm", "Elm St"], "to.city": ["Bonn"]}])  # fmt: skip
    sample = item_of(record, "here", "test", Catalogue(), 0)

    right = judge(sample, read_answer("alpha:[order(to={'street': 'elm st', 'city': 'Bonn'})]"))
    wrong = judge(sample, read_answer('{"platform":"alpha","calls":[{"api":"order","arguments":{"to":{"street":"Oak","city":"Bonn"}}}]}'))
    assert right.overall == 1
    assert (wrong.hits["profile"], wrong.hits["query"], wrong.classes) == (0, 1, (VALUE,))
    assert judge(sample, read_answer(gold_text(sample))).overall == 1


def test_regret_is_the_utility_lost_and_the_worst_candidate_when_none_was_chosen():
    sample = item_of(own("s1"), "here", "test", Catalogue(), 0)

    assert judge(sample, read_answer("alpha:[find(q='x', p='home')]")).regret == 0
    assert judge(sample, read_answer("beta:[find(q='x', p='home')]")).regret == pytest.approx(0.3)
    assert judge(sample, read_answer("rubbish")).regret == pytest.approx(0.3)


def test_asking_and_not_calling_are_right_only_where_the_sample_wants_them():
    ask = item_of(own("s1", expect="ask"), "here", "test", Catalogue(), 0)
    none = item_of(own("s2", kinds=["no_tool"], calls=[], accepted=[]), "here", "test", Catalogue(), 0)
    call = item_of(own("s3"), "here", "test", Catalogue(), 0)
    ask_text, none_text = read_answer("ask: which one?"), read_answer("none: nothing fits")

    assert [judge(s, ask_text).overall for s in (ask, none, call)] == [1, 0, 0]
    assert [judge(s, none_text).overall for s in (ask, none, call)] == [0, 1, 0]
    assert judge(ask, read_answer("alpha:[find(q='x')]")).classes == ("tool_extra",)
    assert dict(zip(NAMES, vector(judge(call, ask_text), call), strict=False))["needless_asking"] == 1


def test_a_forbidden_profile_value_is_noticed_at_any_depth():
    sample = item_of(own("s1", must_not_use=["12 Elm Road"]), "here", "test", Catalogue(), 0)

    assert judge(sample, read_answer("alpha:[find(q='x', p={'to': ['12 elm road, Bonn']})]")).forbidden == 1
    assert judge(sample, read_answer("alpha:[find(q='x', p='home')]")).forbidden == 0


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (X, "A:[A.f(q='x')]"),
        (gold(5), "A:[f(q='5')]"),
        (gold("size large shirt"), "A:[f(q='shirt, large size')]"),
        (X, "Here is my answer:\nA:[f(q='x')]\nI hope it helps"),
    ],
)
def test_lenient_forgives_writing_that_strict_does_not(answer: Any, text: str):
    assert verdict(answer, text).overall == 0
    assert verdict(answer, text, lenient=True).overall == 1


def test_lenient_does_not_forgive_acting():
    assert verdict(X, "A:[f(q='x')], B:[f(q='x')]", lenient=True).overall == 0
    assert verdict(X, "A:[f(q='x'), g(q='x')]", lenient=True).overall == 0
    assert verdict(X, "B:[f(q='x')]", lenient=True).overall == 0


@pytest.mark.parametrize(
    ("text", "cut", "failure"),
    [
        ("A:[f(q='a long tex", True, "truncation"),
        ("A:[f(q='a long tex", False, "truncation"),
        ("<think>so many thoughts", True, "truncation"),
        ("I'm sorry, I cannot help with that.", False, "refusal"),
        ("抱歉，我不能这样做", False, "refusal"),
        ("x" * 1_000_000, False, "too_long"),
        ('{"platform": "A", "calls": [{"name": 5}]}', False, "syntax"),
        ("[" * 30_000, False, "syntax"),
        ("A:[" + "f(q=1)," * 100 + "]", False, "syntax"),
        ("\ud800:[f()]", False, ""),
    ],
)
def test_what_cannot_be_read_has_a_name(text: str, cut: bool, failure: str):
    assert read_answer(text, cut).failure == failure


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_output_never_raises_and_is_never_right(name: str):
    for lenient in (False, True):
        assert verdict(X, HOSTILE[name], lenient=lenient).overall == 0


def test_an_apostrophe_inside_quotes_belongs_to_the_text():
    assert verdict(gold("McDonald's"), "A:[f(q='McDonald's')]").overall == 1


def test_json_answers_and_bare_call_lists_are_read():
    assert verdict(X, '{"platform": "A", "calls": [{"api": "f", "arguments": {"q": "x"}}]}').overall == 1
    assert verdict(X, '[{"name": "A__f", "arguments": {"q": "x"}}]').overall == 1
    assert verdict(X, '[{"name": "A__f", "arguments": {}}, {"name": "B__f", "arguments": {}}]').failure == "multi_platform"
    assert verdict(X, '{"platform": "A", "calls": [{"api": "f", "arguments": {"q": "x", "q": "y"}}]}').classes == (EXTRA,)


PARTS = st.sampled_from(["f(q='x')", "f(q='y')", "g(q='x')", "f(q='x', p=1)", "f()", "f(q=[1])", "f(q=a b)", "f(1)"])
TEXTS = st.one_of(
    st.tuples(st.sampled_from("AB"), st.lists(PARTS, max_size=4)).map(lambda t: f"{t[0]}:[{', '.join(t[1])}]"),
    st.text(max_size=80),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("fg"), st.just({"q": ["x"]}), min_size=1, max_size=1), min_size=1, max_size=3), TEXTS)
def test_overall_is_platform_and_value_and_each_level_needs_the_one_before(calls: list[Any], text: str):
    for lenient in (False, True):
        found = verdict(["A", calls], text, lenient=lenient)

        assert found.overall == found.platform * found.tool_param_values
        assert found.tool_param_values <= found.tool_param_names <= found.tool_names <= found.format
        assert all(found.hits[name] <= found.wanted[name] for name in found.hits)
        assert bool(found.overall) is not bool(found.classes)


def test_the_written_out_gold_answer_is_right():
    for answer in (X, TWO, F_G, gold([{"a": "it's"}]), gold("a, b=c"), gold(None), gold(-1.5), gold("x", name="Uber: Eats")):
        sample = item(answer)
        assert judge(sample, read_answer(gold_text(sample))).overall == 1, answer


def test_expected_knows_both_sources_of_a_name_in_both_lists():
    call: Expected = item(X, query_params=["q"], profile_params=["q"]).calls[0]

    assert call.sources["q"] == ("query", "profile")
