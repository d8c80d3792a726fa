"""A prediction as HTML, each part against rows worked out by hand."""

import re

from ui.prediction import lens
from ui.tokens import shade

NASTY = "<script>alert(1)</script>"


def to(layer: int) -> str:
    return f"x?open=L{layer}"


def site(layer: int, site: str, top_token: str, top_prob: float, final_token_rank: int) -> dict[str, object]:
    return {"layer": layer, "site": site, "top_token": top_token, "top_prob": top_prob, "final_token_rank": final_token_rank}


def test_a_cell_has_the_token_its_probability_as_shade_and_number_and_the_sign_of_its_event() -> None:
    assert lens.cell(site(0, "resid_mid", " cat", 0.5, 3), "▼", "x?a=1&open=L0") == (
        f'<td style="background:{shade(0.5, 1.0)}"><a tabindex="-1" href="x?a=1&amp;open=L0"><span class="prob">50%</span>▼ <bdi>␣cat</bdi></a></td>'
    )
    assert lens.cell(site(0, "resid_post", "cat ", 0.0, 1), "", "x") == (
        f'<td class="final" style="background:{shade(0.0, 1.0)}"><a tabindex="-1" href="x"><span class="prob">&lt;1%</span><bdi>cat␣</bdi>'
        '<span class="unseen"> (the final prediction) </span></a></td>'
    )


def test_the_grid_has_a_line_for_each_layer_and_the_sites_in_the_order_of_the_forward_pass() -> None:
    rows = [site(layer, name, f"{layer}{name}", 0.5, 2) for layer in (1, 0) for name in ("resid_post", "resid_mid", "resid_pre", "ffn_out", "attn_out")]
    html = lens.grid(rows, {}, to)
    assert re.findall(r"<bdi>(\w+)</bdi>", html) == [f"{i}{s}" for i in (0, 1) for s in ("resid_pre", "attn_out", "resid_mid", "ffn_out", "resid_post")]
    assert re.findall(r'<th scope="row"><a href="x\?open=L\d">L(\d)</a></th>', html) == ["0", "1"]
    assert "▲" not in html and "▼" not in html and "▽" not in html


def test_signs_stand_beside_the_token_that_the_event_is_of() -> None:
    events = [
        {"layer": 1, "event": "elimination", "is_counted": True},
        {"layer": 1, "event": "saturation", "is_counted": True},
        {"layer": 2, "event": "elimination", "is_counted": False},
    ]
    signs = lens.marks(events)
    assert signs == {(1, "resid_mid"): "▼", (1, "resid_post"): "▲", (2, "resid_mid"): "▽"}
    legend = lens.grid([site(0, "resid_mid", "a", 0.5, 2)], signs, to)
    assert all(f"{sign} {meaning}" in legend for sign, meaning in [("▲", "saturation"), ("▼", "elimination"), ("▽", "another elimination")])


def test_a_token_is_text_and_never_stands_in_an_attribute() -> None:
    around = [{"token": NASTY, "is_asked": True, "is_traced": True}]
    last = {"final_token": NASTY, "final_token_prob": 0.5, "next_token": NASTY, "next_token_prob": 0.25, "next_token_rank": 2}
    mid = {"top_token": NASTY, "final_token": NASTY, "next_token": NASTY}
    shaded = lens.shade_tokens([{**around[0], "nats": 2.0}], "nats", 4.0, lambda x: NASTY)
    parts = [shaded, lens.passage(around), lens.outcome(last, [NASTY]), lens.list_scored_tokens(mid), lens.grid([site(0, "resid_pre", NASTY, 0.5, 1)], {}, to)]
    for html in parts:
        assert "<script>" not in html
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert not any(re.search(r'="[^"]*(script|alert)', html) for html in parts)


def test_the_passage_frames_the_position_underlines_traced_ones_and_greys_what_was_not_read() -> None:
    rows = [
        {"token": "The", "is_asked": False, "is_traced": True},
        {"token": " cat", "is_asked": True, "is_traced": True},
        {"token": "\n", "is_asked": False, "is_traced": False},
        {"token": " sat", "is_asked": False, "is_traced": True},
    ]
    assert re.findall(r'<bdi class="([a-z ]*)">(.*?)</bdi>', lens.passage(rows)) == [
        ("traced", "The"),
        ("asked", " cat"),
        ("unread", "↵"),
        ("traced unread", " sat"),
    ]


def test_the_outcome_names_both_tokens_with_probability_and_rank_or_says_that_the_document_ends() -> None:
    last = {"final_token": " sat", "final_token_prob": 0.75, "next_token": ".", "next_token_prob": 0.0625, "next_token_rank": 1200}
    said = re.sub(r"<[^>]+>", "", lens.outcome(last, ["first.txt", "year 1790"]))
    assert said == "The model predicts ␣sat with probability 0.75. The corpus goes on with ., probability 0.0625 and rank 1,200.first.txt · year 1790"
    assert "The document ends here." in lens.outcome({**last, "next_token": None}, [])


def test_tokens_are_shaded_with_their_number_each_in_a_direction_of_its_own() -> None:
    rows = [{"token": "שלום", "nats": None, "is_asked": False}, {"token": " a", "nats": 2.0, "is_asked": True}]
    html = lens.shade_tokens(rows, "nats", 4.0, lambda x: f"{x:.1f}", lambda row: "x" if row["is_asked"] else None)
    asked = f'<a href="x"><bdi class="asked" style="background:{shade(2.0, 4.0)}"> a</bdi></a><sup>2.0</sup>'
    assert f'<bdi class="">שלום</bdi>{asked}<span class="unseen"> (the position asked for) </span>' in html


def trace_of(*ranks: int) -> list[dict[str, object]]:
    """Ranks of the final token after each layer."""
    return [site(layer, name, "a", 0.5, rank) for layer, rank in enumerate(ranks) for name in ("resid_mid", "resid_post")]


def test_the_sentence_says_from_which_layer_the_final_token_leads() -> None:
    assert lens.sentence([{"layer": 1, "event": "elimination"}], trace_of(1, 3, 1, 1)) == (
        "The final token leads after layer 2 and every later one. FFNs take a candidate down in layer 1."
    )
    # there is none later than the last, and none before the first
    assert lens.sentence([], trace_of(1, 3, 1)) == "The final token leads after layer 2, the last."
    assert lens.sentence([], trace_of(1, 1)) == "The final token leads after every layer."
    assert lens.sentence([], trace_of(1, 3)) == "The final token does not lead after the last block."
    assert lens.sentence([], trace_of(2, 3)) == "The final token never leads after a block."


def test_cells_that_begin_with_a_number_are_set_as_numbers() -> None:
    html = lens.table(["Neuron", "Adds"], [["<a>L1N2</a>", "−0.5"], ["5 others", "12%"]], "<b>")
    assert '<td><a>L1N2</a></td><td class="number">−0.5</td>' in html
    assert '<td>5 others</td><td class="number">12%</td>' in html
    assert "<caption>&lt;b&gt;</caption>" in html
