// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/lanes.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace neuron::lowering {

Lane Lanes::fresh(uint8_t dtype) {
  if (!target_.present()) return {work_.lend(), dtype};
  return {nullptr, dtype, std::exchange(target_, {})};
}

TileAccess Lanes::access(const Lane& lane) const {
  if (lane.view.present()) {
    TileAccess view = lane.view;
    view.dtype = lane.dtype;
    return view;
  }
  return lane.tile->as(lane.dtype).at(0, parts_, 0, columns_);
}

Lane Lanes::load(const Buffer& buffer, uint64_t first, uint8_t dtype) {
  const Lane lane = fresh(dtype);
  work_.load(access(lane), Workspace::rows(buffer, first, parts_, columns_));
  return lane;
}

void Lanes::store(const Buffer& buffer, uint64_t first, const Lane& lane) {
  work_.store(Workspace::rows(buffer, first, parts_, columns_), access(lane));
}

Lane Lanes::load_rows(const Buffer& buffer, uint64_t first, uint64_t pitch, uint8_t dtype) {
  const Lane lane = fresh(dtype);
  BufferAccess rows = Workspace::rows(buffer, first, parts_, columns_);
  rows.step[1] = static_cast<int64_t>(pitch) * 4;
  work_.load(access(lane), rows);
  return lane;
}

void Lanes::store_rows(const Buffer& buffer, uint64_t first, uint64_t pitch, const Lane& lane) {
  BufferAccess rows = Workspace::rows(buffer, first, parts_, columns_);
  rows.step[1] = static_cast<int64_t>(pitch) * 4;
  work_.store(rows, access(lane));
}

Lane Lanes::load_numbers(const Buffer& buffer, uint64_t first, uint8_t dtype) {
  const Lane column = fresh(dtype), lane = fresh(dtype);
  const Tile tile = column.tile->as(dtype);
  work_.load(tile.at(0, parts_, 0, 1), Workspace::rows(buffer, first, parts_, 1));
  work_.program.tensor_copy(Engine::kDve, access(lane),
                            tile.pattern(0, parts_, 0, {columns_}, {0}));
  return lane;
}

Lane Lanes::number(float value) {
  const Lane lane = fresh(NEURON_DTYPE_F32);
  work_.program.memset(Engine::kDve, access(lane), std::bit_cast<uint32_t>(value));
  return lane;
}

Lane Lanes::with(uint8_t op, const Lane& a, const Lane& b) {
  // Powers of two tensors are an operation of Pool alone.
  const bool scalars = op != NEURON_ALU_POW;
  if (scalars && b.column.present()) return stepped(a, {op, b.column});
  if (scalars && a.column.present()) return stepped(b, {op, builder::reversed(a.column)});
  const Lane lane = fresh(NEURON_DTYPE_F32);
  const Engine engine = op == NEURON_ALU_POW ? Engine::kPool : Engine::kDve;
  if (engine == Engine::kDve) vector_works(2);
  work_.program.tensor_tensor(engine, access(lane), access(a), op, access(b));
  return lane;
}

Lane Lanes::with(uint8_t op, const Lane& a, float b) {
  const bool relu = op == NEURON_ALU_MAX && b == 0 && !std::signbit(b);
  if (!relu || !work_.activation_is_idle(columns_)) return stepped(a, {op, b});
  const Lane lane = fresh(NEURON_DTYPE_F32);
  work_.program.activate(access(lane), NEURON_ACT_RELU, access(a));
  return lane;
}

Lane Lanes::from(float a, uint8_t op, const Lane& b) {
  return stepped(b, {op, builder::reversed(a)});
}

bool Lanes::enters_activation(const Step& step) {
  // x * 1 + b has the bits of x + b. Only a tile is added.
  return step.op == NEURON_ALU_MUL || (step.op == NEURON_ALU_ADD && step.scalar.access.present());
}

namespace {

builder::ActivateOptions options_of(const Step& step) {
  builder::ActivateOptions options;
  (step.op == NEURON_ALU_MUL ? options.scale : options.bias) = step.scalar;
  options.scale.reversed = options.bias.reversed = false;
  return options;
}

}  // namespace

Lane Lanes::activate(uint8_t function, const Lane& a, const Step& before) {
  const Lane lane = fresh(NEURON_DTYPE_F32);
  work_.activation_works(columns_);
  work_.program.activate(access(lane), function, access(a), options_of(before));
  return lane;
}

Lane Lanes::stepped(const Lane& a, const Step& step) {
  const Lane lane = fresh(NEURON_DTYPE_F32);
  if (enters_activation(step) && work_.activation_is_idle(columns_)) {
    work_.program.activate(access(lane), NEURON_ACT_COPY, access(a), options_of(step));
    return lane;
  }
  vector_works();
  work_.program.tensor_scalar(Engine::kDve, access(lane), access(a), step.op, step.scalar);
  return lane;
}

