// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/graph/interpreter.h"

#include <algorithm>
#include <cmath>

#include "tools/compiler/graph/map_function.h"

namespace neuron::graph {
namespace {

// Dimensions from `dimension` on; the last one without a call an element.
template <class Number>
void copy_elements(const Region& region, size_t dimension, Number* to, const Number* from) {
  if (dimension == region.dimensions.size()) {
    *to = *from;
    return;
  }
  const Region::Dimension& d = region.dimensions[dimension];
  if (dimension + 1 < region.dimensions.size()) {
    for (int64_t i = 0; i < d.size; ++i) {
      copy_elements(region, dimension + 1, to + i * d.to_step, from + i * d.from_step);
    }
  } else if (d.to_step == 1 && d.from_step == 1) {
    std::copy_n(from, d.size, to);
  } else {
    for (int64_t i = 0; i < d.size; ++i) to[i * d.to_step] = from[i * d.from_step];
  }
}

template <class Number>
void move_elements(const Node& node, const std::vector<const Tensor*>& operands,
                   std::vector<Number> Tensor::*elements, std::vector<Number>& out) {
  for (const Region& region : node.regions) {
    const std::vector<Number>& source = operands[region.operand]->*elements;
    copy_elements(region, 0, out.data() + region.to, source.data() + region.from);
  }
}

Tensor of_shape(Tensor tensor, const Shape& shape) {
  tensor.shape = shape;
  return tensor;
}

Tensor evaluate_move(const Node& node, const std::vector<const Tensor*>& operands) {
  if (!operands.empty() && renames(node, operands[0]->elements())) {
    return of_shape(*operands[0], node.shape);
  }
  Tensor out = Tensor::zeros(node.type, node.shape);
  if (node.fill != 0 || std::signbit(node.fill)) {
    std::fill(out.reals.begin(), out.reals.end(), node.fill);
    std::fill(out.integers.begin(), out.integers.end(), truncated(node.type, node.fill));
  }
  if (is_real(node.type)) {
    move_elements(node, operands, &Tensor::reals, out.reals);
  } else {
    move_elements(node, operands, &Tensor::integers, out.integers);
  }
  return out;
}

double sum_with_product(double sum, double a, double b) { return sum + a * b; }

// Keeps the low bits.
int64_t sum_with_product(int64_t sum, int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(sum) +
                              static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <class Number>
void multiply(const Node& node, const std::vector<Number>& a, const std::vector<Number>& b,
              std::vector<Number>& out) {
  const int64_t row_step = node.turned ? 1 : node.depth;
  const int64_t depth_step = node.turned ? node.rows : 1;
  for (int64_t batch = 0; batch < node.batch; ++batch) {
    const Number* left = a.data() + batch * node.rows * node.depth;
    const Number* right = b.data() + batch * node.depth * node.columns;
    Number* sums = out.data() + batch * node.rows * node.columns;
    for (int64_t row = 0; row < node.rows; ++row) {
      for (int64_t k = 0; k < node.depth; ++k) {
        const Number factor = left[row * row_step + k * depth_step];
        for (int64_t column = 0; column < node.columns; ++column) {
          Number& sum = sums[row * node.columns + column];
          sum = sum_with_product(sum, factor, right[k * node.columns + column]);
        }
      }
    }
  }
}

Tensor evaluate_product(const Node& node, const std::vector<const Tensor*>& operands) {
  Tensor out = Tensor::zeros(node.type, node.shape);
  if (is_real(node.type)) {
    multiply(node, operands[0]->reals, operands[1]->reals, out.reals);
    for (double& value : out.reals) value = rounded(node.type, value);
  } else {
    multiply(node, operands[0]->integers, operands[1]->integers, out.integers);
    for (int64_t& value : out.integers) value = wrapped(node.type, value);
  }
  return out;
}

Tensor evaluate_reduce(const Node& node, const std::vector<const Tensor*>& operands) {
  Tensor out = Tensor::zeros(node.type, node.shape);
  const Tensor& x = *operands[0];
  for (int64_t row = 0; row < node.rows; ++row) {
    for (int64_t column = 0; column < node.columns; ++column) {
      const auto element = [&](int64_t k) {
        return at((row * node.depth + k) * node.columns + column);
      };
      const size_t to = at(row * node.columns + column);
      if (is_real(node.type)) {
        double value = x.reals[element(0)];
        for (int64_t k = 1; k < node.depth; ++k) {
          value = combine(node.function, value, x.reals[element(k)]);
        }
        out.reals[to] = rounded(node.type, value);
      } else {
        int64_t value = x.integers[element(0)];
        for (int64_t k = 1; k < node.depth; ++k) {
          value = combine(node.function, node.type, value, x.integers[element(k)]);
        }
        out.integers[to] = value;
      }
    }
  }
  return out;
}

// Calls copy(to, from, index of the row) for each element of a row whose number is within the data.
template <class Use>
void for_rows(const Node& node, const Tensor& numbers, const Use& use) {
  for (int64_t row = 0; row < node.rows; ++row) {
    const int64_t number = numbers.integer(at(row));
    if (number < 0 || number >= node.depth) continue;
    for (int64_t column = 0; column < node.columns; ++column) {
      use(at(row * node.columns + column), at(number * node.columns + column));
    }
  }
}

Tensor evaluate_gather(const Node& node, const std::vector<const Tensor*>& operands) {
  Tensor out = Tensor::zeros(node.type, node.shape);
  const Tensor& data = *operands[0];
  for_rows(node, *operands[1], [&](size_t row, size_t in_data) {
    if (is_real(node.type)) {
      out.reals[row] = data.reals[in_data];
    } else {
      out.integers[row] = data.integers[in_data];
    }
  });
  return out;
}

Tensor evaluate_scatter(const Node& node, const std::vector<const Tensor*>& operands) {
  Tensor out = *operands[0];
  out.shape = node.shape;
  const Tensor& rows = *operands[2];
  for_rows(node, *operands[1], [&](size_t row, size_t in_data) {
    if (is_real(node.type)) {
      double& value = out.reals[in_data];
      value = node.replaces ? rows.reals[row] : combine(node.function, value, rows.reals[row]);
    } else {
      int64_t& value = out.integers[in_data];
      value = node.replaces ? rows.integers[row]
                            : combine(node.function, node.type, value, rows.integers[row]);
    }
  });
  for (double& value : out.reals) value = rounded(node.type, value);
  return out;
}

}  // namespace

Tensor evaluate_node(const Node& node, const std::vector<const Tensor*>& operands) {
  switch (node.kind) {
    case Kind::kMap:
      return evaluate_map(node, operands);
    case Kind::kMove:
      return evaluate_move(node, operands);
    case Kind::kProduct:
      return evaluate_product(node, operands);
    case Kind::kReduce:
      return evaluate_reduce(node, operands);
    case Kind::kGather:
      return evaluate_gather(node, operands);
    case Kind::kScatter:
      return evaluate_scatter(node, operands);
    case Kind::kKernel:
      return Tensor::zeros(node.type, node.shape);
    default:
      return of_shape(*node.constant, node.shape);
  }
}

std::string not_computed(const Graph& graph) {
  const std::vector<bool> marks = needed(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (marks[i] && graph.nodes[i].kind == Kind::kKernel) return graph.nodes[i].origin;
  }
  return "";
}

std::vector<SharedTensor> evaluate(const Graph& graph, const std::vector<SharedTensor>& inputs) {
  return evaluate_ranks(graph, {inputs})[0];
}

std::vector<std::vector<SharedTensor>> evaluate_ranks(
    const Graph& graph, const std::vector<std::vector<SharedTensor>>& inputs) {
  const size_t ranks = inputs.size();
  std::vector<std::vector<SharedTensor>> values(ranks,
                                                std::vector<SharedTensor>(graph.nodes.size()));
  const std::vector<bool> marks = needed(graph);
  // After its last use a value is dropped, so that large models fit into memory.
  std::vector<size_t> last(graph.nodes.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!marks[i]) continue;
    for (const Value operand : graph.nodes[i].operands) last[at(operand)] = i;
  }
  for (const Output& output : graph.outputs) last[at(output.value)] = graph.nodes.size();
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      values[rank][at(graph.inputs[i])] = inputs[rank][i];
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!marks[i] || node.kind == Kind::kInput) continue;
    if (node.kind == Kind::kExchange) {
      std::vector<const Tensor*> all;
      for (const auto& of_rank : values) all.push_back(of_rank[at(node.operands[0])].get());
      std::vector<Tensor> results = evaluate_exchange(node, all);
      for (size_t rank = 0; rank < ranks; ++rank) {
        values[rank][i] = std::make_shared<const Tensor>(std::move(results[rank]));
      }
    }
    for (auto& of_rank : values) {
      if (node.kind == Kind::kConstant) {
        of_rank[i] = node.constant;
      } else if (node.kind != Kind::kExchange) {
        std::vector<const Tensor*> operands;
        for (const Value operand : node.operands) operands.push_back(of_rank[at(operand)].get());
        of_rank[i] = std::make_shared<const Tensor>(evaluate_node(node, operands));
      }
      for (const Value operand : node.operands) {
        if (last[at(operand)] == i) of_rank[at(operand)].reset();
      }
    }
  }
  std::vector<std::vector<SharedTensor>> outputs(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (const Output& output : graph.outputs) {
      const SharedTensor& value = values[rank][at(output.value)];
      const Shape& shape = graph.nodes[at(output.value)].shape;
      outputs[rank].push_back(
          value->shape == shape ? value : std::make_shared<const Tensor>(of_shape(*value, shape)));
    }
  }
  return outputs;
}

}  // namespace neuron::graph
