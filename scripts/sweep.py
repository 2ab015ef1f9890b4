#!/usr/bin/env python3
"""Searches hyperparameters: one dqn-train process a trial, several at a time, resumable.

    scripts/sweep.py SPEC.yaml            starts, or goes on where an earlier call stopped
    scripts/sweep.py SPEC.yaml --report   only the table and the plot of what is there
    scripts/sweep.py SPEC.yaml --retry-failed   also tries failed trials again

The search space is over configuration keys (docs/sweeps.md has an example). Needs the Python
packages optuna, pyyaml and matplotlib.

Exit codes: 0 the sweep is complete, 1 not one trial gave a value (the reasons are printed), 2 usage or
specification, 5 the output folder cannot be used, or a file or the standard output cannot be written,
130 stopped, 141 nobody reads the standard output any more. After 5, 130 and 141 the running trials are
saved, and the same command goes on.
"""
import argparse
import csv
import ctypes
import fcntl
import importlib.util
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
STOP_GRACE_S = 60  # a trial saves and ends within this after SIGTERM, else it is killed
EXIT_REASONS = {
    1: "internal error or an evaluation without end", 2: "configuration refused", 3: "market data", 4: "device", 5: "disk",
    6: "training became non-finite", 7: "checkpoint",
}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def fail(message, code=2):
    print(f"sweep: {message}", file=sys.stderr)
    sys.exit(code)


def reason_of(error):
    """The first line of what lies behind an error of the study's storage."""
    return str(error.__cause__ or error).splitlines()[0]


class OutputLost(Exception):
    """The standard output cannot be written; the text says why."""


def say(text=None):
    """A line on the standard output, at once; without a text only what is still to be written."""
    try:
        if text is not None:
            print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error.strerror) from error


def read_yaml(path):
    """YAML in which numbers are what dqn-train calls numbers: for PyYAML alone 1e-4 is a text."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_implicit_resolver("tag:yaml.org,2002:float",
                                 re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
                                 list("-+.0123456789"))
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        fail(f"cannot read {path}: {error}")


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check_numbers(path, spec):
    for key in ("trials", "parallel"):
        if not isinstance(spec[key], int) or isinstance(spec[key], bool) or spec[key] < 1:
            fail(f"{path}: {key} is {spec[key]!r}; it must be a whole number of at least 1")
    for key in ("seed", "max_retries"):
        if not isinstance(spec[key], int) or isinstance(spec[key], bool) or spec[key] < 0:
            fail(f"{path}: {key} is {spec[key]!r}; it must be a whole number of at least 0")
    for key in ("time_limit_s", "min_free_mb"):
        if not is_number(spec[key]) or spec[key] < 0:
            fail(f"{path}: {key} is {spec[key]!r}; it must be a number of at least 0")


def check_space(path, name, space):
    """One key of the search space: what Optuna would refuse is refused here, with the place."""
    where = f"{path}: space {name!r}"
    if not isinstance(name, str):
        fail(f"{where} is no configuration key")
    if not isinstance(space, dict) or ("choices" in space) == ("low" in space):
        fail(f"{where} needs either choices: [...] or low: and high:")
    known = {"choices"} if "choices" in space else {"low", "high", "log", "step"}
    for key in space:
        if key not in known:
            fail(f"{where}: {key!r} is unknown here; known are {', '.join(sorted(known))}")
    if "choices" in space:
        if not isinstance(space["choices"], list) or not space["choices"]:
            fail(f"{where}: choices is {space['choices']!r}; it must be a list, such as [32, 64]")
        for choice in space["choices"]:
            for value in choice if isinstance(choice, list) else [choice]:
                if not isinstance(value, (str, int, float)):
                    fail(f"{where}: {choice!r} is no value of a configuration key")
        return
    for key in ("low", "high", "step"):
        if key in space and not is_number(space[key]):
            fail(f"{where}: {key} is {space[key]!r}, which is no number")
    if not isinstance(space.get("log", False), bool):
        fail(f"{where}: log is {space['log']!r}; it must be true or false")
    if not space["low"] < space.get("high", -math.inf):
        fail(f"{where}: low must be below high")
    if space.get("log") and ("step" in space or space["low"] <= 0):
        fail(f"{where}: with log, low must be above 0, and there is no step")
    if "step" in space and space["step"] <= 0:
        fail(f"{where}: step must be above 0")
    whole = isinstance(space["low"], int) and isinstance(space["high"], int)
    if whole and not isinstance(space.get("step", 1), int):
        fail(f"{where}: step is {space['step']!r}, but low and high are whole: write 1.0 for reals")


def load_spec(path):
    """Reads and checks the specification; relative paths start at its folder."""
    spec = read_yaml(path)
    if not isinstance(spec, dict):
        fail(f"{path} must be a mapping")
    known = {"config", "output", "metric", "direction", "trials", "parallel", "seed", "overrides",
             "space", "time_limit_s", "max_retries", "program", "min_free_mb"}
    for key in spec:
        if key not in known:
            fail(f"{path}: unknown key {key!r}; known are {', '.join(sorted(known))}")
    for key in ("config", "space"):
        if not spec.get(key):
            fail(f"{path}: {key} is missing")
    spec.setdefault("metric", "best_return")
    spec.setdefault("direction", "maximize")
    spec.setdefault("trials", 20)
    spec.setdefault("parallel", 1)
    spec.setdefault("seed", 1)
    spec.setdefault("overrides", {})
    spec.setdefault("time_limit_s", 0)
    spec.setdefault("max_retries", 1)
    spec.setdefault("min_free_mb", 500)
    if spec["direction"] not in ("maximize", "minimize"):
        fail(f"{path}: direction is {spec['direction']!r}, not maximize or minimize")
    check_numbers(path, spec)
    for key in ("space", "overrides"):
        if not isinstance(spec[key], dict):
            fail(f"{path}: {key} must be a mapping of configuration keys")
    for key in ("config", "output", "program", "metric"):
        if not isinstance(spec.get(key, ""), str):
            fail(f"{path}: {key} is {spec[key]!r}; it must be a text")
    for name, space in spec["space"].items():
        check_space(path, name, space)
    spec["config"] = str((path.parent / spec["config"]).resolve())
    if not os.path.isfile(spec["config"]):
        fail(f"{path}: config {spec['config']} is no file")
    if "program" in spec:
        spec["program"] = str((path.parent / spec["program"]).resolve())
        if not os.access(spec["program"], os.X_OK) or os.path.isdir(spec["program"]):
            fail(f"{path}: program {spec['program']} cannot be run")
    spec["output"] = str((path.parent / spec.get("output", f"{path.stem}-sweep")).resolve())
    return spec


def find_program(spec):
    """dqn-train: as the specification says, from this project's build, or from the PATH."""
    candidates = [spec.get("program"), ROOT / "build/release/dqn-train",
                  ROOT / "build/test/dqn-train", shutil.which("dqn-train")]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return str(pathlib.Path(candidate).resolve())
    fail("dqn-train was not found: build it with scripts/train, or set program: in the specification")


