"""The model in a process of its own, which receives prompts and returns tables with the columns of the atlas."""
