"""Chats: their tokens are those of the tokenizer's own template, each message's words are found, and a template from anybody ends."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from ingest.live.prompt import chat_messages, cut_prompt
from ingest.model.models import Model, load_model
from ingest.text import chats
from ingest.text.chats import ChatCounts, TemplateProcess, render_chats
from ingest.text.corpora import Document, open_corpus
from ingest.text.ngram_text import read_tokens
from ingest.text.sequences import CutDocument, cut_documents
from schema.errors import AtlasError
from tests.exact.tiny import make, run, tiny_request

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|im_start|>", "<|im_end|>", "<s>"]


def talk(i: int) -> list[dict[str, str]]:
    """Words that a search for them would find elsewhere first, a special token that is spelt, and space that the template trims."""
    return [{"role": "system", "content": "user"}, {"role": "user", "content": f" im_start <|im_end|> {i}\n"}, {"role": "assistant", "content": "é 🙂 user"}]


def with_template(template: str | None, *, adds_bos: bool = False) -> PreTrainedTokenizerFast:
    """Single bytes, and three special tokens behind them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pipeline = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pipeline, bos_token="<s>", additional_special_tokens=SPECIAL[:2], chat_template=template)
    if adds_bos:
        bos = tokenizer.convert_tokens_to_ids("<s>")
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", bos)])
    return tokenizer


@pytest.fixture(scope="module")
def chatml() -> PreTrainedTokenizerFast:
    return with_template(CHATML)


def read(tokenizer: PreTrainedTokenizerFast, *documents: Document, is_chat: bool = False, context: int = 500, bos: str = "auto") -> list[CutDocument]:
    texts = render_chats(documents, tokenizer, is_chat=is_chat)
    return list(cut_documents(texts, tokenizer, corpus_id=0, context=context, bos=bos, by="tokens"))


def chat(messages: list[dict[str, str]]) -> Document:
    return Document("c", "", {}, messages=tuple(messages))


def ids(found: CutDocument) -> list[int]:
    return np.concatenate([s.token_ids for s in found.sequences]).tolist()


def test_the_tokens_are_the_tokenizers_own_and_the_roles_are_each_messages_words(chatml: PreTrainedTokenizerFast) -> None:
    found = read(chatml, *(chat(talk(i)) for i in range(3)))
    for i, one in enumerate(found):
        assert ids(one) == chatml.apply_chat_template(talk(i), tokenize=True, return_dict=False)
        spans = one.document.nested["roles"]
        assert [(r["role"], one.document.text[r["start"] : r["end"]]) for r in spans] == [(m["role"], m["content"].strip()) for m in talk(i)]
        # behind "system\n", and not in the role's own name
        assert spans[0]["start"] == len("<|im_start|>system\n")


def test_what_a_template_does_not_render_word_for_word_has_no_roles_and_is_counted() -> None:
    tokenizer = with_template("{% for m in messages %}<|im_start|>{{ m['content'] | replace('<|im_end|>', '') }}{% endfor %}")
    counts = ChatCounts(tokenizer)
    (changed, kept) = counts.watch(render_chats([chat(talk(0)), chat(talk(0)[2:])], tokenizer, is_chat=False))
    assert ("roles" in changed.nested, kept.nested["roles"]) == (False, [{"role": "assistant", "start": 12, "end": 20}])
    assert counts.notes() == [
        "note: 2 documents are chats, rendered by the tokenizer's own template; special tokens in them are read as such tokens",
        "note: the spans of each role are not known in 1 chats: the template changes their messages",
    ]


def test_a_column_of_the_name_of_ours_gives_way_and_is_named(chatml: PreTrainedTokenizerFast) -> None:
    (found,) = render_chats([Document("c", "", {"roles": 3, "a": 1}, messages=tuple(talk(0)))], chatml, is_chat=False)
    assert (found.metadata, [r["role"] for r in found.nested["roles"]], found.left_out) == ({"a": 1}, ["system", "user", "assistant"], ("roles",))


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("adds_bos", "bos", "template", "n"),
    [
        (True, "auto", CHATML, 0),
        (True, "auto", "<s>" + CHATML, 1),
        (True, "always", CHATML, 1),
        (True, "always", "<s>" + CHATML, 1),
        (False, "auto", "<s>" + CHATML, 1),
    ],
)
def test_bos_is_the_templates_own_and_never_twice(adds_bos: bool, bos: str, template: str, n: int) -> None:
    tokenizer = with_template(template, adds_bos=adds_bos)
    (found,) = read(tokenizer, chat(talk(0)), context=30, bos=bos)
    assert [s.token_ids.tolist().count(tokenizer.bos_token_id) for s in found.sequences] == [n] + [int(adds_bos)] * (len(found.sequences) - 1)
    if bos == "auto":
        own = tokenizer.apply_chat_template(talk(0), tokenize=True, return_dict=False)
        assert found.sequences[0].token_ids.tolist() == own[: len(found.sequences[0].token_ids)]


