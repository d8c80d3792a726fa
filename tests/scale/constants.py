"""What one unit costs: all that the model does not derive. docs/scale.md says on which machine each was measured.

Seconds are a processor's, but for ASK_SECONDS, so that what else a machine does hardly counts. Bytes are the disk's.
A trigger's costs are means of `--triggers 50`, where two in five bring the coefficients before them.
"""

SHARD_SECONDS = {"shard": 0.00826, "neuron": 1.03e-06, "trigger": 2.78e-07, "position": 6.7e-08}
"""For a worker to make a sweep shard of what it has reduced, and to write it; `trigger` counts rows. [simulate --fit]"""

SHARD_BYTES = {"shard": 0, "neuron": 608, "trigger": 57, "position": 40.6}
"""Of its Parquet files. [simulate --fit]"""

LOAD_SECONDS = {"shard": 0.0353, "neuron": 5.93e-06, "trigger": 3.51e-07, "position": 1.05e-07}
"""For the committer to load it. [simulate --fit]"""

WORK_BYTES = {"file": 5.81e06, "neuron": 1.65e03, "trigger": 15.7, "position": 9.99, "statistics_bytes_of_count": 89.3}
"""Of the committer's file: a neuron's rows from the weights, rows that the shards brought. [simulate --fit]"""

PUBLISH_SECONDS = {"snapshot": 0.319, "neuron": 9.07e-05, "statistics": 4.94e-06, "trigger": 3.45e-07, "position": 1.73e-07}
"""To publish them. [simulate --fit]"""

PUBLISHED_BYTES = {"file": 3.41e06, "neuron": 2.16e03, "neuron_bytes_of_id": 212, "position": 7.87}
"""Of a snapshot, k = 50; ids and counts take more bits in a longer text: log2(positions) / 8 times `neuron_bytes_of_id`. [simulate --fit]"""

CUT_SECONDS = 1.84e-06
"""To tokenise a position and cut the text. [measure]"""

SURVEY_SECONDS = 1.98e-06
"""To do so, count, hash and divide it into shards. [measure]"""

HAND_OVER_SECONDS, HAND_OVER_BYTES = 4.84e-08, 21.6
"""To pickle a position for another process, and how large it is then. [measure]"""

ASK_SECONDS = 0.000464
"""To ask one Ray worker how far it is; every worker is asked whenever a shard comes. [measure]"""

WRITING_BYTES = 118
"""Memory at the peak of making a first shard, beside the reductions themselves, a trigger kept. [measure]"""
