"""What peer_jax.py and peer_torch.py share: the reference step's numbers, timing, printing, checks.

A peer is an object with
    steps, pad           updates a run; whether rows are padded (widths)
    run(), wait()        enqueue that many updates; wait until the device has done them
    draws(priority, n)   [n, B] indices of n draws from these priorities [N], nothing updated
    state()              dict of numpy arrays: online, target, moment1, moment2 (lists w1 b1 w2 b2
                         w3 b3), t (updates done), priority [N], and index [B] and loss of the last
                         update where steps = 1
"""
import argparse
import json
import statistics
import time

import numpy

OBS, HIDDEN, ACTIONS = 51, 256, 45
GAMMA, ALPHA, BETA, EPSILON, MAX_PRIORITY = 0.99, 0.6, 0.4, 1e-3, 4095.0
LR, BETA1, BETA2, ADAM_EPS, MAX_NORM, TAU = 1e-3, 0.9, 0.999, 1e-8, 10.0, 0.005
CHUNK = 32_768  # different rows; more are repetitions, spread over the memory all the same


def arguments(description):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("batch", nargs="*", type=int, default=[256, 1024, 4096])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the replay")
    parser.add_argument("--uniform", action="store_true", help="uniform draws, no priorities")
    parser.add_argument("--precision", choices=("tf32", "fp32"), default="tf32")
    parser.add_argument("--windows", type=int, default=9, help="timed windows of 0.3 s or more")
    parser.add_argument("--no-pad", dest="pad", action="store_false",
                        help="51 inputs and 45 outputs in memory instead of 64 and 48")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--check", action="store_true", help="test the step instead of timing it")
    return parser


def widths(pad):
    """Columns of observations and of the last layer in memory; zeros beyond OBS and ACTIONS. They
    let matrix libraries take their fast kernels, which want rows in multiples of 16 bytes."""
    return (64, 48) if pad else (OBS, ACTIONS)


def make_params(pad):
    """[w1, b1, w2, b2, w3, b3], f32; w [in, out]."""
    generator, (wide, out) = numpy.random.default_rng(0), widths(pad)
    params = []
    for rows, columns, n, m in ((wide, HIDDEN, OBS, HIDDEN), (HIDDEN, HIDDEN, HIDDEN, HIDDEN),
                                (HIDDEN, out, HIDDEN, ACTIONS)):
        w = numpy.zeros((rows, columns), numpy.float32)
        w[:n, :m] = generator.normal(0, numpy.sqrt(2 / n), (n, m))
        params += [w, numpy.zeros(columns, numpy.float32)]
    return params


def make_rows(rows, pad):
    """obs [n, 2, O] (s and s'), action, reward, done [n]; n is CHUNK at most."""
    generator, n = numpy.random.default_rng(1), min(rows, CHUNK)
    obs = numpy.zeros((n, 2, widths(pad)[0]), numpy.float32)
    obs[..., :OBS] = generator.uniform(-1, 1, (n, 2, OBS))
    return (obs, generator.integers(0, ACTIONS, n).astype(numpy.int32),
            generator.uniform(-0.5, 0.5, n).astype(numpy.float32),
            (generator.random(n) < 0.01).astype(numpy.float32))


def window_rates(peer, windows, seconds=0.3):
    """Updates a second in each window; the first two, not returned, set the windows' length."""
    runs, rates = 1, []
    for w in range(-2, windows):
        begun = time.perf_counter()
        for _ in range(runs):
            peer.run()
        peer.wait()
        spent = time.perf_counter() - begun
        if w < 0:
            runs = max(1, int(numpy.ceil(runs * 1.1 * seconds / spent)))
        else:
            rates.append(runs * peer.steps / spent)
    return rates


def print_head(args, what):
    if not args.json:
        draw = "uniform" if args.uniform else "proportional"
        print(f"{what}; {draw}, {args.rows:,} rows, {args.precision}, {args.windows} windows")
        print(f"{'batch':>6} {'variant':28} {'updates/s':>10} {'range':>19} {'us':>9}", flush=True)


def print_rates(args, batch, variant, rates):
    middle = statistics.median(rates)
    if args.json:
        print(json.dumps({"batch": batch, "variant": variant, "rows": args.rows,
                          "uniform": args.uniform, "precision": args.precision, "per_s": middle,
                          "per_s_min": min(rates), "per_s_max": max(rates), "us": 1e6 / middle}),
              flush=True)
    else:
        between = f"{min(rates):.0f} to {max(rates):.0f}"
        print(f"{batch:6} {variant:28} {middle:10.0f} {between:>19} {1e6 / middle:9.1f}",
              flush=True)


# ---- checks: everything in fp32, sizes small enough for a CPU

def expect(holds, what):
    if not holds:
        raise SystemExit(f"check failed: {what}")