def suggest(trial, name, space):
    """One value of the search space. Lists of choices are sent as text, as --set takes them."""
    if "choices" in space:
        return trial.suggest_categorical(name, [as_text(c) for c in space["choices"]])
    low, high = space["low"], space["high"]
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(name, low, high, step=space.get("step", 1),
                                 log=space.get("log", False))
    return trial.suggest_float(name, float(low), float(high), step=space.get("step"),
                               log=space.get("log", False))


def as_text(value):
    """A value as dqn-train reads it, the same number bit for bit."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(as_text(v) for v in value)
    return repr(value) if isinstance(value, float) else str(value)


def end_with_the_sweep():
    """In a trial's process: SIGTERM when the sweep dies, however it dies (Linux)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def newest_checkpoint(folder):
    """Whether a trial's folder holds something to go on from."""
    return any(folder.glob("*/epoch-*.h5"))


class Running:
    """A trial's process, its own process group."""

    def __init__(self, program, spec, trial, folder):
        self.trial, self.folder, self.begun = trial, folder, time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log.txt"
        command = [program, "--quiet"]
        if newest_checkpoint(folder):
            command += ["--resume", str(folder)]
        else:
            command += [spec["config"], "--name", "run", "--set", f"output={folder}"]
            for name, value in {**spec["overrides"], **trial.params}.items():
                command += ["--set", f"{name}={as_text(value)}"]
        with open(self.log, "a") as log:
            log.write("$ " + " ".join(command) + "\n")
            log.flush()
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True,
                                            preexec_fn=end_with_the_sweep)

    def signal(self, which):
        try:
            os.killpg(self.process.pid, which)
        except ProcessLookupError:
            pass

    def last_line(self):
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line and not line.startswith("$")), "")


def read_metric(folder, metric):
    """The last value of a column of metrics.csv that is a number."""
    files = sorted(folder.glob("*/metrics.csv"), key=lambda p: p.stat().st_mtime)
    if not files:
        return None, "it wrote no metrics.csv"
    with open(files[-1]) as file:
        rows = list(csv.DictReader(file))
    if not rows or metric not in rows[-1]:
        return None, f"metrics.csv has no column {metric}"
    values = [float(row[metric]) for row in rows if row[metric]]
    if not values or not math.isfinite(values[-1]):
        return None, f"{metric} is not a finite number"
    return values[-1], ""


