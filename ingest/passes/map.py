"""Values, and states of traced positions, placed in two dimensions; one run of one shard per layout."""

from ingest.passes.base import PlannedPass, flag


class Map(PlannedPass):
    name = "map"
    after = ("weights", "trace")
    reads = ("value_neighbour", "trace", "residual_state")
    options = (flag("map", "Place the values, and the traced states, in two dimensions for the map."),)
    work = "ingest.recorders.map_points:Map"


PASS = Map()
