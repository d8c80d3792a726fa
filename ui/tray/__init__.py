"""Items that readers put aside: collections of components, positions and tokens, and figures for a paper."""
