// SPDX-License-Identifier: Apache-2.0
// DMA queues whose rings user space builds.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "hw/udma.h"
#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

constexpr uint32_t kEngine = 3;
constexpr uint32_t kQueue = 2;
constexpr uint32_t kRing = 64;

struct Descriptor {
  uint32_t control;
  uint32_t meta;
  __u64 address;
};

Descriptor source(__u64 address, uint32_t bytes, uint32_t ring_id) {
  return {NEURON_DESC_FIRST | NEURON_DESC_LAST | (ring_id & 3) << NEURON_DESC_RING_ID_SHIFT |
              (bytes & NEURON_DESC_LENGTH_MASK),
          NEURON_META_DEFAULT | NEURON_META_WRITE_BARRIER, address};
}

Descriptor destination(__u64 address, uint32_t bytes, uint32_t ring_id) {
  return {(ring_id & 3) << NEURON_DESC_RING_ID_SHIFT | (bytes & NEURON_DESC_LENGTH_MASK), 0,
          address};
}

int init(const Device& device, uint32_t engine, uint32_t queue, uint32_t count, __u64 tx,
         __u64 rx) {
  neuron_ioctl_dma_queue_init request = {engine, queue, count, count, tx, rx, 0, 0};
  return device.call(NEURON_IOCTL_DMA_QUEUE_INIT, &request);
}

int put(const Device& device, __u64 ring, const Descriptor& descriptor, uint32_t index,
        neuron_dma_queue_type type) {
  neuron_ioctl_dma_copy_descriptors64 request = {ring, const_cast<Descriptor*>(&descriptor), 1,
                                                 index * NEURON_DESC_BYTES, type};
  return device.call(NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &request);
}

int start(const Device& device, uint32_t engine, uint32_t queue, uint32_t count) {
  neuron_ioctl_dma_queue_copy_start request = {engine, queue, count, count};
  return device.call(NEURON_IOCTL_DMA_QUEUE_COPY_START, &request);
}

// A queue with rings in host or device memory; each transfer ends with a marker in host memory.
class UserQueue {
 public:
  UserQueue(const Device& device, uint32_t engine, uint32_t queue, bool rings_on_host)
      : device_(device),
        engine_(engine),
        queue_(queue),
        tx_(device, 4096, {.host = rings_on_host}),
        rx_(device, 4096, {.host = rings_on_host}),
        marker_(device, 4096, {.host = true}),
        marker_words_(device, marker_.mmap_offset(), 4096, PROT_READ | PROT_WRITE) {
    EXPECT_EQ(init(device, engine, queue, kRing, tx_.handle(), rx_.handle()), 0);
    marker_words_.word(0) = NEURON_DMA_COMPLETION_MARKER;
  }
  ~UserQueue() { init(device_, engine_, queue_, kRing, 0, 0); }

  // Two descriptors a side; true when the marker has arrived.
  bool move(__u64 from, __u64 to, uint32_t bytes) {
    marker_words_.word(4) = 0;
    add(source(from, bytes, ring_id()), destination(to, bytes, ring_id()));
    add(source(marker_.pa(), 4, ring_id()), destination(marker_.pa() + 4, 4, ring_id()));
    marker_words_.word(4) = 0;
    EXPECT_EQ(start(device_, engine_, queue_, 2), 0);
    const bool arrived =
        becomes_true([&] { return marker_words_.word(4) == NEURON_DMA_COMPLETION_MARKER; }, 2000);
    neuron_ioctl_dma_ack_completed ack = {engine_, queue_, 2};
    EXPECT_EQ(device_.call(NEURON_IOCTL_DMA_ACK_COMPLETED, &ack), 0);
    return arrived;
  }
  const Memory& tx() const { return tx_; }

 private:
  uint32_t ring_id() const { return 1 + next_ / kRing; }
  void add(const Descriptor& from, const Descriptor& to) {
    const uint32_t index = next_++ % kRing;
    EXPECT_EQ(put(device_, tx_.handle(), from, index, NEURON_DMA_QUEUE_TYPE_TX), 0);
    EXPECT_EQ(put(device_, rx_.handle(), to, index, NEURON_DMA_QUEUE_TYPE_RX), 0);
  }

