"""An atlas small enough to work out every answer with a pencil: 1 model, 3 layers of 4 neurons, 12 tokens, 2 corpora of 1 document.

Text, positions and predictions:

    corpus 0  first.txt   <s>|The| cat| sat|.|\\n   and   <s>|The| dog| sat      positions 0-5 and 6-9
    corpus 1  second.txt  é| cat| [red]| *                                     positions 100-103
    traced    2 (' cat', predicts ' sat')   8 (' dog', predicts '.')   101 (' cat', predicts ' [red]')
"""

import json
import shutil
from contextlib import closing
from functools import cache
from itertools import product
from math import hypot, log, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from schema import SCHEMA_VERSION
from schema.build import create_tables, install_derived
from schema.open import store
from schema.release import release_digest

TOKENS = ["<s>", "The", " cat", " sat", "cat", ".", " [red]", " *", "é", "\n", " dog", "|"]

TEXTS = {0: "The cat sat.\nThe dog sat", 100: "é cat [red] *"}

POSITIONS = [
    # position, sequence, index, token, next token, char_start, char_end
    (0, 0, 0, 0, 1, 0, 0),
    (1, 0, 1, 1, 2, 0, 3),
    (2, 0, 2, 2, 3, 3, 7),
    (3, 0, 3, 3, 5, 7, 11),
    (4, 0, 4, 5, 9, 11, 12),
    (5, 0, 5, 9, 1, 12, 13),
    (6, 1, 0, 0, 1, 13, 13),
    (7, 1, 1, 1, 10, 13, 16),
    (8, 1, 2, 10, 3, 16, 20),
    (9, 1, 3, 3, None, 20, 24),
    (100, 2, 0, 8, 2, 0, 1),
    (101, 2, 1, 2, 6, 1, 5),
    (102, 2, 2, 6, 7, 5, 11),
    (103, 2, 3, 7, None, 11, 13),
]

VALUES = {
    # layer: the values of its 4 neurons, [d_model]
    0: [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, -2.0)],
    1: [(2.0, 0.0), (-1.0, 0.0), (1.0, 2.0), (3.0, 4.0)],
    2: [(0.0, -1.0), (0.0, 2.0), (1.0, -1.0), (4.0, 3.0)],
}

PROMOTED = {0: (2, 10), 1: (3, 7), 2: (10, 2), 3: (4, 5)}
"""Neuron of any layer: token_ids its value promotes, ranks 1 and 2. All values suppress the line break and |."""

SWEPT = {
    (0, True): [0.0, 0.0, 0.5, 4.0, 0.0, -1.0, 0.0, 0.0, 0.0, 4.0],
    (0, False): [-0.5, 1.0, 3.0, -1.5, 0.25, -2.0, 0.0, 0.5, 2.0, 0.75],
    (1, True): [1.0, 2.5, 2.0, -3.0],
    (1, False): [1.0, 2.5, 2.0, -3.0],
}
"""(corpus, is L0N1) → coefficients at positions 0 to 9 of corpus 0, or 100 to 103 of corpus 1."""

TRIGGERS = {
    (0, True): {"max": [(3, 4.0), (9, 4.0), (2, 0.5)], "min": [(5, -1.0), (0, 0.0), (1, 0.0)]},
    (0, False): {"max": [(2, 3.0), (8, 2.0), (1, 1.0)], "min": [(5, -2.0), (3, -1.5), (0, -0.5)]},
    (1, True): {"max": [(101, 2.5), (102, 2.0), (100, 1.0)], "min": [(103, -3.0), (100, 1.0), (102, 2.0)]},
    (1, False): {"max": [(101, 2.5), (102, 2.0), (100, 1.0)], "min": [(103, -3.0), (100, 1.0), (102, 2.0)]},
}
"""(corpus, is L0N1) → tail → (position, coefficient) of ranks 1 to 3."""

STATISTICS = {
    # n_positions, n_active, mean, std, min, max, {bin: count}
    (0, True): (10, 3, 0.75, sqrt(2.7625), -1.0, 4.0, {16: 1, 34: 6, 49: 1, 55: 2}),
    (0, False): (10, 6, 0.35, sqrt(2.015), -2.0, 3.0, {14: 1, 15: 1, 18: 1, 34: 1, 47: 1, 49: 1, 50: 1, 51: 1, 53: 1, 54: 1}),
    (1, True): (4, 3, 0.625, sqrt(4.671875), -3.0, 2.5, {13: 1, 51: 1, 53: 2}),
    (1, False): (4, 3, 0.625, sqrt(4.671875), -3.0, 2.5, {13: 1, 51: 1, 53: 2}),
}

FINAL = {2: 3, 8: 5, 101: 6}
"""Traced position → the model's prediction."""

NEXT = {2: 3, 8: 3, 101: 6}

LENS = {
    # (position, layer): top tokens at resid_mid, ffn_out, resid_post; probability of the final prediction at resid_mid and resid_post;
    # its rank at resid_mid and resid_post; rank at resid_post of resid_mid's top token
    (2, 0): (2, 2, 2, 0.125, 0.125, 6, 6, 1),
    (2, 1): (2, 3, 3, 0.125, 0.5, 5, 1, 4),
    (2, 2): (10, 3, 3, 0.25, 0.75, 2, 1, 2),
    (8, 0): (5, 10, 5, 0.5, 0.5, 1, 1, 1),
    (8, 1): (5, 9, 2, 0.5, 0.0625, 1, 7, 7),
    (8, 2): (2, 7, 5, 0.25, 0.5, 3, 1, 7),
    (101, 0): (7, 6, 6, 0.25, 0.5, 2, 1, 3),
    (101, 1): (7, 6, 6, 0.25, 0.75, 2, 1, 2),
    (101, 2): (6, 6, 6, 0.75, 1.0, 1, 1, 1),
}
RAW_TOPS = {
    (2, 0): (2, 8),
    (2, 1): (7, 3),
    (2, 2): (3, 10),
    (8, 0): (5, 5),
    (8, 1): (2, 2),
    (8, 2): (4, 4),
    (101, 0): (6, 9),
    (101, 1): (1, 6),
    (101, 2): (8, 6),
}
"""(position, layer): top tokens of ffn_out and resid_post by the raw projection."""

RAW_AGREEING = {(2, 1): (1, 0), (2, 2): (0, 1), (8, 1): (0, 0), (101, 1): (2, 0)}
"""As AGREEING, with tops by the raw projection; 0 elsewhere."""

AGREEING = {(2, 1): (1, 1), (2, 2): (1, 1), (8, 0): (1, 0)}
"""(position, layer): active neurons whose value's top token leads at ffn_out, and at resid_post; 0 elsewhere. Neuron 0 is never active."""

