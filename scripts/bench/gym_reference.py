#!/usr/bin/env python3
"""Short trajectories of Gymnasium's classic control tasks, an independent reference for envs/*.h.

    pip install gymnasium==1.4.0
    scripts/bench/gym_reference.py            compares with tests/golden/classic_control.csv
    scripts/bench/gym_reference.py --write    writes that file anew

A row is one step: environment, trajectory, step, action, the state before it, reward, terminated,
the state after it. Numbers have 17 digits, so they are exact. Start states and actions come from
numpy's generator with a fixed seed; the states are put into the environments directly.
"""

import argparse
import csv
import pathlib
import sys

import gymnasium
import numpy

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "classic_control.csv"
STEPS = 40
TRAJECTORIES = 3
TOLERANCE = 1e-12  # Gymnasium follows the C library's sine and cosine, which differ in last bits

# Name here, Gymnasium's name, bounds of a start state: also far from the usual starts, so that
# falls, walls, goals, clipped speeds and wrapped angles occur.
TASKS = [
    ("cartpole", "CartPole-v1", [2.0, 1.0, 0.15, 1.0]),
    ("acrobot", "Acrobot-v1", [3.0, 3.0, 10.0, 20.0]),
    ("mountain_car", "MountainCar-v0", [0.5, 0.07]),
]


def rows():
    random = numpy.random.default_rng(1)
    for name, task, bound in TASKS:
        env = gymnasium.make(task).unwrapped
        for trajectory in range(TRAJECTORIES):
            env.reset(seed=trajectory)
            start = random.uniform(-1.0, 1.0, len(bound)) * numpy.array(bound)
            if name == "mountain_car":
                start[0] -= 0.4 * trajectory
                start[0] = max(start[0], -1.2)
            env.state = numpy.array(start, dtype=numpy.float64)
            for step in range(STEPS):
                before = [float(x) for x in env.state]
                action = int(random.integers(env.action_space.n))
                _, reward, terminated, _, _ = env.step(action)
                after = [float(x) for x in env.state]
                yield [name, trajectory, step, action, *before, float(reward), int(terminated), *after]
                if terminated:
                    break
        env.close()


def text(value):
    return repr(value) if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the golden file")
    if parser.parse_args().write:
        with open(GOLDEN, "w", newline="") as file:
            file.write(f"# scripts/bench/gym_reference.py --write, Gymnasium {gymnasium.__version__}\n")
            csv.writer(file, lineterminator="\n").writerows([map(text, row) for row in rows()])
        return 0
    with open(GOLDEN, newline="") as file:
        golden = list(csv.reader(line for line in file if not line.startswith("#")))
    fresh = [[text(value) for value in row] for row in rows()]
    if len(golden) != len(fresh):
        print(f"{GOLDEN.name} has {len(golden)} rows, Gymnasium gives {len(fresh)}")
        return 1
    worst = 0.0
    for want, got in zip(golden, fresh):
        if want[:4] != got[:4]:
            print("rows differ:", want, got)
            return 1
        for a, b in zip(want[4:], got[4:]):
            worst = max(worst, abs(float(a) - float(b)) / max(1.0, abs(float(b))))
    print(f"{len(golden)} steps, worst difference {worst:.3g}, limit {TOLERANCE:g}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
