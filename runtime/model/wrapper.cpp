// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/wrapper.h"

#include <bit>
#include <cstddef>
#include <utility>

#include "hw/address_map.h"
#include "hw/control.h"
#include "hw/udma.h"
#include "runtime/device/device.h"
#include "runtime/rings/descriptor_rings.h"

namespace neuron::runtime {
namespace {

using isa::immediate;
using isa::Instruction;

constexpr uint8_t kFlags = 0, kMasked = 1, kEntries = 2, kTable = 4, kIndex = 6, kRegister = 8,
                  kValue = 10;  // registers; kTable and kRegister are pairs

isa::Wait at_least(uint8_t semaphore, uint16_t value) {
  return {.index = semaphore, .condition = NEURON_WAIT_GE, .value = value};
}
isa::Update at_read(uint8_t semaphore, uint8_t operation, uint16_t value = 0) {
  return {.index = semaphore, .operation = operation, .value = value};
}
isa::Update increment(uint8_t semaphore) {
  return {.index = semaphore, .operation = NEURON_UPDATE_INC, .at_complete = true};
}
class Emitter {
 public:
  explicit Emitter(uint8_t engine) : engine_(engine) {}

  Instruction& add(uint16_t opcode) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.engines = static_cast<uint8_t>(1u << engine_);
    code_.push_back(instruction);
    return code_.back();
  }
  uint32_t here() const { return static_cast<uint32_t>(code_.size()); }
  Instruction& at(uint32_t index) { return code_[index]; }

