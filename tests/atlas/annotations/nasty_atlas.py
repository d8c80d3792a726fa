"""The tiny atlas with a third corpus of what spreadsheets spoil: formulas, quotes, commas, tabs, line breaks, CJK, emoji, numbers.

corpus 2   =1+1| "q",|\\t|漢|🙂|\\n|*x|007        positions 200-207, which trigger key L0N0 at ranks 1-8
value L0N0 promotes the same eight texts as tokens 20-27, ranks 1-8
"""

from itertools import accumulate
from pathlib import Path

from schema.open import store
from tests.atlas.tiny_atlas import write_tiny_atlas

TEXTS = ["=1+1", ' "q",', "\t", "漢", "🙂", "\n", "*x", "007"]


def write_nasty_atlas(path: Path) -> Path:
    write_tiny_atlas(path)
    ends = list(accumulate(len(text) for text in TEXTS))
    con = store.open_writer(path)
    con.execute("BEGIN")
    con.execute("""INSERT INTO corpus VALUES (2, 'nasty', 'all', '{"context": 8}', NULL, 'cc', 1, 8)""")
    con.execute("""INSERT INTO document VALUES (200, 2, '=1+1.txt', '{"kind": "-nasty"}', ?)""", ["".join(TEXTS)])
    con.execute("INSERT INTO sequence VALUES (200, 200, 200, 8)")
    con.execute("DELETE FROM value_token WHERE layer = 0 AND neuron = 0 AND direction = 'promoted'")
    for i, text in enumerate(TEXTS):
        following = 21 + i if i < 7 else None
        con.execute("INSERT INTO token VALUES (?, ?, ?, FALSE, FALSE, FALSE, FALSE)", [20 + i, text, text.encode()])
        con.execute("INSERT INTO position VALUES (?, 200, ?, ?, ?, ?, ?)", [200 + i, i, 20 + i, following, ends[i] - len(text), ends[i]])
        con.execute("INSERT INTO trigger VALUES (2, 0, 0, 'max', ?, ?, ?, ?, 0.0, NULL)", [i + 1, 200 + i, 9.0 - i, [0] * i])
        con.execute("INSERT INTO value_token VALUES (0, 0, 'promoted', ?, ?, ?, 0.1)", [i + 1, 20 + i, 9.0 - i])
    con.execute("COMMIT")
    con.execute("CHECKPOINT")
    con.close()
    return path
