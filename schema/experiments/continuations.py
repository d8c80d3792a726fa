"""What arms write, what classifiers say of it, and what arms cost."""

from sqlalchemy import BigInteger, Boolean, Double, Integer, String

from schema import terms
from schema.columns import INTERVAL_NOTE, TokenIds, column, nonnegative, one_of, probability
from schema.experiments.declaring import Declare, arm_id, experiment_id, maybe, prompt_id


def declare_tables(declare: Declare) -> None:
    declare(
        "generation",
        experiment_id(),
        arm_id(),
        prompt_id(),
        column("sample", Integer, "Counted from 0 in its arm and prompt."),
        maybe("seed", "Of the draws; null where nothing is drawn.", BigInteger),
        column("text", String, "What the model wrote after the prompt."),
        column("token_ids", TokenIds(), "Its tokens."),
        column("decoding", String, "How tokens were chosen: greedy, sample or beam."),
        column("finish", String, "Why it ends: length, eos or cancelled."),
        one_of("decoding", terms.DECODINGS),
        one_of("finish", terms.FINISHES),
        comment="Continuations of prompts.",
        grain=("experiment_id", "arm_id", "prompt_id", "sample"),
    )
    declare(
        "generation_score",
        experiment_id(),
        arm_id(),
        prompt_id(),
        column("sample", Integer, "The continuation."),
        column("scorer", String, "What scored it; a number means nothing without."),
        column("scorer_version", String, "Its version."),
        probability("score", "What it gave the continuation alone, in [0, 1]."),
        column("is_over", Boolean, "The score is 0.5 or more."),
        comment="What classifiers say of continuations.",
        grain=("experiment_id", "arm_id", "prompt_id", "sample", "scorer"),
    )
    declare(
        "score_difference",
        experiment_id(),
        arm_id(),
        column("scorer", String, "What scored."),
        column("decoding", String, "How tokens were chosen in the continuations compared: greedy, sample or beam."),
        column("measure", String, "What is averaged: score itself, or over, 1 where it is 0.5 or more and else 0."),
        column("n_pairs", Integer, "Continuations, each held against the base arm's of the same prompt and seed."),
        column("n_clusters", Integer, "Clusters of their prompts, which the draws are of."),
        column("n_draws", Integer, "Draws of as many clusters as there are, with replacement; 0 where there is no interval."),
        column("difference", Double, "Mean of the arm less that of the base arm, in [-1, 1]."),
        maybe("low", "Lower end of the difference's 95% interval over clusters; null where there is none.", Double),
        maybe("high", "Its upper end.", Double),
        maybe("interval_note", INTERVAL_NOTE, String),
        one_of("decoding", terms.DECODINGS),
        one_of("measure", terms.SCORE_MEASURES),
        comment="How far arms move scores, with a 95% interval over clusters of prompts.",
        grain=("experiment_id", "arm_id", "scorer", "decoding", "measure"),
    )
    declare(
        "arm_cost",
        experiment_id(),
        arm_id(),
        maybe("corpus_id", "Corpus of the atlas whose text was predicted under the arm; null for another text, which the settings name.", Integer),
        column("n_tokens", BigInteger, "Tokens predicted."),
        nonnegative("loss", "Mean loss, in nats a token.", kind=Double),
        nonnegative("perplexity", "exp(loss)."),
        probability("distinct_2", "Share of distinct pairs of neighbouring tokens in the arm's continuations, in [0, 1]; null without.", null=True),
        comment="What an arm costs on text that it has nothing to do with.",
        grain=("experiment_id", "arm_id", "corpus_id"),
    )