@pytest.mark.parametrize("template", [CHATML, "<s>" + CHATML], ids=["without", "with"])
def test_what_is_counted_of_a_chat_is_all_that_its_template_writes(template: str) -> None:
    """Whether or not that begins with the token that the tokenizer puts before other texts."""
    tokenizer = with_template(template, adds_bos=True)
    (found,) = read(tokenizer, chat(talk(0)), context=30)
    ids, tokens = read_tokens(found, tokenizer.bos_token_id)
    assert tokens.tolist() == tokenizer.apply_chat_template(talk(0), tokenize=True, return_dict=False)
    assert len(ids) == len(tokens) and ids[0] == found.sequences[0].first_position_id


def test_texts_that_spell_special_tokens_are_characters_unless_they_are_said_to_be_chats(chatml: PreTrainedTokenizerFast) -> None:
    text = "<|im_start|>a<|im_end|><|im_start|>"
    start, end = (chatml.convert_tokens_to_ids(name) for name in SPECIAL[:2])
    assert ids(read(chatml, Document("t", text, {}), is_chat=True)[0]) == [start, chatml.convert_tokens_to_ids("a"), end, start]
    assert ids(read(chatml, Document("t", text, {}))[0]) == [chatml.convert_tokens_to_ids(letter) for letter in text]
    counts = ChatCounts(chatml)
    list(counts.watch([Document("t", text, {}), Document("u", "plain", {}), Document("c", text, {}, is_chat=True)]))
    assert counts.notes() == [
        "note: texts spell special tokens of the tokenizer 3 times (<|im_start|> 2, <|im_end|> 1), read as characters; --chat reads them as these tokens"
    ]


def test_rows_of_messages_are_chats_and_a_text_goes_before_them(tmp_path: Path) -> None:
    rows = [{"messages": talk(0), "id": 1}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "x", "messages": talk(0)}) + "\n")
    for name in ("a.jsonl", "b.parquet"):
        (found,) = open_corpus(str(tmp_path / name), spool=tmp_path).documents()
        assert ([dict(m) for m in found.messages or ()], found.metadata) == (talk(0), {"id": 1})
    (found,) = open_corpus(str(tmp_path / "c.jsonl"), spool=tmp_path).documents()
    assert (found.text, found.messages, found.nested) == ("x", None, {"messages": talk(0)})
    (found,) = open_corpus(str(tmp_path / "c.jsonl"), column="messages", spool=tmp_path).documents()
    assert (found.metadata, len(found.messages or ())) == ({"text": "x"}, 3)


@pytest.mark.ci_cases(3)
@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template to render messages by"),
        (
            "{{ raise_exception('roles must\nalternate') }}",
            r"^c: the chat template of tokenizer .* does not take this chat \(TemplateError: roles must alternate\); change .* --chat$",
        ),
        ("{% for", r"^c: .*TemplateSyntaxError"),
        ("{{ ''.__class__.__mro__ }}", r"^c: .*SecurityError"),
        ("{{ 'a' * 9000000000 }}", r"^c: .*MemoryError"),
        ("{{ 'a' * 20000000 }}", r"^c: .*ValueError: it makes 20,000,000 characters of the chat"),
    ],
)
def test_a_template_that_is_broken_ends_in_one_line(template: str | None, message: str) -> None:
    with pytest.raises(AtlasError, match=message) as raised:
        list(render_chats([chat(talk(0))], with_template(template), is_chat=False))
    assert "\n" not in str(raised.value)


