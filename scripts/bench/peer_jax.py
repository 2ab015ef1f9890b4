#!/usr/bin/env python3
"""Times the reference learner step of dqn-bench as a JAX program.

    python3 -m venv venv && venv/bin/pip install "jax[cuda13]"      # jax alone: on the CPU
    venv/bin/python scripts/bench/peer_jax.py                       # batch 256, 1024, 4096
    venv/bin/python scripts/bench/peer_jax.py 256 --uniform --rows 100000
    venv/bin/python scripts/bench/peer_jax.py --check               # is the step what it says?

Beside it: dqn-bench step --set device=cuda --set replay.capacity=1e6 --set learner.target=soft
--set net.precision=tf32 --set learner.batch=256.

A step: draw B of N rows on the device by priority (stratified, importance weights), gather, double
DQN target, weighted Huber loss, gradients, clip by global norm, Adam, soft target, new priorities.
51 inputs, 256-256 ReLU, 45 actions. One jitted lax.scan over many steps with donated buffers.

It can be written in several ways, and which one is fastest depends on the GPU, the batch and XLA:
  sampler  flat: cumulative sum of all priorities, binary search in it.
           levels: sums within groups of 16 rows, of 16 such sums and so on; a search goes down.
  passes   apart: s and s' go through the online network one after the other.
           joined: as one batch of 2B, through the target network too; fewer, larger products.
  unroll   steps of the scan that XLA compiles as one piece.
Each given as a list is tried for a moment, in this order, and the best of all is timed.
"""
from functools import partial

import jax
import jax.numpy as jnp
import numpy
from jax import lax

import peer_case as case

SCAN = 512   # updates a run
GROUP = 16   # entries of a group of `levels`


def take(array, *index):
    return array.at[index].get(mode="promise_in_bounds")


def search_flat(priority, u):
    """First row whose inclusive sum exceeds u * total; u [B] in [0, 1)."""
    sums = jnp.cumsum(priority)
    return jnp.searchsorted(sums, u * sums[-1], side="right", method="scan_unrolled")


def group_sums(x):
    """[n] to [ceil(n / GROUP), GROUP]: inclusive sums within each group."""
    x = jnp.pad(x, (0, -len(x) % GROUP)).reshape(-1, GROUP)
    return lax.reduce_window(x, 0.0, lax.add, (1, GROUP), (1, 1), ((0, 0), (GROUP - 1, 0)))


def search_levels(priority, u):
    levels = [group_sums(priority)]
    while len(levels[-1]) > 1:
        levels.append(group_sums(levels[-1][:, -1]))
    row, rest = jnp.zeros(u.shape, jnp.int32), u * levels[-1][0, -1]
    for sums in reversed(levels):
        place, below, step = jnp.zeros_like(row), jnp.zeros_like(rest), GROUP // 2
        while step > 0:  # place entries of the group sum to at most `rest`
            sum_here = take(sums, row, place + step - 1)
            place = jnp.where(rest >= sum_here, place + step, place)
            below = jnp.where(rest >= sum_here, sum_here, below)
            step //= 2
        row, rest = row * GROUP + place, rest - below
    return row


SEARCHES = {"flat": search_flat, "levels": search_levels}


def draw(priority, u, sampler):
    """Row b from the b-th of B equal parts of the total."""
    part = (jnp.arange(len(u)) + u) / len(u)
    row = SEARCHES[sampler](priority, part).astype(jnp.int32)
    return jnp.minimum(row, len(priority) - 1)  # where rounding led past the end


def q_values(params, x):
    w1, b1, w2, b2, w3, b3 = params
    return jax.nn.relu(jax.nn.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3


def evaluate(state, obs, index, passes):
    """q(s), online q(s'), target q(s'), [B, ACTIONS] each, and what takes dloss/dq(s) [B, out] back
    to the gradients of the online parameters."""
    if passes == "joined":
        x = take(obs, index).reshape(2 * len(index), -1)  # s and s' in turn
        q, back = jax.vjp(lambda params: q_values(params, x), state["online"])
        q, target = (y.reshape(len(index), 2, -1) for y in (q, q_values(state["target"], x)))
        pull = lambda dq: back(jnp.stack([dq, jnp.zeros_like(dq)], 1).reshape(x.shape[0], -1))[0]
        return q[:, 0], q[:, 1], target[:, 1], pull
    s, next_s = take(obs, index, 0), take(obs, index, 1)
    q, back = jax.vjp(lambda params: q_values(params, s), state["online"])
    return (q, q_values(state["online"], next_s), q_values(state["target"], next_s),
            lambda dq: back(dq)[0])


def adam(state, grads):
    """Clip by global norm, Adam, soft target."""
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in grads))
    scale = case.MAX_NORM / jnp.maximum(norm, case.MAX_NORM)
    t = state["t"] + 1
    rate = case.LR / (1 - case.BETA1 ** t.astype(jnp.float32))
    root = lax.rsqrt(1 - case.BETA2 ** t.astype(jnp.float32))
    m = [case.BETA1 * m + (1 - case.BETA1) * scale * g for m, g in zip(state["moment1"], grads)]
    v = [case.BETA2 * v + (1 - case.BETA2) * (scale * g) ** 2
         for v, g in zip(state["moment2"], grads)]
    online = [p - rate * m / (jnp.sqrt(v) * root + case.ADAM_EPS)
              for p, m, v in zip(state["online"], m, v)]
    target = [p + case.TAU * (q - p) for p, q in zip(state["target"], online)]
    return dict(state, online=online, target=target, moment1=m, moment2=v, t=t)


