// SPDX-License-Identifier: Apache-2.0
//
// The data that this process publishes about itself on one device, beside the counters of
// executions: versions and tag, memory by category, loaded models. The record lies in the driver's
// datastore, which operator tools read.
//
// Callers: session (attach), every allocation, loader. Thread-safe: memory by atomic words, models
// by a mutex. Borrows: the mapped datastore between attach() and detach(). attach() also publishes
// the memory that was allocated before. Without a datastore, and in a child of fork(), which has no
// mapping, nothing is written.
#ifndef RUNTIME_OBSERVE_PROCESS_RECORD_H
#define RUNTIME_OBSERVE_PROCESS_RECORD_H

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "nrt/nds/datastore_layout.h"

namespace neuron::runtime {

struct ProcessVersions {
  uint64_t runtime = 0, framework = 0, abstraction = 0;  // nmetric_version_t
  int8_t framework_type = 0;
};

class ProcessRecord {
 public:
  // `data`: NDS_BLOCK_BYTES, zero but for what this process wrote.
  void attach(void* data, const ProcessVersions& versions, const std::string& tag);
  void detach();

  // An allocation came (bytes > 0) or went. `core`: physical number.
  void memory_changed(bool host, uint32_t core, uint32_t category, int64_t bytes);

  // The slot that remove_model() takes; -1 if all are in use.
  int add_model(const nds_model_bytes_t& model);
  void remove_model(int slot);

 private:
  static constexpr unsigned kUses = 5;  // code, tensors, constants, scratchpad, others
  using Uses = std::array<std::atomic<uint64_t>, kUses>;

  char* data() const;
  uint64_t* host_words(char* base) const;
  uint64_t* core_words(char* base, unsigned core) const;
  static void publish(char* base, size_t offset, const void* bytes, size_t size);

  std::atomic<char*> data_{nullptr};  // release in attach(), acquire in data(): what lies there
  int pid_ = 0;
  Uses host_{};
  std::array<Uses, NDS_OPEN_CORES> cores_{};
  std::mutex mutex_;          // slots
  std::vector<bool> in_use_;  // by slot of the models
};

}  // namespace neuron::runtime

#endif
