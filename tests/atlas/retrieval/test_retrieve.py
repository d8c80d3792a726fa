"""`atlas retrieve` from files of keys to answers, against a loop in numpy over the same numbers."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from math import exp, log
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import atlas
from atlas.beside.retrieval import RETRIEVALS, entries
from atlas.cli.main import cli
from schema.errors import AtlasError
from schema.key_files import keys_folder
from tests.atlas.companions import broken, findings
from tests.atlas.retrieval.stores import STEP, Text, write_atlas

D, LENGTH, N_DOCUMENTS, N_TOKENS = 12, 45, 6, 300
ASKED = ["--store", "0", "--tune", "1", "--test", "2", "--queries", "120", "--k", "64"]


def text(seed: int) -> Text:
    """Tokens follow a walk on a ring; a key is the direction of the next, with noise, so that neighbours tell something."""
    generator = np.random.default_rng(seed)
    n = LENGTH * N_DOCUMENTS
    tokens = (np.cumsum(generator.integers(1, 4, n)) % 40).astype(np.int64)
    angles = 2 * np.pi * np.append(tokens[1:], 0) / 40
    keys = np.stack([np.cos(angles), np.sin(angles)] * (D // 2), 1) * 4 + generator.normal(0, 3, (n, D))
    return Text(LENGTH, keys.astype(np.float16), tokens, generator.uniform(0.5, 3, n).astype(np.float32), [f"text {seed} {i}" for i in range(N_DOCUMENTS)])


def corpora() -> list[Text]:
    """The first document of the test is that of the store word for word, tokens and keys alike, but for its last words."""
    store, tune, test = text(0), text(1), text(2)
    test.tokens[: LENGTH - 3], test.keys[: LENGTH - 3] = store.tokens[: LENGTH - 3], store.keys[: LENGTH - 3]
    tune.texts[0] = store.texts[1]
    return [store, tune, test]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_atlas(tmp_path_factory.mktemp("made") / "a.duckdb", corpora())


@pytest.fixture(scope="module")
def retrieved(made: Path) -> Path:
    path = made.with_name("done.duckdb")
    shutil.copy(made, path)
    shutil.copytree(keys_folder(made), keys_folder(path))
    assert retrieve(path).exit_code == 0
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(keys_folder(made), tmp_path / "a.keys")
    return Path(shutil.copy(made, tmp_path / "a.duckdb"))


def retrieve(path: Path, *more: str) -> Result:
    return CliRunner().invoke(cli, ["retrieve", str(path), *ASKED, *more])


class Loop:
    """The definitions, a query at a time, in float64."""

    def __init__(self) -> None:
        self.corpora = corpora()
        self.store = [(p, *self.at(0, p)) for p in range(LENGTH * N_DOCUMENTS) if self.is_entry(p)]

    @staticmethod
    def is_entry(p: int) -> bool:
        return 1 <= p % LENGTH < LENGTH - 1

    def at(self, corpus: int, p: int) -> tuple[np.ndarray, int, str]:
        """Key, next token and text of the document."""
        of = self.corpora[corpus]
        return of.keys[p].astype(np.float64), int(of.tokens[p + 1]), of.texts[p // LENGTH]

    def nearest(self, corpus: int, p: int) -> list[tuple[float, int, int]]:
        """(distance, position, token) of every entry of other texts, nearest first."""
        key, _, own = self.at(corpus, p)
        return sorted((float(((other - key) ** 2).sum()), position, token) for position, other, token, document in self.store if document != own)

    def prob(self, corpus: int, p: int, k: int, temperature: float) -> float:
        rows, (_, following, _) = self.nearest(corpus, p)[:k], self.at(corpus, p)
        weights = [(exp(-(distance - rows[0][0]) / temperature), token) for distance, _, token in rows]
        return sum(w for w, token in weights if token == following) / sum(w for w, _ in weights)


@pytest.fixture(scope="module")
def loop() -> Loop:
    return Loop()


@pytest.mark.thorough
def test_neighbours_shares_and_choice_are_those_of_a_loop(retrieved: Path, loop: Loop) -> None:
    with atlas.open(retrieved) as a:
        queries = a.sql("FROM retrievals.knn_query ORDER BY position_id").to_dicts()
        predictions = a.sql("FROM retrievals.knn_prediction").to_dicts()
        neighbours = a.sql("FROM retrievals.knn_neighbour ORDER BY position_id, rank").to_dicts()
        (row,) = a.sql("FROM retrievals.retrieval").to_dicts()
        curve = a.knn_curve(retrieval=0)
    assert {q["part"] for q in queries} == {"tune", "test"}
    assert [sum(q["part"] == part for q in queries) for part in ("tune", "test")] == [120, 120]
    of = {q["position_id"]: (q["position_id"] // STEP, q["position_id"] % STEP) for q in queries}
    tune = [q for q in queries if q["part"] == "tune"]
    median = float(np.median([loop.nearest(*of[q["position_id"]])[0][0] for q in tune]))
    assert row["median_distance"] == pytest.approx(median, rel=1e-5)
    assert sorted({p["temperature"] / row["median_distance"] for p in predictions}) == pytest.approx([0.03, 0.1, 0.3, 1, 3, 10])
    for position in list(of)[::9]:
        wanted = loop.nearest(*of[position])[:32]
        got = [n for n in neighbours if n["position_id"] == position]
        assert [(n["neighbour_position_id"], n["next_token_id"]) for n in got] == [(p, token) for _, p, token in wanted]
        assert [n["distance"] for n in got] == pytest.approx([distance for distance, _, _ in wanted], rel=1e-5)
        for p in (p for p in predictions if p["position_id"] == position):
            assert p["next_token_prob"] == pytest.approx(loop.prob(*of[position], p["k"], p["temperature"]), rel=1e-3, abs=1e-6)
    best = min(curve.to_dicts(), key=lambda c: (c["perplexity"], c["weight"], c["k"], c["temperature"]))
    assert (best["k"], best["temperature"], best["weight"]) == (row["k"], row["temperature"], row["weight"])
    assert curve.filter(is_chosen=True).height == 1
    assert 0 < row["weight"] < 1
    assert curve.height == 2 * 6 * 21


def test_without_weight_the_perplexity_is_that_of_the_atlas(retrieved: Path) -> None:
    with atlas.open(retrieved) as a:
        wanted = a.sql(
            "SELECT exp(avg(p.surprisal::DOUBLE)) FROM position_prediction AS p INNER JOIN retrievals.knn_query AS q USING (position_id) WHERE q.part = 'tune'"
        ).item()
        found = a.knn_curve(retrieval=0).filter(weight=0.0)["perplexity"].to_list()
    assert found == pytest.approx([wanted] * 12, rel=1e-6)


def test_the_test_is_scored_with_the_choice_alone(retrieved: Path, loop: Loop) -> None:
    with atlas.open(retrieved) as a:
        (row,) = a.sql("FROM retrievals.retrieval").to_dicts()
        queries = a.sql("FROM retrievals.knn_query WHERE part = 'test'").to_dicts()
        tried = a.sql("SELECT DISTINCT k, temperature FROM retrievals.knn_prediction WHERE position_id >= 2 * 1099511627776").rows()
        result = {r["queries"]: r for r in a.knn_result().filter(part="test").to_dicts()}
    assert tried == [(row["k"], row["temperature"])]
    mixed = [(1 - row["weight"]) * exp(-q["surprisal"]) + row["weight"] * loop.prob(2, q["position_id"] % STEP, row["k"], row["temperature"]) for q in queries]
    assert result["all"]["perplexity_knn"] == pytest.approx(exp(-np.mean(np.log(mixed))), rel=1e-4)
    assert result["all"]["perplexity"] == pytest.approx(exp(np.mean([q["surprisal"] for q in queries])), rel=1e-6)
    assert result["all"]["gain"] == pytest.approx(log(result["all"]["perplexity"] / result["all"]["perplexity_knn"]), rel=1e-9)
    assert result["all"]["n_queries"] == sum(r["n_queries"] for name, r in result.items() if name.startswith("index")) == 120
    assert result["near-copies"]["n_queries"] + result["others"]["n_queries"] == 120


def test_near_copies_are_those_with_32_equal_tokens_or_an_entry_at_hand(retrieved: Path, loop: Loop) -> None:
    """The test's first document is copied up to its last three tokens; from its 32nd on, queries have 32 equal tokens."""
    with atlas.open(retrieved) as a:
        queries = a.sql("FROM retrievals.knn_query WHERE part = 'test'").to_dicts()
    places = {q["position_id"] % STEP: (q["is_near"], q["is_same_text"]) for q in queries}
    assert any(31 <= p < LENGTH - 3 for p in places)
    for p, found in places.items():
        assert found == (p < LENGTH - 3, 31 <= p < LENGTH - 3), p


