// SPDX-License-Identifier: Apache-2.0
// Chips as PCI functions of virtual machines: a folder of sockets, nd0.sock and so on, one function
// behind each.
//
// Concepts: a client (QEMU's vfio-user-pci) owns its function from connecting to disconnecting;
// then the chip is built anew and the socket waits for the next one. A second client of the same
// function is turned away. Callers: the daemon's main. Threads: one accepts, one a function serves;
// every call here is thread-safe. Owns the sockets' files, removed by stop(). Fails: create()
// returns null with a sentence. An error of a client is logged and ends at most its connection.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_SERVER_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_SERVER_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace neuron::chip {
class Chip;
}

namespace neuron::transport {

enum class MapLevel : uint8_t {
  kNothing = 0,        // every access traps; QEMU then posts writes
  kMemory = 1,         // HBM behind BAR4 is mapped
  kConfiguration = 2,  // and the pages of DMA engines that only hold configuration
};

struct VfioUserOptions {
  std::string folder;  // must exist
  unsigned functions = 1;
  uint16_t pci_device = 0x7164;
  uint8_t revision = 1;
  MapLevel map_level = MapLevel::kMemory;
  uint64_t hbm_bytes_each = 0;  // 0: what the chip has
  unsigned workers = 0;         // of each chip; 0: host cores
  std::function<void(const std::string&)> log;
  // Called with each chip that is built, before anybody uses it.
  std::function<void(unsigned function, chip::Chip&)> prepare;
};

class VfioUserServer {
 public:
  static std::unique_ptr<VfioUserServer> create(const VfioUserOptions& options, std::string& error);
  virtual ~VfioUserServer() = default;

  // Ends all connections and threads, removes the sockets.
  virtual void stop() = 0;
  virtual unsigned functions() const = 0;
  // Functions that have a client.
  virtual unsigned connections() const = 0;
  // Calls `use` with the chip of a function, which is not replaced meanwhile.
  virtual void with_chip(unsigned function, const std::function<void(chip::Chip&)>& use) = 0;
  // The last writes of a function into its guest's memory, also of a guest that is gone; one a
  // line, the oldest first.
  virtual std::vector<std::string> host_writes(unsigned function) const = 0;
  // One line for each function: accesses, copies, what is mapped.
  virtual std::string statistics() const = 0;
};

}  // namespace neuron::transport

#endif
