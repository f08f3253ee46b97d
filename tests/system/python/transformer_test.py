# SPDX-License-Identifier: Apache-2.0
"""A small transformer learns on the core: one program has the forward pass, the backward pass and the
update, and its weights stay where they are. The reference is NumPy in float64, whose gradients are
compared with differences of its loss."""
import unittest

from common import PackageTest, neuron, np
from wire import Hlo, text, varint

BATCH, TOKENS, WIDTH, HEADS, INNER, WORDS = 8, 10, 16, 2, 32, 11
ROWS, EACH = BATCH * TOKENS, WIDTH // HEADS
RATE, MOMENTUM, LEAST = 0.1, 0.9, 1e-5
SHAPES = {"words": (WORDS, WIDTH), "places": (TOKENS, WIDTH), "gain1": (WIDTH,),
          "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH),
          "mix": (WIDTH, WIDTH), "gain2": (WIDTH,), "widen": (WIDTH, INNER), "bias": (INNER,),
          "narrow": (INNER, WIDTH), "scores": (WIDTH, WORDS)}


class Writer(Hlo):
    """HLO with the broadcasts that the step needs."""

    def scaled(self, x, factor):
        return self.map("multiply", x, self.full(factor, self.shapes[x]))

    def along(self, opcode, x, row):
        """A vector with every row of a matrix."""
        return self.map(opcode, x, self.broadcast(row, self.shapes[x], [1]))

    def across(self, opcode, x, column):
        """A number of each row, of any leading dimensions, with the row."""
        axes = range(len(self.shapes[x]) - 1)
        return self.map(opcode, x, self.broadcast(column, self.shapes[x], axes))

    def sums(self, x, opcode="add", start=0):
        return self.reduce(x, start, [len(self.shapes[x]) - 1], opcode)

    def means(self, x):
        return self.scaled(self.sums(x), 1 / self.shapes[x][-1])

    def norm(self, x):
        centred = self.across("subtract", x, self.means(x))
        spread = self.means(self.map("multiply", centred, centred))
        factor = self.map("rsqrt", self.map("add", spread, self.full(LEAST, (ROWS,))))
        return self.across("multiply", centred, factor), factor

    def norm_back(self, change, normed, factor):
        change, mean = (self.across("subtract", change, self.means(change)),
                        self.means(self.map("multiply", change, normed)))
        change = self.map("subtract", change, self.across("multiply", normed, mean))
        return self.across("multiply", change, factor)

    def softmax(self, x):
        powers = self.map("exponential", self.across("subtract", x, self.sums(x, "maximum", -1e30)))
        return self.across("divide", powers, self.sums(powers))

    def heads(self, x):
        return self.reshape(x, (BATCH, TOKENS, HEADS, EACH))

    def joined(self, x):
        """Of [batch, heads, tokens, each]."""
        return self.reshape(self.transpose(x, (0, 2, 1, 3)), (ROWS, WIDTH))


def attention(h, q, k, v):
    """The mixed values, and what takes their change to those of q, k and v."""
    q, k, v = map(h.heads, (q, k, v))
    square = (BATCH, HEADS, TOKENS, TOKENS)
    places = [h.add("iota", square, (), "int32", extra=text(14, varint(axis))) for axis in (2, 3)]
    scores = h.scaled(h.dot_general(q, k, ((3,), (3,)), ((0, 2), (0, 2))), EACH**-0.5)
    seen = h.compare(*places, "GE")
    found = h.softmax(h.add("select", square, [seen, scores, h.full(-1e9, square)]))
    mixed = h.dot_general(found, v, ((3,), (1,)), ((0, 1), (0, 2)))

    def back(change):
        change = h.heads(change)
        of_v = h.dot_general(found, change, ((2,), (1,)), ((0, 1), (0, 2)))
        of_found = h.dot_general(change, v, ((3,), (3,)), ((0, 2), (0, 2)))
        mean = h.sums(h.map("multiply", of_found, found))
        of_scores = h.map("multiply", found, h.across("subtract", of_found, mean))
        of_scores = h.scaled(of_scores, EACH**-0.5)
        of_q = h.dot_general(of_scores, k, ((3,), (1,)), ((0, 1), (0, 2)))
        of_k = h.dot_general(of_scores, q, ((2,), (1,)), ((0, 1), (0, 2)))
        return map(h.joined, (of_q, of_k, of_v))
    return h.joined(mixed), back


