// SPDX-License-Identifier: Apache-2.0
// A process that has a bit of everything of a device and does nothing, beside others that a fuzzer
// drives: whatever they do, it must keep what it has.
//
// Concepts: memory of both kinds, its mappings, a datastore, a DMA queue, a notification queue, a
// core that is marked and locked, the results of a reset and of a scrub that it has not fetched.
// harm() compares all of it with what it was. What driver/emulator/SECURITY.md does not promise is
// left out: resets of cores take queues away, and they are set up anew; descriptors of others
// reach all memory, so whoever has started some says so (`reached`), and memory is written anew.
// Callers: one thread, while no call of others runs; what is only looked up, any thread. Borrows
// the instance. Fails: create returns null, with the sentence in service/error.h.
#ifndef TESTS_FUZZ_NEIGHBOUR_H
#define TESTS_FUZZ_NEIGHBOUR_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "driver/emulator/service/session.h"

namespace neuron::fuzz {

// Memory of a session that this process has mapped as a client of the daemon does: by its file.
class Mapping {
 public:
  Mapping() = default;
  // Empty with a sentence in service/error.h.
  static Mapping of(service::Session& session, uint64_t address, uint64_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  explicit operator bool() const { return memory_ != nullptr; }
  // Volatile: the other side writes it through another mapping.
  volatile uint64_t* words() const { return static_cast<volatile uint64_t*>(memory_); }
  size_t size() const { return bytes_ / sizeof(uint64_t); }
  uint64_t inode() const { return inode_; }

 private:
  void* memory_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t inode_ = 0;
};

class Neighbour {
 public:
  static constexpr uint64_t kBytes = 4096;  // of each allocation
  static constexpr uint32_t kCore = 1, kEngine = 21, kQueue = 3, kRing = 32;
  static constexpr service::Client kClient = {5'000'000, 3000, 1};

  // Without anybody else on device 0 of the instance, whose files are allowed.
  static std::unique_ptr<Neighbour> create(service::Instance& instance);
  ~Neighbour();
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // Handles, addresses and numbers of all that it has.
  std::vector<uint64_t> names() const;
  // Whether something of what it alone knows is in there.
  bool is_secret(std::span<const std::byte> bytes) const;
  // Whether a number is a handle of its memory, or an address in it.
  bool owns_handle(uint64_t handle) const;
  bool owns_address(uint64_t address) const;
  // Whether a descriptor is that of its memory, other than to read its datastore.
  bool is_own_file(int fd) const;

  // Whether its core has been reset since its queues were set up. Any thread.
  bool was_reset();
  // What others have done to it; empty: nothing. It is whole again afterwards, if it can be.
  std::string harm(bool reached);
  // What others have left behind; empty: nothing. While nobody else has the device open.
  std::string leftovers();

 private:
  struct Memory {
    uint64_t handle = 0;
    uint64_t address = 0;
    Mapping mapping;
  };
  struct Counts {
    uint64_t chunks = 0, host_bytes = 0, hbm_bytes = 0, reserved = 0;
    bool operator==(const Counts&) const = default;
  };

  explicit Neighbour(service::Instance& instance) : instance_(instance) {}
  bool open();
  bool allocate(bool host, Memory& memory);
  bool set_up_queues();
  void fill();
  Counts count();
  std::string harm_to_memory(const Memory& memory, const char* name, bool reached);
  std::string harm_to_queues();
  std::string harm_to_tables();
  service::Device& device() { return session_->device(); }

  service::Instance& instance_;
  service::Session* session_ = nullptr;
  uint64_t secret_ = 0;
  Memory hbm_, host_, ring_, datastore_;
  uint64_t notifications_ = 0;  // mapping offset of the queue
  uint64_t resets_ = 0;         // of its core, when the queues were set up
  Counts counts_;
};

}  // namespace neuron::fuzz

#endif
