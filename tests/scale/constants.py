"""What one unit costs: all that the model does not derive. docs/scale.md says on which machine each was measured.

Seconds are of a clock on the wall, bytes as on the disk; a trigger's costs are means of `--triggers 50`, where two in five bring the coefficients before them.
"""

SHARD_SECONDS = {"shard": 0.05, "neuron": 1e-5, "trigger": 1e-6, "position": 1e-6}
"""For a worker to make a sweep shard of what it has reduced, and to write it; `trigger` counts rows. [simulate --fit]"""

SHARD_BYTES = {"shard": 1e4, "neuron": 600.0, "trigger": 60.0, "position": 45.0}
"""Of its Parquet files. [simulate --fit]"""

LOAD_SECONDS = {"shard": 0.05, "neuron": 1e-6, "trigger": 1e-6, "position": 1e-6}
"""For the committer to load it. [simulate --fit]"""

WORK_BYTES = {"file": 1e6, "neuron": 800.0, "statistics": 100.0, "trigger": 20.0, "position": 15.0}
"""Of the committer's file: a neuron's rows from the weights, rows that the shards brought. [simulate --fit]"""

PUBLISH_SECONDS = {"snapshot": 1.0, "neuron": 1e-4, "statistics": 1e-5, "trigger": 1e-6, "position": 1e-6}
"""To publish them. [simulate --fit]"""

PUBLISHED_BYTES = {"file": 1e6, "neuron": 2000.0, "neuron_bytes_of_id": 150.0, "position": 12.0}
"""Of a snapshot, k = 50; ids and counts take more bits in a longer text: log2(positions) / 8 times `neuron_bytes_of_id`. [simulate --fit]"""

CUT_SECONDS = 3e-6
"""To tokenise a position and cut the text. [measure]"""

SURVEY_SECONDS = 4e-6
"""To do so, count, hash and divide it into shards. [measure]"""

HAND_OVER_SECONDS, HAND_OVER_BYTES = 1e-7, 25.0
"""To pickle a position for another process, and how large it is then. [measure]"""

ASK_SECONDS = 2e-4
"""To ask one Ray worker how far it is; every worker is asked whenever a shard comes. [measure]"""

WRITING_BYTES = 100.0
"""Memory at the peak of making a first shard, beside the reductions themselves, a trigger kept. [measure]"""
