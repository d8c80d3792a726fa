"""`a.live()`: prompts through the atlas's own model, answered by the same questions as its corpora."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import duckdb
import polars as pl
import pyarrow as pa

from atlas.arguments import bind
from atlas.frames import fetch
from atlas.live.asking import Progress, ask_process
from atlas.live.pinned import open_pinned_cursor
from atlas.live.saving import kept_answer, save_answer
from atlas.live.switching import SwitchOffResult, switch_off_largest
from atlas.model_row import model_weights
from atlas.questions import question
from atlas.ranges import check_arguments
from atlas.statement import statement
from atlas.typed import execution
from schema.errors import AtlasError
from schema.interventions.short import intervention_from

ArmText = Sequence[str | Mapping[str, Any]] | str
"""Interventions of one arm, each an object or its short form, such as L20N630=max*0.5."""

COMPARED = """
SELECT
    o.arm_id, a.name AS arm, o.index, i.text AS token, b.text AS base_top_token, k.text AS top_token, o.top_prob,
    o.answer_logprob - f.answer_logprob AS answer_logprob_change, o.answer_rank, o.kl_from_base, a.is_as_base
FROM live_outcome AS o
INNER JOIN live_outcome AS f ON o.prompt_id = f.prompt_id AND o.index = f.index AND f.arm_id = 0
INNER JOIN live_arm AS a ON o.arm_id = a.arm_id
INNER JOIN live_position AS p ON o.index = p.index
INNER JOIN live_sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN live_document AS d ON s.document_id = d.document_id AND d.corpus_id = -1
INNER JOIN token AS i ON p.token_id = i.token_id
INNER JOIN token AS b ON f.top_token_id = b.token_id
INNER JOIN token AS k ON o.top_token_id = k.token_id
WHERE o.arm_id > 0
ORDER BY o.arm_id, o.index
"""

POSITIONS = """
SELECT
    -1 - d.corpus_id AS arm_id, p.position_id, p.index, i.text AS token, k.text AS final_token, t.final_prob,
    lag(if(t.next_token_prob > 0, -ln(t.next_token_prob), NULL)) OVER (PARTITION BY d.corpus_id ORDER BY p.index) AS surprisal
FROM live_position AS p
INNER JOIN live_sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN live_document AS d ON s.document_id = d.document_id
INNER JOIN live_trace AS t ON p.position_id = t.position_id
INNER JOIN token AS i ON p.token_id = i.token_id
INNER JOIN token AS k ON t.final_token_id = k.token_id
ORDER BY arm_id, p.index
"""

LEADING = """
SELECT o.arm_id, a.name AS arm, o.rank, k.text AS token, o.prob
FROM live_outcome_token AS o
INNER JOIN live_arm AS a ON o.arm_id = a.arm_id
INNER JOIN token AS k ON o.token_id = k.token_id
WHERE o.index = $index AND o.rank <= $n
ORDER BY o.arm_id, o.rank
"""


class Live:
    """The model process of an atlas. The first prompt starts it, and it ends by itself when there are no more requests."""

    def __init__(self, con: duckdb.DuckDBPyConnection, path: Path) -> None:
        self.con, self.path, self.visitor = con, path, uuid4().hex

    def trace(
        self, text: str, arms: Sequence[ArmText] = (), *, n_new: int = 0, seed: int | None = None, corpus_id: int = 0, apart: int | None = None,
        chat: bool = False, progress: Progress = lambda _: None,
    ) -> "LiveTrace":  # fmt: skip
        """Trace a prompt at every position, unchanged and under each arm, and continue it by `n_new` tokens: the likeliest, or tokens drawn by a seed.

        corpus_id: corpus whose largest and mean coefficients a short form such as L20N630=max*0.5 refers to.
        apart: index of the token whose prediction is taken apart, counted from the end if below 0. `prediction_parts` and other questions of
        attribution answer for this token. None for no token.
        chat: the text is a user's message, or a JSON list of messages, each with role and content; the tokenizer's template renders it, up to the beginning of
        the assistant's answer.
        Raises AtlasError for anything that the model or the atlas lacks, if the process has other weights than the atlas, or if the process does not start.
        """
        tables = self.answer(text, arms, n_new=n_new, seed=seed, corpus_id=corpus_id, apart=apart, is_chat=chat, progress=progress)
        return LiveTrace(self.con, self.path, tables["document"]["text"][0].as_py() if chat else text, tables)

    def kept(self, experiment: int) -> "LiveTrace":
        """Read a trace that was saved with `save(title, with_trace=True)`, without the model. Raises AtlasError if it does not exist."""
        return LiveTrace(self.con, self.path, *kept_answer(self.con, self.path, experiment))

    def switch_off(
        self, prompts: Sequence[str], n: int = 10, *, layers: Sequence[int] | None = None, index: int = -1, progress: Progress = lambda _: None
    ) -> SwitchOffResult:
        """Switch off the n largest sub-updates of each layer (all layers, or those given), one at a time, at one token of each prompt only.

        The result compares each sub-update's score with what the answer's logit loses without it. Raises what `trace` raises.
        """
        return switch_off_largest(self, prompts, n, layers, index, progress)

    def answer(
        self, text: str, arms: Sequence[ArmText], *, n_new: int = 0, seed: int | None = None, corpus_id: int = 0, is_traced: bool = True,
        apart: int | None = None, is_narrow: bool = False, is_chat: bool = False, progress: Progress = lambda _: None,
    ) -> dict[str, pa.Table]:  # fmt: skip
        """Fetch the tables of an answer from the model process. is_traced: False for the arms' predictions only. is_narrow: states of token `apart` only.

        Raises what `trace` raises.
        """
        # before the model process is started for it, which takes seconds
        if not text.strip():
            raise AtlasError("the prompt is empty: give it some text")
        request = {
            "text": text, "arms": [arm_json(arm, corpus_id) for arm in arms], "weights_sha256": model_weights(self.con), "n_new": n_new, "seed": seed,
            "is_traced": is_traced, "apart": apart, "is_narrow": is_narrow, **({"is_chat": True} if is_chat else {}),
        }  # fmt: skip
        tables = ask_process(self.path, "trace", request, progress, self.visitor)
        names = pa.array(["base", *(name_of(arm, k) for k, arm in enumerate(arms, start=1))])
        tables["arm"] = tables["arm"].set_column(tables["arm"].column_names.index("name"), "name", names)
        return tables

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leave the process running for the next session: it ends by itself."""


