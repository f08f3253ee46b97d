// SPDX-License-Identifier: Apache-2.0
// Hosts in network namespaces that a bridge of the kernel joins: as fast as this host can carry
// frames, unlike the lab of tests/system/network, whose switch is a thread that can do harm.
//
// Names carry the pid; the destructor removes them. Callers: one thread. Fails: ready() is false,
// with a sentence on stderr; making namespaces needs root.
#ifndef TESTS_BENCH_CCOM_BRIDGED_HOSTS_H
#define TESTS_BENCH_CCOM_BRIDGED_HOSTS_H

#include <cstdint>
#include <string>

namespace neuron::bench {

class BridgedHosts {
 public:
  explicit BridgedHosts(uint32_t hosts);
  ~BridgedHosts();
  BridgedHosts(const BridgedHosts&) = delete;
  BridgedHosts& operator=(const BridgedHosts&) = delete;

  bool ready() const { return ready_; }
  std::string name(uint32_t host) const;
  std::string address(uint32_t host) const;
  // Takes the calling process, which has one thread, to a host. False: it stays where it is.
  bool enter(uint32_t host) const;

 private:
  bool run(const std::string& command) const;

  const uint32_t hosts_;
  const std::string bridge_;
  bool ready_ = false;
};

}  // namespace neuron::bench

#endif
