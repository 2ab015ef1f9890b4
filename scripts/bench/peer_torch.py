#!/usr/bin/env python3
"""Times the reference learner step of dqn-bench as a PyTorch program.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python scripts/bench/peer_torch.py                     # batch 256, 1024, 4096
    venv/bin/python scripts/bench/peer_torch.py 256 --uniform --variants graph
    venv/bin/python scripts/bench/peer_torch.py --check             # is the step what it says?

Beside it: dqn-bench step --set device=cuda --set replay.capacity=1e6 --set learner.target=soft
--set net.precision=tf32 --set learner.batch=256.

A step: draw B of N rows on the device by priority (stratified, importance weights), gather, double
DQN target, weighted Huber loss, gradients, clip by global norm, Adam, soft target, new priorities.
51 inputs, 256-256 ReLU, 45 actions.
  eager     operation by operation
  graph     16 steps in one CUDA graph; the target network's pass, new priorities and the next draw
            on a second stream
  compile   as graph, with what lies between the matrix products through torch.compile (needs a C
            compiler)
Without a GPU the latter two run without a graph, for --check alone. Parameters are one flat tensor
with views, and the backward pass through three layers is written out: that takes fewer kernels and
less of the host than autograd and a list of parameters, so eager is faster than most programs.
"""
import contextlib
import sys

import torch

import peer_case as case

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def errors(q, next_online, next_target, action, reward, done, priority):
    """TD errors to dloss/dq(s) [B, out], new priorities [B], loss. priority None: weights are 1."""
    best = next_online[:, :case.ACTIONS].argmax(1, keepdim=True)
    next_q = next_target.gather(1, best)
    td = (reward + case.GAMMA * (1 - done) * next_q[:, 0]) - q.gather(1, action[:, None])[:, 0]
    slope = td.clamp(-1, 1)  # Huber's; the loss is slope * (td - slope / 2)
    weighted, new = slope, None
    if priority is not None:
        weighted = slope * (priority.min() / priority) ** case.BETA
        new = (td.abs() ** case.ALPHA + case.EPSILON).clamp(max=case.MAX_PRIORITY)
    dq = torch.zeros_like(q).scatter(1, action[:, None], weighted[:, None] / -len(td))
    return dq, new, (weighted * (td - slope / 2)).mean()


def clip(grad):
    norm = torch.linalg.vector_norm(grad)
    grad.mul_((case.MAX_NORM / norm).clamp(max=1))


def adam(online, target, m, v, t, grad):
    """Adam and soft target as torch.compile makes one kernel of it; clip included."""
    grad = grad * (case.MAX_NORM / torch.linalg.vector_norm(grad)).clamp(max=1)
    t.add_(1)
    m.lerp_(grad, 1 - case.BETA1)
    v.mul_(case.BETA2).add_((1 - case.BETA2) * grad * grad)
    root = (v / (1 - case.BETA2 ** t)).sqrt()
    online.sub_(case.LR / (1 - case.BETA1 ** t) * m / (root + case.ADAM_EPS))
    target.lerp_(online, case.TAU)


def views(flat, shapes):
    return [x.view(shape) for x, shape in
            zip(flat.split([torch.Size(s).numel() for s in shapes]), shapes)]


