"""A language model as the atlas sees it: families, weights, sites of a forward pass, devices."""
