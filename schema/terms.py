"""The words that columns store. One tuple each: the check constraints, audits and docs are made from them."""

SITES = ("resid_pre", "attn_out", "resid_mid", "ffn_out", "resid_post")
"""Read points of a layer, in the order the forward pass writes them (GLOSSARY: site)."""

STREAM_SITES = ("resid_pre", "resid_mid", "resid_post")
"""The sites that are states of the residual stream; the other two are updates added to it."""

TAILS = ("max", "min")
"""Which end of a key's coefficients a trigger belongs to: the largest, or the smallest (most negative)."""

DENSITIES = ("dead", "rare", "usual", "dense")
"""How often a key fires, those first that never do (question neurons_by_density)."""

PRECEDING = 16
"""Tokens before a trigger whose coefficients are kept with it: as many as a page shows of a text."""

PRECEDING_RANKS = 20
"""Triggers of each key and tail that keep them, from rank 1."""

DIRECTIONS = ("promoted", "suppressed")
"""Which end of a value's projection a token belongs to."""

SELECTIONS = ("dominant", "random")
"""How sub-updates of a position and layer were chosen: largest by norm, or seeded at random among the others."""

PARTS = ("token", "position", "head", "attention_bias", "ffn", "ffn_bias", "constant")
"""What a logit is the sum of, in the order in which the stream takes it up; the constant is the final norm's and the output head's bias."""

TARGETS = ("final", "next")
"""Whose logit is taken apart: the model's final prediction, or the corpus token that follows."""

FORMER_PASSES = {"paper": ("removal", "next_token_rank", "control_token", "value_cluster")}
"""Kind of run in atlases of earlier releases → the passes that it counts as."""

REMOVALS = ("first", "last", "random")
"""Which token of a trigger's prefix was left out; BOS is never one of them."""

CONTROLS = ("random_vector", "ffn_update")
"""What values are compared with: vectors drawn with the values' mean and standard deviation, and whole FFN updates."""

CLUSTER_SPACES = ("value", "logits")
"""What was clustered: the values themselves, or their scores E·v over the vocabulary."""

LAYOUTS = ("value", "resid_post")
"""What a map places in the plane: the values of all layers, or the states of traced positions after each layer."""

TOKEN_SPACES = ("input", "output")
"""Where tokens have vectors: the input embedding, and the output embedding where that is not the same."""

GEOMETRY_SITES = ("resid_pre", "resid_post")
"""Whose geometry is told: what enters the first layer, and what leaves each."""

ANALOGIES = ("add", "add_centred", "multiply")
"""How the fourth word of an analogy is found: 3CosAdd on vectors as they are or less their mean, and 3CosMul (Levy and Goldberg 2014)."""

LOOKED_AT = ("previous", "self", "first", "duplicate", "induction")
"""What heads are known to look at, wherever a destination has it: columns of head_statistics and head_probe."""

BEHAVIOURS = (*LOOKED_AT, "first_moved")
"""The same, and the share of index 0 in what all sources move."""

PROBES = ("repeat", "olsson2022")
"""Random tokens that heads are probed with: a block read twice, and four times with BOS before it (Olsson et al. 2022)."""

SUBJECTS = ("key", "value", *CONTROLS)
"""What people annotate: the texts that trigger a key, or the tokens that a value, a random vector or an FFN update promotes."""

MEMBER_KINDS = ("neuron", "head", "position", "token")
"""What a collection has."""

TOKEN_ROLES = ("subject_first", "subject_middle", "subject_last", "after_subject", "last", "other")
"""What a token is to its prompt; a subject of one token is its last."""

BLOCKED_SOURCES = ("subject", "non_subject", "last")
"""What the last position may not read in a knockout."""

DECODINGS = ("greedy", "sample", "beam")

ATTRIBUTION_SCORES = ("logit_difference", "logprob", "prob")
"""What is attributed to tokens: of the answer, its logit less the runner-up's, its log probability in nats, or its probability."""

HEAD_SPECTRA = ("ov_token", "ov_effective", "stream", "matching")
"""Of which products of a head's weights the eigenvalues are kept."""

HEAD_CIRCUITS = ("ov", "qk")
"""What a head does with what it reads, and where it looks."""

HEAD_SIDES = ("read", "write", "query", "key")
"""Ends of a head's direction: of ov what is read and written, of qk query and key."""

VIRTUAL_SIDES = ("key", "gate", "read_by_key", "read_by_gate")
"""With what a neuron meets another: its own key or gate key reads the other's value, or the other's reads its value."""

COMPOSITIONS = ("k", "q", "v")
"""Through what a later head reads what an earlier one wrote: its keys, its queries or its values."""

LOSS_TERMS = ("unigram", "paths", "layer", "other_layers", "model")
"""With what predictions are made whose loss is told: frequencies alone, paths through a few heads, those of one layer or of all others, the model itself."""

TEST_KINDS = ("pair", "region", "mft", "inv", "dir")
"""What a test expects: of a minimal pair the good sentence to be the more probable; formulas over surprisals of regions to hold (Gauthier et al. 2020); the
expected continuation to beat its rivals, what is predicted to stay, or a probability to move (Ribeiro et al. 2020)."""

PROBE_TASKS = ("pos", "tag", "relation", "entity", "token", "next_token", "frequency", "index", "starts_word", "sentence_end")
"""Labels of words that probes look for in states: four that a source of words gives, and six that the text itself does."""

PROBE_KINDS = ("label", "control", "untrained")
"""What a probe learns, and from what: the words' labels; a label drawn for each type of word; the words' labels from a model with random weights."""

TREE_TARGETS = ("distance", "depth")
"""What a structural probe learns of a parse tree: how many edges lie between two words, or between a word and the root (Hewitt and Manning 2019)."""

TREE_KINDS = ("tree", "untrained")
"""What it learns from: states of the model, or of the same with random weights."""

LOOKS = ("head", "dependent")
"""What a word looks back at: its head, or a word that depends on it. The later of the two is the one that looks."""

FACT_SOURCES = ("listed", "recognised")

RUN_STATUSES = ("running", "finished")

PROJECTIONS = ("raw", "final_norm")
"""raw: E·z. final_norm: E·final_norm(z), the norm's statistics taken from z itself (the logit lens).

A frozen score has a third: E·(gain ⊙ z) over what the final norm divides the position's last resid_post by, so that parts add up to the logit.
"""

HISTOGRAM_MIN_EXPONENT = -8
HISTOGRAM_MAX_EXPONENT = 8
"""Magnitudes below 2^min share the two bins around zero; magnitudes of 2^max and more share the outermost bins."""

HISTOGRAM_BINS = 2 * (2 * (HISTOGRAM_MAX_EXPONENT - HISTOGRAM_MIN_EXPONENT) + 2)
"""68 bins: two an octave for each sign, one underflow and one overflow bin a side."""


def histogram_edges() -> list[float]:
    """Upper edges of the histogram bins, ascending, [HISTOGRAM_BINS]; the last is infinity.

    Bin b holds edges[b-1] < m <= edges[b] for negative m and edges[b-1] <= m < edges[b] for m >= 0.
    Edges are fixed for every atlas, so histograms of shards, corpora and models add up.
    Within an octave the edge lies at 1.5 times the power of two (half of the octave's width).
    """
    magnitudes = [factor * 2.0**exponent for exponent in range(HISTOGRAM_MIN_EXPONENT, HISTOGRAM_MAX_EXPONENT) for factor in (1.0, 1.5)] + [
        2.0**HISTOGRAM_MAX_EXPONENT
    ]
    return [-m for m in reversed(magnitudes)] + [0.0] + magnitudes + [float("inf")]
