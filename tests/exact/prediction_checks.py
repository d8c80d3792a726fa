"""The model's prediction at every position, and that of counting, by brute force."""

import numpy as np
import torch

from tests.exact.checks import Case, equal
from tests.exact.near import check_ranks, check_top
from tests.exact.reference import entropy
from tests.exact.tiny import COUNTED
from tests.ingest.ngram_oracle import KneserNey


def own_logits(c: Case) -> np.ndarray:
    """Of every position, a sequence at a time, [n, d_vocab] float64."""
    sequences = np.split(c.cut.token_ids, np.cumsum(c.cut.lengths)[:-1])
    with torch.no_grad():
        return torch.cat([c.reference.hf(torch.from_numpy(ids)[None], use_cache=False).logits[0].double() for ids in sequences]).numpy()


def begins_word(c: Case) -> np.ndarray:
    """Tokens behind which no word goes on, [d_vocab]."""
    special = set(c.tokenizer.all_special_ids)
    texts = [c.tokenizer.decode([token]) for token in range(c.d_vocab)]
    return np.array([token in special or text[:1].isspace() for token, text in enumerate(texts)])


def check_position_predictions(c: Case) -> None:
    rows, logits, following = c.traced_rows("position_prediction"), own_logits(c), c.cut.next_token_ids
    logs = torch.from_numpy(logits).log_softmax(-1).numpy()
    is_followed, at = following >= 0, np.arange(len(following))
    equal("position_id", rows["position_id"], c.base + at)
    c.close("surprisal", rows["surprisal"].astype(float), np.where(is_followed, -logs[at, following], np.nan), 1e-5, 1.0)
    c.close("entropy of a prediction", rows["entropy"], entropy(torch.from_numpy(logits)), 1e-5, 1.0)
    tie = 1e-5 * np.abs(logits).max()
    equal("no rank", np.isnan(rows["next_token_rank"].astype(float)), ~is_followed)
    ranks = rows["next_token_rank"][is_followed].astype(np.int64)
    c.count("rank of the next token", check_ranks("next_token_rank", ranks, logits[is_followed], following[is_followed], tie))
    c.count("predictions", check_top("top_token_id", rows["top_token_id"].astype(np.int64), logits, tie))
    c.close("top_prob", rows["top_prob"], np.exp(logs.max(1)), 1e-5, 1.0)
    c.close("starts_word_prob", rows["starts_word_prob"], np.exp(logs)[:, begins_word(c)].sum(1), 1e-5, 1.0)


def check_ngram_predictions(c: Case) -> None:
    """Counted in the texts of `COUNTED` that are not those of the corpus, without cuts and BOS."""
    predicted = {text.text for text in c.texts}
    texts = [c.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"] for text in COUNTED if text not in predicted]
    assert 0 < len(texts) < len(COUNTED)
    oracles = {order: KneserNey(texts, order, c.d_vocab) for order in (3, 5)}
    is_text = (c.cut.index > 0) | (c.settings["bos"] is None)
    document, wanted, before, last = c.cut.document_of[c.cut.sequence], [], [], None
    for at in np.flatnonzero(is_text):
        before = [*before, int(c.cut.token_ids[at])] if document[at] == last else [int(c.cut.token_ids[at])]
        last, token = document[at], int(c.cut.next_token_ids[at])
        if token >= 0:
            wanted += [(c.base + at, n, -np.log(o.probability(before, token)), o.matched(before)) for n, o in oracles.items()]
    rows, (ids, orders, surprisals, matched) = c.traced_rows("ngram_prediction"), (np.array(column) for column in zip(*wanted, strict=True))
    equal("position_id", rows["position_id"], ids)
    equal("ngram_order", rows["ngram_order"], orders)
    equal("matched_order", rows["matched_order"], matched)
    c.close("surprisal of counting", rows["surprisal"], surprisals, 1e-6)


PREDICTION_CHECKS = (check_position_predictions, check_ngram_predictions)
