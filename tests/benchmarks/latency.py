"""Every question on an atlas, and top_triggers on a table of 50 million triggers: median latency, first call apart."""

import statistics
import time
from contextlib import closing
from pathlib import Path

import atlas
from atlas.questions import questions
from schema import SCHEMA_VERSION
from schema.build import create_tables, install_derived
from schema.open.store import open_writer

REPEATS = 15
LARGE = 50_000_000


def bench_questions(db: Path) -> None:
    with atlas.open(db) as a:
        print(f"\n(d) latency of every question on {db.name} ({db.stat().st_size / 1e6:.0f} MB): first call, median of {REPEATS} more")
        for name, arguments in example_arguments(a).items():
            first, median = latency(lambda n=name, k=arguments: a.ask(n, **k))
            print(f"    {name:<28}{first:8.1f} ms{median:8.1f} ms")


def example_arguments(a: atlas.Atlas) -> dict[str, dict]:
    """Arguments for each question: a neuron in the middle, a traced position, a common word, the first text."""
    layer, neuron = a.sql("SELECT m.n_layers // 2, m.d_ffn // 2 FROM model AS m").row(0)
    position = a.sql("SELECT position_id FROM trace ORDER BY position_id LIMIT 1").item()
    token = a.sql("SELECT k.text FROM token k JOIN position p USING (token_id) WHERE k.starts_word GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1").item()
    known = {"layer": layer, "neuron": neuron, "token": token, "words": token.strip()}
    known |= {"head": 0, "position_id": position, "at_position": position, "position_ids": [position], "source": token}
    known |= {"corpus": 0, "corpora": [0], "experiment": 0, "prompt": 0, "arm": 0, "retrieval": 0, "a": token, "b": token, "c": token}
    known |= {"paradigm": "verb_one_attractor", "task": "pos", "sources": [0, 1], "destinations": [1, 2], "outs": [2, 3]}
    known |= {"layers": [layer], "neurons": [neuron], "collection": a.sql("SELECT min(c.name) FROM collections.collection AS c").item()}
    beside = {"experiments": "experiment", "retrievals": "retrieval", "collections": "collection"}
    empty = {catalog for catalog, table in beside.items() if not a.sql(f"SELECT count(*) FROM {catalog}.{table}").item()}
    asked = {name: q for name, q in questions().items() if q.catalog not in empty}
    return {name: {p.name: known[p.name] for p in q.parameters if p.is_required or p.name == "corpus"} for name, q in asked.items()}


def latency(ask: object) -> tuple[float, float]:
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        ask()
        times.append(1e3 * (time.perf_counter() - start))
    return times[0], statistics.median(times[1:])


def bench_sizes(db: Path) -> None:
    """Bytes on disk a trigger and a traced position: tables copied alone into a file of their own."""
    traced = ("trace", "residual_state", "logit_lens", "logit_lens_token", "coefficient", "layer_activity", "sub_update")
    with atlas.open(db) as a:
        n = {t: a.sql(f"SELECT count(*) FROM {t}").item() for t in ("trigger", "trace")}
    empty = size_alone(db, ())
    print(f"\n    bytes on disk a trigger          {(size_alone(db, ('trigger',)) - empty) / n['trigger']:10.1f}")
    print(f"    bytes on disk a traced position  {(size_alone(db, traced) - empty) / n['trace']:10,.0f}")


def size_alone(db: Path, tables: tuple[str, ...]) -> int:
    file = db.with_suffix(".size.tmp")
    file.unlink(missing_ok=True)
    with closing(open_writer(file)) as con:
        con.execute(f"ATTACH '{db}' AS source (READ_ONLY)")
        for table in tables:
            con.execute(f"CREATE TABLE {table} AS FROM source.{table}")
        con.execute("CHECKPOINT")
    size = file.stat().st_size
    file.unlink()
    return size


def bench_large_table(folder: Path) -> None:
    """50M triggers of a model of 10 layers of 50,000 neurons, k = 50, over a million positions with text."""
    path = folder / "large.duckdb"
    with closing(open_writer(path)) as con:
        create_tables(con, 16)
        model = ("synthetic", "0", "llama", 10, 16, 50000, 1, 1, 16, 1000, "silu", True, False, False, True, "float32", "0", SCHEMA_VERSION)
        con.execute(f"INSERT INTO model VALUES ({', '.join('?' * len(model))})", model)
        con.execute("INSERT INTO token SELECT i, ' w' || i, (' w' || i)::BLOB, false, true, false, false FROM range(1000) AS r(i)")
        con.execute("INSERT INTO corpus VALUES (0, 'synthetic', 'all', '{}', NULL, '0', 1000, 1000000)")
        con.execute("INSERT INTO document SELECT i, 0, 'd' || i, '{}', repeat(' w' || lpad((i % 1000)::VARCHAR, 3, '0'), 1000) FROM range(1000) AS r(i)")
        con.execute("INSERT INTO sequence SELECT i, i // 4, i * 250, 250 FROM range(4000) AS r(i)")
        con.execute(
            """INSERT INTO position SELECT i, i // 250, i % 250, (i // 1000) % 1000, (i // 1000) % 1000, (i % 1000) * 5, (i % 1000) * 5 + 5
            FROM range(1000000) AS r(i)"""
        )
        con.execute(
            f"""INSERT INTO trigger SELECT 0, i // 5000000, (i // 100) % 50000, CASE WHEN (i // 50) % 2 = 0 THEN 'max' ELSE 'min' END, i % 50 + 1,
            hash(i) % 1000000, (100 - i % 50)::REAL * CASE WHEN (i // 50) % 2 = 0 THEN 1 ELSE -1 END, NULL, NULL, NULL FROM range({LARGE}) AS r(i)"""
        )
        install_derived(con)
        con.execute("CHECKPOINT")
    with atlas.open(path) as a:
        for n in (25, 50):
            first, median = latency(lambda n=n: a.top_triggers(7, 4321, n))
            print(
                f"    top_triggers(7, 4321, n := {n}) of {LARGE:,} triggers ({path.stat().st_size / 1e6:.0f} MB): first {first:.1f} ms, median {median:.1f} ms"
            )