  void branch_back(uint32_t target) {
    const auto from = static_cast<int32_t>(here());
    add(NEURON_OP_BRANCH).flow.target = static_cast<int32_t>(target) - from;
  }
  void load(uint8_t rd, uint64_t address) {
    Instruction& i = add(NEURON_OP_LOAD);
    i.flow.rd = rd;
    i.address = {address, 0, 1};
  }
  // rd = word at pair + offset
  void load_through(uint8_t rd, uint8_t pair, uint32_t offset) {
    load(rd, offset);
    code_.back().bind[0] = {pair, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
  }
  void write(uint64_t address, int32_t stride, uint16_t count, uint32_t value) {
    Instruction& i = add(NEURON_OP_WRITE);
    i.address = {address, stride, count};
    i.scalar0 = immediate(value);
  }
  std::vector<Instruction> take() { return std::move(code_); }

 private:
  uint8_t engine_;
  std::vector<Instruction> code_;
};

void rebind(Emitter& emit, uint64_t record) {
  emit.load(kFlags, record + offsetof(neuron_launch_record, flags));
  Instruction& mask = emit.add(NEURON_OP_ALU);
  mask.flow = {.rd = kMasked, .ra = kFlags, .imm = true, .alu = NEURON_ALU_AND};
  mask.scalar0 = immediate(NEURON_LAUNCH_REBIND);
  const uint32_t skip = emit.here();
  Instruction& branch = emit.add(NEURON_OP_BRANCH);
  branch.flow = {.ra = kMasked, .imm = true, .condition = NEURON_BRANCH_EQ};
  branch.scalar0 = immediate(0);
  emit.load(kEntries, record + offsetof(neuron_launch_record, ring_entries));
  emit.load(kTable, record + offsetof(neuron_launch_record, ring_table));
  emit.load(kTable + 1, record + offsetof(neuron_launch_record, ring_table) + 4);
  Instruction& loop = emit.add(NEURON_OP_LOOP);
  loop.loop = {1, 5};
  loop.scalar0 = immediate(0);
  loop.scalar1 = {.value = kEntries, .kind = NEURON_SCALAR_REGISTER, .dtype = NEURON_DTYPE_U32};
  loop.flow.rd = kIndex;
  emit.load_through(kRegister, kTable, 0);
  emit.load_through(kRegister + 1, kTable, 4);
  emit.load_through(kValue, kTable, 8);
  Instruction& store = emit.add(NEURON_OP_STORE);
  store.address = {0, 0, 1};
  store.bind[0] = {kRegister, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
  store.flow.ra = kValue;
  Instruction& next = emit.add(NEURON_OP_ALU);
  next.flow = {.rd = kTable, .ra = kTable, .imm = true, .alu = NEURON_ALU_ADD};
  next.scalar0 = immediate(16);
  emit.at(skip).flow.target = static_cast<int32_t>(emit.here() - skip);
}

// Rewinds the rings of a stream's DMA engines, which have consecutive numbers.
void rewind(Emitter& emit, const CorePlace& core, const StreamUse& stream) {
  const auto first = static_cast<uint32_t>(std::countr_zero(stream.engines));
  const auto count = static_cast<uint16_t>(std::popcount(stream.engines));
  for (const auto& [side, offset] : {std::pair{NEURON_UDMA_M2S, NEURON_UDMAQ_M2S_SW_CONTROL},
                                     std::pair{NEURON_UDMA_S2M, NEURON_UDMAQ_S2M_SW_CONTROL}}) {
    emit.write(core.queue_register(first, side, NEURON_DMA_QUEUE_COLLECTIVES, offset),
               static_cast<int32_t>(core.chip->dma_stride), count, NEURON_UDMAQ_SW_RESET);
  }
}

void prepare_launch(Emitter& emit, const WrapperRequest& request) {
  const bool queues = request.rings != nullptr && !request.rings->queues().empty();
  if (queues || request.reads_addresses) rebind(emit, request.launch_record);
  const uint64_t set = request.core.window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET;
  for (size_t i = 0; i < request.semaphores.size();) {
    size_t end = i + 1;
    while (end < request.semaphores.size() &&
           request.semaphores[end] == request.semaphores[end - 1] + 1) {
      ++end;
    }
    emit.write(set + request.semaphores[i] * 4ull, 4, static_cast<uint16_t>(end - i), 0);
    i = end;
  }
  // Clearing an event that is not set is an error.
  for (const uint8_t event : request.events) {
    const uint64_t address =
        request.core.window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_EVENT + event * 4ull;
    emit.load(kValue, address);
    Instruction& skip = emit.add(NEURON_OP_BRANCH);
    skip.flow = {.ra = kValue, .imm = true, .condition = NEURON_BRANCH_EQ, .target = 2};
    skip.scalar0 = immediate(0);
    emit.write(address, 4, 1, 0);
  }
  for (const StreamUse& stream : request.streams) rewind(emit, request.core, stream);
  if (!queues) return;
  for (const QueuePlan& queue : request.rings->queues()) {
    emit.write(
        request.core.queue_register(0, NEURON_UDMA_M2S, queue.number, NEURON_UDMAQ_M2S_SW_CONTROL),
        static_cast<int32_t>(request.core.chip->dma_stride), queue.engines, NEURON_UDMAQ_SW_RESET);
    emit.write(
        request.core.queue_register(0, NEURON_UDMA_S2M, queue.number, NEURON_UDMAQ_S2M_SW_CONTROL),
        static_cast<int32_t>(request.core.chip->dma_stride), queue.engines, NEURON_UDMAQ_SW_RESET);
  }
}

}  // namespace

std::vector<Instruction> make_wrapper(const WrapperRequest& request) {
  Emitter emit(request.engine);
  std::optional<uint32_t> call;
  auto load_ring_base = [&] {
    if (request.ring_base) emit.load(*request.ring_base, request.rings->base_place());
  };
  auto call_main = [&] {
    if (!request.main) return;
    call = emit.here();
    emit.add(NEURON_OP_CALL);
  };
  if (request.engine == NEURON_ENGINE_SP) {
    Instruction& wait = emit.add(NEURON_OP_EVENT);
    wait.wait[0] = at_least(NEURON_SEM_LAUNCH, 1);
    wait.update[0] = at_read(NEURON_SEM_LAUNCH, NEURON_UPDATE_DEC);
    prepare_launch(emit, request);
    load_ring_base();
    Instruction& go = emit.add(NEURON_OP_EVENT);
    go.update = {increment(NEURON_SEM_GO(NEURON_ENGINE_PE)),
                 increment(NEURON_SEM_GO(NEURON_ENGINE_ACTIVATION))};
    Instruction& go_too = emit.add(NEURON_OP_EVENT);
    go_too.update = {increment(NEURON_SEM_GO(NEURON_ENGINE_POOL)),
                     increment(NEURON_SEM_GO(NEURON_ENGINE_DVE))};
    call_main();
    Instruction& done = emit.add(NEURON_OP_EVENT);
    done.wait[0] = at_least(NEURON_SEM_DONE, NEURON_CORE_ENGINES - 1);
    done.update[0] = at_read(NEURON_SEM_DONE, NEURON_UPDATE_SUB, NEURON_CORE_ENGINES - 1);
    for (const StreamUse& stream : request.streams) {
      Instruction& collectives = emit.add(NEURON_OP_EVENT);
      const auto count = static_cast<uint16_t>(stream.count);
      const auto semaphore = static_cast<uint8_t>(NEURON_SEM_CC_DONE(stream.stream));
      collectives.wait[0] = at_least(semaphore, count);
      collectives.update[0] = at_read(semaphore, NEURON_UPDATE_SUB, count);
    }
    emit.add(NEURON_OP_COMPLETE).scalar0 = immediate(0);
  } else {
    const uint8_t go = NEURON_SEM_GO(request.engine);
    Instruction& wait = emit.add(NEURON_OP_EVENT);
    wait.wait[0] = at_least(go, 1);
    wait.update[0] = at_read(go, NEURON_UPDATE_DEC);
    load_ring_base();
    call_main();
    Instruction& done = emit.add(NEURON_OP_EVENT);
    done.drain = true;
    done.update[0] = increment(NEURON_SEM_DONE);
  }
  emit.branch_back(0);
  if (call) {
    emit.at(*call).flow.target =
        static_cast<int32_t>(emit.here() + *request.main) - static_cast<int32_t>(*call);
  }
  return emit.take();
}

}  // namespace neuron::runtime