class Peer:
    def __init__(self, args, rows, batch, variant, steps=16):
        self.pad, self.uniform, self.rows, self.batch = args.pad, args.uniform, rows, batch
        data = [torch.from_numpy(x).to(DEVICE) for x in case.make_rows(rows, args.pad)]
        copies = -(-rows // len(data[0]))
        self.obs, action, self.reward, self.done = (
            x.repeat(copies, *[1] * (x.dim() - 1))[:rows] for x in data)
        self.obs = self.obs.reshape(2 * rows, -1)  # s of row i at 2i, s' at 2i + 1
        self.action = action.long()
        params = [torch.from_numpy(x) for x in case.make_params(args.pad)]
        self.shapes = [x.shape for x in params]
        self.online = torch.cat([x.flatten() for x in params]).to(DEVICE)
        self.target, self.grad = self.online.clone(), torch.zeros_like(self.online)
        self.params, self.target_params, self.grads = (
            views(x, self.shapes) for x in (self.online, self.target, self.grad))
        self.m, self.v = torch.zeros_like(self.online), torch.zeros_like(self.online)
        self.t = torch.zeros((), device=DEVICE)
        self.priority = torch.rand(rows, device=DEVICE) + 0.1
        self.lanes = torch.arange(batch, device=DEVICE)
        self.errors, self.adam, self.side, self.index, self.loss = errors, None, None, None, None
        if variant == "compile":
            torch.compiler.reset()  # it refuses more than a few batch sizes of one function
            self.errors, self.adam = (torch.compile(f, fullgraph=True, dynamic=False)
                                      for f in (errors, adam))
        self.steps = 1 if variant == "eager" else steps
        self.graph = None
        if variant != "eager" and DEVICE == "cuda":
            self.capture()

    def capture(self):
        self.side, stream = torch.cuda.Stream(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.several()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.several()
        self.graph = graph

    @contextlib.contextmanager
    def beside(self):
        """What is enqueued inside runs beside what follows, until join()."""
        if self.side is None:
            yield
        else:
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                yield

    def join(self):
        if self.side is not None:
            torch.cuda.current_stream().wait_stream(self.side)

    def choose(self):
        """Rows [B]; by priority, row b from the b-th of B equal parts of the total."""
        if self.uniform:
            return torch.randint(self.rows, (self.batch,), device=DEVICE)
        sums = self.priority.cumsum(0)
        part = (torch.rand(self.batch, device=DEVICE) + self.lanes) * (sums[-1] / self.batch)
        return torch.searchsorted(sums, part, right=True).clamp_(max=self.rows - 1)

    def draw(self):
        """index [B], x [2B, O] (all s, then all s'), action, reward, done, priority [B]."""
        index = self.choose()
        x = self.obs.index_select(0, torch.cat((2 * index, 2 * index + 1)))
        return (index, x, self.action[index], self.reward[index], self.done[index],
                None if self.uniform else self.priority[index])

    @staticmethod
    def forward(params, x):
        """h1, h2, q. _addmm_activation: bias and ReLU inside the matrix product."""
        w1, b1, w2, b2, w3, b3 = params
        h1 = torch._addmm_activation(b1, x, w1)
        h2 = torch._addmm_activation(b2, h1, w2)
        return h1, h2, torch.addmm(b3, h2, w3)

    def backward(self, x, h1, h2, dq):
        """Gradients into self.grads."""
        gw1, gb1, gw2, gb2, gw3, gb3 = self.grads
        relu_back = torch.ops.aten.threshold_backward
        torch.mm(h2.t(), dq, out=gw3)
        torch.sum(dq, 0, out=gb3)
        d2 = relu_back(dq @ self.params[4].t(), h2, 0)
        torch.mm(h1.t(), d2, out=gw2)
        torch.sum(d2, 0, out=gb2)
        d1 = relu_back(d2 @ self.params[2].t(), h1, 0)
        torch.mm(x.t(), d1, out=gw1)
        torch.sum(d1, 0, out=gb1)

    def apply(self):
        if self.adam is not None:
            self.adam(self.online, self.target, self.m, self.v, self.t, self.grad)
            return
        clip(self.grad)
        torch._fused_adam_([self.online], [self.grad], [self.m], [self.v], [], [self.t.add_(1)],
                           lr=case.LR, beta1=case.BETA1, beta2=case.BETA2, weight_decay=0.0,
                           eps=case.ADAM_EPS, amsgrad=False, maximize=False)
        self.target.lerp_(self.online, case.TAU)

    def step(self, batch, last):
        """One update from the batch. Returns the next one, drawn after the new priorities."""
        (self.index, x, action, reward, done, priority), n = batch, self.batch
        with self.beside():
            next_target = self.forward(self.target_params, x[n:])[2]
        h1, h2, q = self.forward(self.params, x)
        self.join()
        dq, new, self.loss = self.errors(q[:n], q[n:], next_target, action, reward, done, priority)
        with self.beside():
            if new is not None:
                self.priority.index_put_((self.index,), new)
            following = None if last else self.draw()
        self.backward(x[:n], h1[:n], h2[:n], dq)
        self.apply()
        self.join()
        return following

    @torch.no_grad()
    def several(self):
        batch = self.draw()
        for i in range(self.steps):
            batch = self.step(batch, i == self.steps - 1)

    def run(self):
        if self.graph is not None:
            self.graph.replay()
        else:
            self.several()

    def wait(self):
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    def draws(self, priority, n):
        self.priority.copy_(torch.from_numpy(priority))
        return torch.stack([self.choose() for _ in range(n)]).cpu().numpy()

    def state(self):
        flat = {"online": self.online, "target": self.target, "moment1": self.m, "moment2": self.v}
        host = {name: [x.cpu().numpy().copy() for x in views(x, self.shapes)]
                for name, x in flat.items()}
        last = {name: None if x is None else x.cpu().numpy()
                for name, x in (("index", self.index), ("loss", self.loss))}
        return dict(host, t=self.t.item(), priority=self.priority.cpu().numpy().copy(), **last)


def main():
    parser = case.arguments(__doc__)
    parser.add_argument("--variants", default="eager,graph,compile")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32" and not args.check
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
    if not args.check:
        case.print_head(args, f"PyTorch {torch.__version__} on {name}")
    for batch in [32] if args.check else args.batch:
        for variant in args.variants.split(","):
            try:
                measure(args, batch, variant)
            except Exception as error:
                if variant != "compile":
                    raise
                print(f"compile does not work here: {error}", file=sys.stderr)


def measure(args, batch, variant):
    if args.check:
        case.check(lambda rows, b: Peer(args, rows, b, variant, steps=1), variant, args.uniform)
    else:
        peer = Peer(args, args.rows, batch, variant)
        case.print_rates(args, batch, variant, case.window_rates(peer, args.windows))


if __name__ == "__main__":
    main()
