"""A live prompt on the Prediction page, with a real tiny model in its process: what the page says agrees with the model asked directly."""

import re
from collections.abc import Iterator

import pytest
import torch
from streamlit.testing.v1 import AppTest

import atlas
from schema.live import socket_path
from tests.live.conftest import PROMPT, World, kept, private_sockets, processes_of, world_in
from tests.ui.conftest import Visit, htmls, text_of
from ui.prediction import live, traces

OFF = "L1N3,L1H0"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """With its model where a process finds it that is started on demand."""
    made = world_in(tmp_path_factory.mktemp("live-page"))
    with private_sockets() as folder:
        kept(made, folder)
        yield made
        for pid in processes_of(made.atlas):
            import os

            os.kill(pid, 9)


def html_of(app: AppTest) -> str:
    return "\n".join(htmls(app))


def press(app: AppTest, label: str) -> AppTest:
    return next(button for button in app.button if button.label == label).click().run(timeout=120)


@pytest.mark.thorough
def test_a_link_starts_no_process_and_run_shows_before_and_after_as_the_model_says(visit: Visit, world: World) -> None:
    app = visit(world.atlas, "prediction", prompt=PROMPT, off=OFF)
    assert "This prompt has not been run" in text_of(app)
    assert not socket_path(world.atlas).exists() and not processes_of(world.atlas)
    app = press(app, "Run")
    assert not app.exception and not app.error, text_of(app)
    a = atlas.open(world.atlas)
    direct = a.live().trace(PROMPT, [["L1N3=0", "L1H0=0"]], apart=-1)
    last = direct.compare().row(-1, named=True)
    change = f"{last['answer_logprob_change']:+.3f}".replace("-", "−")
    assert f"changes by {change} nats, and its rank is {last['answer_rank']:,}" in text_of(app)
    html = html_of(app)
    # the waterfall of each, down to the logit that the model itself gives
    for arm in (0, 1):
        logit = direct.ask("prediction_logits", direct.position_id(-1, arm))["logit"][0]
        shown = f"{logit:.3f}".replace("-", "−")
        assert f"</th><td>{shown}</td><td>{shown}</td>" in html
    a.close()
    # its switches can be taken back and put
    assert re.search(r'aria-label="L1N3 as is">as is</a>', html)
    assert "off=L1H0,L1N3%3Dmax%2A1" in html or "off=L1N3,L1H0,L" in html


def test_switches_of_a_prompt_that_was_run_are_links_that_run(visit: Visit, world: World) -> None:
    app = press(visit(world.atlas, "prediction", prompt=PROMPT), "Run")
    assert next(h.value for h in app.header) == "Who made it?"
    app.query_params["off"] = "L1N5"
    app.run(timeout=120)
    assert next(h.value for h in app.header) == "What does switching change?"
    app.query_params["off"] = "L1N9999"
    app.run(timeout=120)
    assert "no neuron 9999" in text_of(app) or "9999" in text_of(app)
    assert not app.exception


@pytest.mark.thorough
def test_figures_of_two_prompts_are_two_and_each_says_of_which_it_is(visit: Visit, world: World) -> None:
    app = press(visit(world.atlas, "prediction", prompt=PROMPT), "Run")
    app.button(key="arm0-who-to-figure").click().run(timeout=120)
    app.query_params["prompt"] = f"{PROMPT} and"
    app = press(app.run(timeout=120), "Run")
    app.button(key="arm0-who-to-figure").click().run(timeout=120)
    told = [str(kept.drawing.provenance["sql"]) for kept in app.session_state["tray"]]
    assert [f"a.live().trace({prompt!r}," in sql for prompt, sql in zip((PROMPT, f"{PROMPT} and"), told, strict=True)] == [True, True]


