// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/fault_expectation.h"

#include <array>

#include "driver/isa/instruction.h"
#include "hw/address_map.h"
#include "hw/fault.h"
#include "runtime/base/environment.h"
#include "runtime/collectives/ultra_server.h"
#include "runtime/exec/fault_operator.h"
#include "runtime/exec/fault_pair.h"

namespace neuron::runtime {
namespace {

struct Field {
  uint32_t offset = 0;
  uint32_t rule = 0;
  uint32_t found = 0;
  uint32_t operand = 3;  // 0 dst, 1 src0, 2 src1, 3 none
  uint32_t loaded = 0;   // of weights
};

// Puts the value of a register into the field that the fault names. The result is the instruction
// as the engine saw it, as far as the entry tells.
void substitute(isa::Instruction& instruction, const Field& field) {
  isa::Operand* operands[] = {&instruction.dst, &instruction.src0, &instruction.src1};
  if (field.operand >= 3) return;
  isa::Operand& operand = *operands[field.operand];
  for (const isa::Binding& bind : instruction.bind) {
    if (bind.mode == NEURON_BIND_UNUSED || bind.operand != field.operand) continue;
    if (bind.item == NEURON_BIND_BASE) {
      operand.base = field.found;
    } else if (bind.item == NEURON_BIND_START) {
      operand.start = static_cast<uint8_t>(field.found);
    } else if (bind.item == NEURON_BIND_PARTS) {
      operand.parts = static_cast<uint8_t>(field.found);
    } else if (bind.item >= NEURON_BIND_SIZE0 && bind.item < NEURON_BIND_SIZE0 + 4) {
      operand.size[bind.item - NEURON_BIND_SIZE0] = static_cast<uint16_t>(field.found);
    }
  }
}

// The violated rule as the checker of the instruction set states it; empty if it finds none.
std::string rule_words(isa::Bytes bytes, uint32_t engine, uint32_t code, const Field& field,
                       const isa::Limits& limits) {
  isa::Violation violation = isa::check_encoding(bytes, engine, limits);
  isa::Instruction instruction = isa::decode(bytes);
  if (!violation) violation = isa::check_operands(instruction, engine, limits);
  if (!violation) {
    substitute(instruction, field);
    violation = isa::check_operands(instruction, engine, limits);
  }
  return violation.code == code ? violation.what : "";
}

std::string weights_words(const isa::Instruction& instruction, const Field& field) {
  if (field.offset == NEURON_INST_OP + 1) {
    return format(
        "found no loaded weights, expected weights of {} partitions and {} columns from an "
        "ldweights before",
        instruction.src0.parts, instruction.dst.parts);
  }
  return format("found {} partitions of operand {}, expected {} as the loaded weights have {}",
                field.found, field.operand == 0 ? "dst" : "src0", field.loaded,
                field.operand == 0 ? "columns" : "partitions");
}

std::string instruction_words(const LoadedModel& model, uint32_t engine, uint32_t pc, uint32_t code,
                              const Field& field) {
  if (engine >= NEURON_CORE_ENGINES) return "";
  const EngineImage& image = model.image(engine);
  if (pc >= image.instructions) return "";
  const auto bytes = std::span(image.code)
                         .subspan(size_t{pc} * NEURON_INSTRUCTION_BYTES)
                         .first<NEURON_INSTRUCTION_BYTES>();
  if (code == NEURON_FAULT_WEIGHTS) return weights_words(isa::decode(bytes), field);
  static constexpr const char* kOperands[] = {"operand dst ", "operand src0 ", "operand src1 ", ""};
  const std::string rule =
      rule_words(bytes, engine, code, field, isa::limits_of(model.core().place().chip->generation));
  return format("{}{}(byte {:#x} of the instruction): found {:#x}{}",
                field.rule == 0 ? "" : format("rule R{}, ", field.rule),
                kOperands[field.operand < 3 ? field.operand : 3], field.offset, field.found,
                rule.empty() ? "" : ", expected: " + rule);
}

// The routing id that an address on another chip names; 256 + link for a neighbour. As the device
// tells it in the entry of a fault.
uint32_t peer_of_address(uint32_t generation, uint64_t address) {
  if (generation == 2) return address >> NEURON_V2_PEER_SHIFT & 0xF;
  if ((address & NEURON_V3_PEER_BIT) != 0) return address >> NEURON_V3_PEER_SHIFT & 0xFF;
  return 256 + (address >> NEURON_V3_NEIGHBOUR_SHIFT & 3);
}

// `device`: of this host, from which no way leads there.
std::string peer_words(int device, uint32_t id) {
  if (id >= 256) return format("its neighbour at link {}", id - 256);
  const uint32_t chip = id % NEURON_V3_PEER_INSTANCE, nodes = id / NEURON_V3_PEER_INSTANCE;
  std::string words = format("the chip with routing id {}", chip);
  uint32_t count = 0;
  std::array<uint32_t, 256> ids{};
  if (ndl_get_host_device_id_to_rid_map(&count, ids.data()) == 0) {
    // All nodes of an UltraServer have the same devices.
    for (uint32_t other = 0; other < count; ++other) {
      if (ids[other] == chip) words = format("device {} (routing id {})", other, chip);
    }
  }
  if (nodes == 0) return words;
  if (const auto own = ultra_server_of(device, environment_text("NEURON_EMULATOR"))) {
    return format("{} of node {} of the UltraServer, whose node {} this host is", words,
                  (own->node + nodes) % kMostNodes, own->node);
  }
  return format("{} of the node that is {} further in the UltraServer", words, nodes);
}

}  // namespace

std::string describe_address(const ChipTable& chip, uint64_t address) {
  const AddressRegion* below = nullptr;
  for (const AddressRegion& region : chip.regions) {
    if (address >= region.first && address <= region.last) {
      return format("which lies in {} ({:#x} to {:#x}), but the access is refused there",
                    region.name, region.first, region.last);
    }
    if (address < region.first) {
      return format(
          "expected an address that is mapped; the nearest are {}, which ends at {:#x}, "
          "and {}, which starts at {:#x}",
          below->name, below->last, region.name, region.first);
    }
    below = &region;
  }
  return format("expected an address that is mapped; the highest are {}, which ends at {:#x}",
                below->name, below->last);
}

std::string describe_expectation(const LoadedModel& model, uint32_t engine, uint32_t pc,
                                 uint32_t code, const neuron_notification* entry, uint64_t info) {
  const ChipTable& chip = *model.core().place().chip;
  const uint32_t words[3] = {entry ? entry->info[0] : 0, entry ? entry->info[1] : 0,
                             entry ? entry->info[2] : 0};
  if (concerns_two_instructions(code)) {
    // The completion record holds the first two words as well.
    if (entry != nullptr) {
      return describe_pair(model, engine, pc, code, {words[0], words[1], words[2], true});
    }
    return describe_pair(
        model, engine, pc, code,
        {static_cast<uint32_t>(info), static_cast<uint32_t>(info >> 32), 0, false});
  }
  if (code >= NEURON_FAULT_ISA_VERSION && code <= NEURON_FAULT_WEIGHTS) {
    if (entry == nullptr) return "";
    return instruction_words(
        model, engine, pc, code,
        {words[0] & 0xFF, (words[0] >> 8) & 0xFF, words[1], words[2], words[0] >> 16});
  }
  const uint64_t address = entry ? uint64_t{words[1]} << 32 | words[0] : info;
  switch (code) {
    case NEURON_FAULT_BUS:
    case NEURON_FAULT_FETCH:
      return format("found an access of {} bytes to device address {:#x}, {}", entry ? words[2] : 4,
                    address, describe_address(chip, address));
    case NEURON_FAULT_LINK:
      return format(
          "found no way over links that work from device {} to {}, device address {:#x}; "
          "ways between chips are fixed, so none leads around a link that is down",
          model.core().device().index(),
          peer_words(model.core().device().index(),
                     entry ? words[2] : peer_of_address(chip.generation, address)),
          address);
    case NEURON_FAULT_SEM_OVERFLOW:
      return format(
          "found semaphore {} at {} and {} to be added, expected a sum of at most 2147483647",
          words[0], words[1], words[2]);
    case NEURON_FAULT_SEM_UNDERFLOW:
      return format("found semaphore {} at {} and {} to be subtracted, expected at least as much",
                    words[0], words[1], words[2]);
    case NEURON_FAULT_EVENT_DOUBLE:
      return format("found event {} at {}, expected {}", words[0] & 0xFF, words[1],
                    words[1] == 0 ? 1 : 0);
    case NEURON_FAULT_DMA_BUS:
      return format("DMA engine {} queue {} ring index {}: found address {:#x}, {}", words[0] >> 8,
                    words[0] & 0xFF, words[1], info, describe_address(chip, info));
    case NEURON_FAULT_DMA_ENGINE:
      return format("DMA engine {} queue {} ring index {}: source address {:#x}", words[0] >> 8,
                    words[0] & 0xFF, words[1], info);
    case NEURON_FAULT_DMA_STREAM:
      return format(
          "DMA engine {} queue {} ring index {}: found byte {} of the stream at fault, expected a "
          "stream as a DMA engine or a writer of NEFFs makes it, whose content fits",
          words[0] >> 8, words[0] & 0xFF, words[1], words[2]);
    case NEURON_FAULT_HBM_UE:
    case NEURON_FAULT_HBM_UE_REPAIRABLE:
      // The record has the whole address. The entry comes from a DMA engine or from the engine that
      // read.
      if (entry != nullptr && (entry->word >> NEURON_NW_ENGINE_SHIFT & 0xF) == NEURON_ENGINE_DMA) {
        return format(
            "DMA engine {} queue {} ring index {}: found bad bytes at device address {:#x}",
            words[0] >> 8, words[0] & 0xFF, words[1], info);
      }
      return format("found bad bytes at device address {:#x}", info);
    case NEURON_FAULT_DMA_DESC:
    case NEURON_FAULT_DMA_RING:
      return format("DMA engine {} queue {} ring index {}: found {:#x}, expected a {}",
                    words[0] >> 8, words[0] & 0xFF, words[1], words[2],
                    code == NEURON_FAULT_DMA_RING
                        ? "doorbell of at most the free descriptors of a ring that is set up"
                        : "descriptor of a defined operation with clear reserved bits");
    case NEURON_FAULT_DMA_OOB:
      if (entry == nullptr) return format("found a row at device address {:#x}", info);
      return format("found a row at offset or index {}, expected one inside of {}", words[0],
                    words[1]);
    case NEURON_FAULT_INDEX_OOB:
      if (entry == nullptr) {
        return format("found it in partition {} at offset {:#x}", info >> 20, info & 0xFFFFF);
      }
      // Below the bound: a position of sparse weights that its column has had already.
      if (words[0] < words[1]) {
        return format(
            "found position {} in partition {} at offset {:#x}, expected another one: a row before "
            "it has this position in the same column",
            words[0], words[2] >> 20, words[2] & 0xFFFFF);
      }
      return format("found index {} in partition {} at offset {:#x}, expected less than {}",
                    words[0], words[2] >> 20, words[2] & 0xFFFFF, words[1]);
    case NEURON_FAULT_CUSTOM_OPERATOR:
      return describe_operator_failure(model, engine, pc, entry);
    case NEURON_FAULT_PC_RANGE:
      return format("found a next instruction at {}, expected one of the {} of the program",
                    words[1], engine < NEURON_CORE_ENGINES ? model.image(engine).instructions : 0);
    case NEURON_FAULT_LOOP_DEPTH:
      return format("found {} loops and calls open, expected 1 to 8", words[1]);
    case NEURON_FAULT_DIVIDE:
      return "found a divisor of 0, expected another one";
    default:
      return info == 0 ? "" : format("address {:#x}", info);
  }
}

}  // namespace neuron::runtime
