"""Find neurons: by a token, by words in the texts that trigger them, by their numbers."""

from ui import data, frame, search

frame.title("Find neurons")
data.model()
search.search()
