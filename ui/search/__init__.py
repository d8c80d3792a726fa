"""Parts of the Search page, which finds components, positions and texts."""
