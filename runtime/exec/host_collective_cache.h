// SPDX-License-Identifier: Apache-2.0
//
// Prepared collectives that the host starts, by operation and tensors. The least recently used are
// evicted. Callers: HostCollective::prepare. Thread-safe: yes. Shares the collectives with the
// threads that run them. Cannot fail.
#ifndef RUNTIME_EXEC_HOST_COLLECTIVE_CACHE_H
#define RUNTIME_EXEC_HOST_COLLECTIVE_CACHE_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/session/session.h"

namespace neuron::runtime {

class HostCollective;

class HostCollectiveCache : public SessionPart {
 public:
  using Key = std::vector<uint64_t>;
  static constexpr size_t kMost = 64;

  // The cache of the session; the first call makes it.
  static HostCollectiveCache& of(Session& session);

  // Null if the key is unknown.
  std::shared_ptr<HostCollective> find(const Key& key);
  void keep(const Key& key, std::shared_ptr<HostCollective> collective);

 private:
  struct Entry {
    std::shared_ptr<HostCollective> collective;
    uint64_t used = 0;
  };

  std::mutex mutex_;  // all below
  std::map<Key, Entry> entries_;
  uint64_t clock_ = 0;
};

}  // namespace neuron::runtime

#endif
