// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies through io_uring (uapi/neuron_uring.h), by the kernel's own calls.
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/vm/guest/device.h"
#include "uapi/neuron_uring.h"

namespace neuron::guest {
namespace {

// A ring with entries of 128 bytes, used by one thread.
class Ring {
 public:
  explicit Ring(unsigned entries, unsigned flags = IORING_SETUP_SQE128) : long_(flags != 0) {
    io_uring_params setup = {};
    setup.flags = flags;
    fd_ = static_cast<int>(syscall(__NR_io_uring_setup, entries, &setup));
    EXPECT(fd_ >= 0);
    const size_t size = setup.cq_off.cqes + setup.cq_entries * sizeof(io_uring_cqe) + 4096;
    rings_ = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_POPULATE, fd_, IORING_OFF_SQ_RING));
    EXPECT(rings_ != MAP_FAILED);
    entries_ = static_cast<char*>(mmap(nullptr, setup.sq_entries * 128, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_POPULATE, fd_, IORING_OFF_SQES));
    EXPECT(entries_ != MAP_FAILED);
    sq_tail_ = word(setup.sq_off.tail);
    sq_mask_ = *word(setup.sq_off.ring_mask);
    sq_array_ = word(setup.sq_off.array);
    cq_head_ = word(setup.cq_off.head);
    cq_tail_ = word(setup.cq_off.tail);
    cq_mask_ = *word(setup.cq_off.ring_mask);
    cqes_ = reinterpret_cast<io_uring_cqe*>(rings_ + setup.cq_off.cqes);
  }
  ~Ring() { close(fd_); }

  void submit(int device, uint32_t operation, const void* argument, size_t size, uint64_t name) {
    const unsigned tail = *sq_tail_;
    const unsigned index = tail & sq_mask_;
    char* at = entries_ + index * (long_ ? 128 : 64);
    auto* entry = reinterpret_cast<io_uring_sqe*>(at);
    std::memset(at, 0, long_ ? 128 : 64);
    entry->opcode = IORING_OP_URING_CMD;
    entry->fd = device;
    entry->off = operation;  // cmd_op
    entry->user_data = name;
    if (size > 0) std::memcpy(at + 48, argument, size);
    sq_array_[index] = index;
    // Pairs with the kernel's read of the tail.
    __atomic_store_n(sq_tail_, tail + 1, __ATOMIC_RELEASE);
    EXPECT_EQ(syscall(__NR_io_uring_enter, fd_, 1, 0, 0, nullptr, 0), 1);
  }
  template <typename T>
  void submit(int device, uint32_t operation, const T& argument, uint64_t name) {
    submit(device, operation, &argument, sizeof(argument), name);
  }

  // Waits for one completion.
  io_uring_cqe next() {
    while (__atomic_load_n(cq_tail_, __ATOMIC_ACQUIRE) == *cq_head_) {
      syscall(__NR_io_uring_enter, fd_, 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
    }
    const io_uring_cqe found = cqes_[*cq_head_ & cq_mask_];
    __atomic_store_n(cq_head_, *cq_head_ + 1, __ATOMIC_RELEASE);
    return found;
  }
  template <typename T>
  int run(int device, uint32_t operation, const T& argument) {
    submit(device, operation, argument, 1);
    return next().res;
  }
  bool is_empty() const { return __atomic_load_n(cq_tail_, __ATOMIC_ACQUIRE) == *cq_head_; }

 private:
  unsigned* word(unsigned offset) { return reinterpret_cast<unsigned*>(rings_ + offset); }

  const bool long_;
  int fd_ = -1;
  char *rings_ = nullptr, *entries_ = nullptr;
  unsigned *sq_tail_, *sq_array_, *cq_head_, *cq_tail_;
  unsigned sq_mask_, cq_mask_;
  io_uring_cqe* cqes_;
};

std::vector<uint8_t> pattern(size_t size, unsigned seed) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 131 + (i >> 9) + seed);
  return bytes;
}

neuron_uring_transfer transfer(const Memory& memory, uint64_t offset, const void* buffer,
                               uint64_t size) {
  return {memory.handle(), offset, reinterpret_cast<uintptr_t>(buffer), size, 0};
}

CASE("the driver says that it takes commands of io_uring") {
  const Device device;
  Ring ring(4);
  EXPECT(ring.run(device.fd(), NEURON_URING_QUERY, uint32_t{0}) >= NEURON_URING_VERSION);
}

CASE("a user buffer is written and read asynchronously, wherever it starts and ends in a page") {
  const Device device;
  const Memory memory(device, 4 << 20);
  Ring ring(4);
  for (const size_t size : {size_t{1}, size_t{4095}, size_t{70000}, size_t{3} << 20}) {
    for (const size_t shift : {size_t{0}, size_t{13}, size_t{4088}}) {
      const auto in = pattern(size + shift, static_cast<unsigned>(size));
      std::vector<uint8_t> out(size + shift);
      EXPECT_EQ(ring.run(device.fd(), NEURON_URING_WRITE,
                         transfer(memory, shift, in.data() + shift, size)),
                0);
      EXPECT_EQ(ring.run(device.fd(), NEURON_URING_READ,
                         transfer(memory, shift, out.data() + shift, size)),
                0);
      EXPECT(std::memcmp(in.data() + shift, out.data() + shift, size) == 0);
    }
  }
}

