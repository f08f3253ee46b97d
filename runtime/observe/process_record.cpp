// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/process_record.h"

#include <unistd.h>

#include <cstring>

namespace neuron::runtime {
namespace {

constexpr uint64_t kPage = 4096;

// Uses in the order of the datastore's counters.
enum Use : unsigned { kCode, kTensors, kConstants, kScratchpad, kOthers };

unsigned use_of(uint32_t category) {
  switch (category) {
    case NEURON_MEMALLOC_TYPE_CODE_HOST:
    case NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST:  // tools call both DMA buffers
    case NEURON_MEMALLOC_TYPE_CODE_DEVICE:
      return kCode;
    case NEURON_MEMALLOC_TYPE_TENSORS_HOST:
    case NEURON_MEMALLOC_TYPE_TENSORS_DEVICE:
      return kTensors;
    case NEURON_MEMALLOC_TYPE_CONSTANTS_HOST:
    case NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE:
      return kConstants;
    case NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE:
    case NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE:
    case NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE:
      return kScratchpad;
    default:
      return kOthers;
  }
}

void store(uint64_t* word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

size_t model_offset(int slot) {
  return NDS_SLOT_MODELS + static_cast<size_t>(slot) * NDS_SLOT_MODEL_STRIDE;
}

}  // namespace

// Null also in a child of fork(), which does not have the mapping.
char* ProcessRecord::data() const {
  char* base = data_.load(std::memory_order_acquire);
  return base != nullptr && ::getpid() == pid_ ? base : nullptr;
}

uint64_t* ProcessRecord::host_words(char* base) const {
  return NDS_ND_COUNTERS(base) + NDS_ND_COUNTER_MEM_USAGE_CODE_HOST;
}

uint64_t* ProcessRecord::core_words(char* base, unsigned core) const {
  uint64_t* words = core < NDS_MAX_NEURONCORE_COUNT
                        ? NDS_NEURONCORE_COUNTERS(base, core)
                        : NDS_EXT_NEURONCORE_NC_DATA(base, core - NDS_MAX_NEURONCORE_COUNT);
  return words + NDS_NC_COUNTER_MEM_USAGE_CODE_DEVICE;
}

// The sequence is odd while the bytes change. The fence orders the bytes after the odd number; the
// release orders them before the even number. Pairs with readers, which read the number before and
// after the bytes.
void ProcessRecord::publish(char* base, size_t offset, const void* bytes, size_t size) {
  auto* slot = reinterpret_cast<nds_slot_t*>(base + offset);
  __atomic_store_n(&slot->sequence, slot->sequence + 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  std::memcpy(slot + 1, bytes, size);
  __atomic_store_n(&slot->state, uint32_t{NDS_SLOT_PUBLISHED}, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->sequence, slot->sequence + 1, __ATOMIC_RELEASE);
}

void ProcessRecord::attach(void* data, const ProcessVersions& versions, const std::string& tag) {
  auto* base = static_cast<char*>(data);
  const std::lock_guard lock(mutex_);
  pid_ = ::getpid();
  in_use_.assign(NDS_SLOT_MODEL_COUNT, false);

  auto* open = NDS_OPEN_HEADER(base);
  open->core_bytes = sizeof(nds_open_core_t);
  open->latency_step = 4;
  open->version = NDS_OPEN_VERSION;
  std::memcpy(open->signature, NDS_OPEN_SIGNATURE, sizeof(open->signature));
  uint64_t* counters = NDS_ND_COUNTERS(base);
  store(counters + NDS_ND_COUNTER_RUNTIME_VERSION, versions.runtime);
  store(counters + NDS_ND_COUNTER_FRAMEWORK_VERSION, versions.framework);
  store(counters + NDS_ND_COUNTER_FAL_VERSION, versions.abstraction);

  const auto version_of = [](uint64_t packed) {
    nmetric_version_t version;
    version.all = packed;
    return nds_version_info_t{static_cast<uint8_t>(version.major_ver),
                              static_cast<uint8_t>(version.minor_ver),
                              static_cast<uint32_t>(version.build_num)};
  };
  nds_process_info_t process{};
  process.framework_type = versions.framework_type;
  process.framework_version = version_of(versions.framework);
  process.fal_version = version_of(versions.abstraction);
  process.runtime_version = version_of(versions.runtime);
  tag.copy(process.tag, sizeof(process.tag) - 1);
  publish(base, NDS_SLOT_PROCESS, &process, sizeof(process));
  nds_process_info_ext_t extended{};
  tag.copy(extended.tag, sizeof(extended.tag) - 1);
  publish(base, NDS_SLOT_PROCESS_EXT, &extended, sizeof(extended));

  nds_header_t header = {{'n', 'd', 's', 0}, 1};
  std::memcpy(base, &header, sizeof(header));
  data_.store(base, std::memory_order_release);
  for (unsigned use = 0; use < kUses; ++use) {
    store(host_words(base) + use, host_[use].load(std::memory_order_relaxed));
    for (unsigned core = 0; core < cores_.size(); ++core) {
      store(core_words(base, core) + use, cores_[core][use].load(std::memory_order_relaxed));
    }
  }
}

void ProcessRecord::detach() {
  const std::lock_guard lock(mutex_);
  data_.store(nullptr, std::memory_order_release);
}

void ProcessRecord::memory_changed(bool host, uint32_t core, uint32_t category, int64_t bytes) {
  if (core >= cores_.size()) return;
  // Whole pages, as the driver counts them.
  const auto size = static_cast<uint64_t>(bytes < 0 ? -bytes : bytes);
  const uint64_t pages = (size + kPage - 1) / kPage * kPage;
  const unsigned use = use_of(category);
  std::atomic<uint64_t>& known = host ? host_[use] : cores_[core][use];
  // Relaxed: sums order nothing. Going down is adding the complement.
  const uint64_t change = bytes < 0 ? 0 - pages : pages;
  const uint64_t now = known.fetch_add(change, std::memory_order_relaxed) + change;
  char* base = data();
  if (base == nullptr) return;
  uint64_t* word = (host ? host_words(base) : core_words(base, core)) + use;
  store(word, now);
  // When two changes overlap, the older sum may have been stored last.
  const uint64_t latest = known.load(std::memory_order_relaxed);
  if (latest != now) store(word, latest);
}

int ProcessRecord::add_model(const nds_model_bytes_t& model) {
  const std::lock_guard lock(mutex_);
  char* base = data();
  if (base == nullptr) return -1;
  for (size_t slot = 0; slot < in_use_.size(); ++slot) {
    const auto number = static_cast<int>(slot);
    const auto* header = reinterpret_cast<const nds_slot_t*>(base + model_offset(number));
    // The process may have published objects of its own, through nds_obj_new().
    if (in_use_[slot] || header->state != NDS_SLOT_FREE) continue;
    in_use_[slot] = true;
    publish(base, model_offset(number), &model, sizeof(model));
    return number;
  }
  return -1;
}

void ProcessRecord::remove_model(int slot) {
  const std::lock_guard lock(mutex_);
  char* base = data();
  if (base == nullptr || slot < 0 || static_cast<size_t>(slot) >= in_use_.size()) return;
  auto* header = reinterpret_cast<nds_slot_t*>(base + model_offset(slot));
  // Readers that are copying see the number change.
  __atomic_store_n(&header->state, uint32_t{NDS_SLOT_FREE}, __ATOMIC_RELAXED);
  __atomic_store_n(&header->sequence, header->sequence + 2, __ATOMIC_RELEASE);
  in_use_[static_cast<size_t>(slot)] = false;
}

}  // namespace neuron::runtime
