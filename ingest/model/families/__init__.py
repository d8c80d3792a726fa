"""The supported model families: one file each, named by its model_type, whose `FAMILY` is its row of facts."""
