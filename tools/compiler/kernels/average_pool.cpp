// SPDX-License-Identifier: Apache-2.0
// Means of windows: y [channels, height / window, width / window] of x [channels, height, width].
// A channel is a partition; the windows are two dimensions of a four-dimensional access, which the
// reduction sums.
#include <algorithm>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;

Neff average_pool(const std::string& name, uint8_t dtype, const PoolShape& shape) {
  const auto [channels, height, width, window] = shape;
  if (channels == 0 || height == 0 || width == 0 || window == 0 || height % window != 0 ||
      width % window != 0 || window > height) {
    return fail(NRT_INVALID,
                "average_pool \"{}\" of [{}, {}, {}] with a window of {}; expected a window that "
                "divides height and width",
                name, channels, height, width, window);
  }
  Program program(name);
  const uint32_t high = height / window, wide = width / window;
  const Buffer x = program.input("x", dtype, {channels, uint64_t{height} * width});
  const Buffer y = program.output("y", dtype, {channels, uint64_t{high} * wide});
  const Tile image = program.sbuf("image", NEURON_PARTITIONS, height * width, dtype);
  const Tile sums = program.sbuf("sums", NEURON_PARTITIONS, high * wide, NEURON_DTYPE_F32);
  const Tile means = program.sbuf("means", NEURON_PARTITIONS, high * wide, dtype);
  for (uint32_t channel = 0; channel < channels; channel += NEURON_PARTITIONS) {
    const uint32_t parts = std::min<uint32_t>(NEURON_PARTITIONS, channels - channel);
    program.section("channels_" + std::to_string(channel));
    program.dma(Engine::kSp, image.row_range(0, parts), x.block(channel, parts, 0, height * width));
    const auto step = [](uint32_t elements) { return static_cast<int32_t>(elements); };
    const auto windows = image.pattern(0, parts, 0, {window, window, wide, high},
                                       {1, step(width), step(window), step(window * width)});
    program.tensor_reduce(sums.row_range(0, parts), NEURON_ALU_ADD, windows, 2);
    program.tensor_scalar(Engine::kDve, means.row_range(0, parts), sums.row_range(0, parts),
                          NEURON_ALU_MUL, 1.0F / static_cast<float>(window * window));
    program.dma(Engine::kPool, y.block(channel, parts, 0, uint64_t{high} * wide),
                means.row_range(0, parts));
  }
  return program.build();
}

}  // namespace neuron::kernels