CASE("handles are copied to handles, host and device in every combination") {
  const Device device;
  const auto in = pattern(300000, 5);
  Ring ring(4);
  for (const bool from_host : {false, true}) {
    for (const bool to_host : {false, true}) {
      const Memory from(device, 1 << 20, {.host = from_host});
      const Memory to(device, 1 << 20, {.host = to_host});
      EXPECT_EQ(device.copy_in(from.handle(), in.data(), in.size(), 100), 0);
      const neuron_uring_copy copy = {from.handle(), to.handle(), 100, 4096, in.size(), 0};
      EXPECT_EQ(ring.run(device.fd(), NEURON_URING_COPY, copy), 0);
      std::vector<uint8_t> out(in.size());
      EXPECT_EQ(device.copy_out(to.handle(), out.data(), out.size(), 4096), 0);
      EXPECT(out == in);
    }
  }
}

CASE("many commands are under way at once, and those of a core are carried out in order") {
  constexpr unsigned kCommands = 100;
  const Device device;
  const Memory memory(device, kCommands * 4096);
  Ring ring(128);
  std::vector<std::vector<uint8_t>> buffers;
  for (unsigned i = 0; i < kCommands; ++i) buffers.push_back(pattern(4096, i));
  // Each writes over the one before it, half a page further.
  for (unsigned i = 0; i < kCommands; ++i) {
    ring.submit(device.fd(), NEURON_URING_WRITE,
                transfer(memory, i * 2048ull, buffers[i].data(), 4096), i);
  }
  std::vector<bool> done(kCommands);
  for (unsigned i = 0; i < kCommands; ++i) {
    const io_uring_cqe completion = ring.next();
    EXPECT_EQ(completion.res, 0);
    EXPECT(completion.user_data < kCommands && !done[completion.user_data]);
    done[completion.user_data] = true;
  }
  std::vector<uint8_t> out(2048);
  for (unsigned i = 0; i < kCommands; ++i) {
    EXPECT_EQ(device.copy_out(memory.handle(), out.data(), out.size(), i * 2048ull), 0);
    EXPECT(std::memcmp(out.data(), buffers[i].data(), 2048) == 0);
  }
}

// The debug kernel warns of pages that are mapped twice for a device that writes to them.
CASE("one buffer may be the target of many commands at once") {
  constexpr unsigned kCommands = 32;
  constexpr size_t kSize = 256 << 10;
  const Device device;
  const Memory memory(device, kSize);
  Ring ring(64);
  const auto in = pattern(kSize, 9);
  EXPECT_EQ(device.copy_in(memory.handle(), in.data(), in.size(), 0), 0);
  std::vector<uint8_t> out(kSize + 8);
  for (unsigned i = 0; i < kCommands; ++i) {
    ring.submit(device.fd(), NEURON_URING_READ, transfer(memory, 0, out.data() + 8, kSize), i);
  }
  for (unsigned i = 0; i < kCommands; ++i) EXPECT_EQ(ring.next().res, 0);
  EXPECT(std::memcmp(out.data() + 8, in.data(), kSize) == 0);
}

CASE("commands that make no sense are refused at once") {
  const Device device;
  const Memory memory(device, 65536);
  std::vector<uint8_t> buffer(4096);
  Ring ring(4);
  const auto run = [&](uint32_t operation, const neuron_uring_transfer& argument) {
    return ring.run(device.fd(), operation, argument);
  };
  neuron_uring_transfer good = transfer(memory, 0, buffer.data(), 4096);
  EXPECT_EQ(run(NEURON_URING_WRITE, good), 0);
  auto bad = good;
  bad.mem_handle = 4000000;
  EXPECT_EQ(run(NEURON_URING_WRITE, bad), -EINVAL);
  bad = good;
  bad.offset = 65536 - 4095;
  EXPECT_EQ(run(NEURON_URING_READ, bad), -EINVAL);
  bad = good;
  bad.offset = ~0ull - 10;
  EXPECT_EQ(run(NEURON_URING_READ, bad), -EINVAL);
  bad = good;
  bad.size = 0;
  EXPECT_EQ(run(NEURON_URING_WRITE, bad), -EINVAL);
  bad = good;
  bad.size = NEURON_URING_TRANSFER_BYTES + 1ull;
  EXPECT_EQ(run(NEURON_URING_WRITE, bad), -EINVAL);
  bad = good;
  bad.flags = 1;
  EXPECT_EQ(run(NEURON_URING_WRITE, bad), -EINVAL);
  bad = good;
  bad.buffer = 0xFFFF800000000000ull;
  EXPECT(run(NEURON_URING_WRITE, bad) < 0);
  bad = good;
  bad.buffer = 4096;
  EXPECT_EQ(run(NEURON_URING_WRITE, bad), -EFAULT);
  EXPECT_EQ(run(0x12345678, good), -EINVAL);
  neuron_uring_copy copy = {memory.handle(), memory.handle(), 0, 4096, 4096, 0};
  EXPECT_EQ(ring.run(device.fd(), NEURON_URING_COPY, copy), 0);
  copy.destination_handle = 4000001;
  EXPECT_EQ(ring.run(device.fd(), NEURON_URING_COPY, copy), -EINVAL);
  EXPECT_EQ(run(NEURON_URING_WRITE, good), 0);
}

