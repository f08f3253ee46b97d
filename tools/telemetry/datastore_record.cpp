// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/datastore_record.h"

#include <nrt/nds/datastore_layout.h>

#include <algorithm>
#include <cstring>

#include "tools/telemetry/proc.h"
#include "uapi/neuron_counters.h"

namespace neuron::telemetry {
namespace {

struct Cause {
  const char* name;
  unsigned counter;
};
#define NEURON_CAUSE(name, counter) {name, counter},
constexpr Cause kCauses[] = {NEURON_CAUSE_COUNTERS(NEURON_CAUSE)};
#undef NEURON_CAUSE

constexpr unsigned kMostCores = NDS_MAX_NEURONCORE_COUNT + NDS_EXT_MAX_NEURONCORE_COUNT;
constexpr uint64_t kPicosecondsPerUs = 1'000'000;

// Zeros where the block ends.
template <class T>
T read(std::span<const std::byte> block, size_t offset) {
  T value{};
  if (offset < block.size()) {
    std::memcpy(&value, block.data() + offset, std::min(sizeof(T), block.size() - offset));
  }
  return value;
}

uint64_t word(std::span<const std::byte> block, size_t start, size_t index) {
  return read<uint64_t>(block, start + index * sizeof(uint64_t));
}

uint64_t core_word(std::span<const std::byte> block, unsigned core, unsigned counter) {
  if (core >= NDS_MAX_NEURONCORE_COUNT) {
    const size_t row = (core - NDS_MAX_NEURONCORE_COUNT) * NDS_EXT_NEURONCORE_NC_DATA_COUNT;
    return word(block, NDS_EXT_NEURONCORE_NC_DATA_START, row + counter);
  }
  if (counter < NDS_NC_COUNTER_COUNT) {
    return word(block, NDS_NEURONCORE_COUNTERS_START, core * NDS_NC_COUNTER_COUNT + counter);
  }
  return word(block, NDS_EXT_NEURONCORE_COUNTERS_START,
              core * NDS_EXT_NC_COUNTER_COUNT + counter - NDS_NC_COUNTER_COUNT);
}

template <size_t kSize>
std::string text(const char (&field)[kSize]) {
  return presentable(std::string(field, ::strnlen(field, kSize)));
}

std::string version_of(uint64_t packed) {
  if (packed == 0) return "";
  nmetric_version_t version;
  version.all = packed;
  return std::to_string(version.major_ver) + "." + std::to_string(version.minor_ver) + "." +
         std::to_string(version.build_num);
}

// The object in a slot; false if it is not published, or was being written.
template <class T>
bool read_slot(std::span<const std::byte> block, size_t offset, T& object) {
  const auto slot = read<nds_slot_t>(block, offset);
  if (slot.state != NDS_SLOT_PUBLISHED || slot.sequence % 2 != 0) return false;
  object = read<T>(block, offset + sizeof(nds_slot_t));
  return true;
}

CoreCounters counters_of(std::span<const std::byte> block, unsigned core) {
  const auto at = [&](unsigned counter) { return core_word(block, core, counter); };
  CoreCounters out;
  out.completed = at(NDS_NC_COUNTER_INFER_COMPLETED);
  out.completed_with_err = at(NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR);
  out.completed_with_num_err = at(NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR);
  out.timed_out = at(NDS_NC_COUNTER_INFER_TIMED_OUT);
  out.incorrect_input = at(NDS_NC_COUNTER_INFER_INCORRECT_INPUT);
  out.failed_to_queue = at(NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE);
  out.generic = at(NDS_NC_COUNTER_ERR_GENERIC);
  out.numerical = at(NDS_NC_COUNTER_ERR_NUMERICAL);
  out.transient = at(NDS_NC_COUNTER_ERR_TRANSIENT);
  out.model = at(NDS_NC_COUNTER_ERR_MODEL);
  out.runtime = at(NDS_NC_COUNTER_ERR_RT);
  out.hardware = at(NDS_NC_COUNTER_ERR_HW);
  for (const Cause& cause : kCauses) {
    if (const uint64_t count = at(cause.counter)) out.causes[cause.name] = count;
  }
  out.busy_us = at(NDS_NC_COUNTER_TIME_IN_USE);
  out.collectives_us = at(NDS_NC_COUNTER_CC_TIME);
  out.multiply_accumulates = at(NDS_NC_COUNTER_MAC_COUNT);
  out.executions = at(NDS_NC_COUNTER_INFERENCE_COUNT);
  out.model_loads = at(NDS_NC_COUNTER_MODEL_LOAD_COUNT);
  out.device_latency_us = at(NDS_NC_COUNTER_LATENCY_DEVICE);
  out.total_latency_us = at(NDS_NC_COUNTER_LATENCY_TOTAL);
  return out;
}

void add_measurements(std::span<const std::byte> block, unsigned core, size_t core_bytes,
                      CoreCounters& out) {
  static_assert(kLatencyBuckets == NDS_OPEN_LATENCY_BUCKETS);
  const auto part = read<nds_open_core_t>(block, NDS_OPEN_OFFSET + 64 + size_t{core} * core_bytes);
  for (unsigned i = 0; i < NDS_OPEN_ENGINES; ++i) {
    out.engine_busy_us[i] = part.engine_busy_ps[i] / kPicosecondsPerUs;
  }
  out.dma_bytes = part.dma_bytes;
  out.link_bytes = part.link_bytes;
  std::copy_n(part.device_latency, kLatencyBuckets, out.device_latency.begin());
  std::copy_n(part.total_latency, kLatencyBuckets, out.total_latency.begin());
}

// Locations of nds_model_node_mem_usage_info_t.
constexpr unsigned kHost = 0, kDevice = 1;

LoadedModel model_of(const nds_model_bytes_t& bytes) {
  const auto used = [&](unsigned location, unsigned slot) {
    return uint64_t{bytes.usage.model_mem_usage[location][slot].total_size};
  };
  LoadedModel model;
  model.name = text(bytes.info.name);
  for (const char byte : bytes.info.uuid) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    model.uuid += kDigits[value >> 4];
    model.uuid += kDigits[value & 15];
  }
  model.model_id = bytes.info.model_id;
  model.physical_core = bytes.info.nc_index;
  model.subgraph = bytes.info.sg_index;
  model.host.dma_buffers = used(kHost, NDS_DMA_MEM_USAGE_SLOT_CODE);
  model.host.tensors = used(kHost, NDS_DMA_MEM_USAGE_SLOT_TENSORS);
  model.host.constants = used(kHost, NDS_DMA_MEM_USAGE_SLOT_CONSTANTS);
  model.host.application_memory = used(kHost, NDS_DMA_MEM_USAGE_SLOT_MISC);
  model.core.model_code = used(kDevice, NDS_DMA_MEM_USAGE_SLOT_CODE);
  model.core.tensors = used(kDevice, NDS_DMA_MEM_USAGE_SLOT_TENSORS);
  model.core.constants = used(kDevice, NDS_DMA_MEM_USAGE_SLOT_CONSTANTS);
  model.core.model_shared_scratchpad = used(kDevice, NDS_DMA_MEM_USAGE_SLOT_SCRATCHPAD);
  model.core.runtime_memory = used(kDevice, NDS_DMA_MEM_USAGE_SLOT_MISC);
  return model;
}

}  // namespace