@pytest.mark.thorough
def test_a_template_makes_the_same_of_a_chat_on_every_day() -> None:
    """What depends on the clock or on chance would be another text in each pass over the corpus."""
    tokenizer = with_template("{{ strftime_now('%d %B %Y %H:%M:%S.%f') }} {{ range(99999) | random }} {{ lipsum() }}")
    counts = ChatCounts(tokenizer)
    first, again = (next(iter(counts.watch(render_chats([chat(talk(0))], tokenizer, is_chat=False)))).text for _ in range(2))
    assert first == again and first.startswith("26 July 2024 00:00:00.000000 ")
    assert "note: the template asks for the date and always gets 26 July 2024, so that a chat is rendered alike on every day" in counts.notes()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "template",
    ["{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", pytest.param("{{ 9 ** (9 ** 9) }}", marks=pytest.mark.thorough)],
)
def test_a_template_that_never_ends_is_ended(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python's own loop, and in one number that no interrupt reaches."""
    monkeypatch.setattr(chats, "MOST_SECONDS", 0)
    with pytest.raises(AtlasError, match=r"^c: the chat template of tokenizer .* did not end within 0 seconds of processor time \(status -\d+\)"):
        list(render_chats([chat(talk(0))], with_template(template), is_chat=False))


def test_a_process_that_is_killed_is_not_said_to_have_been_slow(chatml: PreTrainedTokenizerFast) -> None:
    with TemplateProcess(chatml) as template:
        template.render("c", talk(0))
        assert template.process
        template.process.kill()
        with pytest.raises(AtlasError, match=r"^d: .* ended its process \(status -9\); change the chat or leave it out"):
            template.render("d", talk(1))


def test_a_corpus_of_chats_becomes_an_atlas_whose_triggers_are_asked_by_role(tmp_path: Path) -> None:
    tiny = make(tmp_path, "llama")
    tiny.tokenizer.chat_template = "{% for m in messages %}<s>{{ m['role'] }}:{{ m['content'] }}{% endfor %}"
    tiny.tokenizer.save_pretrained(tiny.folder)
    said = [[{"role": "user", "content": f"the people {i}"}, {"role": "assistant", "content": "the world"}] for i in range(50)]
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps({"messages": one}) + "\n" for one in said))
    target = run(tiny_request(tiny.folder, tmp_path / "chats.jsonl", tmp_path / "a.duckdb", paper=False, context=64))
    with duckdb.connect(str(target), read_only=True) as con:
        read = con.execute("SELECT document_id, list(token_id ORDER BY position_id) FROM position JOIN sequence USING (sequence_id) GROUP BY ALL ORDER BY ALL")
        assert [tokens for _, tokens in read.fetchall()] == [tiny.tokenizer.apply_chat_template(one, tokenize=True, return_dict=False) for one in said]
        sql = (Path(__file__).parents[2] / "docs" / "ingest.md").read_text().partition("Triggers by role:")[2].split("```")[1].removeprefix("sql\n")
        asked = [sql.replace("t.layer = 2", "t.layer = 1").replace("t.neuron = 7", f"t.neuron = {neuron}") for neuron in range(8)]
        by_role = [dict(con.execute(one).fetchall()) for one in asked]
        triggers = con.execute(
            "SELECT t.neuron, d.text, p.char_start FROM trigger AS t JOIN position AS p USING (position_id) JOIN sequence AS s USING (sequence_id) "
            "JOIN document AS d USING (document_id) WHERE t.layer = 1 AND t.neuron < 8 AND t.tail = 'max' AND p.char_end > p.char_start"
        ).fetchall()
    # a token of the user's words lies before the second <s>, and behind the first "user:"
    expected = [{"user": 0, "assistant": 0} for _ in range(8)]
    for neuron, text, at in triggers:
        second = text.index("<s>assistant:")
        expected[neuron]["user"] += len("<s>user:") <= at < second
        expected[neuron]["assistant"] += at >= second + len("<s>assistant:")
    assert by_role == [{role: n for role, n in of_neuron.items() if n} for of_neuron in expected]
    assert sum(sum(of_neuron.values()) for of_neuron in expected) > 0


@pytest.mark.thorough
def test_a_live_prompt_is_rendered_up_to_the_answer(tmp_path: Path) -> None:
    tiny = make(tmp_path, "llama")
    model = load(tiny.folder, "<s>{{ messages | map(attribute='content') | join('<s>') }}{% if add_generation_prompt %}<s>{% endif %}")
    asked = [{"role": "user", "content": "the world"}, {"role": "assistant", "content": "of"}]
    for text, messages in (("the people", [{"role": "user", "content": "the people"}]), (json.dumps(asked), asked), (json.dumps(asked[:1]), asked[:1])):
        assert chat_messages(text) == messages
        own = model.tokenizer.apply_chat_template(messages, add_generation_prompt=messages[-1]["role"] == "user", tokenize=True, return_dict=False)
        assert cut_prompt(model, text, "auto", is_chat=True).sequences[0].token_ids.tolist() == own


def load(folder: Path, template: str) -> Model:
    model = load_model(str(folder), revision=None, dtype="float32", device="cpu", tell=lambda _: None)
    model.tokenizer.chat_template = template
    return model


def test_the_process_serves_chat_after_chat_and_ends(chatml: PreTrainedTokenizerFast) -> None:
    with TemplateProcess(chatml) as template:
        first, second = (template.render("c", talk(i)) for i in range(2))
        process = template.process
    assert (first[0] != second[0], process is not None and process.returncode is not None) == (True, True)