class Sweep:
    def __init__(self, spec, program):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.optuna, self.spec, self.program = optuna, spec, program
        self.output = pathlib.Path(spec["output"])
        try:
            self.output.mkdir(parents=True, exist_ok=True)
            self.lock()
        except OSError as error:
            fail(f"the folder {self.output} cannot be used: {error}", 5)
        self.study = self.open_study()
        # The sampler's state is not stored: a sweep that goes on must not draw the same again.
        self.study.sampler = optuna.samplers.TPESampler(
            seed=spec["seed"] + len(self.study.trials), constant_liar=True)
        self.check_same_space()
        self.running, self.stopping = [], False

    def lock(self):
        self.lock_file = open(self.output / "lock", "a+")
        try:
            fcntl.flock(self.lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.lock_file.seek(0)
            fail(f"another sweep is at work in {self.output} "
                 f"(process {self.lock_file.read().strip() or 'unknown'})", 5)
        self.lock_file.truncate(0)
        self.lock_file.write(f"{os.getpid()}\n")
        self.lock_file.flush()

    def study_errors(self):
        import sqlalchemy

        return sqlalchemy.exc.SQLAlchemyError, self.optuna.exceptions.OptunaError

    def open_study(self):
        import sqlalchemy

        url = sqlalchemy.engine.URL.create("sqlite", database=str(self.output / "study.db"))
        try:
            return self.optuna.create_study(
                study_name="sweep", storage=url.render_as_string(), load_if_exists=True,
                direction=self.spec["direction"])
        except self.study_errors() as error:
            fail(f"{self.output}/study.db cannot be used: {reason_of(error)}; "
                 "use another output folder", 5)

    def check_same_space(self):
        """A study goes on only with the space, config and metric that it began with."""
        mine = {k: self.spec[k] for k in ("space", "config", "metric", "direction", "overrides")}
        theirs = self.study.user_attrs.get("spec")
        if theirs is None:
            self.study.set_user_attr("spec", mine)
            return
        for key, value in mine.items():
            if json.loads(json.dumps(value)) != theirs[key]:
                fail(f"{key} was {theirs[key]} when this study began and is {value} now; "
                     f"use another output folder, or remove {self.output}")

    def states(self, *names):
        wanted = [self.optuna.trial.TrialState[name] for name in names]
        return self.study.get_trials(deepcopy=False, states=wanted)

    def adopt_orphans(self, retry_failed):
        """Trials that a killed sweep left running are tried again, from their checkpoint."""
        orphans = self.states("RUNNING")
        if retry_failed:
            orphans += [t for t in self.states("FAIL") if not t.user_attrs.get("retried")]
        for old in orphans:
            # An end that was asked for is no fault of the trial and counts as no retry.
            stopped = (self.output / "results" / f"{old.number:04d}.json").exists()
            retries = old.user_attrs.get("retries", 0) - stopped
            storage, trial_id = self.study._storage, old._trial_id
            if old.state == self.optuna.trial.TrialState.RUNNING:
                self.study.tell(old.number, state=self.optuna.trial.TrialState.FAIL)
                self.record(old, "interrupted", "the sweep ended before it did", None, 0)
            if retries >= self.spec["max_retries"] and not retry_failed:
                continue
            try:
                storage.set_trial_user_attr(trial_id, "retried", True)
            except Exception:  # a finished trial's attributes are closed; the retry still counts
                pass
            folder = old.user_attrs.get("folder", str(self.folder(old.number)))
            self.study.enqueue_trial(old.params, user_attrs={"folder": folder,
                                                             "retries": retries + 1})

    def folder(self, number):
        return self.output / f"trial-{number:04d}"

    def record(self, trial, status, reason, value, seconds):
        """One file a trial, written at once and completely."""
        folder = self.output / "results"
        folder.mkdir(exist_ok=True)
        row = {"trial": trial.number, "status": status, "reason": reason, "value": value,
               "seconds": round(seconds, 2), "params": trial.params}
        path = folder / f"{trial.number:04d}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(row))
        temporary.replace(path)

    def start_one(self):
        trial = self.study.ask()
        for name, space in self.spec["space"].items():
            suggest(trial, name, space)
        folder = pathlib.Path(trial.user_attrs.get("folder", str(self.folder(trial.number))))
        trial.set_user_attr("folder", str(folder))
        self.running.append(Running(self.program, self.spec, trial, folder))

    def judge(self, run):
        """Status, reason and value of a trial whose process has ended."""
        code = run.process.returncode
        if code == 0:
            value, reason = read_metric(run.folder, self.spec["metric"])
            return ("done", "", value) if value is not None else ("failed", reason, None)
        if getattr(run, "timed_out", False):
            return "failed", f"over the time limit of {self.spec['time_limit_s']} s", None
        if code < 0:
            return "failed", f"ended by signal {signal.Signals(-code).name}", None
        return "failed", f"{EXIT_REASONS.get(code, f'exit {code}')}: {run.last_line()}", None

    def finish(self, run):
        seconds = time.monotonic() - run.begun
        if self.stopping:
            self.record(run.trial, "interrupted", "the sweep was stopped", None, seconds)
            return  # stays RUNNING in the study: the next call takes it up
        status, reason, value = self.judge(run)
        self.record(run.trial, status, reason, value, seconds)
        if status == "done":
            self.study.tell(run.trial, value)
        else:
            self.study.tell(run.trial, state=self.optuna.trial.TrialState.FAIL)
        outcome = f"{value:.6g}" if value is not None else reason
        params = ", ".join(f"{n} = {shown(v)}" for n, v in run.trial.params.items())
        say(f"trial {run.trial.number:4d} {status:6s} {outcome}  {params}")

    def reap(self):
        for run in list(self.running):
            if run.process.poll() is not None:
                self.running.remove(run)
                self.finish(run)
                continue
            limit = self.spec["time_limit_s"]
            if limit and time.monotonic() - run.begun > limit:
                run.timed_out = True
                run.signal(signal.SIGKILL)

    def stop(self):
        """Every trial saves and ends; what does not is killed. Then all are recorded."""
        self.stopping = True
        for run in self.running:
            run.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_GRACE_S
        for run in self.running:
            try:
                run.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                run.signal(signal.SIGKILL)
                run.process.wait()
        self.reap()

    def enough_space(self):
        free = shutil.disk_usage(self.output).free / 1e6
        if free < self.spec["min_free_mb"]:
            print(f"sweep: {free:.0f} MB are free at {self.output}, below min_free_mb "
                  f"{self.spec['min_free_mb']}: no new trial is started", file=sys.stderr)
            return False
        return True

    def run(self, retry_failed):
        """True when all trials have ended, False after a signal. No trial outlives the call."""
        wanted = []
        for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(which, lambda number, frame: wanted.append(number))
        try:
            if self.run_trials(retry_failed, wanted):
                return True
        except BaseException:
            self.stop()
            raise
        self.stop()
        print("sweep: stopped; the same command goes on from here", file=sys.stderr)
        return False

    def run_trials(self, retry_failed, wanted):
        """Runs trials until all have ended (True), or `wanted` has a signal, or the disk is full."""
        self.adopt_orphans(retry_failed)
        while not wanted:
            self.reap()
            planned = len(self.states("COMPLETE")) + len(self.settled_failures())
            left = self.spec["trials"] - planned - len(self.running)
            free = self.spec["parallel"] - len(self.running)
            if left <= 0 and not self.running:
                return True
            if left > 0 and free > 0:
                if not self.enough_space():
                    break
                self.start_one()
                continue
            time.sleep(0.1)
        return False

    def settled_failures(self):
        """Failed trials that count: those that are not tried again."""
        waiting = {json.dumps(t.user_attrs.get("folder")) for t in
                   self.states("WAITING", "RUNNING", "COMPLETE")}
        failed = {}
        for trial in self.states("FAIL"):
            failed[json.dumps(trial.user_attrs.get("folder", trial.number))] = trial
        return [t for folder, t in failed.items() if folder not in waiting]


def read_results(output):
    """Every trial's file, in order of their numbers."""
    rows = []
    for path in sorted((output / "results").glob("*.json")):
        try:
            rows.append(json.loads(path.read_text()))
        except ValueError as error:
            fail(f"{path} is damaged ({error}); remove it, and its trial is left out")
    return rows


def report(sweep):
    """The table on the screen, the same as CSV, and a plot."""
    rows = read_results(sweep.output)
    if not rows:
        say("no trial has ended yet")
        return
    sign = -1 if sweep.spec["direction"] == "maximize" else 1
    rows.sort(key=lambda r: (r["value"] is None, sign * (r["value"] or 0.0), r["trial"]))
    names = list(sweep.spec["space"])
    with open(sweep.output / "results.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trial", "status", sweep.spec["metric"], "seconds", *names, "reason"])
        for r in rows:
            writer.writerow([r["trial"], r["status"], r["value"], r["seconds"],
                             *[r["params"].get(n) for n in names], r["reason"]])
    width = {n: max(len(n), *(len(str(shown(r["params"].get(n)))) for r in rows)) for n in names}
    say(f"\n{'trial':>5} {'status':12} {sweep.spec['metric']:>14}  " +
        "  ".join(f"{n:>{width[n]}}" for n in names))
    for r in rows:
        value = "" if r["value"] is None else f"{r['value']:.6g}"
        params = "  ".join(f"{shown(r['params'].get(n)):>{width[n]}}" for n in names)
        say(f"{r['trial']:5d} {r['status']:12} {value:>14}  {params}  {r['reason']}".rstrip())
    plotted = plot(sweep, [r for r in rows if r["value"] is not None], names)
    also = " and sweep.png hold" if plotted else " holds"
    say(f"\n{sweep.output}/results.csv{also} the same")