  const Device& device_;
  uint32_t engine_, queue_;
  Memory tx_, rx_, marker_;
  Mapping marker_words_;
  uint32_t next_ = 0;
};

void check_ring(bool rings_on_host) {
  const Device device;
  const Memory from(device, 65536, {.host = true}), to(device, 65536);
  UserQueue queue(device, kEngine, kQueue, rings_on_host);
  for (uint32_t round = 0; round < 100; ++round) {  // wraps the ring three times
    const uint32_t size = 1 + round * 655;
    const auto bytes = pattern(size, round);
    EXPECT_EQ(device.copy_in(from.handle(), bytes.data(), size), 0);
    EXPECT(queue.move(from.pa(), to.pa(), size));
    std::vector<uint8_t> back(size);
    EXPECT_EQ(device.copy_out(to.handle(), back.data(), size), 0);
    EXPECT(back == bytes);
  }
}

CASE("a ring of the user's in host memory moves bytes, and wraps") { check_ring(true); }

CASE("a ring of the user's in device memory moves bytes, and wraps") { check_ring(false); }

CASE("the last queue but one of the last engine of cores works like the first") {
  const Device device;
  const Memory from(device, 4096, {.host = true}), to(device, 4096);
  const uint32_t engine = device.chip().cores * 16 - 1;
  UserQueue queue(device, engine, 13, true);
  EXPECT_EQ(device.copy_in(from.handle(), "the last", 8), 0);
  EXPECT(queue.move(from.pa(), to.pa(), 4096));
  char back[8];
  EXPECT_EQ(device.copy_out(to.handle(), back, 8), 0);
  EXPECT(std::memcmp(back, "the last", 8) == 0);
}

CASE("what a queue holds can be read back") {
  const Device device;
  UserQueue queue(device, kEngine, kQueue, true);
  neuron_dma_queue_state tx = {}, rx = {};
  neuron_ioctl_dma_queue_get_state state = {kEngine, kQueue, &tx, &rx};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &state), 0);
  EXPECT_EQ(tx.length, kRing);
  EXPECT_EQ(rx.length, kRing);
  EXPECT_EQ(tx.base_addr, queue.tx().pa());
  const Descriptor written = source(queue.tx().pa(), 128, 1);
  EXPECT_EQ(put(device, queue.tx().handle(), written, 5, NEURON_DMA_QUEUE_TYPE_TX), 0);
  Descriptor back[8] = {};
  neuron_ioctl_dma_descriptor_copyout out = {kEngine, kQueue, NEURON_DMA_QUEUE_TYPE_TX, 0, 8, back};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, &out), 0);
  EXPECT(std::memcmp(&back[5], &written, sizeof(written)) == 0);
  out.count = 0;
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, &out), -EINVAL);
  out.start_index = kRing;
  out.count = 1;
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, &out), -EFBIG);
}

CASE("rings that no engine can use are refused") {
  const Device device;
  const Memory ring(device, 4096, {.host = true});
  EXPECT(init(device, kEngine, 16, kRing, ring.handle(), ring.handle()) < 0);
  EXPECT(init(device, kEngine, kQueue, 40, ring.handle(), ring.handle()) < 0);
  EXPECT(init(device, kEngine, kQueue, 16, ring.handle(), ring.handle()) < 0);
  neuron_ioctl_dma_queue_init completion = {kEngine,       kQueue,        64, 64, ring.handle(),
                                            ring.handle(), ring.handle(), 0};
  EXPECT(device.call(NEURON_IOCTL_DMA_QUEUE_INIT, &completion) < 0);
}

