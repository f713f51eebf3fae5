#!/bin/bash
# Choose on all GPUs of a Slurm allocation: sbatch examples/cluster/slurm.sh
# Set the sizes, the paths and the model. The same command goes on after any end of the job.
#SBATCH --nodes=4 --ntasks-per-node=1 --gpus-per-node=8 --cpus-per-task=64 --time=08:00:00
set -euo pipefail

# Whoever reaches a Ray cluster runs code on it: only those with this token get in.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$HOME/.ray/auth_token"
ray get-auth-token --generate > /dev/null

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
others=$((SLURM_JOB_NUM_NODES - 1))
srun --overlap -N 1 -n 1 -w "$head" ray start --head --port=6379 --block &
sleep 30
if [ "$others" -gt 0 ]; then
  srun --overlap -N "$others" -n "$others" -x "$head" ray start --address="$head:6379" --block &
  sleep 30
fi

srun --overlap -N 1 -n 1 -w "$head" steepest select /shared/pool.npy -k 10000 \
  --model mymodel:net --weights /shared/model.pt --device cuda \
  --engine ray --address "$head:6379" --parts /shared/parts --out /shared/picks.csv