def test_a_text_that_is_in_two_corpora_is_no_neighbour_of_itself(retrieved: Path) -> None:
    """The tune's first document is the store's second by its text."""
    with atlas.open(retrieved) as a:
        near = a.sql(
            f"SELECT n.neighbour_position_id // 45 AS document FROM retrievals.knn_neighbour AS n WHERE n.position_id BETWEEN {STEP} AND {STEP + LENGTH - 1}"
        )["document"]
    assert len(near) > 32 and 1 not in near.to_list() and set(near.to_list()) == {0, 2, 3, 4, 5}


def test_what_is_kept_keeps_the_rules(retrieved: Path) -> None:
    assert [(f.audit.name, f.example) for f in findings(retrieved, RETRIEVALS) if f.n_rows] == []


def test_the_answer_shows_near_copies_and_indices_beside_the_gain(retrieved: Path) -> None:
    again = retrieve(retrieved)
    assert "note: retrieval 0 has the same settings and is stored already: nothing was computed" in again.stderr
    for word in ("all", "near-copies", "others", "index 2-3", "index 32-63", "perplexity_knn"):
        assert word in again.stdout


@pytest.mark.thorough
def test_a_second_look_at_the_test_says_so(path: Path) -> None:
    assert "scored" not in retrieve(path).stderr
    second = retrieve(path, "--seed", "5")
    assert second.exit_code == 0
    assert "note: test corpus 2 was scored 1 times before against these entries: this result is not a first look at it" in second.stderr
    with atlas.open(path) as a:
        assert a.sql("SELECT retrieval_id, n_earlier_tests FROM retrievals.retrieval ORDER BY 1").rows() == [(0, 0), (1, 1)]
    assert [(f.audit.name, f.example) for f in findings(path, RETRIEVALS) if f.n_rows] == []


