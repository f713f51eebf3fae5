"""A configuration that runs in a second or two."""

from __future__ import annotations

from steepest.core.tables import from_table
from steepest.experiment.config import Config

TOML = """
name = "tiny"
seed = 3
device = "cpu"

[data]
name = "digits"

[model]
name = "small-cnn"

[strategy]
name = "entropy-gradnorm"

[loop]
initial = 30
k = 10
cycles = 3
subset = 60

[training]
epochs = 3
batch_size = 16
optimizer = "adam"
lr = 0.005
schedule = "constant"
"""


def config(**changes) -> Config:
    import tomllib

    table = tomllib.loads(TOML)
    for key, value in changes.items():
        *path, last = key.split("__")
        place = table
        for name in path:
            place = place.setdefault(name, {})
        place[last] = value
    return from_table(Config, table)


def essence(records):
    """What must not depend on how a run was interrupted: all but time, memory and machine."""
    skip = {"training", "scoring", "auxiliary", "environment"}
    return [{k: v for k, v in record.to_table().items() if k not in skip} for record in records]
