"""Topics of the Evidence page, in the order in which they are offered: name in the address → topic. To add a panel, add a record here."""

from atlas.papers import geva2022, probe_papers
from schema.terms import BEHAVIOURS, PROBE_TASKS
from ui import data
from ui.evidence import experiments, measurement_sentences, pictures, sentences
from ui.evidence.topic import Choice, Panel, Topic

ALL = 10**6
"""Number above the heads of any model, which asks for all of them."""

WEIGHTS_SAY = "No pair of heads reaches this threshold: set a lower one."


def probed_tasks() -> list[str]:
    """List the tasks that have probes in this atlas."""
    return [task for task in PROBE_TASKS if not data.ask("probe_layers", task=task).frame.is_empty()]


def probed_layers() -> list[str]:
    """List the layers with a probe of resid_post for the first probed task, the last layer first."""
    for task in probed_tasks()[:1]:
        found = data.ask("probe_layers", task=task).frame.filter(site="resid_post")
        return [str(layer) for layer in found["layer"].unique().sort(descending=True)]
    return []


def list_retrievals() -> list[str]:
    """List the retrievals, the latest first."""
    return [str(i) for i in data.ask("knn_result").frame["retrieval"].unique().sort(descending=True)]


PROMOTION = Topic(
    "What do FFNs do to the prediction?",
    choices=(
        Choice("layer", "event_layer", "Layer of the events"),
        Choice("input_token", "input_token", "Eliminations of the input token", ("yes", "no")),
    ),
    panels=(
        Panel(
            "promotion_vs_elimination",
            sentences.describe_table4,
            geva2022.TABLE4.chart,
            ("event", "selection", "n_events", "n_input_token", "max_score", "mean_score", "min_score"),
        ),
        Panel("geva2022_fig3", sentences.describe_fig3, geva2022.FIG3.chart, rows=0),
        Panel("geva2022_events", sentences.describe_events, geva2022.EVENTS.chart, rows=0),
        Panel(
            "elimination_events",
            sentences.describe_eliminations,
            None,
            (
                "layer",
                "text_before",
                "token",
                "candidate",
                "is_input_token",
                "candidate_prob_before",
                "candidate_rank_after",
                "new_top_token",
                "next_token",
                "document",
            ),
            fixed={"n": 200},
            rows=200,
            if_empty="No elimination here.",
        ),
        Panel(
            "saturation_events",
            sentences.describe_saturations,
            None,
            (
                "layer",
                "text_before",
                "token",
                "final_token",
                "final_prob_before",
                "final_prob_after",
                "final_rank_before",
                "former_token",
                "next_token",
                "document",
            ),
            fixed={"n": 200},
            rows=200,
            if_empty="No saturation here.",
        ),
    ),
)

HEADS = Topic(
    "What do the attention heads do?",
    choices=(Choice("behaviour", "behaviour", "What they look at", ("induction", *(word for word in BEHAVIOURS if word != "induction"))),),
    panels=(
        Panel(
            "heads_by",
            sentences.describe_behaviour,
            pictures.draw_behaviour,
            ("layer", "head", "probe", "probe_uniform", "olsson", "text", "text_uniform"),
            fixed={"n": ALL},
        ),
        Panel(
            "copying_heads",
            sentences.describe_copying,
            pictures.draw_copying,
            ("layer", "head", "copying_effective", "own_first_share", "stream_ratio", "matching", "copying_probe", "attended_logit"),
            fixed={"n": ALL},
        ),
        Panel(
            "memory_heads",
            sentences.describe_memory,
            pictures.draw_memory,
            ("layer", "head", "stream_ratio", "mean_erased", "erasing_share", "self_weight", "self_probe", "erases_at"),
            fixed={"n": ALL},
        ),
    ),
)

CIRCUITS = Topic(
    "Which heads work together?",
    choices=(
        Choice("kind", "reads_by", "Read through", ("k", "q", "v")),
        Choice("min_excess", "excess", "Score above chance, at least", default=0.03),
    ),
    panels=(
        Panel(
            "composition_edges",
            sentences.describe_edges,
            pictures.draw_edges,
            ("layer", "head", "from_layer", "from_head", "excess", "rank", "matching"),
            rows=pictures.MOST_EDGES,
            if_empty=WEIGHTS_SAY,
            is_table_first=True,
        ),
        Panel(
            "induction_circuits",
            sentences.describe_induction,
            pictures.draw_edges,
            ("layer", "head", "from_layer", "from_head", "excess", "rank", "matching", "copying_effective"),
            fixed={"n": pictures.MOST_EDGES},
            is_table_first=True,
        ),
    ),
)