def arm_json(arm: ArmText, corpus_id: int) -> list[dict[str, Any]]:
    parts = [arm] if isinstance(arm, str) else arm
    return [intervention_from(part, corpus_id).as_json() if isinstance(part, str) else dict(part) for part in parts]


def name_of(arm: ArmText, k: int) -> str:
    """Name an arm by its short forms, or by its number if it has none."""
    parts = [arm] if isinstance(arm, str) else arm
    return ", ".join(part for part in parts if isinstance(part, str)) or f"arm {k}"


class LiveTrace:
    """Tables of a prompt. Every question answers for the prompt's positions as for those of a corpus; their ids are negative."""

    def __init__(self, con: duckdb.DuckDBPyConnection, path: Path, text: str, tables: dict[str, pa.Table]) -> None:
        self.path, self.text, self.tables = path, text, tables
        self.con: Any = open_pinned_cursor(con, tables)

    @property
    def positions(self) -> pl.DataFrame:
        """Table with a row for each token of the prompt, of the base first, then of each arm: position_id, index, token, its prediction, surprisal in nats.

        Surprisal is -ln of the probability that the tokens before gave the token; null for the first token, and for a token of probability 0."""
        return fetch(self.con, POSITIONS)

    def position_id(self, index: int = -1, arm: int = 0) -> int:
        """Find the position_id of a token of the prompt; a negative index counts from its end. Raises AtlasError if there is no such token."""
        found = self.positions.filter(pl.col("arm_id") == arm)["position_id"].to_list()
        if not -len(found) <= index < len(found):
            raise AtlasError(f"no token {index} under arm {arm}: the prompt has {len(found)} tokens" if found else f"this trace has no arm {arm}")
        return int(found[index])

    @property
    def continuations(self) -> pl.DataFrame:
        """Continuation of the unchanged prompt (arm 0) and under each arm; finish is eos if the text ends there."""
        return fetch(self.con, "SELECT g.arm_id, a.name AS arm, g.text, g.finish FROM live_generation AS g JOIN live_arm AS a USING (arm_id) ORDER BY g.arm_id")

    def ask(self, name: str, *args: object, **kwargs: object) -> pl.DataFrame:
        """Ask a question of the atlas, with the prompt's rows beside those of the corpora. Raises what `Atlas.ask` raises."""
        q = question(name)
        arguments = bind(q, args, kwargs)
        check_arguments(self.con, arguments, q.sql)
        return fetch(self.con, statement(q, arguments))

    def sql(self, query: str) -> pl.DataFrame:
        """Run one SELECT over the atlas's tables with the prompt's rows; live_trace, live_position and so on have the prompt's rows alone."""
        return execution.run_select(self.con, query).frame

    def save(self, title: str, author: str | None = None, *, with_trace: bool = False) -> int:
        """Save the prompt, the arms, their predictions and the continuations as an experiment beside the atlas, and return its number.

        Anyone who opens the atlas afterwards finds it: `experiments.before_after(number, 0, 1)`. with_trace: save the states too, some 300 KB a token in a
        small model, for `a.live().kept(number)`. Raises AtlasError if it cannot be written.
        """
        return save_answer(self.path, self.tables, title, author, is_whole=with_trace)

    def leading_tokens(self, index: int, n: int = 10) -> pl.DataFrame:
        """List the n most likely next tokens after a token of the prompt, unchanged (arm 0) and under each arm; at most 10 are known."""
        return fetch(self.con, LEADING, {"index": index, "n": n})

    def compare(self) -> pl.DataFrame:
        """Compare each arm with the base at each token: the likeliest next token of both, the log-probability change of the base's token, KL(base ‖ arm)."""
        return fetch(self.con, COMPARED)