TOP_PROB = 0.75
OTHER_PROB = 0.0625
"""Probability of the final prediction at resid_pre, attn_out and ffn_out, where its rank is 4, unless it is on top there."""

SCORES = {
    # (position, layer, selection): candidate scores of ranks 1 and 2, final scores of ranks 1 and 2; all others are 0
    (2, 1, "dominant"): ((-2.0, 1.0), (4.0, -1.0)),
    (2, 1, "random"): ((0.5, -1.0), (0.5, -0.5)),
    (8, 1, "dominant"): ((-4.0, 0.0), (0.0, 0.0)),
    (8, 1, "random"): ((0.25, 0.25), (0.0, 0.0)),
    (8, 2, "dominant"): ((0.0, 6.0), (0.0, 0.0)),
    (101, 0, "dominant"): ((1.0, -3.0), (2.0, 1.0)),
    (101, 0, "random"): ((0.0, 0.0), (0.25, 0.25)),
    (101, 1, "dominant"): ((0.0, 0.0), (6.0, 0.0)),
    (101, 1, "random"): ((0.0, 0.0), (-1.0, 0.0)),
}

FROZEN = 0.25
"""What a raw score times this is the frozen-norm score of: gains of 1 and a final norm that divides by 4, at every position."""

COEFFICIENTS = {0: {2: 2.0, 0: -2.0, 1: 1.0, 3: 0.5}, 1: {2: 2.0, 0: -2.0, 1: 1.0, 3: 0.1}, 2: {2: 2.0, 0: -2.0, 1: 0.5, 3: 0.1}}
"""Layer → neuron → coefficient, the same at every traced position. Neurons 2 and 0 are the dominant two, 1 and 3 the random two."""

STATES = {2: (1.0, 0.0), 8: (1.0, 1.0), 101: (0.0, 1.0)}
"""Traced position → direction of its residual stream at every site; its length grows with the layer."""

REMOVED = {
    # (corpus, layer, neuron, rank): coefficient without the first token, the last, a random one; prefixes of one token beside BOS are left out
    (0, 0, 0, 1): (1.5, 0.75, 1.5),
    (0, 0, 0, 2): (2.5, -1.0, 2.0),
    (0, 0, 1, 1): (4.0, -1.0, 3.0),
    (0, 0, 1, 2): (2.0, 0.0, 1.0),
    (0, 0, 1, 3): (0.5, 0.25, 0.75),
    (0, 2, 0, 1): (3.0, 1.5, 3.0),
    (0, 2, 0, 2): (1.0, 1.0, 1.0),
    (1, 1, 0, 1): (2.0, 1.0, 2.0),
    (1, 1, 0, 2): (3.0, 2.5, 2.0),
}

NEXT_RANKS = {
    # (corpus, layer): rank, for the values of neurons 0 to 3, of the token that follows the key's top trigger
    (0, 0): (5, 4, 10, 3),
    (0, 1): (4, 1, 7, 8),
    (0, 2): (3, 1, 5, 4),
    (1, 0): (6, 5, 4, 3),
    (1, 1): (3, 4, 5, 6),
    (1, 2): (4, 4, 8, 8),
}

CONTROLS = {"random_vector": {0: (4, 7), 1: (9, 6)}, "ffn_update": {2: (3, 1), 8: (5, 9)}}
"""Control → item → token_ids it promotes, ranks 1 and 2, in every layer."""

VALUE_CLUSTERS = {0: (0, 1, 2, 3), 1: (0, 4, 2, 2), 2: (3, 1, 5, 2)}
"""Layer → cluster of its 4 values: six by direction, east, north, north-east, south, west, south-east. By logits the cluster is the neuron."""

HEADS = {
    # window; norms of qk, ov and bias; copying of tokens, behind the first block, uncentred; stream_ratio, matching, own_first_share
    0: (None, 4.5, 2.25, 0.5, 0.25, 0.25, 0.5, -0.75, 0.125, 0.0),
    1: (4, 5.0, 2.5, 0.0, -0.5, -1.0, -0.25, -1.0, 0.5, 0.25),
    2: (None, 6.0, 4.0, 0.25, 0.125, 1.0, 0.75, 0.0, 0.875, 1.0),
}
"""Layer → its one head."""

COMPOSITIONS = {
    # (kind, layer, from_layer): score, averaged, matching
    ("k", 1, 0): (0.75, 0.75, 0.5),
    ("k", 2, 0): (0.5, 0.5, -0.25),
    ("k", 2, 1): (1.0, 0.875, 1.0),
    ("q", 1, 0): (0.625, 0.5, None),
    ("q", 2, 0): (0.75, 0.75, None),
    ("q", 2, 1): (0.25, 0.25, None),
    ("v", 1, 0): (0.5, None, None),
    ("v", 2, 0): (0.875, None, None),
    ("v", 2, 1): (0.75, None, None),
}
"""Chance gives 1/√2."""

LOOKED_AT = {
    # layer of the one head: weights on previous, self, first, duplicate, induction; entropy
    (0, 0): (0.5, 0.25, 0.25, 0.125, 0.25, 1.0),
    (0, 1): (0.25, 0.125, 0.5, 0.25, 0.75, 0.5),
    (0, 2): (0.125, 0.5, 0.25, 0.5, 0.5, 0.75),
    (1, 0): (0.25, 0.5, 0.125, None, None, 0.5),
    (1, 1): (0.5, 0.25, 0.125, None, None, 0.75),
    (1, 2): (0.25, 0.25, 0.25, None, None, 1.0),
}
"""(corpus, layer) → what its head looks at. Of corpus 0 two destinations are taken to repeat a token, of corpus 1 none."""

FIRST_MOVED = {(0, 0): 0.125, (0, 1): 0.25, (0, 2): 0.0625, (1, 0): 0.5, (1, 1): 0.125, (1, 2): 0.25}
"""(corpus, layer) → share of index 0 in what all sources move; with equal weights it is 0.1875."""

EVENLY = {0: (0.375, 0.375, 0.375, 0.25, 0.25, 1.1), 1: (0.375, 0.375, 0.375, None, None, 1.1)}

PROBED = {"repeat": (0.875, 0.5, 0.75), "olsson2022": (0.75, 0.625, 0.5)}
"""Probe → induction of the head of each layer; all other weights are 0.125, and all equal weights too."""

COPIED = (-0.5, 0.25, 0.75)
"""Copying of the head of each layer on either probe; it adds twice as many logits to the tokens that it looks at."""

DISTANCES = {0: (3.0, 2.0, 1.0, 2.0), 1: (1.0, 1.0, 0.5, 0.5)}
"""Corpus → weight of each bin of distances, in every layer; equal weights have as much in reverse order."""

