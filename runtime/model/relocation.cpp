// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/relocation.h"

#include <cstring>
#include <optional>

#include "hw/udma.h"
#include "runtime/device/device.h"
#include "runtime/rings/descriptor_rings.h"

namespace neuron::runtime {
namespace {

template <class T>
void put(std::span<std::byte> code, uint64_t offset, T value) {
  std::memcpy(code.data() + offset, &value, sizeof(value));
}

void put_width(std::span<std::byte> code, uint64_t offset, uint8_t width, uint64_t value) {
  std::memcpy(code.data() + offset, &value, width);
}

void put_trigger(std::span<std::byte> code, uint64_t at, const neff::EngineProgram& program,
                 const neff::DmaTransfer& transfer, const RelocationContext& context) {
  const TriggerCounts& counts = context.rings.counts(program.engine, transfer);
  const uint32_t engines = context.subgraph.queues[transfer.queue].num_queues;
  const uint8_t queue = context.rings.number(program.engine, transfer);
  std::memset(code.data() + at + NEURON_DMA_TRIGGER_M2S, 0,
              NEURON_INSTRUCTION_BYTES - NEURON_DMA_TRIGGER_M2S);
  put(code, at + NEURON_DMA_TRIGGER_M2S,
      context.core.queue_register(0, NEURON_UDMA_M2S, queue, NEURON_UDMAQ_TAIL_INC));
  put(code, at + NEURON_DMA_TRIGGER_S2M,
      context.core.queue_register(0, NEURON_UDMA_S2M, queue, NEURON_UDMAQ_TAIL_INC));
  put(code, at + NEURON_DMA_TRIGGER_STRIDE, static_cast<uint32_t>(context.core.chip->dma_stride));
  uint16_t mask = 0;
  for (uint32_t e = 0; e < engines; ++e) {
    if (counts.m2s[e] != 0) mask = static_cast<uint16_t>(mask | 1u << e);
  }
  put(code, at + NEURON_DMA_TRIGGER_MASK, mask);
  put(code, at + NEURON_DMA_TRIGGER_QUEUE, queue);
  put(code, at + NEURON_DMA_TRIGGER_BLOCK, transfer.id);
  for (uint32_t e = 0; e < kDmaEngines; ++e) {
    put(code, at + NEURON_DMA_TRIGGER_M2S_COUNT + 2 * e, counts.m2s[e]);
    put(code, at + NEURON_DMA_TRIGGER_S2M_COUNT + 2 * e, counts.s2m[e]);
  }
}

// "cc:N": the CC core of stream N.
std::optional<uint32_t> stream_named(const std::string& symbol, const RelocationContext& context) {
  for (const neff::Collective& collective : context.subgraph.operations) {
    if (symbol == format("cc:{}", collective.stream)) return collective.stream;
  }
  return std::nullopt;
}

}  // namespace

Result<void> relocate(const neff::EngineProgram& program, const RelocationContext& context,
                      std::span<std::byte> code) {
  for (const neff::Relocation& r : program.relocations) {
    const uint64_t at = uint64_t{r.pc} * NEURON_INSTRUCTION_BYTES;
    const uint64_t field = at + r.field;
    const auto addend = static_cast<uint64_t>(r.addend);
    auto refuse = [&](NRT_STATUS status, const char* why) {
      return fail(status, "engine {} pc {}: the address of '{}' {}",
                  neff::engine_name(program.engine), r.pc, r.symbol, why);
    };
    const bool core = r.kind == NEURON_RELOC_CORE;
    const bool collective = core && r.symbol.starts_with("cc:");
    const bool window_of_peer = core && r.symbol == "peer";
    if (r.target == neff::kNoTarget && !collective && !window_of_peer &&
        (!core || r.symbol != "self")) {
      return refuse(NRT_UNSUPPORTED_NEFF_VERSION,
                    "is on another rank, or of a collective core; programs reach their own core, "
                    "and \"peer\", the other one of a virtual core of two");
    }
    if ((window_of_peer || r.of_peer()) && context.peer == nullptr) {
      return refuse(NRT_INVALID, "is on the other core, which a virtual core of one has not");
    }
    const neff::Subgraph& graph = r.of_peer() ? *context.peer : context.subgraph;
    const uint64_t window =
        r.of_peer() || window_of_peer ? context.core.other().window() : context.core.window();
    switch (r.kind) {
      case NEURON_RELOC_VAR_ADDR: {
        const auto kind = context.subgraph.variables[r.target].kind;
        if (kind == neff::VariableKind::kInput || kind == neff::VariableKind::kOutput) {
          return refuse(NRT_INVALID,
                        "changes with the tensors of an execution; only transfers may name it");
        }
        put_width(code, field, r.width, context.addresses[r.target] + addend);
        break;
      }
      case NEURON_RELOC_DMA_BLOCK:
        put_trigger(code, at, program, program.dma[r.target], context);
        break;
      case NEURON_RELOC_QUEUE: {
        const auto queue = context.rings.number(r.target);
        if (!queue) {
          return refuse(NRT_INVALID,
                        "does not exist: no transfer of the main program uses this queue set, and "
                        "it is not dynamic, so it has no ring");
        }
        if (r.width != 1) {
          put_width(
              code, field, r.width,
              context.core.queue_register(0, r.addend == 0 ? NEURON_UDMA_M2S : NEURON_UDMA_S2M,
                                          *queue, NEURON_UDMAQ_TAIL_INC));
        } else if (neff::is_dma_control(r, program.code)) {
          code[field] |= static_cast<std::byte>(*queue << NEURON_RELOC_QUEUE_CTL_SHIFT);
        } else {
          put_width(code, field, 1, *queue);
        }
        break;
      }
      case NEURON_RELOC_SEMAPHORE:
        put_width(code, field, r.width, uint64_t{graph.semaphores[r.target].number} + addend);
        break;
      case NEURON_RELOC_SEM_ADDR:
        put_width(code, field, r.width,
                  window + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC +
                      graph.semaphores[r.target].number * 4ull + addend);
        break;
      case NEURON_RELOC_PC:
        put(code, field,
            static_cast<int32_t>(program.entries[r.target].pc) - static_cast<int32_t>(r.pc));
        break;
      case NEURON_RELOC_CORE: {
        uint64_t base = window;
        if (collective) {
          const auto stream = stream_named(r.symbol, context);
          if (!stream) {
            return refuse(NRT_INVALID,
                          "is that of a stream on which the program has no collective; the list "
                          "\"collectives\" of def.json says which it has");
          }
          base = context.core.cc_window(*stream);
        }
        put_width(code, field, r.width, base + addend);
        break;
      }
      default:
        return refuse(NRT_UNSUPPORTED_NEFF_VERSION, "has a relocation kind that is not known");
    }
  }
  return {};
}

}  // namespace neuron::runtime