@pytest.mark.thorough
def test_a_compressed_search_says_that_it_is_one(path: Path, retrieved: Path) -> None:
    assert retrieve(path, "--compressed").exit_code == 0
    with atlas.open(path) as a, atlas.open(retrieved) as b:
        assert a.sql("SELECT search FROM retrievals.retrieval").item() == "compressed"
        assert b.sql("SELECT search FROM retrievals.retrieval").item() == "exact"
        coarse, exact = (each.knn_result().filter(part="test", queries="all")["perplexity_knn"].item() for each in (a, b))
    assert coarse == pytest.approx(exact, rel=0.05)


def test_no_torch_is_loaded(path: Path) -> None:
    code = (
        "import sys; from atlas.cli.main import run; "
        f"assert run(['retrieve', {str(path)!r}, *{ASKED!r}], True) == 0; "
        "assert not {'torch', 'transformers', 'ingest'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def cut(path: Path) -> None:
    file = min(keys_folder(path).iterdir())
    file.write_bytes(file.read_bytes()[:-100])


def replace(path: Path) -> None:
    """By keys of another model or text, as long as they."""
    file = min(keys_folder(path).iterdir())
    data = file.read_bytes()
    file.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])


def remove(path: Path) -> None:
    shutil.rmtree(keys_folder(path))