PARTS = {
    # (kind, layer, head): what it adds to the final logit and to the mean logit, its norm, the share of the stream that it erases
    ("token", None, None): (1.0, 0.5, 1.0, None),
    ("head", 0, 0): (0.25, 0.0, 0.5, 0.125),
    ("head", 1, 0): (2.0, 0.25, 0.5, 0.125),
    ("head", 2, 0): (-0.75, 0.0, 0.5, 0.5),
    ("ffn", 0, None): (0.5, 0.5, 2.0, -0.25),
    ("ffn", 1, None): (1.5, 0.5, 2.0, -0.25),
    ("ffn", 2, None): (4.0, 0.5, 2.0, -0.25),
    ("constant", None, None): (0.25, 0.25, None, None),
}
"""The parts sum to 8.75, the means to 2.5, the FFNs to 6."""

PART_FACTORS = {2: (1.0, 1.0), 8: (0.5, -0.25), 101: (2.0, 2.0)}
"""Traced position → what the parts' logits above are multiplied by, of the prediction and of the next token; mean logits are the same everywhere."""

RESIDUAL = 2.0**-13

MOVERS = [(2, 3, 3.0), (2, 0, -2.0), (1, 2, 1.0)]
"""Layer, neuron and logit, times the factor, of ranks 1 to 3. All neurons that raise the logit have 8, those that lower it -2."""

ROWS = {
    # (index, whether the head is L1H0): (source, weight, value norm, moved, share of the head's logit) of each source, those behind the second not listed
    (2, True): [(1, 0.5, 2.0, 3.0, 0.75), (2, 0.25, 1.0, 0.5, 0.125), (0, 0.25, 1.0, 0.5, 0.125)],
    (2, False): [(0, 0.75, 0.5, 0.25, 1.0), (2, 0.125, 1.0, 0.125, 0.0), (1, 0.125, 0.5, 0.125, 0.0)],
    (1, True): [(0, 0.5, 2.0, 3.0, 0.75), (1, 0.5, 1.0, 0.5, 0.25)],
    (1, False): [(0, 0.75, 0.5, 0.25, 1.0), (1, 0.25, 1.0, 0.125, 0.0)],
}

CENTRED = [(1, 0), (0, 1), (-1, 0), (0, 2), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1), (3, 4), (-3, -6)]
"""Tokens from 1 on → their vector less the mean of all, which is (1, 0); token 0 is a control token and has none."""

MEAN_STATES = [(1, 20, 1.0, 3.0), (2, 25, 1.0, 1.0), (3, 30, 4.0, 0.0), (10, 40, 2.0, 4.0)]
"""Token, occurrences and mean state in layer 0, twice as long in layer 2; their mean is (2, 2)."""

GEOMETRY = [
    # layer, site, states, pairs, mean cosine, mean norm, share of the top dimension, of the first component, tokens, self-similarity
    (0, "resid_pre", 5, 9, 0.125, 2.0, 0.25, 0.5, 4, 0.875),
    (0, "resid_post", 5, 9, 0.25, 4.0, 0.25, 0.5, 4, 0.75),
    (1, "resid_post", 5, 9, 0.5, 8.0, 0.5, 0.5, 4, 0.75),
    (2, "resid_post", 5, 9, 0.5, 16.0, 0.75, 0.625, 4, 0.625),
]

WORD_TESTS = {
    "analogy_score": [
        ("input", "capital", "add", 0, 5, 0, 0),
        ("input", "capital", "add_centred", 0, 5, 0, 0),
        ("input", "family", "add", 8, 2, 4, 1),
        ("input", "family", "add_centred", 8, 2, 6, 2),
        ("input", "plural", "add", 24, 0, 20, 3),
        ("input", "plural", "add_centred", 24, 0, 18, 2),
    ],
    "similarity_score": [("input", "simlex999", 10, 5, 0.5, 0.25), ("input", "wordsim353", 20, 1, 0.75, 0.5)],
}
"""Columns of both tables in their order."""

WORDS = [
    # corpus, document, sentence; first and last token; characters; part of speech, tag, relation, entity; its head's first character
    (0, 0, 0, 1, 1, 0, 3, "DET", "DT", "det", None, 4),
    (0, 0, 0, 2, 2, 4, 7, "NOUN", "NN", "nsubj", None, 8),
    (0, 0, 0, 3, 3, 8, 11, "VERB", "VBD", "root", None, None),
    (0, 0, 0, 4, 4, 11, 12, "PUNCT", ".", "punct", None, 8),
    (0, 0, 1, 7, 7, 13, 16, "DET", "DT", "det", None, 17),
    (0, 0, 1, 8, 8, 17, 20, "NOUN", "NN", "nsubj", None, 21),
    (0, 0, 1, 9, 9, 21, 24, "VERB", "VBD", "root", None, None),
    (1, 100, 0, 100, 100, 0, 1, "X", None, "root", None, None),
    (1, 100, 0, 101, 101, 2, 5, "NOUN", None, "flat", None, 0),
    (1, 100, 0, 102, None, 6, 7, "PUNCT", None, "punct", None, 7),
    (1, 100, 0, 102, None, 7, 10, "ADJ", None, "flat", "COLOUR", 0),
    (1, 100, 0, 102, 102, 10, 11, "PUNCT", None, "punct", None, 7),
]
"""Two words that no token ends with. Their ids are 4 times their first character, of the second text from 1000 on."""

PROBED_PLACES = {
    # layer and site: accuracy and bits of a probe of the words' labels, of the control's and in the untrained model
    (0, "resid_pre"): ((2 / 3, 4.0), (1 / 3, 8.0), (1 / 3, 8.0)),
    (1, "resid_post"): ((1.0, 2.0), (0.0, 16.0), (2 / 3, 10.0)),
}
"""Of parts of speech, four labels, learned from the first sentence and scored on the second."""

INTERVALS = {(0, "resid_pre"): (16, "bootstrap-t"), (1, "resid_post"): (1, "none: 1 of at least 12 clusters")}
"""Number of clusters, and the note."""


def ends(place: tuple[int, str], accuracy: float) -> tuple[float | None, float | None]:
    return (accuracy / 2, accuracy) if INTERVALS[place][0] > 1 else (None, None)


PROBED_WORDS = {
    (0, "resid_pre"): [(52, "DET", "DET", 0.5), (68, "NOUN", "VERB", 0.75), (84, "VERB", "VERB", 1.0)],
    (1, "resid_post"): [(52, "DET", "DET", 0.75), (68, "NOUN", "NOUN", 0.5), (84, "VERB", "VERB", 1.0)],
}
"""Word, its label, what the probe says, and its probability."""

