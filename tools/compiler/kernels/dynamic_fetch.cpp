// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/kernels/dynamic_fetch.h"

#include "driver/isa/instruction.h"
#include "hw/address_map.h"

namespace neuron::kernels {

using builder::AddressField;
using builder::Buffer;
using builder::BufferAccess;
using builder::Program;
using builder::Schedule;
using builder::Tile;
using builder::TileAccess;
using builder::Transfer;

namespace {

constexpr unsigned kPool = NEURON_ENGINE_POOL;
constexpr uint16_t kAllDmaEngines = 0xFFFF;

Schedule::Item item_of(Program& program, uint16_t opcode, uint32_t tile) {
  auto& journal = program.parts().schedule.journal();
  journal.next_operation();
  Schedule::Item item;
  item.engine = kPool;
  item.step.instruction.opcode = opcode;
  item.step.instruction.engines = static_cast<uint8_t>(1u << kPool);
  item.step.label = journal.label(tile, -1);
  return item;
}

// SBUF as a device address sees it.
AddressField address_of(uint16_t field, const TileAccess& access) {
  return {field, Transfer::kOnChip,
          uint64_t{access.start} * NEURON_SBUF_PARTITION_STRIDE + access.base};
}

}  // namespace

void load_register(Program& program, uint8_t number, const Tile& numbers, uint32_t column,
                   uint32_t part_bytes, uint32_t parts) {
  if (!program.ok()) return;
  const TileAccess from = numbers.at(0, 1, column, 1);
  Schedule::Item load = item_of(program, NEURON_OP_LOAD, 0);
  load.step.instruction.flow.rd = number;
  load.step.instruction.address.count = 1;
  load.step.addresses = {address_of(NEURON_ADDRESS_ADDR, from)};
  load.reads = {region_of(from)};
  program.parts().schedule.add(std::move(load));
  const auto compute = [&](uint8_t operation, uint32_t with) {
    Schedule::Item item = item_of(program, NEURON_OP_ALU, 0);
    isa::Instruction& i = item.step.instruction;
    i.flow.rd = i.flow.ra = number;
    i.flow.imm = i.flow.is_unsigned = true;
    i.flow.alu = operation;
    i.scalar0 = {with, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
    program.parts().schedule.add(std::move(item));
  };
  // A large number's product would pass 32 bits, and be the address of another part.
  compute(NEURON_ALU_MIN, parts);
  compute(NEURON_ALU_MUL, part_bytes);
}

void fetch_part(Program& program, uint8_t number, const TileAccess& to, const Buffer& buffer,
                const BufferAccess& from) {
  if (!program.ok()) return;
  const auto element = static_cast<int32_t>(isa::dtype_bytes(to.dtype));
  Schedule::Item item = item_of(program, NEURON_OP_DMA_GENERATE, to.tile);
  isa::Instruction& i = item.step.instruction;
  i.generate.to_dims = {{{static_cast<uint32_t>(to.elements()), element},
                         {to.parts, static_cast<int32_t>(NEURON_SBUF_PARTITION_STRIDE)}}};
  i.generate.from_dims[0] = {static_cast<uint32_t>(from.size[0]) / static_cast<uint32_t>(element),
                             element};
  for (uint32_t d = 1; d < from.ndim; ++d) {
    i.generate.from_dims[d] = {static_cast<uint32_t>(from.size[d]),
                               static_cast<int32_t>(from.step[d])};
  }
  const BufferAccess whole = buffer.all();
  i.generate.limit = static_cast<uint32_t>(whole.bytes());
  i.dma.operation = NEURON_DMA_COPY;
  i.dma.from_type = i.dma.to_type = to.dtype;
  i.dma.mask = kAllDmaEngines;
  i.dma.signal = true;
  constexpr uint8_t kFrom = 1;
  i.bind[0] = {number, NEURON_BIND_BASE, kFrom, NEURON_BIND_ADD};
  item.step.addresses = {address_of(NEURON_DMA_GENERATE_TO, to),
                         {NEURON_DMA_GENERATE_FROM, from.buffer, from.offset}};
  item.reads = {region_of(whole)};
  item.writes = {region_of(to)};
  item.moves = true;
  program.parts().schedule.add(std::move(item));
}

}  // namespace neuron::kernels