DatastoreRecord read_datastore(std::span<const std::byte> block, unsigned cores) {
  DatastoreRecord record;
  const auto header = read<nds_header_t>(block, NDS_HEADER_START);
  if (std::memcmp(header.signature, "nds", 4) != 0) {
    const bool blank = std::all_of(std::begin(header.signature), std::end(header.signature),
                                   [](char byte) { return byte == 0; });
    if (!blank) {
      record.error =
          "its datastore does not begin with the signature \"nds\": another program has written "
          "there; restart the process";
    }
    return record;
  }
  const auto device = [&](unsigned counter) { return word(block, NDS_ND_COUNTERS_START, counter); };
  record.runtime_version = version_of(device(NDS_ND_COUNTER_RUNTIME_VERSION));
  record.host_memory.dma_buffers = device(NDS_ND_COUNTER_MEM_USAGE_CODE_HOST);
  record.host_memory.tensors = device(NDS_ND_COUNTER_MEM_USAGE_TENSORS_HOST);
  record.host_memory.constants = device(NDS_ND_COUNTER_MEM_USAGE_CONSTANTS_HOST);
  record.host_memory.application_memory = device(NDS_ND_COUNTER_MEM_USAGE_MISC_HOST);

  const auto open = read<nds_open_header_t>(block, NDS_OPEN_OFFSET);
  const bool measured = std::memcmp(open.signature, NDS_OPEN_SIGNATURE, 8) == 0 &&
                        open.core_bytes >= sizeof(nds_open_core_t) &&
                        open.core_bytes <= NDS_BLOCK_BYTES && open.latency_step == 4;
  for (unsigned core = 0; core < std::min(cores, kMostCores); ++core) {
    record.counters.push_back(counters_of(block, core));
    if (measured) add_measurements(block, core, open.core_bytes, record.counters.back());
    CoreMemory memory;
    memory.model_code = core_word(block, core, NDS_NC_COUNTER_MEM_USAGE_CODE_DEVICE);
    memory.tensors = core_word(block, core, NDS_NC_COUNTER_MEM_USAGE_TENSORS_DEVICE);
    memory.constants = core_word(block, core, NDS_NC_COUNTER_MEM_USAGE_CONSTANTS_DEVICE);
    memory.model_shared_scratchpad =
        core_word(block, core, NDS_NC_COUNTER_MEM_USAGE_SCRATCHPAD_DEVICE);
    memory.runtime_memory = core_word(block, core, NDS_NC_COUNTER_MEM_USAGE_MISC_DEVICE);
    record.memory.push_back(memory);
  }

  nds_process_info_t process{};
  nds_process_info_ext_t extended{};
  if (read_slot(block, NDS_SLOT_PROCESS_EXT, extended)) record.tag = text(extended.tag);
  if (record.tag.empty() && read_slot(block, NDS_SLOT_PROCESS, process)) {
    record.tag = text(process.tag);
  }
  for (size_t slot = 0; slot < NDS_SLOT_MODEL_COUNT; ++slot) {
    nds_model_bytes_t bytes{};
    if (!read_slot(block, NDS_SLOT_MODELS + slot * NDS_SLOT_MODEL_STRIDE, bytes)) continue;
    if (bytes.info.nc_index >= cores) {
      record.error = "its datastore has a model on core " + std::to_string(bytes.info.nc_index) +
                     " of a device with " + std::to_string(cores) +
                     " cores: another program has written there; restart the process";
      continue;
    }
    record.models.push_back(model_of(bytes));
  }
  return record;
}

}  // namespace neuron::telemetry