TREE_ACCURACIES = {
    # layer and site: of probes of rank 1 and 2, the shares of edges found by the model's and by the untrained one, and the same of roots
    (0, "resid_pre"): (((0.0, 0.0), (0.5, 0.0)), ((0.0, 0.0), (0.0, 0.0))),
    (1, "resid_post"): (((0.5, 0.5), (1.0, 0.5)), ((0.0, 1.0), (1.0, 1.0))),
}
"""Learned from the first sentence and scored on the second, whose words are a chain."""

TREE_EDGES = {(0, "resid_pre"): [(52, 84, 2.0), (68, 84, 1.0)], (1, "resid_post"): [(52, 68, 1.5), (68, 84, 0.5)]}
"""Word, what it is joined to, their squared distance."""

RELATIONS = {
    # relation and what is looked at: pairs to choose by and of the test, the best offset and its shares, pairs left out;
    # of each layer's head the shares that are right
    ("any", "dependent"): ((80, 40, 1, 1.0, 1.0, 8, 6, 4, 2), ((0.5, 0.5), (1.0, 0.5), (0.0, 1.0))),
    ("det", "dependent"): ((40, 20, 1, 1.0, 1.0, 8, 5, 4, 1), ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))),
    ("nsubj", "dependent"): ((40, 20, 1, 1.0, 1.0, 0, 1, 0, 1), ((1.0, 1.0), (1.0, 1.0), (0.0, 1.0))),
    ("punct", "head"): ((40, 0, 1, 1.0, None, 0, 0, 0, 0), ((0.0, None), (0.0, None), (1.0, None))),
}

BIGRAMS = {
    # (corpus, token): tokens that follow it once each; BOS counts for nothing
    (0, 1): (2, 10),
    (0, 2): (3,),
    (0, 3): (5,),
    (0, 5): (9,),
    (0, 9): (1,),
    (0, 10): (3,),
    (1, 2): (6,),
    (1, 6): (7,),
    (1, 8): (2,),
}
"""By the direct path the next token_id follows with 1/2 and the token itself with 1/4; all others have 1/16, and the lowest of them rank 3."""

CIRCUITS = {
    # source: (destination, score) of ranks 1 and 2, (out, score) likewise
    1: (((2, 3.0), (10, 1.5)), ((3, 2.0), (5, 1.0))),
    2: (((3, 2.0), (5, 1.0)), ((5, 4.0), (9, 2.0))),
    10: (((3, 1.0), (5, 0.5)), ((3, 1.0), (9, 0.5))),
}
"""Of the head of layer 0. Every row has the mean 1/2 and the standard deviation 1/4."""

SKIP_TRIGRAMS = {
    # (destination_tail, out_tail): source, destination, out, both scores, by falling product
    ("max", "max"): [(2, 3, 5, 2.0, 4.0), (1, 2, 3, 3.0, 2.0), (2, 3, 9, 2.0, 2.0), (2, 5, 5, 1.0, 4.0)],
    ("max", "min"): [(2, 3, 11, 2.0, -1.0)],
    ("min", "max"): [(1, 5, 3, -1.0, 2.0)],
    ("min", "min"): [(1, 5, 11, -1.0, -1.0)],
}

LOSSES = {
    # (term, most_heads, layer): loss
    ("unigram", None, None): 2.25,
    ("paths", 0, None): 2.0,
    ("paths", 1, None): 1.25,
    ("paths", 2, None): 1.125,
    ("paths", 3, None): 1.0,
    ("layer", 1, 0): 1.75,
    ("layer", 1, 1): 1.5,
    ("layer", 1, 2): 2.25,
    ("other_layers", 1, 0): 1.5,
    ("other_layers", 1, 1): 2.0,
    ("other_layers", 1, 2): 1.0,
    ("model", None, None): 1.0,
}
"""Of the 8 predictions of corpus 0."""

CURVE = [(100, 4.0, 4.0, 0.125, 1, 0, 0.25, 0, 0), (200, 4.0, 3.5, 0.125, 2, 0, 0.25, 0, 0), (300, 4.0, 1.0, 0.75, 2, 0, 0.5, 1, 0)]

PREDICTED = {
    # position: 1 / probability of the next token, entropy, rank of the next token, top token, its probability, that of a word's beginning
    0: (8, 2.0, 3, 5, 0.25, 0.5),
    1: (4, 1.5, 1, 2, 0.25, 1.0),
    2: (4 / 3, 0.75, 1, 3, 0.75, 0.5),
    3: (2, 1.0, 1, 5, 0.5, 0.25),
    4: (8, 1.75, 2, 10, 0.5, 0.75),
    5: (2, 1.0, 1, 1, 0.5, 0.125),
    6: (16, 2.25, 4, 3, 0.25, 0.5),
    7: (4, 1.25, 2, 2, 0.5, 1.0),
    8: (4, 1.0, 2, 5, 0.5, 0.75),
    9: (None, 0.5, None, 5, 0.75, 0.5),
    100: (4, 1.5, 1, 2, 0.25, 0.5),
    101: (1, 0.0, 1, 6, 1.0, 1.0),
    102: (2, 0.75, 2, 2, 0.5, 0.5),
    103: (None, 1.0, None, 2, 0.5, 0.5),
}

COUNTED = {
    # position: 1 / probability of the next token and matched order, of 3-grams and of 5-grams; none at BOS
    1: ((8, 1), (8, 1)),
    2: ((2, 2), (2, 2)),
    3: ((4, 3), (8, 3)),
    4: ((2, 3), (2, 4)),
    5: ((8, 3), (16, 5)),
    7: ((8, 2), (8, 2)),
    8: ((2, 3), (4, 3)),
    100: ((16, 1), (16, 1)),
    101: ((4, 2), (8, 2)),
    102: ((2, 2), (2, 3)),
}

KEY_FILES = [
    # corpus, first and last entry, file, site, layer, least index, format, entries, bytes, digest
    (0, 1, 8, "1.parquet", "ffn_in", 2, 1, "float16", 7, 700, "k0"),
    (1, 101, 102, "101.parquet", "ffn_in", 2, 1, "float16", 2, 600, "k1"),
]

LAYERS, NEURONS = range(3), range(4)

# The map places values, and states after each layer, where their own coordinates are.


def norm(layer: int, neuron: int) -> float:
    x, y = VALUES[layer][neuron]
    return sqrt(x * x + y * y)


