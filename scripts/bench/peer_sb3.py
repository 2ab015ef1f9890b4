#!/usr/bin/env python3
"""Times Stable-Baselines3's DQN beside dqn-bench on this machine, turn by turn.

    python3 -m venv venv && venv/bin/pip install stable-baselines3
    venv/bin/python scripts/bench/peer_sb3.py build/release/dqn-bench

Two cases: the reference step (51 inputs, 256-256 ReLU, 45 actions, batch 256, 100,000 rows) and a
small one (64-64, batch 32). Stable-Baselines3 draws uniformly (no prioritized replay) and is not
double DQN; dqn-bench runs with both, and once more without. Each figure is the median of the
rounds, each ratio the median of the rounds' ratios.
"""
import json
import statistics
import subprocess
import sys
import time

import gymnasium
import numpy
import stable_baselines3
import torch
from stable_baselines3.common.logger import configure

OBSERVATIONS, ACTIONS, ROWS, ROUNDS = 51, 45, 100_000, 5


class Nothing(gymnasium.Env):
    """Spaces of the reference step; never stepped."""

    observation_space = gymnasium.spaces.Box(-1, 1, (OBSERVATIONS,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(ACTIONS)

    def reset(self, seed=None, options=None):
        return numpy.zeros(OBSERVATIONS, numpy.float32), {}

    def step(self, action):
        return numpy.zeros(OBSERVATIONS, numpy.float32), 0.0, False, False, {}


def make_peer(hidden, batch):
    model = stable_baselines3.DQN(
        "MlpPolicy", Nothing(), buffer_size=ROWS, batch_size=batch, tau=0.005,
        target_update_interval=1, max_grad_norm=10, policy_kwargs={"net_arch": hidden},
        device="cpu", seed=1)
    model.set_logger(configure(None, []))
    generator = numpy.random.default_rng(1)
    buffer = model.replay_buffer
    buffer.observations[:] = generator.uniform(-1, 1, buffer.observations.shape)
    buffer.next_observations[:] = generator.uniform(-1, 1, buffer.next_observations.shape)
    buffer.actions[:] = generator.integers(0, ACTIONS, buffer.actions.shape)
    buffer.rewards[:] = generator.uniform(-0.5, 0.5, buffer.rewards.shape)
    buffer.dones[:] = generator.random(buffer.dones.shape) < 0.01
    buffer.full = True
    model._n_updates = 0
    model.num_timesteps = 1
    model._n_calls = 1
    return model


def time_peer(model, batch, seconds=1.0):
    """Updates a second: gradient step and the soft target update that belongs to it."""
    from stable_baselines3.common.utils import polyak_update

    def step():
        model.train(gradient_steps=1, batch_size=batch)
        polyak_update(model.q_net.parameters(), model.q_net_target.parameters(), model.tau)

    for _ in range(20):
        step()
    begun, n = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        step()
        n += 1
    return n / (time.perf_counter() - begun)


def time_ours(program, hidden, batch, threads, plain):
    command = [program, "step", "--json", "--set", "device=cpu", "--set", f"threads={threads}",
               "--set", f"replay.capacity={ROWS}", "--set", f"learner.batch={batch}",
               "--set", "net.hidden=" + ",".join(map(str, hidden)), "--set", "learner.target=soft"]
    if plain:
        command += ["--set", "replay.kind=uniform", "--set", "learner.double=false"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout)["per_s"]


def main():
    program = sys.argv[1]
    threads = torch.get_num_threads()
    print(f"Stable-Baselines3 {stable_baselines3.__version__}, torch {torch.__version__}, "
          f"{threads} threads; {ROUNDS} rounds")
    print(f"{'case':28} {'SB3/s':>8} {'ours/s':>8} {'ratio':>6} {'plain/s':>8} {'ratio':>6}")
    for name, hidden, batch in (("reference, batch 256", [256, 256], 256),
                                ("64-64, batch 32", [64, 64], 32)):
        model = make_peer(hidden, batch)
        rows = []
        for _ in range(ROUNDS):
            peer = time_peer(model, batch)
            ours = time_ours(program, hidden, batch, threads, plain=False)
            plain = time_ours(program, hidden, batch, threads, plain=True)
            rows.append((peer, ours, ours / peer, plain, plain / peer))
        middle = [statistics.median(column) for column in zip(*rows)]
        print(f"{name:28} {middle[0]:8.0f} {middle[1]:8.0f} {middle[2]:6.2f} {middle[3]:8.0f} "
              f"{middle[4]:6.2f}")


if __name__ == "__main__":
    main()