def all_failed(sweep):
    """Whether not one trial gave a value, although some have ended; then says why."""
    rows = read_results(sweep.output)
    if not rows or any(r["value"] is not None for r in rows):
        return False
    reasons = {}
    for row in rows:
        reasons.setdefault(row["reason"], []).append(str(row["trial"]))
    print(f"sweep: not one of {len(rows)} trials gave a value:", file=sys.stderr)
    for reason, trials in reasons.items():
        print(f"  {reason} (trial {', '.join(trials)}; see {sweep.output}/trial-*/log.txt)",
              file=sys.stderr)
    return True


def shown(value):
    """A value in six digits for the table; results.csv has all of them."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def plot(sweep, rows, names):
    """Writes sweep.png; False where there is nothing to show."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if not rows:
        return False
    figure, axes = plt.subplots(1, 1 + len(names), figsize=(4 * (1 + len(names)), 3.5),
                                squeeze=False, constrained_layout=True)
    first = axes[0][0]
    in_order = sorted(rows, key=lambda r: r["trial"])
    best = []
    for r in in_order:
        pick = max if sweep.spec["direction"] == "maximize" else min
        best.append(pick(best[-1], r["value"]) if best else r["value"])
    first.plot([r["trial"] for r in in_order], [r["value"] for r in in_order], "o", label="trial")
    first.step([r["trial"] for r in in_order], best, where="post", label="best so far")
    first.set(xlabel="trial", ylabel=sweep.spec["metric"])
    first.legend()
    for axis, name in zip(axes[0][1:], names):
        space = sweep.spec["space"][name]
        axis.plot([r["params"].get(name) for r in rows], [r["value"] for r in rows], "o")
        if space.get("log"):
            axis.set_xscale("log")
        axis.set(xlabel=name)
    figure.savefig(sweep.output / "sweep.png", dpi=120)
    return True


