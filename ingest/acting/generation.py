"""Generation under arms: the base and all arms are rows of one batch, and each token is read once, with a key-value cache."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ingest.acting.acting import apply_arms
from ingest.acting.decoding import Adjust, Decoding, Generated, OnToken, continue_rows
from ingest.acting.edits import AssignedArm
from ingest.acting.rows import resolved_rows
from ingest.model.hooks import output_state, register_hooks
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm


def generate(
    model: Model,
    prompts: Mapping[int, Tensor],
    prompt_id: int,
    arms: Sequence[Arm],
    n_new: int,
    vectors: Mapping[str, Tensor],
    *,
    decoding: Decoding,
    seed: int,
    is_exact: bool,
    on_token: OnToken,
) -> list[Generated]:
    """Continue the prompt `prompt_id` in one row without an arm (row 0) and in one row under each resolved arm. prompts: as in `effect`.

    All rows have the same seed. As long as an arm has changed nothing, its row gets the same tokens as row 0. Arms may name positions after the prompt, up to
    the second-last new token: the model never reads the last new token.
    """
    require_room(model, len(prompts[prompt_id]), n_new)
    assigned = resolved_rows(model, prompts, prompt_id, arms, vectors, n_more=n_new - 1)
    rows = prompts[prompt_id].expand(1 + len(arms), -1)
    with apply_arms(model, assigned) as acted, torch.inference_mode():
        read = Reader(model, rows)

        def next_logits(new: Tensor | None) -> Tensor:
            logits = read(new)
            for row in set(range(1, len(rows))) - acted.changed:
                # equal rows may differ by rounding
                logits[row] = logits[0]
            return logits

        return continue_rows(next_logits, rows, n_new, decoding, [seed] * len(rows), eos_ids(model), is_exact, {}, on_token)


def continue_under_arms(
    model: Model,
    token_ids: Tensor,
    n_new: int,
    assigned: Sequence[AssignedArm],
    *,
    decoding: Decoding,
    seeds: Sequence[int | None],
    is_exact: bool,
    adjust: Mapping[int, Adjust],
    on_token: OnToken,
) -> list[Generated]:
    """Continue rows of equal length, [rows, seq], under the arms assigned to them; the other parameters are as in `continue_rows`.

    Raises AtlasError for a text longer than the model's context, and if an arm asks for something that does not exist.
    """
    require_room(model, token_ids.shape[1], n_new)
    with apply_arms(model, assigned), torch.inference_mode():
        return continue_rows(Reader(model, token_ids), token_ids, n_new, decoding, seeds, eos_ids(model), is_exact, adjust, on_token)


def require_room(model: Model, n_prompt: int, n_new: int) -> None:
    """Raise AtlasError if the prompt is empty, no new token is asked for, or prompt and new tokens together exceed the model's context."""
    if n_prompt < 1 or n_new < 1:
        raise AtlasError(f"{n_new} new tokens after a prompt of {n_prompt} were asked for; give at least 1 of each")
    if model.max_context is not None and n_prompt + n_new > model.max_context:
        raise AtlasError(f"model {model.name}: {n_new} new tokens after a prompt of {n_prompt} are more than its context of {model.max_context}")


def eos_ids(model: Model) -> frozenset[int]:
    """Collect the ids of the EOS tokens of the model and its tokenizer; there may be none, one or several."""
    known = getattr(model.hf.generation_config, "eos_token_id", None)
    found = {model.tokenizer.eos_token_id, *(known if isinstance(known, list) else [known])}
    return frozenset(token_id for token_id in found if token_id is not None and 0 <= token_id < model.d_vocab)


class Reader:
    """A callable of type `Next`: the first call reads sequences of equal length, [rows, seq]; each later call reads one more token per row, with a cache."""

    def __init__(self, model: Model, token_ids: Tensor) -> None:
        self.model, self.token_ids = model, token_ids
        self.cache: Any = None

    def __call__(self, new: Tensor | None) -> Tensor:
        model, last = self.model, list[Tensor]()

        def keep(_module: nn.Module, _args: object, output: Any) -> None:
            last.append(output_state(output)[:, -1])

        tokens = (self.token_ids if new is None else new[:, None]).to(model.input_device)
        with register_hooks(model, [], [(model.layer_path(model.n_layers - 1), keep)], lambda *_: None):
            self.cache = model.backbone_module(input_ids=tokens, past_key_values=self.cache, use_cache=True).past_key_values
        return model.lens(last[0].to(model.device))
