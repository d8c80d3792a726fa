"""What was asked: experiments, their prompts, and the tokens of these."""

from sqlalchemy import BigInteger, Boolean, DateTime, Integer, String

from schema import terms
from schema.columns import Json, column, one_of
from schema.experiments.declaring import Declare, experiment_id, index, maybe, prompt_id


def declare_tables(declare: Declare) -> None:
    declare(
        "experiment",
        column("experiment_id", Integer, "Counted from 0."),
        column("kind", String, "What was done: live, generation, tracing, patching, knockout, saliency or suppression."),
        column("title", String, "What whoever made it calls it."),
        column("settings", Json(), "Everything beside prompts and arms that is needed to repeat it."),
        column("versions", Json(), "Package → version of what computed it."),
        column("seed", BigInteger, "What its draws are hashed from."),
        column("device", String, "Where it was computed."),
        column("dtype", String, "Number format of the forward pass; softmax and sums are float32 at least."),
        column("attention", String, "Code that computed attention: eager or sdpa."),
        column("weights_sha256", String, "model.weights_sha256 of the atlas that it is of."),
        maybe("author", "Who made it, as they call themselves.", String),
        column("started_at", DateTime(timezone=True), "UTC."),
        maybe("finished_at", "UTC; null while arms are missing.", DateTime(timezone=True)),
        column("status", String, "running while arms may be added, then finished."),
        one_of("kind", terms.EXPERIMENT_KINDS),
        one_of("status", terms.RUN_STATUSES),
        comment="Forward passes that belong together: prompts, arms and what came of them.",
        grain=("experiment_id",),
    )
    declare(
        "prompt",
        experiment_id(),
        prompt_id(),
        column("text", String, "What the model read."),
        maybe("cluster", "Prompts of one template, which count as one observation.", String),
        column("n_tokens", Integer, "Tokens of the prompt, BOS included."),
        column("has_bos", Boolean, "Its first token is BOS."),
        maybe("position_id", "Position of the atlas where the prompt ends; null for a text of its own.", BigInteger),
        maybe("answer_token_id", "The token whose prediction is measured; null where it is, at each index, the one that the base arm has likeliest.", Integer),
        maybe("foil_token_id", "The token that the answer is held against in logit_difference; null where it is the base arm's second likeliest.", Integer),
        comment="Texts that the model read.",
        grain=("experiment_id", "prompt_id"),
    )
    declare(
        "prompt_token",
        experiment_id(),
        prompt_id(),
        index(),
        column("token_id", Integer, "The token."),
        column("char_start", Integer, "Characters of the prompt's text before it."),
        column("char_end", Integer, "Where it ends, so that text[char_start:char_end] is its own; BOS has none."),
        column("role", String, "What it is to the prompt: part of its subject, behind it, the last, or other."),
        one_of("role", terms.TOKEN_ROLES),
        comment="Tokens of the prompts.",
        grain=("experiment_id", "prompt_id", "index"),
    )
    declare(
        "part",
        experiment_id(),
        column("part", Integer, "Counted from 0, in the order in which parts are computed."),
        column("name", String, "What it is of: a prompt or an arm."),
        maybe(
            "note", "Why it brought no rows, as a prompt that the model answers otherwise, or what is to be known of them; null where there is nothing.", String
        ),
        comment="Parts of an experiment that are done; one that was interrupted goes on with the others.",
        grain=("experiment_id", "part"),
    )
    declare(
        "token_text",
        column("token_id", Integer, "Row of the output embedding."),
        column("text", String, "token.text of the atlas."),
        comment="Texts of all tokens that experiments name, so that this file is read without the atlas.",
        grain=("token_id",),
    )