class Parser(argparse.ArgumentParser):
    def print_help(self, file=None):  # argparse's own takes no notice of a full disk
        say(self.format_help().rstrip())


def main():
    parser = Parser(description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=pathlib.Path)
    parser.add_argument("--report", action="store_true", help="table and plot only")
    parser.add_argument("--retry-failed", action="store_true", help="try failed trials again")
    arguments = parser.parse_args()
    for name in ("optuna", "yaml", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            fail(f"{name} is missing: pip install optuna pyyaml matplotlib")
    spec = load_spec(arguments.spec.resolve())
    sweep = Sweep(spec, find_program(spec))
    try:
        complete = arguments.report or sweep.run(arguments.retry_failed)
    except sweep.study_errors() as error:
        fail(f"{sweep.output}/study.db cannot be used: {reason_of(error)}; the same "
             "command goes on where that is mended", 5)
    report(sweep)
    if not complete:
        sys.exit(130)
    sys.exit(1 if all_failed(sweep) else 0)


def lose(stream):
    """What a stream still holds goes nowhere, so that Python does not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def run_main():
    """main, where all that cannot be written ends with one line and an exit code."""
    if sys.stdout is None:
        fail("the standard output is closed; give it a place, or /dev/null", 5)
    try:
        try:
            main()
        finally:
            say()
    except BrokenPipeError:
        lose(sys.stdout)
        lose(sys.stderr)
        sys.exit(141)
    except OutputLost as error:
        lose(sys.stdout)
        fail(f"the standard output could not be written: {error}; give it a place with space and "
             "run again", 5)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"a file cannot be written or read: {where}{error.strerror}; the same command goes on "
             "where that is mended", 5)


if __name__ == "__main__":
    run_main()
