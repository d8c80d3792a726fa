"""Parts of the Search room, which finds components, positions and texts."""