def step_module():
    h = Writer()
    given, wanted = (h.parameter(name, (ROWS, 1), "int32") for name in ("tokens", "next"))
    w = {name: h.parameter(name, shape) for name, shape in SHAPES.items()}
    speed = {name: h.parameter(f"{name}_speed", shape) for name, shape in SHAPES.items()}
    # Forward
    places = h.reshape(h.broadcast(w["places"], (BATCH, TOKENS, WIDTH), [1, 2]), (ROWS, WIDTH))
    x = h.map("add", h.rows(w["words"], given), places)
    normed1, factor1 = h.norm(x)
    input1 = h.along("multiply", normed1, w["gain1"])
    mixed, attention_back = attention(
        h, *(h.dot(input1, w[name], 1, 0) for name in ("query", "key", "value")))
    middle = h.map("add", x, h.dot(mixed, w["mix"], 1, 0))
    normed2, factor2 = h.norm(middle)
    input2 = h.along("multiply", normed2, w["gain2"])
    before = h.along("add", h.dot(input2, w["widen"], 1, 0), w["bias"])
    none = h.full(0, (ROWS, INNER))
    hidden = h.map("maximum", before, none)
    last = h.map("add", middle, h.dot(hidden, w["narrow"], 1, 0))
    found = h.softmax(h.dot(last, w["scores"], 1, 0))
    numbers = h.add("iota", (ROWS, WORDS), (), "int32", extra=text(14, varint(1)))
    right = h.add("reshape", (ROWS,), [wanted], "int32")
    right = h.add("broadcast", (ROWS, WORDS), [right], "int32", extra=text(14, varint(0)))
    right = h.add("convert", (ROWS, WORDS), [h.compare(numbers, right, "EQ")])
    hit = h.sums(h.map("multiply", found, right))
    loss = h.map("multiply", h.reduce(h.map("log", hit), 0, [0], "add"), h.constant(-1 / ROWS))
    # Backward
    change = {}
    of_scores = h.scaled(h.map("subtract", found, right), 1 / ROWS)
    change["scores"] = h.dot(last, of_scores, 0, 0)
    of_last = h.dot(of_scores, w["scores"], 1, 1)
    change["narrow"] = h.dot(hidden, of_last, 0, 0)
    of_before = h.add("select", (ROWS, INNER), [h.compare(before, none, "GT"),
                                                h.dot(of_last, w["narrow"], 1, 1), none])
    change["bias"] = h.reduce(of_before, 0, [0], "add")
    change["widen"] = h.dot(input2, of_before, 0, 0)
    of_input2 = h.dot(of_before, w["widen"], 1, 1)
    change["gain2"] = h.reduce(h.map("multiply", of_input2, normed2), 0, [0], "add")
    of_middle = h.norm_back(h.along("multiply", of_input2, w["gain2"]), normed2, factor2)
    of_middle = h.map("add", of_middle, of_last)
    change["mix"] = h.dot(mixed, of_middle, 0, 0)
    of_input1 = None
    for name, of_it in zip(("query", "key", "value"),
                           attention_back(h.dot(of_middle, w["mix"], 1, 1))):
        change[name] = h.dot(input1, of_it, 0, 0)
        part = h.dot(of_it, w[name], 1, 1)
        of_input1 = part if of_input1 is None else h.map("add", of_input1, part)
    change["gain1"] = h.reduce(h.map("multiply", of_input1, normed1), 0, [0], "add")
    of_x = h.norm_back(h.along("multiply", of_input1, w["gain1"]), normed1, factor1)
    of_x = h.map("add", of_x, of_middle)
    change["places"] = h.reduce(h.reshape(of_x, (BATCH, TOKENS, WIDTH)), 0, [0], "add")
    change["words"] = h.add_rows(h.full(0, SHAPES["words"]), given, of_x)
    # Update
    results, names = [loss], ["loss"]
    for name in SHAPES:
        faster = h.map("add", h.scaled(speed[name], MOMENTUM), change[name])
        results += [h.map("subtract", w[name], h.scaled(faster, RATE)), faster]
        names += [f"new_{name}", f"new_{name}_speed"]
    for place, name in enumerate(names[1:], 1):
        parameter = list(SHAPES).index(name.removeprefix("new_").removesuffix("_speed")) + 2
        h.alias(place, parameter + (len(SHAPES) if name.endswith("_speed") else 0))
    return h.bytes(results, names)


