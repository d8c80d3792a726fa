"""One prediction, of a corpus or of a live prompt; without either, the traced positions to choose from."""

from ui.prediction import room

room.show()
