"""The scripts for clusters are run with stand-ins, and what they ask of Steepest is understood."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from steepest.cli.main import make_parser

FOLDER = Path(__file__).parents[2] / "examples" / "cluster"
SKY = yaml.safe_load((FOLDER / "skypilot.yaml").read_text())
KUBE = yaml.safe_load((FOLDER / "kuberay.yaml").read_text())
SLURM = (FOLDER / "slurm.sh").read_text()
SCRIPTS = {"slurm": SLURM, "skypilot": SKY["run"], "kuberay": KUBE["spec"]["entrypoint"]}
HOSTS = {"slurm": "node1:6379", "skypilot": "10.0.0.1:6379", "kuberay": "auto"}

STAND_IN = """#!{python} -S
import json, os, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps([name, *words]) + "\\n")
if name == "scontrol":
    print("node1\\nnode2\\nnode3\\nnode4")
if name == "srun":
    options = {{"-N", "-n", "-w", "-x"}}
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in options else 1:]
    os.execvp(words[0], words)
"""


def run_script(text, folder, **environment):
    """Run a script whose commands are stand-ins; return what they were called with."""
    log = folder / "log"
    for name in ("srun", "scontrol", "ray", "sleep", "steepest"):
        path = folder / name
        path.write_text(STAND_IN.format(python=sys.executable, log=str(log)))
        path.chmod(0o755)
    place = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}
    given = {
        "SLURM_JOB_NODELIST": "node[1-4]",
        "SLURM_JOB_NUM_NODES": "4",
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
        "SKYPILOT_NODE_RANK": "0",
    }
    done = subprocess.run(
        ["bash", "-u", "-c", f"{text}\nwait"],
        env={**place, **given, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_asks_steepest_for_what_it_understands(name, tmp_path):
    calls = run_script(SCRIPTS[name], tmp_path)
    (asked,) = [words for words in calls if words[0] == "steepest"]
    parser, _ = make_parser("select")
    found = parser.parse_args(asked[1:])
    assert found.engine == "ray"
    assert found.address == HOSTS[name]
    # What is written or read by all machines is where all of them see it.
    for path in (found.place, found.weights, found.parts, found.out):
        assert path.is_relative_to("/shared")


def test_slurm_starts_ray_once_on_each_node(tmp_path):
    calls = run_script(SLURM, tmp_path)
    started = [words for words in calls if words[:2] == ["srun", "--overlap"] and "ray" in words]
    assert started[0][2:4] == ["-N", "1"]
    assert started[1][2:8] == ["-N", "3", "-n", "3", "-x", "node1"]
    assert "--address=node1:6379" in started[1]


def test_one_node_of_slurm_waits_for_no_others(tmp_path):
    calls = run_script(SLURM, tmp_path, SLURM_JOB_NUM_NODES="1")
    assert not [words for words in calls if "--address=node1:6379" in words]


def test_other_nodes_of_skypilot_join_the_first(tmp_path):
    calls = run_script(SKY["run"], tmp_path, SKYPILOT_NODE_RANK="1")
    assert ["ray", "start", "--address=10.0.0.1:6379", "--block"] in calls
    assert not [words for words in calls if words[0] == "steepest"]


def test_skypilot_s_task_has_its_fields():
    assert SKY.keys() == {"num_nodes", "resources", "file_mounts", "setup", "run"}
    assert SKY["resources"].keys() == {"accelerators", "use_spot"}
    assert SKY["file_mounts"]["/shared"].keys() == {"source", "mode"}


def test_kuberay_s_job_has_its_fields():
    assert (KUBE["apiVersion"], KUBE["kind"]) == ("ray.io/v1", "RayJob")
    spec = KUBE["spec"]
    assert spec.keys() == {"entrypoint", "shutdownAfterJobFinishes", "rayClusterSpec"}
    head = spec["rayClusterSpec"]["headGroupSpec"]
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert head.keys() == {"rayStartParams", "template"}
    assert workers.keys() == head.keys() | {"groupName", "replicas", "minReplicas", "maxReplicas"}
    images = set()
    for group in (head, workers):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        images.add(container["image"])
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert len(images) == 1


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
@pytest.mark.parametrize("name", ["slurm", "skypilot"])
def test_shellcheck_finds_nothing(name):
    done = subprocess.run(
        ["shellcheck", "--shell=bash", "-"],
        input=SCRIPTS[name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