@pytest.mark.parametrize(
    ("damage", "more", "said"),
    [
        (cut, (), r"1\.parquet has [\d,]+ bytes where the atlas says [\d,]+: an ingest with --keys and the options of the ingest that made it writes it again"),
        (replace, (), r"1\.parquet is not the file that belongs to this atlas, but one of another model or an earlier ingest"),
        (remove, (), r"no keys at .+1\.parquet, which the atlas names for corpus 0"),
        (lambda _: None, ("--test", "1"), "--tune and --test are both corpus 1: settings chosen on a text cannot be scored on the same text"),
        (lambda _: None, ("--store", "7"), "no keys of corpus 7; corpora with keys: 0, 1, 2. `atlas ingest .+ --keys` adds them"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_and_changes_nothing(path: Path, damage: Callable[[Path], None], more: tuple[str, ...], said: str) -> None:
    assert retrieve(path).exit_code == 0
    before = RETRIEVALS.path(path).read_bytes()
    damage(path)
    failed = retrieve(path, "--seed", "3", *more)
    assert isinstance(failed.exception, AtlasError)
    assert failed.exception.args[0].count("\n") == 0
    with pytest.raises(AtlasError, match=said):
        raise failed.exception
    assert RETRIEVALS.path(path).read_bytes() == before


def planted(path: Path, change: Callable[[pa.Table], pa.Table] | bytes, n_entries: int | None = None) -> None:
    """A file of keys of a stranger's, who made the atlas that names it too."""
    file = min(keys_folder(path).iterdir(), key=lambda each: int(each.stem))
    if isinstance(change, bytes):
        file.write_bytes(change)
    else:
        pq.write_table(change(pq.read_table(file)), file)
    with duckdb.connect(str(path)) as con:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        con.execute("UPDATE key_file SET n_bytes = ?, sha256 = ? WHERE name = ?", [file.stat().st_size, digest, file.name])
        if n_entries is not None:
            con.execute("UPDATE key_file SET n_entries = ?", [n_entries])


def with_column(name: str, make: Callable[[int], pa.Array]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, make(len(table)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (b"", "cannot be read as keys: Parquet file size is 0 bytes"),
        (b"PAR1" + b"\xff" * 100 + b"PAR1", "cannot be read as keys"),
        (lambda table: table.drop_columns(["key"]), "has other columns than position_id int64, document_id int64"),
        (with_column("next_token_id", lambda n: pa.array(["x"] * n)), "has other columns than"),
        (with_column("key", lambda n: pa.array([[1.0] * 7] * n, pa.list_(pa.float16(), 7))), "has other columns than"),
        (with_column("key", lambda n: pa.nulls(n, pa.list_(pa.float16(), D))), "has entries without key"),
        (with_column("document_id", lambda n: pa.nulls(n, pa.int64())), "has entries without document_id"),
        (with_column("document_id", lambda n: pa.array([2**60] * n)), "a key is of a document that this atlas does not have"),
        (with_column("document_id", lambda n: pa.array([-1] * n)), "a key is of a document that this atlas does not have"),
    ],
)
def test_planted_keys_are_refused_in_a_line(path: Path, change: Callable[[pa.Table], pa.Table] | bytes, said: str) -> None:
    planted(path, change)
    failed = retrieve(path)
    assert isinstance(failed.exception, AtlasError)
    assert said in str(failed.exception)
    assert "\n" not in str(failed.exception)
    assert not RETRIEVALS.path(path).exists()


def test_planted_sizes_are_refused_before_anything_is_held(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(path, lambda table: table, n_entries=10**12)
    assert "where the atlas says 2,000,000,000,000" in str(retrieve(path).exception)
    # of a file in one group, which compresses to nothing where its entries are equal
    monkeypatch.setattr(entries, "MOST_GROUP_BYTES", 1000)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda *_, **__: pytest.fail("it was read"))
    assert "row groups of" in str(retrieve(path).exception)


@pytest.mark.thorough
def test_keys_without_predictions_are_refused(tmp_path: Path) -> None:
    path = write_atlas(tmp_path / "a.duckdb", corpora())
    with duckdb.connect(str(path)) as con:
        con.execute(f"DELETE FROM position_prediction WHERE position_id >= {2 * STEP}")
    failed = retrieve(path)
    assert "no predictions of the model for corpus 2" in str(failed.exception)
    assert not RETRIEVALS.path(path).exists()


@pytest.mark.thorough
def test_retrievals_of_another_ingest_are_left_out_by_their_digest(retrieved: Path, tmp_path: Path) -> None:
    """The atlas of that name is made anew over another text: positions of the same ids are other tokens."""
    other = write_atlas(tmp_path / "done.duckdb", [text(7), text(8), text(9)])
    shutil.copy(RETRIEVALS.path(retrieved), RETRIEVALS.path(other))
    with atlas.open(other) as a:
        with pytest.raises(AtlasError, match=r"no retrieval 0; there are none yet.*\(retrievals: 1 of another text than this atlas's, not shown here"):
            a.knn_curve(retrieval=0)
        assert a.sql("FROM retrievals.scored_query").is_empty()
    assert broken(other, RETRIEVALS) == []
    before = RETRIEVALS.path(other).read_bytes()
    said = "the retrievals beside this atlas are of another model or text, in which position_id"
    assert said in str(retrieve(other).exception)
    assert RETRIEVALS.path(other).read_bytes() == before
    RETRIEVALS.path(other).rename(tmp_path / "moved away")
    assert retrieve(other).exit_code == 0
    with atlas.open(other) as a:
        assert a.knn_curve(retrieval=0).height


def test_a_retrieval_that_there_is_not_is_answered_with_those_that_are(retrieved: Path) -> None:
    with atlas.open(retrieved) as a, pytest.raises(AtlasError, match="no retrieval 4; available: 0"):
        a.knn_copies(retrieval=4)