def neighbour_rows(layer: int, neuron: int) -> list[tuple]:
    """The three nearest values."""
    x, y = VALUES[layer][neuron]
    others = [(i, n) for i, n in product(LAYERS, NEURONS) if (i, n) != (layer, neuron)]
    cosines = {(i, n): (x * VALUES[i][n][0] + y * VALUES[i][n][1]) / norm(layer, neuron) / norm(i, n) for i, n in others}
    nearest = sorted(others, key=lambda cell: (-round(cosines[cell], 6), cell))[:3]
    return [(layer, neuron, rank, *cell, cosines[cell]) for rank, cell in enumerate(nearest, start=1)]


def token_rows() -> list[tuple]:
    return [(i, t, t.encode(), i == 0, t.startswith(" ") and t.strip().isalpha(), t == "The", t.strip() in (".", "*", "|")) for i, t in enumerate(TOKENS)]


def corpus_rows() -> dict[str, list[tuple]]:
    return {
        "corpus": [(0, "tales", "all", '{"context": 5}', None, "aa", 1, 10), (1, "more", "test", '{"context": 4}', "r1", "bb", 1, 4)],
        "document": [(0, 0, "first.txt", '{"year": 1790}', TEXTS[0]), (100, 1, "second.txt", "{}", TEXTS[100])],
        "sequence": [(0, 0, 0, 6), (1, 0, 6, 4), (2, 100, 100, 4)],
        "position": POSITIONS,
    }


