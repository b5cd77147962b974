from pipelines.records import API
from pipelines.tools.equivalence import equivalences, relax


def api(platform: str, name: str, required: list[str], meanings: dict[str, str], group: str = "main", **rest) -> API:
    properties = {path: {"type": "string"} for path in meanings}
    return API(
        id=f"pets/{platform}/{name}", platform=f"pets/{platform}", name=name, description="Feed the pet.", capability="feed", group=group,
        parameters={"type": "object", "properties": properties, "required": required}, returns="Done.", meanings=meanings, **rest,
    )  # fmt: skip


def test_parameters_of_the_same_meaning_stand_in_one_row():
    [found] = equivalences([api("a", "feedPet", ["petName"], {"petName": "pet"}), api("b", "give_food", ["animal"], {"animal": "pet"})])

    assert found.apis == {"pets/a": "feedPet", "pets/b": "give_food"}
    assert found.parameters == {"pet": {"pets/a": "petName", "pets/b": "animal"}}
    assert found.problems == []


def test_what_one_requires_and_another_cannot_be_told_is_a_problem_unless_it_is_a_lasting_fact():
    one = api("a", "feedPet", ["pet", "bowl"], {"pet": "pet", "bowl": "bowl"})
    other = api("b", "give_food", ["animal"], {"animal": "pet"})

    [found] = equivalences([one, other])
    assert found.problems == ["feedPet requires bowl, for which give_food has no parameter"]

    [found] = equivalences([one.model_copy(update={"personal": ["bowl"]}), other])
    assert found.problems == []


def test_a_capability_on_one_platform_only_is_a_problem():
    [found] = equivalences([api("a", "feedPet", [], {})])

    assert found.problems == ["feedPet has no rival"]


def test_relaxing_makes_siblings_interchangeable_and_says_what_it_did():
    one = api("a", "feedPet", ["pet", "bowl"], {"pet": "pet", "bowl": "bowl"})
    other = api("b", "give_food", ["animal"], {"animal": "pet"})

    changed, told = relax([one, other])

    assert changed[0].parameters["required"] == ["pet"]
    assert changed[1] == other
    assert [(r.subject, r.reason) for r in told] == [("pets/a/feedPet", "requirement_relaxed")]
    assert equivalences(changed)[0].problems == []


def test_a_nested_requirement_is_relaxed_with_the_object_around_it():
    one = api("a", "feedPet", ["meal"], {"meal.size": "size"})
    nested = {"meal": {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]}}
    one = one.model_copy(update={"parameters": {"type": "object", "properties": nested, "required": ["meal"]}})

    changed, _ = relax([one, api("b", "give_food", [], {})])

    assert "required" not in changed[0].parameters
    assert "required" not in changed[0].parameters["properties"]["meal"]


def test_a_real_api_keeps_what_it_requires():
    real = api("a", "feedPet", ["bowl"], {"bowl": "bowl"}, group="imported/pets")
    changed, told = relax([real, api("b", "give_food", [], {})])

    assert changed[0] == real
    assert told == []
    assert equivalences(changed)[0].problems
