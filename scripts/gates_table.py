#!/usr/bin/env python3
"""Prints the table of the learning gates from the results of scripts/reproduce_gates.sh."""
import json
import pathlib
import re
import statistics
import sys

# Task: what is scored, the gate (median of the seeds at least, or at most for "most").
GATES = {
    "cartpole": ("return", 475), "acrobot": ("return", -85), "mountain-car": ("return", -120),
    "ou-oracle": ("share", 90), "ou-features": ("share", 65),
    "martingale": ("interval", None), "shuffled": ("interval", None),
    "uniform-cartpole": ("return", None), "uniform-acrobot": ("return", None),
    "uniform-mountain-car": ("return", None), "uniform-ou-oracle": ("share", None),
}


def score(kind, result):
    if kind == "return":
        return result["return_mean"]
    if kind == "share":
        return 100 * result["agent_reward"] / result["optimum_reward"]
    return result["interval_low"]  # above 0 would be a significant profit


def remarks(task, seeds):
    """What else the gates of the trading tasks ask for, over the seeds."""
    best = [lines[0] for lines in seeds]
    if task == "ou-oracle":
        own = [r["agent_threshold"] for r in best]
        agreement = [100 * r["agreement"] for r in best]
        print(f"\n{task}: the agents turn at {', '.join(f'{x:.2f}' for x in own)} (optimum "
              f"{best[0]['optimum_threshold']:.2f}); they agree with it in "
              f"{', '.join(f'{x:.1f}' for x in agreement)} % of states.")
    if task in ("martingale", "shuffled"):
        share = [100 * r["agent_turnover"] / r["random_turnover"] for r in best]
        returns = [100 * r["agent"]["total_return"] for r in best]
        print(f"\n{task}: returns {', '.join(f'{x:.2f}' for x in returns)} %; turnover "
              f"{', '.join(f'{x:.1f}' for x in share)} % of random's.")


def main():
    folder = pathlib.Path(sys.argv[1])
    found = {}
    for path in sorted(folder.glob("*.json")):
        match = re.fullmatch(r"(.+)-seed(\d+)", path.stem)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if match and len(lines) == 2:
            found.setdefault(match[1], {})[int(match[2])] = lines
    print("| task | score | best by evaluation, each seed | median | last, median | gate |")
    print("|---|---|---|---|---|---|")
    missed = False
    for task, (kind, gate) in GATES.items():
        if task not in found:
            continue
        seeds = [found[task][seed] for seed in sorted(found[task])]
        best = [score(kind, lines[0]) for lines in seeds]
        last = [score(kind, lines[1]) for lines in seeds]
        median = statistics.median(best)
        name = {"return": "mean return of 100 episodes", "share": "% of the optimum",
                "interval": "low end of the 95 % interval of the log return"}[kind]
        verdict = "none"
        if kind == "interval":
            good = sum(b <= 0 for b in best)
            verdict = f"not above 0: {good} of {len(best)}"
        elif gate is not None:
            verdict = f"{gate}: {'passed' if median >= gate else 'MISSED'}"
            missed |= median < gate
        shown = ", ".join(f"{b:.3g}" if kind == "interval" else f"{b:.1f}" for b in best)
        print(f"| {task} | {name} | {shown} | {median:.4g} | {statistics.median(last):.4g} | "
              f"{verdict} |")
    for task in ("ou-oracle", "martingale", "shuffled"):
        if task in found:
            remarks(task, [found[task][seed] for seed in sorted(found[task])])
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
