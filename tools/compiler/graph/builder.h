// SPDX-License-Identifier: Apache-2.0
//
// Writes a graph operation by operation, with the rules of arrays that importers share: moves,
// reductions, products, rows by number.
// Callers: importers. Thread-safe: no. Owns the graph. Fails: as ValueBuilder does.
#ifndef TOOLS_COMPILER_GRAPH_BUILDER_H
#define TOOLS_COMPILER_GRAPH_BUILDER_H

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/compiler/graph/value_builder.h"

namespace neuron::graph {

// Of one dimension: `count` elements from `first` on, `step` apart.
struct Slice {
  int64_t first = 0, count = 0, step = 1;
};

class Builder : public ValueBuilder {
 public:
  using ValueBuilder::ValueBuilder;

  // 0, 1, 2 ... along `axis`, the same elsewhere.
  Value counting(Type type, const Shape& shape, int64_t axis);

  // Moves.
  Value reshape(Value x, Shape to);
  Value transpose(Value x, const std::vector<int64_t>& order);  // result axis i is axis order[i]
  Value slice(Value x, const std::vector<Slice>& slices);       // of every dimension
  Value slice_axis(Value x, int64_t axis, Slice part);
  Value pad(Value x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
            double fill);
  Value concat(const std::vector<Value>& values, int64_t axis);
  // Row i of `axis` is row numbers[i] of x; negative: the fill.
  Value pick(Value x, int64_t axis, const std::vector<int64_t>& numbers, double fill = 0);
  // A further dimension of each listed axis: windows[i] of `size` elements `dilation` apart, of
  // which there are `count`, `stride` apart, from `first` on, which may lie outside x: the fill.
  struct Window {
    int64_t size = 1, dilation = 1, count = 1, stride = 1, first = 0;
  };
  // x [outer, spatial...] to [outer, windows' counts..., windows' sizes...]
  Value windows(Value x, int64_t outer_axes, const std::vector<Window>& list, double fill,
                bool sizes_first = false);

  // Folds the axes; keeps them with size 1 if `keep`.
  Value reduce(Function function, Value x, std::vector<int64_t> axes, bool keep);
  // The index along axis `number` of the largest (or smallest) element, first or last of equal
  // ones.
  Value best_index(Value x, int64_t number, bool largest, bool last);
  // Matrix product of the last two dimensions, the others broadcast.
  Value product(Value a, Value b);
  // [batch, rows, depth] x [batch, depth, columns]; `turned`: a is [batch, depth, rows].
  Value batched_product(Value a, Value b, bool turned);
  // [batch * groups, rows, columns] = weights [groups, depth, rows] turned, the same for the whole
  // batch, times columns [batch * groups, depth, columns].
  Value grouped_product(Value weights, Value columns, int64_t batch);
  // x [images, channels, image...] with weights [outputs, channels / groups, kernel...]; a window
  // of each dimension of the image. Group g of the outputs sees group g of the channels.
  Value convolution(Value x, Value weights, const std::vector<Window>& windows, int64_t groups);
  // The same with zeros between the elements of the image, which lie gaps[i] apart; the windows are
  // those of that image.
  Value spread_convolution(Value x, Value weights, const std::vector<Window>& windows,
                           const std::vector<int64_t>& gaps, int64_t groups);
  // data [depth, columns], numbers [rows] of i64.
  Value gather(Value data, Value numbers);
  Value scatter(Value data, Value numbers, Value rows, std::optional<Function> combine);
  // `x` as the kind of exchange wants it; `combine` where it combines.
  Value exchange(Value x, Exchange exchange, Function combine = Function::kAdd);
  // The results of a kernel, which have these types and shapes.
  std::vector<Value> kernel(const std::string& trace, const std::vector<Value>& operands,
                            const std::vector<std::pair<Type, Shape>>& results);
  // Element [i...] of the result is row `numbers`[i...] of axis `number` of x; negative ones from
  // the end.
  Value take(Value x, Value numbers, int64_t number);

 protected:
  Value joined_map(Function function, Value a, Value b) override;

 private:
  // A value whose elements are those of several others at other places, and how each of these was
  // made: [images, groups * phases * pitch, image...], of whose pitch the first `outputs` are read.
  struct Joining {
    struct Part {
      int64_t groups = 1, phases = 1, outputs = 1, pitch = 1;
    };
    Shape shape;
    std::vector<Part> parts;
    std::vector<Region> regions;
    bool whole = false;  // nothing else is in it
  };
  struct Joined {
    std::shared_ptr<const Joining> joining;
    std::vector<Value> parts;
  };

  Value spread(Value x, const std::vector<int64_t>& gaps);
  Value phase_weights(Value weights, const std::vector<std::vector<Slice>>& kernels,
                      const Joining::Part& part);
  Value joined(std::shared_ptr<const Joining> joining, const std::vector<Value>& parts);
  Value numbers_of(const Joining::Part& part, Value numbers, size_t rank);
  bool fits_channels(Value numbers, const Shape& to) const;
  // Of one channel of the image each.
  Value depthwise_bands(Value x, Value weights, const std::vector<Window>& windows);
  Value depthwise_convolution(Value x, Value weights, const std::vector<Window>& windows);
  // Whether their shapes are those of a product.
  bool fit(Value a, Value b, bool turned) const;
  Value plain_product(Value a, Value b, bool turned);  // one node
  Value whole_product(Value a, Value b, bool turned);  // of i32
  Value move(Value x, Shape shape, Region region, double fill = 0);

  // Maps are computed before their operand is joined: there it lies in fewer columns, and joining
  // comes once.
  std::map<Value, Joined> joined_;
};

}  // namespace neuron::graph

#endif
