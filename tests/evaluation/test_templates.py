"""Prompt templates: each family as its models were trained, any file, nothing hostile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.errors import ConfigError
from pipelines.evaluation.templates import Template

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi {content}"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Bye"},
]
CHATML = (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi {content}<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
    "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
)
MISTRAL = "<s>[INST] Be brief.\n\nHi {content}[/INST] Hello</s>[INST] Bye[/INST]"
WANTED = {
    "qwen": CHATML,
    "hammer": CHATML,
    "llama3": (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi {content}<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "mistral": MISTRAL,
    "xlam": MISTRAL,
    "deepseek": (
        "<｜begin▁of▁sentence｜>Be brief.<｜User｜>Hi {content}<｜Assistant｜>Hello<｜end▁of▁sentence｜><｜User｜>Bye<｜Assistant｜>"
    ),
}
STOPS = {"qwen": "<|im_end|>", "hammer": "<|im_end|>", "llama3": "<|eot_id|>", "mistral": "</s>", "xlam": "</s>"}


@pytest.mark.parametrize("family", WANTED)
def test_each_family_is_written_as_its_models_expect(family: str):
    assert Template(family).render(CHAT) == WANTED[family]


@pytest.mark.parametrize("family", STOPS)
def test_an_answer_ends_at_the_family_s_own_mark(family: str):
    assert STOPS[family] in Template(family).stop


def test_a_tokenizer_config_is_read_with_its_marks(tmp_path: Path):
    text = "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{{ eos_token }}{% endfor %}"
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": text, "bos_token": {"content": "<b>"}, "eos_token": "<e>"}))

    template = Template(str(path))
    assert template.render(CHAT[:1]) == "<b>system: Be brief.<e>"
    assert template.stop == ("<e>",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% for %}", "write a Hugging Face chat template"),
        ("", "is empty"),
        ("{{ raise_exception('only one system message') }}", "only one system message"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "cannot render"),
        ("{{ cycler.__init__.__globals__.os.system('true') }}", "cannot render"),
        ("{% for i in range(99999999) %}x{% endfor %}", "cannot render"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}xxxxxxxxxxxxxxxx{% endfor %}{% endfor %}", "renders more than"),
    ],
)
def test_a_bad_or_hostile_template_is_one_line(text: str, words: str, tmp_path: Path):
    path = tmp_path / "template.jinja"
    path.write_text(text)

    with pytest.raises(ConfigError, match=words):
        Template(str(path)).render(CHAT)