PROBES = Topic(
    "Where can labels of words be read?",
    choices=(Choice("task", "task", "Label", probed_tasks), Choice("layer", "probed", "Confusions after layer", probed_layers)),
    panels=(
        Panel(
            "probe_layers",
            measurement_sentences.describe_probes,
            probe_papers.TABLE2.chart,
            (
                "layer",
                "site",
                "accuracy",
                "accuracy_low",
                "accuracy_high",
                "n_clusters",
                "interval_note",
                "control_accuracy",
                "selectivity",
                "unseen_accuracy",
                "untrained_accuracy",
                "kilobits",
                "rank",
                "n_test",
            ),
        ),
        Panel(
            "probe_confusion",
            measurement_sentences.describe_confusion,
            None,
            ("label", "predicted", "n_words", "share", "mean_prob", "example"),
            fixed={"n": 50},
            if_empty="After this layer the probe takes no label for another.",
        ),
        Panel(
            "parse_layers",
            measurement_sentences.describe_trees,
            probe_papers.TREES.chart,
            (
                "layer",
                "site",
                "rank",
                "uuas",
                "uuas_low",
                "uuas_high",
                "n_clusters",
                "interval_note",
                "chain_uuas",
                "untrained_uuas",
                "spearman",
                "root_accuracy",
                "n_edges",
            ),
        ),
        Panel(
            "head_relations",
            measurement_sentences.describe_relations,
            None,
            ("layer", "head", "relation", "looks_at", "accuracy", "offset_accuracy", "gain", "offset_words", "n_test"),
            rows=50,
            if_empty="No relation has pairs enough in the test.",
        ),
    ),
)

RETRIEVAL = Topic(
    "What does retrieval add to the model?",
    choices=(Choice("retrieval", "retrieval", "Retrieval", list_retrievals),),
    panels=(
        Panel(
            "knn_result",
            measurement_sentences.describe_retrieval,
            lambda f: pictures.draw_side_by_side(
                f.filter(part="test"), "queries", {"perplexity": "the model alone", "perplexity_knn": "with neighbours"}, "Perplexity of the test text"
            ),
            ("part", "queries", "n_queries", "perplexity", "perplexity_knn", "gain"),
        ),
        Panel(
            "knn_curve",
            measurement_sentences.describe_knn_curve,
            pictures.draw_knn_curve,
            ("k", "temperature_steps", "weight", "perplexity", "perplexity_others", "is_chosen"),
        ),
        Panel("knn_copies", measurement_sentences.describe_copies),
    ),
)

TESTS = Topic(
    "What does the model get right in tests?",
    panels=(
        Panel(
            "test_suites",
            measurement_sentences.describe_suites,
            lambda f: pictures.draw_bars(measurement_sentences.select_paradigms(f), "paradigm", "accuracy", "Items passed, of the hardest paradigms", "%"),
            ("suite", "kind", "paradigm", "n_items", "accuracy", "accuracy_low", "accuracy_high", "mean_margin"),
        ),
    ),
)

READING = Topic(
    "How well does the model read?",
    choices=(Choice("parts", "parts", "Parts of the corpus", ("split", "index")),),
    panels=(
        Panel(
            "perplexity",
            measurement_sentences.describe_perplexity,
            lambda f: pictures.draw_side_by_side(
                measurement_sentences.name_parts(f), "part", {"perplexity": "model", "perplexity_ngram5": "5-grams"}, "Perplexity"
            ),
            ("corpus_id", "part", "n_positions", "perplexity", "accuracy", "mean_entropy", "perplexity_ngram3", "perplexity_ngram5"),
        ),
        Panel(
            "calibration",
            measurement_sentences.describe_calibration,
            lambda f: pictures.draw_curve(f, "confidence", "accuracy", ("Probability that the model gives", "How often it is right"), is_diagonal=True),
            ("lower", "upper", "n_positions", "confidence", "accuracy", "gap"),
        ),
        Panel(
            "abstention",
            measurement_sentences.describe_abstention,
            lambda f: pictures.draw_curve(f, "coverage", "accuracy", ("Positions where it answers", "How often it is right there")),
            ("threshold", "n_answered", "coverage", "accuracy", "perplexity"),
        ),
        Panel(
            "model_against_ngram",
            measurement_sentences.describe_against_counts,
            lambda f: pictures.draw_side_by_side(
                f,
                "matched_order",
                {"perplexity": "model", "perplexity_ngram": "5-grams", "perplexity_mixed": "both"},
                "Perplexity, by the longest context counted",
            ),
            ("matched_order", "n_positions", "perplexity", "perplexity_ngram", "perplexity_mixed", "ngram_better", "mean_gain"),
        ),
        Panel(
            "surprising_positions",
            measurement_sentences.describe_surprises,
            None,
            ("text_before", "token", "top_token", "top_prob", "next_token", "next_token_rank", "surprisal", "document"),
            fixed={"n": 50},
            rows=50,
        ),
    ),
)

TOPICS = {
    "events": PROMOTION,
    "heads": HEADS,
    "circuits": CIRCUITS,
    "probes": PROBES,
    "retrieval": RETRIEVAL,
    "experiments": experiments.TOPIC,
    "tests": TESTS,
    "reading": READING,
}

PAPERS = "papers"
"""Name of the topic that has no panels: figures and tables as `atlas paper` makes them."""