def run_rows() -> dict[str, list[tuple]]:
    when = "2026-01-02 03:04:05+00"
    kinds = [
        ("weights", None),
        ("sweep", 0),
        ("sweep", 1),
        ("trace", 0),
        ("trace", 1),
        ("paper", 0),
        ("paper", 1),
        ("map", None),
        ("map", None),
        ("circuit", None),
    ]
    kinds += [("head_statistics", 0), ("head_statistics", 1), ("head_probe", None)]
    kinds += [("attribution", 0), ("attribution", 1)]
    kinds += [("direct_path", None), ("direct_path", 0), ("direct_path", 1), ("skip_trigram", None)]
    kinds += [("term_loss", 0), ("training_curve", None)]
    kinds += [("prediction", 0), ("prediction", 1), ("ngram", 0), ("ngram", 1), ("keys", 0), ("keys", 1)]
    kinds += [("token_vector", None), ("token_state", 0), ("word_test", None)]
    kinds += [("word", 0), ("word", 1), ("probe", 0), ("tree_probe", 0), ("head_relation", 0)]
    runs = [(i, k, c, '{"model": "tiny"}', "{}", 0, "cpu", 1, when, when, "finished") for i, (k, c) in enumerate(kinds)]
    traced, taken_apart = ({name: len(rows) for name, rows in made().items()} for made in (trace_rows, attribution_rows))
    n_rows = [
        {"neuron": 12, "value_token": 48, "value_neighbour": 36},
        {"document": 1, "sequence": 2, "position": 10, "trigger": 72, "neuron_statistics": 12},
        {"document": 1, "sequence": 1, "position": 4, "trigger": 72, "neuron_statistics": 12},
        {name: n * 2 // 3 for name, n in traced.items()},
        {name: n // 3 for name, n in traced.items()},
        {"removal": 21, "next_token_rank": 12, "control_token": 24, "value_cluster": 24},
        {"removal": 6, "next_token_rank": 12},
        {"map_point": 12},
        {"map_point": 9},
        {name: len(found) for name, found in circuit_rows().items()},
        {"head_statistics": 3, "attention_distance": 12},
        {"head_statistics": 3, "attention_distance": 12},
        {"head_probe": 6, "probe_loss": 6},
        {name: n * 2 // 3 for name, n in taken_apart.items()},
        {name: n // 3 for name, n in taken_apart.items()},
        {"direct_path_token": 24},
        {"direct_path": 6},
        {"direct_path": 3},
        {name: len(found) for name, found in skip_trigram_rows().items()},
        {"term_loss": len(LOSSES)},
        {"training_curve": len(CURVE)},
        *({"position_prediction": n} for n in (10, 4)),
        *({"ngram_prediction": n} for n in (14, 6)),
        *({"key_file": 1} for _ in KEY_FILES),
        {name: len(found) for name, found in vector_rows().items()},
        {name: len(found) for name, found in state_rows().items()},
        {name: len(found) for name, found in WORD_TESTS.items()},
        *({"word": sum(word[0] == corpus for word in WORDS)} for corpus in (0, 1)),
        *({name: len(found) for name, found in rows(0).items()} for rows in (probe_rows, tree_probe_rows, head_relation_rows)),
    ]
    return {"run": runs, "shard": [(i, 0, json.dumps(n), "cc", "host:1", when) for i, n in enumerate(n_rows)]}


def weight_rows() -> dict[str, list[tuple]]:
    cells = list(product(LAYERS, NEURONS))
    value_tokens = []
    for layer, neuron in cells:
        first, second = PROMOTED[neuron]
        value_tokens += [(layer, neuron, "promoted", 1, first, 4.0 + layer, 0.5), (layer, neuron, "promoted", 2, second, 2.0 + layer, 0.25)]
        value_tokens += [(layer, neuron, "suppressed", 1, 9, -3.0, 0.01), (layer, neuron, "suppressed", 2, 11, -1.0, 0.02)]
    return {
        "neuron": [(i, n, 1.0, 2.0, norm(i, n), -0.5, 0.25, 0.5, PROMOTED[n][0]) for i, n in cells],
        "value_token": value_tokens,
        "value_neighbour": [row for cell in cells for row in neighbour_rows(*cell)],
    }


def preceding(coefficients: list[float], position: int) -> tuple[list[int], float]:
    """Levels and scale of the coefficients before a position in its sequence."""
    index = next(p[2] for p in POSITIONS if p[0] == position)
    before = coefficients[position % 100 - index : position % 100]
    scale = max(map(abs, before), default=0.0) / 127
    return [round(c / scale) if scale else 0 for c in before], scale


def sweep_rows() -> dict[str, list[tuple]]:
    triggers, statistics = [], []
    for corpus, layer, neuron in product((0, 1), LAYERS, NEURONS):
        is_l0n1 = (layer, neuron) == (0, 1)
        for tail, places in TRIGGERS[corpus, is_l0n1].items():
            swept = SWEPT[corpus, is_l0n1]
            triggers += [(corpus, layer, neuron, tail, rank, p, c, *preceding(swept, p), None) for rank, (p, c) in enumerate(places, start=1)]
        *numbers, counts = STATISTICS[corpus, is_l0n1]
        statistics.append((corpus, layer, neuron, *numbers, [counts.get(b, 0) for b in range(68)]))
    return {"trigger": triggers, "neuron_statistics": statistics}


def lens_rows() -> list[tuple]:
    rows = []
    for (position, layer), (mid, ffn, post, p_mid, p_post, rank_mid, rank_post, _) in LENS.items():
        before = LENS[position, layer - 1][2] if layer else 1
        w = FINAL[position]
        for site, top, p, rank in (
            ("resid_pre", before, TOP_PROB if before == w else OTHER_PROB, 1 if before == w else 4),
            ("attn_out", 8, OTHER_PROB, 4),
            ("resid_mid", mid, p_mid, rank_mid),
            ("ffn_out", ffn, TOP_PROB if ffn == w else OTHER_PROB, 1 if ffn == w else 4),
            ("resid_post", post, p_post, rank_post),
        ):
            rows.append((position, layer, site, "final_norm", top, p if top == w else TOP_PROB, p, rank, 0.25, 2, 1.5))
    return rows


def trace_rows() -> dict[str, list[tuple]]:
    lens = lens_rows()
    traces = [(3 if p < 100 else 4, p, w, LENS[p, 2][4], 0.25, 2) for p, w in FINAL.items()]
    states, activity, coefficients, updates = [], [], [], []
    for position, layer in LENS:
        x, y = STATES[position]
        scale = layer + 1.0
        states += [(position, 0, "resid_pre", (x, y))] if layer == 0 else []
        states += [(position, layer, site, (x * scale, y * scale)) for site in ("resid_mid", "resid_post")]
        lengths = {n: abs(c) * norm(layer, n) for n, c in COEFFICIENTS[layer].items()}
        activity.append(
            (
                position,
                layer,
                3,
                sum(lengths.values()),
                lengths[2] + lengths[0],
                *RAW_TOPS[position, layer],
                *RAW_AGREEING.get((position, layer), (0, 0)),
                *AGREEING.get((position, layer), (0, 0)),
                LENS[position, layer][7],
            )
        )
        coefficients += [(position, layer, n, COEFFICIENTS[layer][n], lengths[n]) for n in (0, 2)]
        for selection, neurons in (("dominant", (2, 0)), ("random", (1, 3))):
            candidate, final = SCORES.get((position, layer, selection), ((0.0, 0.0), (0.0, 0.0)))
            for r, n in enumerate(neurons):
                scores = (candidate[r], final[r], 0.0)
                updates.append((position, layer, selection, r + 1, n, COEFFICIENTS[layer][n], lengths[n], *scores, *(FROZEN * s for s in scores)))
    return {
        "trace": traces,
        "residual_state": states,
        "logit_lens": lens,
        "logit_lens_token": [row for p, i, s, _, top, prob, *_ in lens for row in ((p, i, s, 1, top, prob), (p, i, s, 2, 11, 0.01))],
        "layer_activity": activity,
        "coefficient": coefficients,
        "sub_update": updates,
    }


def attribution_rows() -> dict[str, list[tuple]]:
    attributions, contributions, movers, attention, activity = [], [], [], [], []
    for position, factors in PART_FACTORS.items():
        index = next(p[2] for p in POSITIONS if p[0] == position)
        for target, token, f in zip(("final", "next"), (FINAL[position], NEXT[position]), factors, strict=True):
            neurons = (8 * f, -2 * f) if f > 0 else (-2 * f, 8 * f)
            logit = 8.75 * f + RESIDUAL
            attributions.append((13 if position < 100 else 14, position, target, token, logit, logit, 1.0, 8.75 * f, RESIDUAL, 4.0, 2.5, *neurons))
        for (kind, layer, head), (logit, mean, length, erased) in PARTS.items():
            contributions.append((position, kind, layer, head, *(f * logit for f in factors), mean, length, erased))
            if kind == "head":
                rows = ROWS[index, (layer, head) == (1, 0)]
                listed = [(rank, source, w, v, m, share * logit * factors[0]) for rank, (source, w, v, m, share) in enumerate(rows[:2], start=1)]
                attention += [(position, layer, head, *row) for row in listed]
                weights = {source: w for source, w, *_ in rows}
                entropy = -sum(w * log(w) for w in weights.values())
                kept = sum(row[2] for row in listed), sum(row[3] for row in rows), sum(row[4] for row in listed)
                activity.append((position, layer, head, entropy, weights[0], weights[index], weights[index - 1], *kept, logit * factors[0]))
        movers += [(position, rank, layer, n, *(f * logit for f in factors)) for rank, (layer, n, logit) in enumerate(MOVERS, start=1)]
    return {
        "attribution": attributions,
        "contribution": contributions,
        "neuron_contribution": movers,
        "attention": attention,
        "head_activity": activity,
    }


def paper_rows() -> dict[str, list[tuple]]:
    cells = list(product(LAYERS, NEURONS))
    follows = {position: following for position, _, _, _, following, _, _ in POSITIONS}
    top = {(c, cell): TRIGGERS[c, cell == (0, 1)]["max"][0][0] for c in (0, 1) for cell in cells}
    ranks = [(c, *cell, follows[position], NEXT_RANKS[c, cell[0]][cell[1]]) for (c, cell), position in top.items()]
    return {
        "removal": [(*key, removed, m) for key, found in REMOVED.items() for removed, m in zip(("first", "last", "random"), found, strict=True)],
        "next_token_rank": [(*row, 0.5 if row[-1] == 1 else 0.25 / row[-1]) for row in ranks],
        "control_token": [
            (control, layer, item, rank, token, 5.0 - rank)
            for (control, items), layer in product(CONTROLS.items(), LAYERS)
            for item, tokens in items.items()
            for rank, token in enumerate(tokens, start=1)
        ],
        "value_cluster": [("value", i, n, VALUE_CLUSTERS[i][n]) for i, n in cells] + [("logits", i, n, n) for i, n in cells],
    }


def map_rows() -> dict[str, list[tuple]]:
    values = [(7, "value", layer, neuron, None, *VALUES[layer][neuron]) for layer, neuron in product(LAYERS, NEURONS)]
    states = [(8, "resid_post", layer, None, p, x * (layer + 1), y * (layer + 1)) for layer, (p, (x, y)) in product(LAYERS, STATES.items())]
    return {"map_point": values + states}


def eigenvalues(ratio: float) -> list[float]:
    """Two real ones, the larger first, whose moduli sum to 1."""
    return sorted([(ratio + 1) / 2, (ratio - 1) / 2], key=lambda value: (-abs(value), -value))


def circuit_rows() -> dict[str, list[tuple]]:
    spectra = {"ov_token": 4, "ov_effective": 5, "stream": 7, "matching": 8}
    found = [(i, 0, name, rank, x, 0.0) for i in LAYERS for name, c in spectra.items() for rank, x in enumerate(eigenvalues(HEADS[i][c]), start=1)]
    return {
        "head": [(i, 0, 0, *HEADS[i]) for i in LAYERS],
        "head_eigenvalue": found,
        **direction_rows(),
        **virtual_weight_rows(),
        "composition": [(kind, layer, 0, earlier, 0, *numbers) for (kind, layer, earlier), numbers in COMPOSITIONS.items()],
    }


DIRECTIONS = {("ov", 1): (2.0, 0.8, 0.5), ("ov", 2): (1.0, 0.2, 1.0), ("qk", 1): (4.0, 0.9412, 0.75), ("qk", 2): (1.0, 0.0588, 1.0)}
"""(circuit, direction) of every head: sigma, share, gap."""

ENDS = {"read": ((2, 10), (5, 11)), "write": ((3, 5), (9, 0)), "query": ((1, 4), (6, 7)), "key": ((8, 2), (3, 10))}
"""Side → tokens of ranks 1 and 2 at the end max, and at the end min, of every direction; scores are 3 and 2, and -3 and -2."""


def direction_rows() -> dict[str, list[tuple]]:
    sides = {"ov": ("read", "write"), "qk": ("query", "key")}
    ends = [(side, *end) for side in ENDS for end in zip(("max", "min"), (1, -1), ENDS[side], strict=True)]
    tokens = [
        (layer, 0, circuit, direction, side, tail, rank, token, sign * (4.0 - rank))
        for layer, (circuit, direction) in product(LAYERS, DIRECTIONS)
        for side, tail, sign, both in ends
        if side in sides[circuit]
        for rank, token in enumerate(both, start=1)
    ]
    return {"head_direction": [(layer, 0, *of, *DIRECTIONS[of]) for layer, of in product(LAYERS, DIRECTIONS)], "head_direction_token": tokens}


def virtual_weight(reader: tuple[int, int], writer: tuple[int, int]) -> float:
    """Folded keys are the neuron's own value with its two numbers exchanged; there is no gate."""
    (x, y), (u, v) = VALUES[reader[0]][reader[1]], VALUES[writer[0]][writer[1]]
    return y * u + x * v


def virtual_weight_rows() -> dict[str, list[tuple]]:
    """The two of largest modulus of each neuron and side."""
    kept, totals = [], []
    for cell, side in product(product(LAYERS, NEURONS), ("key", "read_by_key")):
        others = [other for other in product(LAYERS, NEURONS) if (other[0] < cell[0] if side == "key" else other[0] > cell[0])]
        weights = {other: virtual_weight(cell, other) if side == "key" else virtual_weight(other, cell) for other in others}
        best = sorted(others, key=lambda other: (-abs(weights[other]), other))[:2]
        kept += [(*cell, side, rank, *other, weights[other], weights[other] / norm(*cell) / norm(*other)) for rank, other in enumerate(best, start=1)]
        own = virtual_weight(cell, cell) / norm(*cell) ** 2 if side == "key" else None
        totals.append((*cell, side, len(others), sum(w * w for w in weights.values()), own))
    return {"virtual_weight": kept, "virtual_weight_total": totals}


def direct_path_rows() -> dict[str, list[tuple]]:
    def prob(token: int, following: int) -> float:
        return {(token + 1) % len(TOKENS): 0.5, token: 0.25}.get(following, 0.0625)

    of_corpus = []
    for (corpus, token), following in BIGRAMS.items():
        seen = [t for (c, _), found in BIGRAMS.items() if c == corpus for t in found]
        divergence = sum(log(1 / len(following) / prob(token, t)) for t in following) / len(following)
        chance = sum(log(1 / len(following) / (seen.count(t) / len(seen))) for t in following) / len(following)
        first = min(following)
        rank = 1 if first == token + 1 else 3
        of_corpus.append((corpus, token, len(following), first, 1, rank, log(prob(token, first)), divergence, chance))
    both = ((1, 1, 4.0, 0.5), (2, 0, 3.0, 0.25))
    return {
        "direct_path_token": [(t, rank, (t + shift) % len(TOKENS), logit, p) for t in range(len(TOKENS)) for rank, shift, logit, p in both],
        "direct_path": of_corpus,
    }


def skip_trigram_rows() -> dict[str, list[tuple]]:
    seen = [token for _, _, _, token, *_ in POSITIONS]
    named = [(circuit, source, ends[i]) for i, circuit in enumerate(("qk", "ov")) for source, ends in CIRCUITS.items()]
    return {
        "circuit_token": [(0, 0, circuit, source, rank, *row) for circuit, source, end in named for rank, row in enumerate(end, start=1)],
        "circuit_source": [(0, 0, circuit, source, seen.count(source), 0.5, 0.25) for circuit, source, _ in named],
        "skip_trigram": [(0, 0, *tails, rank, *row) for tails, found in SKIP_TRIGRAMS.items() for rank, row in enumerate(found, start=1)],
    }


def head_rows() -> dict[str, list[tuple]]:
    counts = {0: (8, 2), 1: (3, 0)}
    probed = [
        (probe, layer, 0, 10, 4, *[0.125] * 8, weight, *[0.125] * 5, 2 * COPIED[layer], COPIED[layer])
        for probe, weights in PROBED.items()
        for layer, weight in enumerate(weights)
    ]
    return {
        "head_statistics": [
            (c, i, 0, *counts[c], *(x for both in zip(seen, EVENLY[c], strict=True) for x in both), FIRST_MOVED[c, i], 0.1875)
            for (c, i), seen in LOOKED_AT.items()
        ],
        "attention_distance": [
            (corpus, layer, 0, b, weights[b], weights[3 - b], counts[corpus][0]) for (corpus, weights), layer, b in product(DISTANCES.items(), LAYERS, range(4))
        ],
        "head_probe": probed,
        "probe_loss": [("repeat", 1, 3.0, 4), ("repeat", 2, 1.0, 5), *(("olsson2022", block, 4.0 - block, 5) for block in range(1, 5))],
    }


def vector_rows() -> dict[str, list[tuple]]:
    raw = {token: (x + 1.0, float(y)) for token, (x, y) in enumerate(CENTRED, start=1)}
    centred = dict(enumerate(CENTRED, start=1))

    def cosine(x: tuple[float, float], y: tuple[float, float]) -> float:
        length = hypot(*x) * hypot(*y)
        return (x[0] * y[0] + x[1] * y[1]) / length if length else 0.0

    neighbours = []
    for token in raw:
        others = sorted((o for o in raw if o != token), key=lambda o: (-round(cosine(centred[token], centred[o]), 9), o))
        neighbours += [("input", token, r, o, cosine(centred[token], centred[o]), cosine(raw[token], raw[o])) for r, o in enumerate(others, start=1)]
    return {
        "token_space": [("input", len(raw), [1.0, 0.0])],
        "token_vector": [("input", token, list(vector)) for token, vector in raw.items()],
        "token_neighbour": neighbours,
    }


def state_rows() -> dict[str, list[tuple]]:
    return {
        "token_state": [(0, layer, token, n, [scale * x, scale * y]) for layer, scale in ((0, 1.0), (2, 2.0)) for token, n, x, y in MEAN_STATES],
        "layer_geometry": [(0, *row) for row in GEOMETRY],
    }


def word_rows() -> dict[str, list[tuple]]:
    sources, first = ("silver: spaCy tiny 1.0", "file: gold.conllu"), (0, 1000)
    return {
        "word": [
            (c, first[c] + 4 * start, *places, start, *labels, None if head is None else first[c] + 4 * head, sources[c])
            for c, *places, start, a, b, d, e, f, head in WORDS
            for labels in ((a, b, d, e, f),)
        ]
    }


def probe_rows(run: int) -> dict[str, list[tuple]]:
    kinds = ("label", "control", "untrained")
    return {
        "probe_task": [(run, "pos", 0, 4, 3, 1, 1, 4, 1, 30.0, 0.0, 2 / 3)],
        "probe": [
            (
                run, "pos", kind, *place, accuracy, *ends(place, accuracy), None if kind == "control" else accuracy / 4, bits, kind != "untrained", 2,
                *INTERVALS[place],
            )
            for place, found in PROBED_PLACES.items()
            for kind, (accuracy, bits) in zip(kinds, found, strict=True)
        ],
        "probe_prediction": [(run, "pos", *place, *said) for place, all_said in PROBED_WORDS.items() for said in all_said],
    }  # fmt: skip


def tree_probe_rows(run: int) -> dict[str, list[tuple]]:
    targets = ("distance", "depth")
    return {
        "tree_task": [
            (run, target, 0, 1, 1, 0, 1, 1, 4, 3, n, chain, order) for target, n, chain, order in zip(targets, (2, 1), (1.0, 0.0), (None, 0.5), strict=True)
        ],
        "tree_probe": [
            (run, target, kind, *place, rank, accuracy, *ends(place, accuracy), 0.75 if target == "depth" else None, 10, *INTERVALS[place])
            for place, of_target in TREE_ACCURACIES.items()
            for target, of_rank in zip(targets, of_target, strict=True)
            for rank, both in enumerate(of_rank, 1)
            for kind, accuracy in zip(("tree", "untrained"), both, strict=True)
        ],
        "tree_edge": [(run, *place, *edge) for place, edges in TREE_EDGES.items() for edge in edges],
    }


def head_relation_rows(run: int) -> dict[str, list[tuple]]:
    return {
        "word_relation": [(run, *named, 0, *counts) for named, (counts, _) in RELATIONS.items()],
        "head_relation": [(run, *named, layer, 0, *both) for named, (_, heads) in RELATIONS.items() for layer, both in enumerate(heads)],
    }


def prediction_rows() -> dict[str, list[tuple]]:
    return {
        "position_prediction": [(p, n and log(n), *others) for p, (n, *others) in PREDICTED.items()],
        "ngram_prediction": [(p, order, log(n), matched) for p, both in COUNTED.items() for order, (n, matched) in zip((3, 5), both, strict=True)],
    }


N_RUNS = len(run_rows()["run"])


def rows() -> dict[str, list[tuple]]:
    """Every table's rows, columns in the order of schema/tables."""
    model = ("tiny", "r0", "llama", 3, 2, 4, 1, 1, 2, len(TOKENS), "silu", True, False, False, True, "float32", "ww", SCHEMA_VERSION)
    return {
        "model": [model],
        "model_fact": [
            (None, "ffn.activation", "silu", "listed", "keys", 1.5e-7),
            (None, "ffn.gate", "mlp.gate_proj", "listed", "keys", 1.5e-7),
            (None, "stream.max_context", "64", "listed", None, None),
            (0, "attention.window", "4", "listed", "pattern", None),
            (1, "attention.window", None, "listed", "pattern", None),
            (2, "attention.window", None, "listed", "pattern", None),
        ],
        "token": token_rows(),
        **corpus_rows(),
        **run_rows(),
        **weight_rows(),
        **sweep_rows(),
        **prediction_rows(),
        **vector_rows(),
        **state_rows(),
        **WORD_TESTS,
        **word_rows(),
        **probe_rows(N_RUNS - 3),
        **tree_probe_rows(N_RUNS - 2),
        **head_relation_rows(N_RUNS - 1),
        "key_file": KEY_FILES,
        **trace_rows(),
        **attribution_rows(),
        **paper_rows(),
        **map_rows(),
        **circuit_rows(),
        **head_rows(),
        **direct_path_rows(),
        **skip_trigram_rows(),
        "term_loss": [(0, *term, loss, 8) for term, loss in LOSSES.items()],
        "training_curve": CURVE,
    }


MADE = TemporaryDirectory(prefix="tiny-")


def split_sequences(path: Path, document_id: int | None = None) -> None:
    """Give each position of a document, or of all, a sequence of its own, that begins where its own did: lists show one text a sequence."""
    with closing(store.open_writer(path)) as con:
        of = "FROM position AS p INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id WHERE s.document_id = coalesce(?, s.document_id)"
        con.execute(f"CREATE TEMP TABLE split AS SELECT p.position_id, s.document_id, s.first_position_id, s.n_positions {of}", [document_id])
        con.execute("INSERT INTO sequence SELECT s.position_id + 100000, s.document_id, s.first_position_id, s.n_positions FROM split AS s")
        con.execute("UPDATE position SET sequence_id = position_id + 100000 WHERE position_id IN (SELECT s.position_id FROM split AS s)")


def write_tiny_atlas(path: Path) -> Path:
    """A copy of the one that this process has made with these tables, views and questions."""
    shutil.copyfile(made(release_digest()), path)
    return path


@cache
def made(release: str) -> Path:
    path = Path(MADE.name) / f"{release}.duckdb"
    # small blocks: 2 MB instead of 20 are copied and hashed by thousands of tests
    with closing(duckdb.connect(str(path), config={"default_block_size": "16384", "storage_compatibility_version": store.STORAGE_VERSION})):
        pass
    con = store.open_writer(path)
    con.execute("BEGIN")
    create_tables(con, 2)
    for table, lines in rows().items():
        con.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(lines[0]))})", lines)
    install_derived(con)
    con.execute("COMMIT")
    con.execute("CHECKPOINT")
    con.close()
    return path