def update(data, uniform, sampler, passes, state, random):
    """random [B]: the rows themselves if uniform, else numbers in [0, 1)."""
    obs, action, reward, done = data
    index = random if uniform else draw(state["priority"], random, sampler)
    q, next_online, next_target, pull = evaluate(state, obs, index, passes)
    best = jnp.argmax(next_online[:, :case.ACTIONS], 1)[:, None]
    next_q = jnp.take_along_axis(next_target, best, 1, mode="promise_in_bounds")[:, 0]
    mine = take(action, index)[:, None] == jnp.arange(q.shape[1])
    td = take(reward, index) + case.GAMMA * (1 - take(done, index)) * next_q
    td = td - jnp.sum(jnp.where(mine, q, 0), 1)
    weight = 1.0
    if not uniform:
        p = take(state["priority"], index)
        weight = (p.min() / p) ** case.BETA
        new = jnp.minimum(jnp.abs(td) ** case.ALPHA + case.EPSILON, case.MAX_PRIORITY)
        priority = state["priority"].at[index].set(new, mode="promise_in_bounds")
        state = dict(state, priority=priority)
    slope = jnp.clip(td, -1, 1)  # Huber's; the loss is slope * (td - slope / 2)
    loss = jnp.mean(weight * slope * (td - slope / 2))
    grads = pull(jnp.where(mine, (-weight * slope / len(index))[:, None], 0))
    return adam(state, grads), (loss, index)


class Peer:
    def __init__(self, args, rows, batch, steps=SCAN, sampler="flat", passes="apart", unroll=1):
        self.steps, self.pad, self.sampler, self.batch = steps, args.pad, sampler, batch
        self.data = [jnp.resize(x, (rows, *x.shape[1:])) for x in case.make_rows(rows, args.pad)]
        self.last, self.key = None, jax.random.PRNGKey(1)
        make = lambda: [jnp.array(x) for x in case.make_params(args.pad)]
        zeros = lambda: [jnp.zeros_like(x) for x in make()]
        self.now = {"online": make(), "target": make(), "moment1": zeros(), "moment2": zeros(),
                    "t": jnp.int32(0),
                    "priority": jax.random.uniform(self.key, (rows,), minval=0.1, maxval=1.1)}

        def randoms(key, n):  # of a whole scan at once
            if args.uniform:
                return jax.random.randint(key, (n, batch), 0, rows)
            return jax.random.uniform(key, (n, batch))

        @partial(jax.jit, donate_argnums=(0, 1))
        def many(state, key, data):
            key, k = jax.random.split(key)
            random = randoms(k, steps)
            state, (loss, index) = lax.scan(partial(update, data, args.uniform, sampler, passes),
                                            state, random, unroll=unroll)
            return state, key, loss[-1], (index[-1] if steps == 1 else None)

        self.many, self.randoms, self.uniform = many, randoms, args.uniform

    def run(self):
        self.now, self.key, *self.last = self.many(self.now, self.key, self.data)

    def wait(self):
        jax.block_until_ready(self.now)

    def draws(self, priority, n):
        random = self.randoms(self.key, n)
        one = jax.jit(partial(draw, sampler=self.sampler))
        return numpy.asarray(random if self.uniform else
                             jnp.stack([one(jnp.array(priority), u) for u in random]))

    def state(self):
        loss, index = self.last or (None, None)
        host = jax.tree.map(numpy.array, self.now)
        return dict(host, t=int(host["t"]), loss=loss,
                    index=None if index is None else numpy.asarray(index))


def best_choice(args, batch, lists):
    """Choices by name; each list is settled with the ones before it as chosen."""
    chosen, speed = {name: values[0] for name, values in lists.items()}, {}

    def trial(name, value):
        choice = dict(chosen, **{name: value})
        key = tuple(choice.values())
        if key not in speed:
            speed[key] = max(case.window_rates(Peer(args, args.rows, batch, **choice), 3, 0.1))
        return speed[key]

    for name, values in lists.items():
        if len(values) > 1:
            chosen[name] = max(values, key=partial(trial, name))
    return chosen


def main():
    parser = case.arguments(__doc__)
    parser.add_argument("--sampler", default="flat,levels")
    parser.add_argument("--passes", default="apart,joined")
    parser.add_argument("--unroll", default="1,4")
    args = parser.parse_args()
    lists = {"sampler": ["-"] if args.uniform else args.sampler.split(","),
             "passes": args.passes.split(","), "unroll": [int(x) for x in args.unroll.split(",")]}
    tf32 = args.precision == "tf32" and not args.check
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")
    if args.check:
        for sampler in lists["sampler"]:
            for passes in lists["passes"]:
                case.check(lambda rows, batch: Peer(args, rows, batch, steps=1, sampler=sampler,
                                                    passes=passes),
                           f"{sampler}, {passes}", args.uniform)
        return
    case.print_head(args, f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")
    for batch in args.batch:
        chosen = best_choice(args, batch, lists)
        peer = Peer(args, args.rows, batch, **chosen)
        case.print_rates(args, batch, ", ".join(map(str, chosen.values())),
                         case.window_rates(peer, args.windows))


if __name__ == "__main__":
    main()
