"""What one unit costs: all that the model does not derive. docs/scale.md says on which machine each was measured.

Seconds are a processor's, but for ASK_SECONDS, so that what else a machine does hardly counts. Bytes are the disk's.
A trigger's costs are means of `--triggers 50`, where two in five bring the coefficients before them.
"""

SHARD_SECONDS = {"shard": 0.00762, "neuron": 1.97e-06, "trigger": 2.55e-07, "position": 7.01e-08}
"""For a worker to make a sweep shard of what it has reduced, and to write it; `trigger` counts rows. [simulate --fit]"""

SHARD_BYTES = {"shard": 4.22e03, "neuron": 606, "trigger": 57.1, "position": 40.6}
"""Of its Parquet files. [simulate --fit]"""

LOAD_SECONDS = {"shard": 0.0245, "neuron": 2.33e-06, "trigger": 4.58e-07, "position": 1.91e-07}
"""For the committer to load it. [simulate --fit]"""

WORK_BYTES = {"file": 5.39e06, "neuron": 1.8e03, "trigger": 15.5, "position": 10.2, "statistics_bytes_of_count": 92.1}
"""Of the committer's file: a neuron's rows from the weights, rows that the shards brought. [simulate --fit]"""

PUBLISH_SECONDS = {"snapshot": 0.635, "neuron": 0.000114, "statistics": 4.33e-06, "trigger": 3.85e-07, "position": 2.01e-07}
"""To publish them. [simulate --fit]"""

PUBLISHED_BYTES = {"file": 3.44e06, "neuron": 2.13e03, "neuron_bytes_of_id": 224, "position": 7.86}
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
