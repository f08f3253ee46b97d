// SPDX-License-Identifier: Apache-2.0
// One script of driver calls and what a host answers to each, as text that is equal on all hosts.
//
// Concepts: the script opens device 0 through the driver library's port (embedded, shared, kernel
// module) and calls it; every answer becomes a line. Handles, addresses and mapping offsets are
// hosts' own business: a handle prints as h1, h2, ... in order of first appearance, an address as
// the memory it lies in and its alignment. Refusals print as "refused", since a driver may choose
// the error number where the interface does not. Contents of memory print as a checksum.
// Callers: the test and the program ioctl-trace, one thread. Fails: the trace says where.
#ifndef TESTS_DIFFERENTIAL_HOSTS_IOCTL_TRACE_H
#define TESTS_DIFFERENTIAL_HOSTS_IOCTL_TRACE_H

#include <map>
#include <string>
#include <vector>

#include "driver/ndl/port.h"

namespace neuron::trace {

class Trace {
 public:
  explicit Trace(ndl::Port& port) : port_(port) {}
  // The whole script on device 0; one line per call, each ending in '\n'.
  std::string run();

 private:
  struct Memory {
    uint64_t handle = 0;
    uint64_t address = 0;
    uint64_t map_offset = 0;
    uint64_t size = 0;
    bool host = false;
  };

  // Makes the call and begins its line: "NAME ok" or "NAME refused".
  bool call(const char* name, unsigned long request, void* argument);
  void say(const char* format, ...) __attribute__((format(printf, 2, 3)));
  std::string handle(uint64_t value);
  Memory allocate(uint64_t size, uint64_t alignment, bool host, unsigned hbm);
  bool write(const Memory& memory, uint64_t offset, const std::vector<unsigned char>& bytes);
  void read(const Memory& memory, uint64_t offset, uint64_t size);

  void identity();
  void memory();
  void copies();
  void mappings();
  void semaphores();
  void rings();
  void programs();
  void notifications();
  void locks();
  void datastore();
  void reset();
  void restricted();

  ndl::Port& port_;
  std::unique_ptr<ndl::DevicePort> device_;
  unsigned cores_ = 0;
  std::map<uint64_t, unsigned> handles_;
  std::string text_;
};

}  // namespace neuron::trace

#endif
