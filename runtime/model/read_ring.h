// SPDX-License-Identifier: Apache-2.0
//
// Reads of files that are under way at the same time: an io_uring with a page-aligned buffer for
// each.
//
// Callers: FileReader, one thread. Owns: the ring and the buffers. Borrows: descriptors, and memory
// that is not a buffer of its own, until the read into it has ended. Fails: with a negative errno,
// as the kernel gives it; kNoAnswer after kPatienceSeconds without one, and from then on.
#ifndef RUNTIME_MODEL_READ_RING_H
#define RUNTIME_MODEL_READ_RING_H

#include <liburing.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace neuron::runtime {

class ReadRing {
 public:
  static constexpr size_t kPiece = 1u << 20;
  static constexpr unsigned kDepth = 8;  // reads under way at most
  static constexpr int kPatienceSeconds = 60;
  static constexpr int kNoAnswer = -4096;  // no errno of the kernel

  // Null, with errno, where the kernel lets this process have no ring, or memory is short.
  static std::unique_ptr<ReadRing> create();
  ~ReadRing();
  ReadRing(const ReadRing&) = delete;
  ReadRing& operator=(const ReadRing&) = delete;

  // For whoever reads more than the buffers have, a few times over: their pages are pinned once
  // instead of at each read. A user with too little locked memory goes on without.
  void register_buffers();
  // kPiece bytes on a page boundary, for the read with this slot.
  std::byte* buffer(unsigned slot) { return buffers_ + slot * kPiece; }

  // Begins a read of at most kPiece bytes. The slot has none under way. `to`: buffer(slot), or any
  // memory of the caller's. A read that the kernel does not take has ended with its errno.
  void begin(unsigned slot, int descriptor, std::byte* to, size_t bytes, uint64_t offset);
  // Waits for the read that was begun last with this slot: bytes, or a negative errno.
  int wait(unsigned slot);
  // Waits for all of them; false without an answer. The kernel may then still write to what they
  // read into; the buffers' own pages it keeps until then.
  bool drain();

 private:
  enum class Slot : uint8_t { kEmpty, kUnderWay, kEnded };
  ReadRing() = default;
  bool take_one();

  io_uring ring_ = {};
  std::byte* buffers_ = nullptr;
  bool registered_ = false;
  bool refused_ = false;  // the kernel took a read no more
  bool silent_ = false;   // it gave no answer
  std::array<Slot, kDepth> slots_{};
  std::array<int, kDepth> results_{};
};

}  // namespace neuron::runtime

#endif
