"""The seven-key benchmark format, as anybody's reader of it expects."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from making import Made

from pipelines.errors import ConfigError
from pipelines.exports import export
from pipelines.run import load_run

KEYS = {"user_profile", "platforms", "tools", "query", "answer", "query_params", "profile_params"}


def records_of(made: Made) -> dict[str, list[dict]]:
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in export(load_run(made.root), "ptbench")}


def test_every_split_becomes_an_array_of_seven_key_records(varied: Made):
    found = records_of(varied)

    calling = Counter(sample.split for sample in varied.split_samples() if sample.calls)
    assert {name: len(records) for name, records in found.items()} == calling
    assert sum(calling.values()) >= 40
    for record in (record for records in found.values() for record in records):
        assert set(record) == KEYS
        assert set(record["user_profile"]) == {"basic_features", "user_history"}


def test_an_answer_names_platform_calls_and_lists_of_accepted_values(varied: Made):
    for records in records_of(varied).values():
        for record in records:
            platform, calls = record["answer"]
            if not calls:  # the right act is to ask, or to call nothing
                assert platform == ""
                continue
            assert platform in record["tools"]
            for call in calls:
                ((name, arguments),) = call.items()
                api = next(a for a in record["tools"][platform] if a["name"] == name)
                assert set(arguments) <= set(api["parameters"]["properties"])
                assert all(isinstance(values, list) and values for values in arguments.values())
                assert not set(record["query_params"]) & set(record["profile_params"])
            given = {name for call in calls for arguments in call.values() for name in arguments}
            assert {*record["query_params"], *record["profile_params"]} <= given


def test_a_record_tells_nothing_hidden(varied: Made):
    for records in records_of(varied).values():
        for record in records:
            text = json.dumps(record, ensure_ascii=False)
            for profile in varied.people.profiles.values():
                assert not any(p.words in text for p in profile.preferences)
            assert '"level"' not in text
            assert '"context"' not in text


def test_the_same_query_words_reach_the_export_unescaped(varied: Made):
    path = varied.root / "exports" / "ptbench" / "train" / "data.json"
    records_of(varied)

    assert "\\u00" not in path.read_text(encoding="utf-8")


def test_an_unknown_format_is_answered_with_the_known_ones(varied: Made):
    with pytest.raises(ConfigError, match="write one of ptbench"):
        export(load_run(varied.root), "parquet")