Lane Lanes::paired(const Pair& pair) {
  const auto& [from, first, second, with_lanes, reversed, other] = pair;
  const Lane lane = fresh(NEURON_DTYPE_F32);
  const bool sums = first.op == NEURON_ALU_MUL && second.op == NEURON_ALU_ADD;
  // Pool does not reach PSUM.
  if (with_lanes && sums && shares_ && access(other).space == NEURON_SPACE_SBUF &&
      work_.pool_is_idle(columns_)) {
    const Lane product{work_.lend(), NEURON_DTYPE_F32};
    work_.program.activate(access(product), NEURON_ACT_COPY, access(from), options_of(first));
    work_.program.tensor_tensor(Engine::kPool, access(lane), access(product), NEURON_ALU_ADD,
                                access(other));
    return lane;
  }
  if (with_lanes) {
    vector_works(2);
    work_.program.scalar_tensor_tensor(access(lane), access(from), first.op, first.scalar,
                                       second.op, access(other), reversed);
    return lane;
  }
  const bool relu = second.op == NEURON_ALU_MAX && second.scalar.is_number &&
                    second.scalar.value == 0 && !std::signbit(second.scalar.value);
  if (relu && enters_activation(first) && work_.activation_is_idle(columns_)) {
    work_.program.activate(access(lane), NEURON_ACT_RELU, access(from), options_of(first));
    return lane;
  }
  const bool affine =
      first.op == NEURON_ALU_MUL && second.op == NEURON_ALU_ADD && second.scalar.access.present();
  if (affine && work_.activation_is_idle(columns_)) {
    builder::ActivateOptions options = options_of(first);
    options.bias = second.scalar;
    options.bias.reversed = false;
    work_.program.activate(access(lane), NEURON_ACT_COPY, access(from), options);
    return lane;
  }
  vector_works();
  work_.program.tensor_scalar(Engine::kDve, access(lane), access(from), first.op, first.scalar,
                              second.op, second.scalar);
  return lane;
}

Lane Lanes::scaled(const Lane& a, float factor, float offset) {
  const Lane lane = fresh(NEURON_DTYPE_F32);
  work_.program.tensor_scalar(Engine::kDve, access(lane), access(a), NEURON_ALU_MUL, factor,
                              NEURON_ALU_ADD, offset);
  return lane;
}

Lane Lanes::root(const Lane& a) {
  const Lane lane = fresh(NEURON_DTYPE_F32);
  // The power of -infinity would be infinite, that of a finite number is NaN.
  work_.program.tensor_scalar(Engine::kDve, access(lane), access(a), NEURON_ALU_MAX,
                              -std::numeric_limits<float>::max(), NEURON_ALU_POW, 0.5F);
  return lane;
}

Lane Lanes::reciprocal(const Lane& a) {
  const Lane lane = fresh(NEURON_DTYPE_F32);
  vector_works(8);
  work_.program.reciprocal(access(lane), access(a));
  return lane;
}

Lane Lanes::activate(uint8_t function, const Lane& a) {
  const Lane lane = fresh(NEURON_DTYPE_F32);
  work_.activation_works(columns_);
  work_.program.activate(access(lane), function, access(a));
  return lane;
}

Lane Lanes::compare(uint8_t op, const Lane& a, const Lane& b) {
  const Lane lane = fresh(NEURON_DTYPE_I32);
  vector_works(2);
  work_.program.tensor_tensor(Engine::kDve, access(lane), access(a), op, access(b));
  return lane;
}

Lane Lanes::compare(uint8_t op, const Lane& a, float b) {
  const Lane lane = fresh(NEURON_DTYPE_I32);
  vector_works();
  work_.program.tensor_scalar(Engine::kDve, access(lane), access(a), op, b);
  return lane;
}

Lane Lanes::whole_number(int32_t value) {
  const Lane lane = fresh(NEURON_DTYPE_I32);
  work_.program.memset(Engine::kPool, access(lane), static_cast<uint32_t>(value));
  return lane;
}

Lane Lanes::whole(uint8_t op, const Lane& a, const Lane& b) {
  const Lane lane = fresh(a.dtype);
  work_.program.tensor_tensor(Engine::kPool, access(lane), access(a), op, access(b.as(a.dtype)));
  return lane;
}

Lane Lanes::bits(uint8_t op, const Lane& a, uint32_t b) {
  const Lane lane = fresh(a.dtype);
  const uint8_t dtype = a.dtype == NEURON_DTYPE_F32 ? uint8_t{NEURON_DTYPE_I32} : a.dtype;
  work_.program.tensor_scalar_bits(Engine::kPool, access(lane.as(dtype)), access(a.as(dtype)), op,
                                   b);
  return lane;
}

Lane Lanes::select(const Lane& truth, const Lane& yes, const Lane& no) {
  const Lane lane = fresh(yes.dtype);
  vector_works(3);
  // The bits of numbers are copied, whatever type they have.
  const TileAccess to = access(lane.as(NEURON_DTYPE_U32));
  work_.program.tensor_copy(Engine::kDve, to, access(no.as(NEURON_DTYPE_U32)));
  work_.program.copy_predicated(to, access(yes.as(NEURON_DTYPE_U32)),
                                access(truth.as(NEURON_DTYPE_U32)));
  return lane;
}

Lane Lanes::converted(const Lane& a, uint8_t dtype) {
  const Lane lane = fresh(dtype);
  work_.program.tensor_copy(Engine::kDve, access(lane), access(a));
  return lane;
}

Lane Lanes::narrowed(const Lane& a, uint8_t dtype) {
  const Lane narrow = fresh(NEURON_DTYPE_F32), wide = fresh(NEURON_DTYPE_F32);
  const TileAccess small = narrow.tile->as(dtype).at(0, parts_, 0, columns_);
  work_.program.tensor_copy(Engine::kDve, small, access(a));
  work_.program.tensor_copy(Engine::kDve, access(wide), small);
  return wide;
}

}  // namespace neuron::lowering
