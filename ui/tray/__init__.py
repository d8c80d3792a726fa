"""Items that readers collect: components, positions and tokens in collections, and figures for a paper."""
