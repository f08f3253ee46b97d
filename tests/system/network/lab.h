// SPDX-License-Identifier: Apache-2.0
// A few hosts in network namespaces, joined by a switch of the test's own that can do harm.
//
// Concepts: each host is a namespace with one Ethernet device; the other ends lie in a namespace
// of the switch, where a thread passes frames from device to device. It drops, delays and blocks
// them by direction, so that nothing of the kernel but veth is needed. Names carry the pid of the
// test; the destructor removes them, and the next test those of tests that were killed. Callers:
// one thread sets the harm, the switch's thread reads it. Fails: ready() is false with a sentence.
#ifndef TESTS_SYSTEM_NETWORK_LAB_H
#define TESTS_SYSTEM_NETWORK_LAB_H

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace neuron::network {

// What happens to frames of one direction.
struct Harm {
  bool blocked = false;
  double drop = 0;  // share
  std::chrono::milliseconds delay{0};
};

class Lab {
 public:
  explicit Lab(uint32_t hosts);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  // Whether this process may make namespaces at all.
  static bool permitted();

  bool ready() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }
  uint32_t hosts() const { return hosts_; }
  std::string name(uint32_t host) const;     // of the namespace
  std::string address(uint32_t host) const;  // of its device

  void set(uint32_t from, uint32_t to, const Harm& harm);
  void set_all(const Harm& harm);
  void heal() { set_all({}); }
  uint64_t passed() const;
  uint64_t dropped() const;

 private:
  struct Switch;
  bool run(const std::string& command);
  void make();
  void remove();

  uint32_t hosts_;
  std::string failure_;
  std::unique_ptr<Switch> switch_;
};

}  // namespace neuron::network

#endif