def check_draws(peer, rows, batch, uniform):
    """Chi-square of 20,000 draws, and that draw b comes from the b-th of B equal parts."""
    priority = numpy.random.default_rng(2).uniform(0.5, 4.0, rows).astype(numpy.float32)
    index = peer.draws(priority, 20_000 // batch)
    p = numpy.full(rows, 1 / rows) if uniform else priority / priority.sum(dtype=float)
    expected = p * index.size
    chi = ((numpy.bincount(index.ravel(), minlength=rows) - expected) ** 2 / expected).sum()
    limit = rows - 1 + 4 * numpy.sqrt(2 * (rows - 1))
    expect(chi < limit, f"chi-square of {index.size} draws of {rows} rows {chi:.0f} > {limit:.0f}")
    if not uniform:
        above, part = numpy.cumsum(p), numpy.arange(batch)
        inside = (above[index] > part / batch - 1e-5) & \
                 (above[index] - p[index] < (part + 1) / batch + 1e-5)
        expect(inside.all(), f"{(~inside).sum()} draws lie outside their stratum")
    return chi


def passes(params, x):
    """Layer outputs [x, h1, h2, q] in double."""
    w1, b1, w2, b2, w3, b3 = params
    h1 = numpy.maximum(x @ w1 + b1, 0)
    h2 = numpy.maximum(h1 @ w2 + b2, 0)
    return x, h1, h2, (h2 @ w3 + b3)[:, :ACTIONS]


def check_update(peer, data, uniform):
    """One update against the same in numpy and double. Returns the worst relative residual."""
    before = peer.state()
    peer.run()
    peer.wait()
    after = peer.state()
    index, n = after["index"], len(after["index"])
    old = {k: [x.astype(float) for x in before[k]] for k in ("online", "target", "moment1",
                                                             "moment2")}
    obs, action, reward, done = (x[index].astype(float) for x in data)
    action, lane = action.astype(int), numpy.arange(n)
    x, h1, h2, q = passes(old["online"], obs[:, 0])
    best = passes(old["online"], obs[:, 1])[3].argmax(1)
    next_q = passes(old["target"], obs[:, 1])[3][lane, best]
    td = reward + GAMMA * (1 - done) * next_q - q[lane, action]
    p = before["priority"][index].astype(float)
    weight = numpy.ones(n) if uniform else (p.min() / p) ** BETA
    dq = numpy.zeros((n, len(old["online"][5])))
    dq[lane, action] = -weight * numpy.clip(td, -1, 1) / n
    d2 = dq @ old["online"][4].T * (h2 > 0)
    d1 = d2 @ old["online"][2].T * (h1 > 0)
    g = [x.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ dq, dq.sum(0)]
    scale = min(1.0, MAX_NORM / numpy.sqrt(sum((y ** 2).sum() for y in g)))
    huber = numpy.where(abs(td) < 1, td ** 2 / 2, abs(td) - 0.5)
    t, pairs = before["t"] + 1, [("loss", [(weight * huber).mean()], [after["loss"]])]
    pairs.append(("moment1", [BETA1 * m + (1 - BETA1) * scale * y
                              for m, y in zip(old["moment1"], g)], after["moment1"]))
    pairs.append(("moment2", [BETA2 * v + (1 - BETA2) * (scale * y) ** 2
                              for v, y in zip(old["moment2"], g)], after["moment2"]))
    # From the peer's own moments on: the quotient of two tiny ones would enlarge their rounding.
    pairs.append(("step", [-LR * (m / (1 - BETA1 ** t)) / (numpy.sqrt(v / (1 - BETA2 ** t)) +
                  ADAM_EPS) for m, v in zip(after["moment1"], after["moment2"])],
                  [a - b for a, b in zip(after["online"], old["online"])]))
    pairs.append(("target", [b + TAU * (a - b) for a, b in zip(after["online"], old["target"])],
                  after["target"]))
    if not uniform:
        priority = before["priority"].astype(float)
        priority[index] = numpy.minimum(abs(td) ** ALPHA + EPSILON, MAX_PRIORITY)
        pairs.append(("priority", [priority], [after["priority"]]))
        expect((before["priority"][index] != after["priority"][index]).all(),
               "a drawn row kept its priority")
    worst = 0.0
    for name, want, got in pairs:
        for i, (a, b) in enumerate(zip(want, got)):
            residual = numpy.abs(a - b).max() / max(numpy.abs(a).max(), 1e-12)
            # seen on a CPU: 3.9e-5 (steps, which are differences of rounded parameters)
            expect(residual < 2e-4, f"{name} {i} differs from double by {residual:.1e} relatively")
            worst = max(worst, residual)
    return worst


def check_learning(peer, updates=200):
    losses = []
    for _ in range(updates):
        peer.run()
        losses.append(float(peer.state()["loss"]))
    first, last = numpy.mean(losses[:20]), numpy.mean(losses[-20:])
    expect(last < first / 2, f"the loss went from {first:.4f} to {last:.4f} in {updates} updates")
    return first, last


def check(make, variant, uniform):
    """make(rows, batch) gives a peer with steps = 1 and the rows of make_rows(rows)."""
    rows, batch = 300, 32
    chi = check_draws(make(rows, batch), rows, batch, uniform)
    peer = make(rows, batch)
    data = make_rows(rows, peer.pad)
    worst = max(check_update(peer, data, uniform) for _ in range(5))
    first, last = check_learning(make(64, batch))
    print(f"{variant}: chi-square {chi:.0f} at {rows} rows; worst residual {worst:.1e}; "
          f"loss {first:.4f} to {last:.4f}", flush=True)
