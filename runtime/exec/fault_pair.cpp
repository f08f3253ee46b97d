// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/fault_pair.h"

#include <bit>
#include <span>

#include "driver/isa/instruction.h"
#include "hw/address_map.h"
#include "hw/fault.h"

namespace neuron::runtime {
namespace {

std::string place_text(uint32_t word) {
  return format("partition {} byte {:#x} of {}", word >> NEURON_STRICT_PARTITION_SHIFT & 127,
                word & NEURON_STRICT_PLACE_MASK, (word & NEURON_STRICT_PSUM) ? "PSUM" : "SBUF");
}

// "DMA engine 3 queue 1"
std::string queue_text(uint32_t queue) {
  return format("DMA engine {} queue {}", queue >> 4 & 15, queue & 15);
}

std::string other_text(const LoadedModel& model, const FaultWords& words, bool queue_known) {
  const uint32_t engine = words.other >> NEURON_STRICT_ENGINE_SHIFT & 15;
  const uint32_t pc = words.other & NEURON_STRICT_PC_MASK;
  const bool transfer = (words.place & NEURON_STRICT_OTHER_DMA) != 0;
  const std::string who = engine < NEURON_CORE_ENGINES ? model.describe_instruction(engine, pc)
                                                       : "the host or another core";
  if (!transfer) return who;
  return format("a transfer{} that was started by {}",
                queue_known ? " of " + queue_text(words.detail >> 8) : "", who);
}

// "device memory at 0x4000000040"
std::string memory_text(const FaultWords& words) {
  const uint64_t low = words.place & NEURON_STRICT_ADDRESS_MASK;
  if (!words.complete) return format("device memory (an address that ends in {:#09x})", low);
  return format("device memory at {:#x}",
                uint64_t{words.detail} << NEURON_STRICT_ADDRESS_BITS | low);
}

// Two accesses of device memory, by the two cores of a virtual core.
std::string race_across_text(const LoadedModel& model, const FaultWords& words,
                             const std::string& first) {
  const LoadedModel* other = model.other;
  const bool wrote = (words.place & NEURON_STRICT_OTHER_WROTE) != 0;
  return format(
      "found {} {} {}, which was {} by {} on {}, expected an order between the two cores: a "
      "barrier or sendrecv of both between the two, or a semaphore from {} to {} of the later "
      "one's core, which the earlier one's core raises when its bytes are {} and the later one "
      "waits for",
      first, (words.place & NEURON_STRICT_WRITES) != 0 ? "writes" : "reads", memory_text(words),
      wrote ? "written" : "read", other_text(other == nullptr ? model : *other, words, false),
      other == nullptr
          ? std::string("the other core of the pair")
          : format("core {}, the other one of its virtual core", other->core().number()),
      NEURON_SEM_PAIR_FIRST, NEURON_SEM_PAIR_LAST, wrote ? "there" : "read");
}

// The range of inputs that public documents give for an activation function.
const char* range_text(unsigned function) {
  switch (function) {
    case NEURON_ACT_LOG:
      return "in [2^-64, 2^64]";
    case NEURON_ACT_SIN:
      return "in [-pi, pi]";
    case NEURON_ACT_ARCTAN:
      return "in [-pi/2, pi/2]";
    case NEURON_ACT_SQRT:
      return "in [2^-116, 2^118]";
    case NEURON_ACT_RSQRT:
      return "in [2^-87, 2^97]";
    case NEURON_ACT_RECIPROCAL:
      return "of a magnitude in [2^-42, 2^42]";
    default:
      return "in the range of the loaded table";
  }
}

std::string domain_text(const LoadedModel& model, uint32_t engine, uint32_t pc,
                        const FaultWords& words) {
  std::string function = "the function";
  const char* range = "in its documented range";
  if (engine < NEURON_CORE_ENGINES && pc < model.image(engine).instructions) {
    const auto bytes = std::span(model.image(engine).code)
                           .subspan(size_t{pc} * NEURON_INSTRUCTION_BYTES)
                           .first<NEURON_INSTRUCTION_BYTES>();
    const unsigned number = isa::decode(bytes).act.function;
    function = isa::activation_name(number);
    range = range_text(number);
  }
  const std::string value =
      words.complete ? format("{}", std::bit_cast<float>(words.detail)) : std::string("a value");
  return format(
      "found {} as the input of {} in partition {}, element {} of src0{}, expected inputs "
      "{}",
      value, function, words.place >> NEURON_STRICT_PARTITION_SHIFT & 127,
      words.place & NEURON_STRICT_PLACE_MASK,
      (words.other & NEURON_STRICT_OTHER) != 0
          ? ", which was produced by " + other_text(model, words, false)
          : "",
      range);
}

// Where a byte lies in the core's window.
uint64_t offset_of(uint32_t place) {
  const uint64_t partition = place >> NEURON_STRICT_PARTITION_SHIFT & 127;
  const uint64_t byte = place & NEURON_STRICT_PLACE_MASK;
  return (place & NEURON_STRICT_PSUM) != 0
             ? NEURON_CORE_PSUM + partition * NEURON_PSUM_PARTITION_STRIDE + byte
             : partition * NEURON_SBUF_PARTITION_STRIDE + byte;
}

// "transfer 3 of SP (queue set 'in')"
std::string transfer_text(const TileWriter& writer) {
  return format("transfer {} of {} (queue set '{}')", writer.id, neff::engine_name(writer.engine),
                writer.queue_set);
}

// ", started by SP pc 1: dma_trigger ..."; nothing if the model's code does not trigger the
// transfer.
std::string trigger_text(const LoadedModel& model, const TileWriter& writer) {
  const EngineImage& image = model.image(writer.engine);
  for (uint32_t pc = image.wrapper; pc < image.instructions; ++pc) {
    const auto instruction = isa::decode(std::span(image.code)
                                             .subspan(size_t{pc} * NEURON_INSTRUCTION_BYTES)
                                             .first<NEURON_INSTRUCTION_BYTES>());
    if (instruction.opcode != NEURON_OP_DMA_TRIGGER || instruction.trigger.block != writer.id ||
        instruction.trigger.queue != writer.queue) {
      continue;
    }
    return ", started by " + model.describe_instruction(writer.engine, pc);
  }
  return "";
}

// What the reader of a tile has to wait for.
std::string missing_wait_text(const LoadedModel& model, const TileWriter* writer) {
  if (writer != nullptr && writer->semaphore) {
    return format("a wait here for {}, which that transfer increments{} when its bytes are there",
                  model.describe_semaphore(*writer->semaphore),
                  writer->queues == 1
                      ? std::string()
                      : format(" once on each of its {} DMA engines", writer->queues));
  }
  if (writer != nullptr && writer->event) {
    return format("a wait here for event {}, which that transfer sets when its bytes are there",
                  *writer->event);
  }
  return "a wait here for a semaphore that the transfer increments at its end; it signals none yet";
}

// A transfer that was rung for had not written the byte yet.
std::string pending_text(const LoadedModel& model, const FaultWords& words,
                         const std::string& first) {
  std::optional<uint8_t> queue;
  if (words.complete) queue = static_cast<uint8_t>(words.detail >> 8 & 15);
  const TileWriter* writer = model.tile_writers().find(offset_of(words.place), queue);
  return format(
      "found {} reads {} while the transfer that writes it is in flight: {}{}, expected "
      "{}",
      first, place_text(words.place),
      writer == nullptr ? std::string() : transfer_text(*writer) + ", ",
      other_text(model, words, words.complete), missing_wait_text(model, writer));
}

std::string unwritten_text(const LoadedModel& model, const FaultWords& words,
                           const std::string& first) {
  std::string nearest = "nothing has written any byte near it either";
  if ((words.other & NEURON_STRICT_OTHER) != 0) {
    nearest = format("the nearest written{} was written by {}",
                     words.complete ? ", " + place_text(words.detail) + "," : " byte",
                     other_text(model, words, false));
  }
  const TileWriter* writer = model.tile_writers().find(offset_of(words.place), std::nullopt);
  if (writer != nullptr) {
    return format(
        "found {} reads {}, which nothing has written yet: {} writes it{} ({}), expected {}", first,
        place_text(words.place), transfer_text(*writer), trigger_text(model, *writer), nearest,
        missing_wait_text(model, writer));
  }
  return format(
      "found {} reads {}, which nothing has written since the model was loaded ({}), "
      "expected every byte that is read to be written before",
      first, place_text(words.place), nearest);
}

}  // namespace

bool concerns_two_instructions(uint32_t code) {
  return code == NEURON_FAULT_PSUM_UNDEFINED || code == NEURON_FAULT_PSUM_COLLISION ||
         (code >= NEURON_FAULT_DOMAIN && code <= NEURON_FAULT_RACE);
}

std::string describe_pair(const LoadedModel& model, uint32_t engine, uint32_t pc, uint32_t code,
                          const FaultWords& words) {
  const bool transfer = (words.place & NEURON_STRICT_DMA) != 0;
  const bool across = (words.other & NEURON_STRICT_PEER) != 0;
  const bool has_other = (words.other & NEURON_STRICT_OTHER) != 0;
  const bool races = code == NEURON_FAULT_RACE || code == NEURON_FAULT_PSUM_COLLISION;
  const std::string first =
      !transfer
          ? "that it"
          : format("that its transfer{}",
                   words.complete && races && !across ? " of " + queue_text(words.detail) : "");
  switch (code) {
    case NEURON_FAULT_DOMAIN:
      return domain_text(model, engine, pc, words);
    case NEURON_FAULT_UNINITIALISED:
      return unwritten_text(model, words, first);
    case NEURON_FAULT_PSUM_UNDEFINED:
      return format("found {} as {}, expected a matmul without accumulation to have written it",
                    place_text(words.place),
                    has_other ? "last written by " + other_text(model, words, words.complete)
                              : std::string("no matmul has written it"));
    case NEURON_FAULT_RACE:
      if ((words.other & NEURON_STRICT_PEER) != 0) return race_across_text(model, words, first);
      if ((words.other & NEURON_STRICT_PENDING) != 0) return pending_text(model, words, first);
      [[fallthrough]];
    default:
      return format(
          "found {} {} {}, which was {} by {}, expected an order between the two: a semaphore that "
          "the earlier one updates {} and the later one waits for",
          first, (words.place & NEURON_STRICT_WRITES) ? "writes" : "reads", place_text(words.place),
          (words.place & NEURON_STRICT_OTHER_WROTE) ? "written" : "read",
          has_other ? other_text(model, words, words.complete) : "another instruction",
          (words.place & NEURON_STRICT_OTHER_WROTE) ? "at completion" : "at read or at completion");
  }
}

}  // namespace neuron::runtime
