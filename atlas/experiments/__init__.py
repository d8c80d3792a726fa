"""The former name of atlas.beside.experiments, for this version."""