CASE("a batch sets up many queues, and stops at the first bad one") {
  const Device device;
  const Memory ring(device, 4096, {.host = true});
  auto batch = std::vector<neuron_ioctl_dma_queue_init_batch>(1);
  batch[0].count = 3;
  for (uint32_t i = 0; i < 3; ++i) {
    batch[0].entries[i] = {4 + i, 1, 32, 32, ring.handle(), ring.handle(), 0, 0};
  }
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH, batch.data()), 0);
  batch[0].entries[1].tx_desc_count = 40;
  EXPECT(device.call(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH, batch.data()) < 0);
  batch[0].count = 256;
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH, batch.data()), -E2BIG);
  for (uint32_t i = 0; i < 3; ++i) {
    neuron_ioctl_dma_queue_release release = {4 + i, 1};
    EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUEUE_RELEASE, &release), 0);
    EXPECT_EQ(init(device, 4 + i, 1, 32, 0, 0), 0);
  }
}

CASE("a descriptor may point only to host memory of a device that the process uses") {
  const Device device;
  const Memory ring(device, 4096, {.host = true});
  const __u64 foreign = device.chip().host_base | 0x100000;
  EXPECT_EQ(put(device, ring.handle(), source(foreign, 64, 1), 0, NEURON_DMA_QUEUE_TYPE_TX),
            -EINVAL);
  EXPECT_EQ(put(device, ring.handle(), source(ring.pa(), 64, 1), 0, NEURON_DMA_QUEUE_TYPE_TX), 0);
  EXPECT(put(device, ring.handle(), source(ring.pa(), 64, 1), 0, NEURON_DMA_QUEUE_TYPE_COMPLETION) <
         0);
  EXPECT(put(device, ring.handle(), source(ring.pa(), 64, 1), 256, NEURON_DMA_QUEUE_TYPE_TX) < 0);
}

CASE("more descriptors than a ring holds cannot be started") {
  const Device device;
  const UserQueue queue(device, kEngine, kQueue, true);
  EXPECT(start(device, kEngine, kQueue, kRing + 1) < 0);
}

CASE("an engine tells its state and takes a new one") {
  const Device device;
  neuron_dma_eng_state state = {};
  neuron_ioctl_dma_eng_get_state get = {kEngine, &state};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_ENG_GET_STATE, &get), 0);
  EXPECT_EQ(state.max_queues, 16);
  EXPECT_EQ(state.tx_state, 2);  // normal
  neuron_ioctl_dma_eng_set_state set = {kEngine, 2};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_ENG_SET_STATE, &set), 0);
}

CASE("a call that no longer exists says so") {
  const Device device;
  neuron_ioctl_dma_quiesce_queues request = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMA_QUIESCE_QUEUES, &request), -ENOTTY);
}

CASE("further host-to-device queues are reserved all or none") {
  const Device device;
  if (!device.has_zero_copy_of_2_25()) throw Skipped{"this driver has one queue a core"};
  neuron_ioctl_h2t_dma_alloc_queues request = {};
  request.sz = sizeof(request);
  request.copy_queue_cnt = 10;
  request.service_queue_cnt = 6;
  EXPECT_EQ(device.call(NEURON_IOCTL_H2T_DMA_ALLOC_QUEUES, &request), -E2BIG);
  request.copy_queue_cnt = 2;
  request.service_queue_cnt = 1;
  EXPECT_EQ(device.call(NEURON_IOCTL_H2T_DMA_ALLOC_QUEUES, &request), 0);
  EXPECT_EQ(__builtin_popcount(request.copy_queue_bmap), 2);
  EXPECT_EQ(__builtin_popcount(request.service_queue_bmap), 1);
  EXPECT_EQ(request.copy_queue_bmap & request.service_queue_bmap, 0);
  neuron_ioctl_h2t_dma_free_queues give_back = {};
  give_back.sz = sizeof(give_back);
  give_back.queue_bmap = request.copy_queue_bmap | request.service_queue_bmap;
  EXPECT_EQ(device.call(NEURON_IOCTL_H2T_DMA_FREE_QUEUES, &give_back), 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_H2T_DMA_FREE_QUEUES, &give_back), -ENXIO);
}

}  // namespace
}  // namespace neuron::guest
