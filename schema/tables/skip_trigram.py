"""What a head's circuits make of tokens: where each source token is looked for, what it promotes, and the skip-trigrams of both."""

from sqlalchemy import REAL, BigInteger, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, added, column, head, layer, nonnegative, one_of, table
from schema.tables.circuit import DISTANCES

ORDER = 140
SKIP_TRIGRAM = FilledBy("skip_trigram", "--model … --corpus … --skip-trigram 0")

F = (
    "the score of a destination for the source, before a soft-cap, RoPE averaged over the distances that the settings of its run name, less its mean over "
    "sources, each as often as in the text"
)
G = "what reading the source adds to a logit, less the mean over all tokens, before the final norm's scale"


def tables(m: MetaData, _: int) -> None:
    circuit = "qk: destinations that look at the source; ov: tokens that it promotes."
    table(
        "circuit_token",
        m,
        layer(),
        head(),
        column("circuit", String, circuit),
        column("source_token_id", Integer, "The token that is looked at.", "token.token_id"),
        column("rank", SmallInteger, "From 1 to 10, by falling score; ties go to the lowest token_id."),
        column("token_id", Integer, "The destination (qk) or promoted token (ov), that the text has as often as --skip-trigram-seen asks.", "token.token_id"),
        column("score", REAL, f"Of qk {F}; of ov {G}."),
        one_of("circuit", terms.HEAD_CIRCUITS),
        comment="What a head's circuits make of each source token: the ten first of a row of its QK and of its OV table (Elhage et al. 2021, skip-trigrams). "
        f"{DISTANCES} The soft-cap of scores that Gemma-2 has is in no QK table.",
        grain=("layer", "head", "circuit", "source_token_id", "rank"),
        sort=("layer", "head", "circuit", "source_token_id", "rank"),
        filled_by=SKIP_TRIGRAM,
        bytes_a_row=7,
    )
    table(
        "circuit_source",
        m,
        layer(),
        head(),
        column("circuit", String, circuit),
        column("source_token_id", Integer, "The token that is looked at.", "token.token_id"),
        added(SKIP_TRIGRAM, "n_source", BigInteger, "How often the text had it: its weight in the mean over sources; 0 of all where there was no text"),
        column("mean", REAL, "Mean of its row: of qk over destinations, how much all look at it; of ov over promoted tokens, which its scores are less."),
        nonnegative("std", "Standard deviation of its row, divided by the number of tokens."),
        one_of("circuit", terms.HEAD_CIRCUITS),
        comment="How the whole rows lie of which circuit_token has the first: by them a score is told to be large. The same distances, and no soft-cap.",
        grain=("layer", "head", "circuit", "source_token_id"),
        sort=("layer", "head", "circuit", "source_token_id"),
        filled_by=SKIP_TRIGRAM,
        bytes_a_row=11,
    )
    table(
        "skip_trigram",
        m,
        layer(),
        head(),
        column("destination_tail", String, "max: destinations that look at the source more than at others; min: less."),
        column("out_tail", String, "max: tokens that it promotes; min: tokens that it suppresses."),
        column("rank", SmallInteger, "From 1 to 100, by falling modulus; ties go to the lowest source, then to the larger destination score."),
        column("source_token_id", Integer, "The token that is looked at.", "token.token_id"),
        column("destination_token_id", Integer, "The token that looks.", "token.token_id"),
        column("out_token_id", Integer, "The token that it promotes or suppresses.", "token.token_id"),
        column("destination_score", REAL, f"{F[0].upper()}{F[1:]}."),
        column("out_score", REAL, f"{G[0].upper()}{G[1:]}, logits."),
        one_of("destination_tail", terms.TAILS),
        one_of("out_tail", terms.TAILS),
        comment="The largest products of both scores, of all triples of tokens that the text has as often as --skip-trigram-seen asks: "
        "what a head's weights say of a token after another that stood before. The distances of circuit_token, and no soft-cap.",
        grain=("layer", "head", "destination_tail", "out_tail", "rank"),
        sort=("layer", "head", "destination_tail", "out_tail", "rank"),
        filled_by=SKIP_TRIGRAM,
        bytes_a_row=15,
    )
