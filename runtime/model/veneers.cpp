// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/veneers.h"

#include <bitset>

#include "hw/udma.h"
#include "runtime/model/instructions.h"

namespace neuron::runtime {
namespace {

using isa::immediate;
using isa::Instruction;
using Registers = std::bitset<NEURON_REGISTERS>;

constexpr size_t kNeeded = 2;

// What the instruction reads or writes, and perhaps more.
void note_registers(const Instruction& i, Registers& used) {
  const auto note = [&](uint32_t number) { used.set(number % NEURON_REGISTERS); };
  constexpr uint8_t kFlowGroup = NEURON_OP_MOV >> 8;
  if (i.group() == kFlowGroup) {
    for (const uint8_t number : {i.flow.rd, i.flow.ra, i.flow.rb}) note(number);
    if (i.opcode == NEURON_OP_TIME) note(i.flow.rd + 1u);
  }
  for (const isa::Scalar* scalar : {&i.scalar0, &i.scalar1}) {
    if (scalar->kind == NEURON_SCALAR_REGISTER) note(scalar->value);
  }
  for (const isa::Binding& binding : i.bind) {
    if (binding.mode == NEURON_BIND_UNUSED) continue;
    note(binding.reg);
    if (binding.mode == NEURON_BIND_ADD_PAIR) note(binding.reg + 1u);
  }
  for (const isa::Wait& wait : i.wait) {
    if (wait.is_register) note(wait.value);
  }
  for (const isa::Update& update : i.update) {
    if (update.is_register) note(update.value);
  }
}

Instruction make(uint32_t engine, uint16_t opcode) {
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.engines = static_cast<uint8_t>(1u << engine);
  return instruction;
}

// The address of a ring is that of all rings and a distance that the plan knows. Both lie in the
// same 4 GiB, so its high half is what the ring table has written.
void give_ring(const SharedRing& ring, uint32_t engine, const CorePlace& core,
               const VeneerRegisters& registers, std::vector<Instruction>& code) {
  constexpr uint32_t kSides[] = {NEURON_UDMA_M2S, NEURON_UDMA_S2M};
  constexpr uint32_t kControls[] = {NEURON_UDMAQ_M2S_SW_CONTROL, NEURON_UDMAQ_S2M_SW_CONTROL};
  for (uint32_t e = 0; e < ring.engines; ++e) {
    for (const size_t side : {size_t{0}, size_t{1}}) {
      Instruction add = make(engine, NEURON_OP_ALU);
      add.flow = {
          .rd = registers.scratch, .ra = registers.base, .imm = true, .alu = NEURON_ALU_ADD};
      add.scalar0 = immediate(static_cast<uint32_t>(ring.offset[e][side]));
      code.push_back(add);
      Instruction write = make(engine, NEURON_OP_WRITE);
      write.address = {core.queue_register(e, kSides[side], ring.number, NEURON_UDMAQ_BASE_LO), 4,
                       1};
      write.scalar0 = {
          .value = registers.scratch, .kind = NEURON_SCALAR_REGISTER, .dtype = NEURON_DTYPE_U32};
      code.push_back(write);
    }
  }
  for (const size_t side : {size_t{0}, size_t{1}}) {
    Instruction rewind = make(engine, NEURON_OP_WRITE);
    rewind.address = {core.queue_register(0, kSides[side], ring.number, kControls[side]),
                      static_cast<int32_t>(core.chip->dma_stride), ring.engines};
    rewind.scalar0 = immediate(NEURON_UDMAQ_SW_RESET);
    code.push_back(rewind);
  }
}

}  // namespace

Result<VeneerRegisters> find_unused_registers(std::span<const std::byte> code, uint32_t engine) {
  Registers used;
  for (size_t pc = 0; pc < code.size() / NEURON_INSTRUCTION_BYTES; ++pc) {
    note_registers(isa::decode(bytes_at(code, pc)), used);
  }
  std::vector<uint8_t> unused;
  for (uint32_t number = NEURON_REGISTERS; number-- > 0 && unused.size() < kNeeded;) {
    if (!used[number]) unused.push_back(static_cast<uint8_t>(number));
  }
  if (unused.size() < kNeeded) {
    return fail(NRT_RESOURCE,
                "functions of engine {} share DMA queues, for which their calls need {} registers "
                "that the program does not use; it uses {} of {}, so let functions with transfers "
                "be fewer, or the program use fewer registers",
                isa::engine_name(engine), kNeeded, used.count(), NEURON_REGISTERS);
  }
  return VeneerRegisters{.base = unused[0], .scratch = unused[1]};
}

Veneers make_veneers(uint32_t engine, const std::vector<SharingFunction>& functions,
                     const CorePlace& core, const VeneerRegisters& registers) {
  Veneers veneers;
  for (const SharingFunction& function : functions) {
    veneers.entries.push_back(static_cast<uint32_t>(veneers.code.size()));
    Instruction idle = make(engine, NEURON_OP_EVENT);
    idle.drain = true;
    veneers.code.push_back(idle);
    for (const SharedRing& ring : function.rings) {
      give_ring(ring, engine, core, registers, veneers.code);
    }
    veneers.code.push_back(make(engine, NEURON_OP_BRANCH));
  }
  const auto end = static_cast<int64_t>(veneers.code.size());
  for (size_t f = 0; f < functions.size(); ++f) {
    const int64_t last = f + 1 < functions.size() ? veneers.entries[f + 1] - 1 : end - 1;
    veneers.code[static_cast<size_t>(last)].flow.target =
        static_cast<int32_t>(end + functions[f].pc - last);
  }
  return veneers;
}

void call_veneers(const std::vector<SharingFunction>& functions, const Veneers& veneers,
                  std::span<std::byte> code) {
  const auto end = static_cast<int64_t>(veneers.code.size());
  for (size_t f = 0; f < functions.size(); ++f) {
    for (const uint32_t pc : functions[f].calls) {
      const auto at =
          code.subspan(size_t{pc} * NEURON_INSTRUCTION_BYTES).first<NEURON_INSTRUCTION_BYTES>();
      Instruction call = isa::decode(at);
      call.flow.target = static_cast<int32_t>(int64_t{veneers.entries[f]} - (end + pc));
      isa::encode(call, at);
    }
  }
}

}  // namespace neuron::runtime