def forward(w, tokens, following):
    """The loss, and all that the backward pass needs."""
    def norm(x):
        centred = x - x.mean(-1, keepdims=True)
        factor = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + LEAST)
        return centred * factor, factor

    s = {"x": w["words"][tokens] + w["places"]}
    s["n1"], s["f1"] = norm(s["x"])
    s["in1"] = s["n1"] * w["gain1"]
    s["q"], s["k"], s["v"] = (
        (s["in1"] @ w[name]).reshape(BATCH, TOKENS, HEADS, EACH) for name in ("query", "key", "value"))
    scores = np.einsum("bqhe,bkhe->bhqk", s["q"], s["k"]) / np.sqrt(EACH)
    scores = np.where(np.tri(TOKENS, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    s["p"] = powers / powers.sum(-1, keepdims=True)
    s["mixed"] = np.einsum("bhqk,bkhe->bqhe", s["p"], s["v"]).reshape(BATCH, TOKENS, WIDTH)
    s["middle"] = s["x"] + s["mixed"] @ w["mix"]
    s["n2"], s["f2"] = norm(s["middle"])
    s["in2"] = s["n2"] * w["gain2"]
    s["before"] = s["in2"] @ w["widen"] + w["bias"]
    s["last"] = s["middle"] + np.maximum(s["before"], 0) @ w["narrow"]
    powers = np.exp(s["last"] @ w["scores"])
    s["found"] = powers / powers.sum(-1, keepdims=True)
    right = np.eye(WORDS)[following]
    s["error"] = (s["found"] - right) / ROWS
    return -np.log((s["found"] * right).sum(-1)).mean(), s


def backward(w, s, tokens):
    def over(a, b):
        return np.einsum("bti,btj->ij", a, b)

    def norm(change, normed, factor):
        mean = change.mean(-1, keepdims=True)
        return factor * (change - mean - normed * (change * normed).mean(-1, keepdims=True))

    g = {"scores": over(s["last"], s["error"])}
    last = s["error"] @ w["scores"].T
    g["narrow"] = over(np.maximum(s["before"], 0), last)
    before = (last @ w["narrow"].T) * (s["before"] > 0)
    g["bias"], g["widen"] = before.sum((0, 1)), over(s["in2"], before)
    in2 = before @ w["widen"].T
    g["gain2"] = (in2 * s["n2"]).sum((0, 1))
    middle = last + norm(in2 * w["gain2"], s["n2"], s["f2"])
    g["mix"] = over(s["mixed"], middle)
    mixed = (middle @ w["mix"].T).reshape(BATCH, TOKENS, HEADS, EACH)
    p = np.einsum("bqhe,bkhe->bhqk", mixed, s["v"])
    p = s["p"] * (p - (p * s["p"]).sum(-1, keepdims=True)) / np.sqrt(EACH)
    parts = {"query": np.einsum("bhqk,bkhe->bqhe", p, s["k"]),
             "key": np.einsum("bhqk,bqhe->bkhe", p, s["q"]),
             "value": np.einsum("bhqk,bqhe->bkhe", s["p"], mixed)}
    in1 = 0
    for name, part in parts.items():
        part = part.reshape(BATCH, TOKENS, WIDTH)
        g[name] = over(s["in1"], part)
        in1 = in1 + part @ w[name].T
    g["gain1"] = (in1 * s["n1"]).sum((0, 1))
    x = middle + norm(in1 * w["gain1"], s["n1"], s["f1"])
    g["places"], g["words"] = x.sum(0), np.zeros(SHAPES["words"])
    np.add.at(g["words"], tokens, x)
    return g


class Transformer(PackageTest):
    def weights(self):
        scale = {"words": 0.5, "places": 0.5, "bias": 0}
        return {name: np.ones(shape, np.float32) if name.startswith("gain")
                else self.normal(*shape) * np.float32(scale.get(name, 0.25))
                for name, shape in SHAPES.items()}

    def batch(self):
        """Sequences that count by one or by two: the next number follows from two of them."""
        first = self.random.integers(0, WORDS, (BATCH, 1))
        steps = self.random.integers(1, 3, (BATCH, 1))
        numbers = ((first + steps * np.arange(TOKENS + 1)) % WORDS).astype(np.int32)
        return numbers[:, :-1], numbers[:, 1:]

    def test_the_gradients_of_the_reference_are_differences_of_its_loss(self):
        w = {name: value.astype(np.float64) for name, value in self.weights().items()}
        tokens, following = self.batch()
        gradients = backward(w, forward(w, tokens, following)[1], tokens)
        for name in SHAPES:
            way = self.random.standard_normal(SHAPES[name])
            near = [forward({**w, name: w[name] + side * way}, tokens, following)[0]
                    for side in (1e-5, -1e-5)]
            self.assertAlmostEqual((near[0] - near[1]) / 2e-5, np.sum(gradients[name] * way), 6,
                                   name)

    def test_it_learns_to_count_as_numpy_says(self):
        steps = 60
        neff = neuron.compile(self.write("step.pb", step_module()), check=True)
        start, batches = self.weights(), [self.batch() for _ in range(steps)]
        names = [name for weight in SHAPES for name in (weight, f"{weight}_speed")]
        losses = []
        with neuron.load(neff, aliases={f"new_{name}": name for name in names}) as model:
            model.write(**start, **{f"{name}_speed": np.zeros(shape, np.float32)
                                    for name, shape in SHAPES.items()})
            for tokens, following in batches:
                model.write(tokens=tokens.reshape(ROWS, 1), next=following.reshape(ROWS, 1))
                model.execute()
                losses.append(float(model.read("loss")))
            learned = {name: model.read(f"new_{name}") for name in SHAPES}
        w = {name: value.astype(np.float64) for name, value in start.items()}
        speed, expected = {name: 0 for name in SHAPES}, []
        for tokens, following in batches:
            loss, state = forward(w, tokens, following)
            expected.append(loss)
            for name, gradient in backward(w, state, tokens).items():
                speed[name] = MOMENTUM * speed[name] + gradient
                w[name] -= RATE * speed[name]
        np.testing.assert_allclose(losses, expected, rtol=1e-3)
        self.assertLess(np.mean(losses[-5:]), losses[0] / 3)
        for name in SHAPES:
            self.near(learned[name], w[name], 2e-3)


if __name__ == "__main__":
    unittest.main()
