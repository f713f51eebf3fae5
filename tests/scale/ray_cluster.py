"""A Ray cluster of two nodes on this machine, for the tests of one process."""

from __future__ import annotations

import contextlib
import os
import warnings

NODE = {"num_cpus": 2, "object_store_memory": 100_000_000}


@contextlib.contextmanager
def ray_cluster():
    """Yield a cluster that this process is connected to."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of packages that Ray would use if they were there.
        import ray
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        made.add_node(**NODE)
        ray.init(made.address, log_to_driver=False, logging_level="ERROR")
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
