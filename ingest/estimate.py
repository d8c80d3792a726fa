"""The option `--dry-run`: an estimate of an ingest's size and duration, from a survey of the corpus and a timed probe of each pass."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from ingest.model.device import enough_memory
from ingest.model.models import Model, load_model
from ingest.notes import cut_texts
from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.placing import place_workers, size_batches
from ingest.refusals import check_fit, check_model, check_target
from ingest.request import Request
from ingest.run import cut_corpus, survey_corpus
from ingest.text.corpora import Corpus
from ingest.text.sequences import Sequence
from ingest.text.survey import Survey
from schema.tables import metadata


def dry_run_report(request: Request) -> str:
    """Load the model, survey the corpus, time a probe of each pass, and return the report; write nothing to the target."""
    check_target(request)
    request, note = place_workers(request, torch.cuda.device_count())
    notes = [note] if note else []
    with enough_memory(request.device):
        model = load_model(request.model, revision=request.revision, dtype=request.dtype, device=request.device, tell=notes.append)
        request = size_batches(replace(request, dtype=model.dtype_name), model)
        check_fit(request, model)
        check_model(request, model)
        with tempfile.TemporaryDirectory() as spool:
            sample = cost_sample(model, request, Path(spool), notes)
        wanted = [each for each in passes().values() if each.is_wanted(request)]
        rows = {"position": sample.seen.n_positions} if sample.seen else {}
        for each in wanted:
            rows |= each.rows(sample)
        seconds, n_bytes = {each.name: each.seconds(sample) for each in wanted}, {each.name: each.n_bytes(sample) for each in wanted}
        return "\n".join([*notes, report(model, sample.seen, rows, seconds, n_bytes)])


def cost_sample(model: Model, request: Request, spool: Path, notes: list[str]) -> CostSample:
    """Survey the request's corpus, and take its first sequences. spool: a folder in which to save standard input. notes: receives remarks about the corpus."""
    if request.corpus is None:
        return CostSample(model, request, None, [])
    corpus = request.open_corpus(spool)
    notes += [corpus.note] if corpus.note else []
    return CostSample(model, request, survey_corpus(corpus, model, request, 0, notes.append), first_sequences(corpus, model, request))


def first_sequences(corpus: Corpus, model: Model, request: Request) -> list[Sequence]:
    """Take sequences for three batches from the start of the corpus, or fewer if the corpus is smaller."""
    found: list[Sequence] = []
    n = 0
    for sequence in (s for document in cut_corpus(corpus, model, request, 0) for s in document.sequences):
        if found and n + len(sequence.token_ids) > 3 * request.batch_size * request.context:
            break
        found.append(sequence)
        n += len(sequence.token_ids)
    return found


def report(model: Model, seen: Survey | None, rows: dict[str, int], seconds: dict[str, float], n_bytes: Mapping[str, int | None]) -> str:
    """Format the dry run as plain text. rows: by table. seconds, n_bytes: by pass; n_bytes is the memory that a pass needs besides that of a forward pass."""
    beside = {name: "" if n is None else f"{n / 1e6:>10,.0f} MB beside a forward pass" for name, n in n_bytes.items()}
    tables = metadata(model.d_model).tables
    size = {table: n * tables[table].info["bytes_a_row"] for table, n in rows.items()}
    lines = [f"{model.name}: {model.n_layers} layers of {model.d_ffn} neurons, d_model {model.d_model}, vocabulary {model.d_vocab}"]
    if seen:
        blank = f" ({seen.n_blank_documents} blank)" if seen.n_blank_documents else ""
        lines.append(f"{seen.n_documents:,} documents{blank}, {seen.n_sequences:,} sequences, {seen.n_positions:,} tokens, {len(seen.spans)} sweep shards")
        lines += [note] if (note := cut_texts(seen)) else []
    lines += ["", f"{'table':<20}{'rows':>15}{'MB':>10}"]
    lines += [f"{table:<20}{n:>15,}{size[table] / 1e6:>10.1f}" for table, n in rows.items()]
    lines += [f"{'total':<20}{sum(rows.values()):>15,}{sum(size.values()) / 1e6:>10.1f}", ""]
    lines += [f"{'pass':<20}{'time':>15}", *(f"{name:<20}{clock(s):>15}{beside[name]}" for name, s in seconds.items())]
    lines.append(f"{'ETA':<20}{clock(sum(seconds.values())):>15}  (loading the model and publishing not counted)")
    return "\n".join(lines)


def clock(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds // 60) % 60:02d}:{int(seconds) % 60:02d}"
