"""Parts of the room where components, positions and texts are found."""
