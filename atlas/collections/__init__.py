"""Collections: named sets of neurons, heads, positions and tokens that people put together, in a file beside the atlas.

members.py says what can be one and what the atlas shows of it, keeping.py changes the file, rules.py says what its rows keep, filtering.py narrows a
statement to what is in one, bounds.py says how much is read of a file that was sent.
"""
