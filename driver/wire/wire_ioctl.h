// SPDX-License-Identifier: Apache-2.0
// Arguments of ioctl calls as bytes: the pointers in them lead to data that travels along.
//
// Concepts: a table says for each call how large its argument is, where the pointers are, how many
// bytes each leads to and which way these go. The client gathers its own memory by it
// (OutgoingCall), the daemon makes buffers of its own by the same table (IncomingCall): sizes never
// come from the wire. Callers: driver/ndl/port_shared and the daemon, one thread per object. Owns:
// copies of the argument; IncomingCall the buffers. Fails: negative errno.
#ifndef DRIVER_WIRE_WIRE_IOCTL_H
#define DRIVER_WIRE_WIRE_IOCTL_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "driver/wire/wire.h"

namespace neuron::wire {

// A number inside the argument; 0 bytes: there is none.
struct Field {
  uint16_t offset = 0;
  uint8_t bytes = 0;
};

enum class Way : uint8_t { kNone, kIn, kOut, kByFlag };

struct PointerRule {
  uint16_t field = 0;
  Way way = Way::kNone;
  uint32_t element = 0;  // bytes of one, or of all if there is no count
  Field count = {};
  Field flag = {};     // kByFlag: not 0 means in
  Field skip = {};     // the data begins that many bytes behind the pointer
  uint32_t extra = 0;  // bytes before the first element
  uint32_t most = 0;   // elements that can be meant; more are not asked for (0: no such limit)
};

enum class Shape : uint8_t {
  kFlat,
  kTail,     // elements by pointers[0] follow the argument itself
  kBatches,  // an array of neuron_memcpy_batch_t, which point to arrays that point to data
};

struct IoctlRule {
  uint32_t request;
  uint32_t size;
  Shape shape;
  PointerRule pointers[2];
};

// Null for a call that does not exist; direction bits of the number do not count.
const IoctlRule* find_ioctl(uint64_t request);
std::span<const IoctlRule> all_ioctls();

struct Bytes {
  void* address;
  uint64_t size;
};

// The client's side of a call.
class OutgoingCall {
 public:
  // Looks at the argument and at arrays of pointers it leads to; -E2BIG if the data is too much for
  // one call.
  int prepare(uint64_t request, void* argument);
  // Takes the answered argument over, pointers and what was not asked for excepted.
  void finish(std::span<const std::byte> answered);

  std::span<const std::byte> argument() const { return copy_; }
  uint32_t pointers() const { return pointers_; }
  const std::vector<Bytes>& in() const { return in_; }
  const std::vector<Bytes>& out() const { return out_; }
  uint64_t in_bytes() const { return in_bytes_; }
  uint64_t out_bytes() const { return out_bytes_; }

 private:
  int add(std::vector<Bytes>& list, uint64_t& total, void* address, uint64_t size);
  int prepare_batches();

  const IoctlRule* rule_ = nullptr;
  std::byte* original_ = nullptr;
  std::vector<std::byte> copy_;
  std::vector<std::vector<std::byte>> arrays_;
  uint32_t pointers_ = 0;
  std::vector<Bytes> in_, out_;
  uint64_t in_bytes_ = 0, out_bytes_ = 0;
};

// Where the daemon reads a call's data from.
class DataSource {
 public:
  virtual ~DataSource() = default;
  // False if there are fewer bytes left.
  virtual bool read(void* to, uint64_t size) = 0;
};

struct FreeBuffer {
  uint64_t mapped = 0;  // bytes; 0: from the heap
  void operator()(std::byte* memory) const;
};

// The daemon's side.
class IncomingCall {
 public:
  // 0; -EPROTO for a message that no client of ours sends; -E2BIG; -ENOMEM; -ENOBUFS if the buffers
  // would take more than `room`: then needed() tells how much, and the call can be accepted anew.
  int accept(uint64_t request, std::span<const std::byte> argument, uint32_t pointers,
             uint64_t data_bytes, DataSource& data, uint64_t room = UINT64_MAX);
  // What the buffers of such a call take at least: room for what comes with it.
  static uint64_t least_room(uint64_t request, uint64_t data_bytes);
  // Behind accept(): what they take.
  uint64_t needed() const { return least_ + out_bytes_; }
  void* argument() { return copy_.get(); }
  // What goes back: the argument without pointers, and the data behind them in the client's order.
  std::span<const std::byte> answer();
  const std::vector<Bytes>& out() const { return out_; }
  uint64_t out_bytes() const { return out_bytes_; }

 private:
  using Buffer = std::unique_ptr<std::byte[], FreeBuffer>;

  // Zeroed, so that nothing of ours gets out with an answer.
  static Buffer make_buffer(uint64_t size);
  std::byte* buffer(uint64_t size);
  int add(const PointerRule& rule, PointerState state, uint64_t& left, DataSource& data);
  int accept_batches(PointerState state, uint64_t& left, DataSource& data);
  int take_in(uint64_t size, uint64_t& left, DataSource& data, std::byte*& memory);
  int make_out(uint64_t size, std::byte*& memory);

  const IoctlRule* rule_ = nullptr;
  Buffer copy_;
  uint64_t copy_bytes_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<Bytes> out_;
  uint64_t out_bytes_ = 0;
  uint64_t least_ = 0;
  uint64_t out_room_ = 0;
};

}  // namespace neuron::wire

#endif