def test_a_layer_a_head_and_another_token_are_opened(visit: Visit, world: World) -> None:
    app = press(visit(world.atlas, "prediction", prompt=PROMPT, index="3", open="L1", head="L1H0"), "Run")
    assert not app.exception and not app.error, text_of(app)
    assert [h.value for h in app.header][:2] == ["Where does L1H0 look from here?", "What does layer 1 do here?"]
    with atlas.open(world.atlas) as a:
        direct = a.live().trace(PROMPT, apart=3)
        first = direct.ask("attention_sources", direct.position_id(3), 1, 0).row(0, named=True)
    assert f"{first['moved_share']:.0%}, at a weight of {first['weight']:.2f}" in text_of(app)


def test_each_token_of_a_prompt_has_its_surprisal_as_is_and_switched(visit: Visit, world: World) -> None:
    app = press(visit(world.atlas, "prediction", prompt=PROMPT, off="L1N3"), "Run")
    with atlas.open(world.atlas) as a:
        # the corpus is the prompt
        ids = torch.tensor([a.sql("SELECT token_id FROM position ORDER BY position_id")["token_id"].to_list()])
        with torch.no_grad():
            logprobs = world.tiny.hf(ids).logits[0, :-1].log_softmax(-1)
        own = (-logprobs[torch.arange(ids.shape[1] - 1), ids[0, 1:]]).tolist()
        switched = a.live().trace(PROMPT, [["L1N3=0"]], apart=-1).positions.filter(arm_id=1)["surprisal"].drop_nulls().to_list()
    shaded = [html for html in htmls(app) if "<sup>" in html and "%</sup>" not in html and 'class="passage"' in html][-2:]
    for html, expected in zip(shaded, (own, switched), strict=True):
        assert re.findall(r"<sup>([\d.]+)</sup>", html) == [f"{nats:.1f}" for nats in expected]
    assert f"{sum(own) / len(own):.2f} nats on average" in text_of(app)


@pytest.mark.thorough
def test_few_runs_are_kept_and_of_each_the_states_of_one_token(visit: Visit, world: World) -> None:
    for index in range(traces.MOST_KEPT + 1):
        press(visit(world.atlas, "prediction", prompt=PROMPT, index=str(index)), "Run")
    runs = traces.run_cache().runs
    assert [key.index for key in runs] == list(range(1, traces.MOST_KEPT + 1))
    (states,) = next(iter(runs.values())).trace.sql("SELECT count(DISTINCT position_id) AS n FROM live_residual_state")["n"]
    assert states == 1


def test_where_no_model_can_be_run_the_page_says_how_to_get_it(visit: Visit, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "find_spec", lambda name: None)
    app = visit(world.atlas, "prediction", prompt="Another prompt")
    assert "what runs it is not installed" in text_of(app)
    assert "pip install 'activation-atlas[ingest]'" in text_of(app)
    assert "Run" not in [button.label for button in app.button]


def test_a_run_ends_after_the_time_that_a_visitor_waits_and_waits_for_run_again(visit: Visit, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "PATIENCE", -1.0)
    app = press(visit(world.atlas, "prediction", prompt=PROMPT, index="4"), "Run")
    assert "this took longer than -1 seconds, and was ended" in text_of(app)
    monkeypatch.undo()
    monkeypatch.setenv("ATLAS_DB", str(world.atlas))
    # drawn anew it does not run by itself
    assert "was ended" in text_of(app.run())
    assert [h.value for h in press(app, "Run").header][:1] == ["Who made it?"]


def test_what_the_model_process_says_is_told_as_text() -> None:
    assert live.describe_progress({"waiting": 3}) == "Waiting in line: 3 prompts before this one."
    assert live.describe_progress({"stage": "forward pass", "share": 0.5}) == "forward pass"
    assert live.describe_progress({"stage": "$x$ [a](b)"}) == "x (a](b)"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"prompt": "x", "off": "L1X2"}, "is no intervention"),
        ({"prompt": "x" * 601}, "these pages take 600"),
        ({"prompt": "x", "position": "8"}, "a position and for a prompt"),
    ],
)
def test_what_may_not_be_asked_is_said_before_anything_runs(visit: Visit, tiny, query: dict[str, str], said: str) -> None:
    app = visit(tiny, "prediction", **query)
    assert said in text_of(app)
    assert not app.exception