CASE("a ring with short entries and a descriptor for writing only are refused") {
  const Device device;
  const Device restricted(0, O_WRONLY);
  Ring short_ring(4, 0);
  short_ring.submit(device.fd(), NEURON_URING_COPY, nullptr, 0, 1);
  EXPECT_EQ(short_ring.next().res, -EINVAL);
  Ring ring(4);
  EXPECT_EQ(ring.run(restricted.fd(), NEURON_URING_QUERY, uint32_t{0}), -EINVAL);
}

CASE("a process that did not open the device itself gets no copies through io_uring") {
  const Device device;
  const Memory memory(device, 65536), other(device, 65536);
  EXPECT_EQ(exit_status_of_child([&] {
              std::vector<uint8_t> buffer(4096);
              Ring ring(4);
              const neuron_uring_copy copy = {memory.handle(), other.handle(), 0, 0, 4096, 0};
              const auto part = transfer(memory, 0, buffer.data(), 4096);
              EXPECT(ring.run(device.fd(), NEURON_URING_QUERY, uint32_t{0}) > 0);
              EXPECT_EQ(ring.run(device.fd(), NEURON_URING_COPY, copy), -EACCES);
              EXPECT_EQ(ring.run(device.fd(), NEURON_URING_WRITE, part), -EACCES);
              EXPECT_EQ(ring.run(device.fd(), NEURON_URING_READ, part), -EACCES);
              const Device own;
              return ring.run(own.fd(), NEURON_URING_COPY, copy);
            }),
            0);
}

CASE("memory may be freed and a buffer unmapped while commands use them") {
  const Device device;
  constexpr size_t kSize = 8 << 20;
  Ring ring(16);
  for (int round = 0; round < 4; ++round) {
    auto memory = std::make_unique<Memory>(device, kSize);
    void* buffer = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(buffer != MAP_FAILED);
    std::memset(buffer, round, kSize);
    for (uint64_t i = 0; i < 8; ++i) {
      ring.submit(device.fd(), i % 2 != 0 ? NEURON_URING_READ : NEURON_URING_WRITE,
                  transfer(*memory, 0, buffer, kSize), i);
    }
    EXPECT_EQ(munmap(buffer, kSize), 0);
    memory.reset();
    for (int i = 0; i < 8; ++i) EXPECT_EQ(ring.next().res, 0);
  }
}

CASE("a process that is killed with commands under way leaves nothing behind") {
  const Device device;
  __u64 pa = 0;
  {
    WaitingChild child([] {
      auto* own = new Device;
      auto* memory = new Memory(*own, 32 << 20);
      auto* ring = new Ring(64);
      auto* buffer = new std::vector<uint8_t>(32 << 20, 7);
      for (uint64_t i = 0; i < 32; ++i) {
        ring->submit(own->fd(), NEURON_URING_WRITE, transfer(*memory, 0, buffer->data(), 32 << 20),
                     i);
      }
      return memory->pa();
    });
    pa = child.value();
  }
  for (int tries = 0; tries < 200 && device.has_chunk(0, pa); ++tries) usleep(10000);
  EXPECT(!device.has_chunk(0, pa));
}

CASE("closing the descriptor cancels what has not begun and keeps the ring usable") {
  auto device = std::make_unique<Device>();
  const Device other;
  // Copies inside of the device are submitted much faster than they are done, on a slow kernel too.
  constexpr uint64_t kSize = 256 << 20;
  __u64 from = 0, to = 0;
  EXPECT_EQ(allocate(*device, kSize, {}, from), 0);
  EXPECT_EQ(allocate(*device, kSize, {}, to), 0);
  std::vector<uint8_t> buffer(4096);
  Ring ring(64);
  for (uint64_t i = 0; i < 31; ++i) {
    ring.submit(device->fd(), NEURON_URING_COPY, neuron_uring_copy{from, to, 0, 0, kSize, 0}, i);
  }
  const neuron_uring_transfer last = {to, 0, reinterpret_cast<uintptr_t>(buffer.data()),
                                      buffer.size(), 0};
  ring.submit(device->fd(), NEURON_URING_WRITE, last, 31);
  device.reset();
  int cancelled = 0;
  for (int i = 0; i < 32; ++i) {
    const int result = ring.next().res;
    EXPECT(result == 0 || result == -ECANCELED);
    cancelled += result == -ECANCELED;
  }
  EXPECT(cancelled > 0);
  const Memory memory(other, 4096);
  EXPECT_EQ(ring.run(other.fd(), NEURON_URING_WRITE, transfer(memory, 0, buffer.data(), 4096)), 0);
}

}  // namespace
}  // namespace neuron::guest
