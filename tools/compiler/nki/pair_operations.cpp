// SPDX-License-Identifier: Apache-2.0
// Calls at which the two programs of a virtual core of two physical ones meet.
#include "tools/compiler/nki/context.h"

namespace neuron::nki {

using builder::BufferAccess;
using builder::Engine;
using builder::TileAccess;
using runtime::fail;
using runtime::Result;

namespace {

constexpr size_t kMostTensors = 1024;
constexpr unsigned kAll = bit(Engine::kPe) | bit(Engine::kActivation) | bit(Engine::kPool) |
                          bit(Engine::kDve) | bit(Engine::kSp);

Result<void> check_pair(const Context& context) {
  if (context.pair) return {};
  return fail(NRT_INVALID,
              "the trace has one program, and this call is for two; a \"core\" line begins the "
              "second one");
}

Result<void> core_barrier(Context& context, Record& record) {
  NEURON_CHECK(check_pair(context));
  std::vector<Operand> data;
  if (record.has("data")) data = record.operands("data", kMostTensors);
  NEURON_CHECK(record.result());
  // Which engine has little to do is not the same on both cores.
  NEURON_TRY(engine, context.engine(record, Engine::kPool,
                                    record.has("engine") ? kAll : bit(Engine::kPool), 0));
  std::vector<BufferAccess> ordered;
  for (const Operand& operand : data) {
    NEURON_TRY(access, context.memory.buffer(operand, false));
    ordered.push_back(access);
  }
  context.program.core_barrier(engine, ordered, barrier_semaphore(engine));
  return {};
}

// The two sides of an exchange have the same bits, whatever they mean.
uint8_t bits_of(uint8_t dtype) {
  switch (isa::dtype_bytes(dtype)) {
    case 1:
      return NEURON_DTYPE_U8;
    case 2:
      return NEURON_DTYPE_U16;
    default:
      return NEURON_DTYPE_U32;
  }
}

// A tile that the instruction can send or receive in place of `wanted`, which begins where it
// cannot reach, or has another type than what is sent.
Result<TileAccess> stand_in(Context& context, const TileAccess& wanted, uint8_t dtype) {
  NEURON_TRY(tile, context.memory.own_tile(NEURON_SPACE_SBUF, "exchanged", wanted.parts,
                                           static_cast<uint32_t>(wanted.elements()), dtype));
  return tile.all();
}

Result<void> sendrecv(Context& context, Record& record) {
  NEURON_CHECK(check_pair(context));
  const Operand to = record.operand("dst"), from = record.operand("src");
  NEURON_CHECK(record.result());
  NEURON_TRY(target, context.memory.tile(to));
  NEURON_TRY(source, context.memory.tile(from));
  if (target.space != NEURON_SPACE_SBUF || source.space != NEURON_SPACE_SBUF) {
    return fail(NRT_INVALID, "sendrecv moves tiles of SBUF, and {} is in PSUM",
                source.space != NEURON_SPACE_SBUF ? "src" : "dst");
  }
  if (target.parts != source.parts || target.elements() != source.elements()) {
    return fail(NRT_INVALID,
                "sendrecv of [{}, {}] to [{}, {}]: expected as many partitions, and elements in "
                "each, on both sides",
                source.parts, source.elements(), target.parts, target.elements());
  }
  TileAccess sent = source, received = target;
  if (!may_start(source)) {
    NEURON_TRY(tile, stand_in(context, source, source.dtype));
    NEURON_CHECK(copy_tile(context, tile, source));
    sent = tile;
  }
  const bool received_elsewhere = !may_start(target) || target.dtype != source.dtype;
  if (received_elsewhere) {
    NEURON_TRY(tile, stand_in(context, target, source.dtype));
    received = tile;
  }
  TileAccess into = received;
  sent.dtype = into.dtype = bits_of(source.dtype);
  context.program.send_receive(into, sent);
  return received_elsewhere ? copy_tile(context, target, received) : Result<void>();
}

constexpr NamedOperation kPairOperations[] = {{"core_barrier", core_barrier},
                                              {"sendrecv", sendrecv}};

}  // namespace

Operation find_pair_operation(std::string_view name) {
  return find_operation(kPairOperations, name);
}

}  // namespace neuron::nki
