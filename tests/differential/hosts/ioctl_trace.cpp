// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/hosts/ioctl_trace.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <zlib.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "driver/core/descriptor.h"
#include "hw/address_map.h"
#include "hw/udma.h"
#include "uapi/neuron_datastore.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::trace {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr uint64_t kPage = 4096;
constexpr uint32_t kQueue = 3;   // of a core's engines, used by nobody else
constexpr uint32_t kEngine = 5;  // of core 0

// The same bytes on every host: a small multiplicative generator.
Bytes pattern(size_t size, uint32_t seed) {
  Bytes bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (unsigned char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return bytes;
}

unsigned long checksum(const void* bytes, size_t size) {
  return crc32(0, static_cast<const Bytef*>(bytes), static_cast<uInt>(size));
}

const char* alignment(uint64_t address) {
  return address % (64 << 10) == 0 ? "64 KiB" : address % kPage == 0 ? "page" : "none";
}

}  // namespace

void Trace::say(const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  text_ += line;
}

bool Trace::call(const char* name, unsigned long request, void* argument) {
  const int result = device_->ioctl(request, argument);
  say("\n%s %s", name, result == 0 ? "ok" : "refused");
  return result == 0;
}

std::string Trace::handle(uint64_t value) {
  const auto found = handles_.try_emplace(value, static_cast<unsigned>(handles_.size() + 1)).first;
  return "h" + std::to_string(found->second);
}

Trace::Memory Trace::allocate(uint64_t size, uint64_t align, bool host, unsigned hbm) {
  Memory memory;
  __u64 number = 0;
  neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
  request.size = size;
  request.align = align;
  request.host_memory = host;
  request.dram_channel = hbm;
  request.mem_type = host ? NEURON_MEMALLOC_TYPE_TENSORS_HOST : NEURON_MEMALLOC_TYPE_TENSORS_DEVICE;
  request.mem_handle = &number;
  if (!call("MEM_ALLOC_V2MT64", NEURON_IOCTL_MEM_ALLOC_V2MT64, &request)) return memory;
  memory.handle = number;
  say(" %s", handle(number).c_str());
  neuron_ioctl_mem_get_extended_info info = {};
  info.mem_handle = number;
  if (call("MEM_GET_EXTENDED_INFO", NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &info)) {
    memory.address = info.pa;
    memory.map_offset = info.mmap_offset;
    memory.size = info.size;
    memory.host = info.host_memory != 0;
    say(" %s size %llu aligned %s", memory.host ? "host" : "hbm", info.size,
        align <= kPage ? "page" : alignment(info.pa));
    if (memory.address % kPage != 0) say(" NOT A PAGE");
  }
  return memory;
}

bool Trace::write(const Memory& memory, uint64_t offset, const Bytes& bytes) {
  neuron_ioctl_mem_buf_copy64 request = {memory.handle, const_cast<unsigned char*>(bytes.data()),
                                         bytes.size(), offset, 1};
  return call("MEM_BUF_COPY64 in", NEURON_IOCTL_MEM_BUF_COPY64, &request);
}

void Trace::read(const Memory& memory, uint64_t offset, uint64_t size) {
  Bytes bytes(size, 0xEE);
  neuron_ioctl_mem_buf_copy64 request = {memory.handle, bytes.data(), size, offset, 0};
  if (call("MEM_BUF_COPY64 out", NEURON_IOCTL_MEM_BUF_COPY64, &request)) {
    say(" %08lx", checksum(bytes.data(), bytes.size()));
  }
}

void Trace::identity() {
  neuron_ioctl_device_basic_info basic = {};
  if (call("DEVICE_BASIC_INFO", NEURON_IOCTL_DEVICE_BASIC_INFO, &basic)) {
    say(" architecture %u", basic.architecture);
    cores_ = basic.architecture >= 3 ? 8 : 2;
  }
  neuron_ioctl_device_info info = {};
  if (call("DEVICE_INFO", NEURON_IOCTL_DEVICE_INFO, &info)) {
    say(" architecture %u neighbours %u BAR0 %#llx", info.architecture, info.connected_device_count,
        info.bar_size[0]);
  }
  neuron_ioctl_compatible_version version = {};
  if (call("COMPATIBLE_VERSION", NEURON_IOCTL_COMPATIBLE_VERSION, &version)) {
    say(" %u..%u", version.min, version.max);
  }
  neuron_ioctl_device_driver_info driver = {};
  driver.size = sizeof(driver);
  if (call("DRIVER_INFO_GET", NEURON_IOCTL_DRIVER_INFO_GET, &driver)) {
    // Bits 1 to 7 came with the oldest driver that is supported; bit 0 asks the host for dma-buf.
    say(" features %#llx", driver.feature_flags1 & 0xFE);
  }
  neuron_ioctl_host_device_id id = {};
  if (call("HOST_DEVICE_ID", NEURON_IOCTL_HOST_DEVICE_ID, &id)) say(" %u", id.host_device_id);
  // A semaphore page through the register call: base and offset make an address.
  __u64 addresses[2] = {
      info.bar_address[0] +
      (basic.architecture >= 3 ? NEURON_V3_CORE_WINDOW(0) : NEURON_V2_CORE_WINDOW(0)) +
      NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_READ + 4 * 90};
  addresses[1] = addresses[0] + 4;
  __u32 values[2] = {7, 7};
  neuron_ioctl_bar_rw access = {0, addresses, values, 2};
  if (call("BAR_READ", NEURON_IOCTL_BAR_READ, &access)) say(" %u %u", values[0], values[1]);
}

void Trace::memory() {
  const Memory small = allocate(kPage, 0, false, 0);
  const Memory odd = allocate(3 * kPage + 1, 0, false, 1);
  const Memory aligned = allocate(1 << 20, 64 << 10, false, 0);
  const Memory host = allocate(2 * kPage, 0, true, 0);
  Memory gone = host;
  neuron_ioctl_mem_free free = {host.handle};
  call("MEM_FREE", NEURON_IOCTL_MEM_FREE, &free);
  call("MEM_FREE again", NEURON_IOCTL_MEM_FREE, &free);
  read(gone, 0, 16);
  allocate(kPage, 4096, true, 0);            // host memory takes no alignment
  allocate(kPage, 0, false, 99);             // no such HBM
  allocate(uint64_t{1} << 50, 0, false, 0);  // larger than the chip
  for (const Memory& memory : {small, odd, aligned}) {
    free.mem_handle = memory.handle;
    call("MEM_FREE", NEURON_IOCTL_MEM_FREE, &free);
  }
  free.mem_handle = 0;
  call("MEM_FREE of 0", NEURON_IOCTL_MEM_FREE, &free);
}

void Trace::copies() {
  const Memory a = allocate(1 << 20, 0, false, 0);
  const Memory b = allocate(1 << 20, 0, false, 1);
  const Memory host = allocate(256 << 10, 0, true, 0);
  const uint64_t sizes[] = {1, 3, 64, 4095, 65536, 65537, 200'000};
  for (uint64_t size : sizes) {
    write(a, 17, pattern(size, static_cast<uint32_t>(size)));
    neuron_ioctl_mem_copy64 copy = {a.handle, b.handle, size, 17, 33};
    call("MEM_COPY64", NEURON_IOCTL_MEM_COPY64, &copy);
    read(b, 33, size);
  }
  neuron_ioctl_mem_copy64 down = {b.handle, host.handle, 200'000, 33, 0};
  call("MEM_COPY64 to host", NEURON_IOCTL_MEM_COPY64, &down);
  read(host, 0, 200'000);
  neuron_ioctl_memset64 fill = {a.handle, 100, 0xA5, 300'000};
  call("MEMSET64", NEURON_IOCTL_MEMSET64, &fill);
  read(a, 0, 400'000);
  neuron_ioctl_mem_copy_async64 start = {};
  start.src_mem_handle = a.handle;
  start.dst_mem_handle = b.handle;
  start.size = 123'456;
  start.pwait_handle = ~0u;
  if (call("MEM_COPY_ASYNC64", NEURON_IOCTL_MEM_COPY_ASYNC64, &start)) {
    say(" transfer %u", start.wait_handle);
    neuron_ioctl_mem_copy_async_wait wait = {a.handle, b.handle, start.wait_handle};
    call("MEM_COPY_ASYNC_WAIT", NEURON_IOCTL_MEM_COPY_ASYNC_WAIT, &wait);
    read(b, 0, 123'456);
  }
  down.size = 1 << 20;  // the host memory is smaller
  call("MEM_COPY64 beyond", NEURON_IOCTL_MEM_COPY64, &down);
  fill.size = 1 << 20;
  call("MEMSET64 beyond", NEURON_IOCTL_MEMSET64, &fill);
  for (const Memory& memory : {a, b, host}) {
    neuron_ioctl_mem_free free = {memory.handle};
    call("MEM_FREE", NEURON_IOCTL_MEM_FREE, &free);
  }
}

void Trace::mappings() {
  const Memory memory = allocate(64 << 10, 0, false, 0);
  void* address = nullptr;
  if (device_->map(memory.size, PROT_READ | PROT_WRITE, memory.map_offset, &address) == 0) {
    const Bytes bytes = pattern(64 << 10, 9);
    std::memcpy(address, bytes.data(), bytes.size());
    read(memory, 0, 64 << 10);
    write(memory, 4000, pattern(300, 10));
    say("\nmapped memory %08lx", checksum(address, 64 << 10));
    say("\nmunmap %s", device_->unmap(address, memory.size) == 0 ? "ok" : "refused");
  } else {
    say("\nmmap refused");
  }
  const bool part = device_->map(kPage, PROT_READ, memory.map_offset, &address) == 0;
  say("\nmmap of a part %s", part ? "ok" : "refused");
  neuron_ioctl_mem_free free = {memory.handle};
  call("MEM_FREE", NEURON_IOCTL_MEM_FREE, &free);
}

void Trace::semaphores() {
  for (unsigned core = 0; core < cores_; ++core) {
    neuron_ioctl_semaphore semaphore = {core, 200, 7};
    call("SEMAPHORE_WRITE", NEURON_IOCTL_SEMAPHORE_WRITE, &semaphore);
    semaphore.value = 5;
    call("SEMAPHORE_INCREMENT", NEURON_IOCTL_SEMAPHORE_INCREMENT, &semaphore);
    semaphore.value = 2;
    call("SEMAPHORE_DECREMENT", NEURON_IOCTL_SEMAPHORE_DECREMENT, &semaphore);
    if (call("SEMAPHORE_READ", NEURON_IOCTL_SEMAPHORE_READ, &semaphore)) {
      say(" %u", semaphore.value);
    }
    neuron_ioctl_event event = {core, 201, 1};
    call("EVENT_SET", NEURON_IOCTL_EVENT_SET, &event);
    event.value = 0;
    if (call("EVENT_GET", NEURON_IOCTL_EVENT_GET, &event)) say(" %u", event.value);
    const uint64_t window =
        (cores_ == 8 ? NEURON_V3_CORE_WINDOW(core) : NEURON_V2_CORE_WINDOW(core)) +
        NEURON_CORE_SEMAPHORES;
    uint32_t value = 0;
    const int read = device_->read_register(window + NEURON_SEM_BLOCK_READ + 4 * 200, &value);
    say("\nregister %s %u", read == 0 ? "ok" : "refused", value);
    const int written = device_->write_register(window + NEURON_SEM_BLOCK_INC + 4 * 200, 3, false);
    device_->read_register(window + NEURON_SEM_BLOCK_READ + 4 * 200, &value);
    say("\nincrement %s %u", written == 0 ? "ok" : "refused", value);
  }
  neuron_ioctl_semaphore nowhere = {cores_, 0, 0};
  call("SEMAPHORE_READ of no core", NEURON_IOCTL_SEMAPHORE_READ, &nowhere);
  nowhere = {0, 256, 0};
  call("SEMAPHORE_READ of no semaphore", NEURON_IOCTL_SEMAPHORE_READ, &nowhere);
}

// A ring built by hand: two packets, one of two source descriptors into one destination.
void Trace::rings() {
  const Memory tx = allocate(kPage, kPage, false, 0);
  const Memory rx = allocate(kPage, kPage, false, 0);
  const Memory from = allocate(64 << 10, 0, false, 0);
  const Memory to = allocate(64 << 10, 0, false, 1);
  write(from, 0, pattern(64 << 10, 21));
  write(to, 0, Bytes(64 << 10, 0));
  neuron_ioctl_dma_queue_init init = {};
  init.eng_id = kEngine;
  init.qid = kQueue;
  init.tx_desc_count = init.rx_desc_count = 64;
  init.tx_handle = tx.handle;
  init.rx_handle = rx.handle;
  call("DMA_QUEUE_INIT", NEURON_IOCTL_DMA_QUEUE_INIT, &init);
  nd_descriptor source[3] = {
      nd_descriptor_source(from.address, 1000, 1, ND_BARRIER_NONE),
      nd_descriptor_source(from.address + 5000, 2000, 1, ND_BARRIER_NONE),
      nd_descriptor_source(from.address + 9000, 512, 1, ND_BARRIER_WRITE),
  };
  source[0].control &= ~NEURON_DESC_LAST;
  source[1].control &= ~NEURON_DESC_FIRST;
  nd_descriptor destination[2] = {
      nd_descriptor_destination(to.address + 100, 3000, 1),
      nd_descriptor_destination(to.address + 8000, 512, 1),
  };
  neuron_ioctl_dma_copy_descriptors64 put = {tx.handle, source, 3, 0, NEURON_DMA_QUEUE_TYPE_TX};
  call("DMA_COPY_DESCRIPTORS64 tx", NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &put);
  put = {rx.handle, destination, 2, 0, NEURON_DMA_QUEUE_TYPE_RX};
  call("DMA_COPY_DESCRIPTORS64 rx", NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &put);
  neuron_ioctl_dma_queue_copy_start start = {kEngine, kQueue, 3, 2};
  call("DMA_QUEUE_COPY_START", NEURON_IOCTL_DMA_QUEUE_COPY_START, &start);
  // The call does not wait; the copy out of the same memory does, behind a bounded look at it.
  for (int round = 0; round < 1000; ++round) {
    unsigned char last = 0;
    neuron_ioctl_mem_buf_copy64 look = {to.handle, &last, 1, 8000, 0};
    if (device_->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &look) != 0 || last != 0) break;
  }
  read(to, 0, 64 << 10);
  neuron_dma_queue_state out_state = {}, in_state = {};
  neuron_ioctl_dma_queue_get_state state = {kEngine, kQueue, &out_state, &in_state};
  if (call("DMA_QUEUE_GET_STATE", NEURON_IOCTL_DMA_QUEUE_GET_STATE, &state)) {
    say(" length %u %u", out_state.length, in_state.length);
  }
  neuron_ioctl_dma_ack_completed done = {kEngine, kQueue, 3};
  call("DMA_ACK_COMPLETED", NEURON_IOCTL_DMA_ACK_COMPLETED, &done);
  nd_descriptor back[3] = {};
  neuron_ioctl_dma_descriptor_copyout copyout = {kEngine, kQueue, NEURON_DMA_QUEUE_TYPE_TX,
                                                 0,       3,      back};
  if (call("DMA_DESCRIPTOR_COPYOUT", NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, &copyout)) {
    say(" %s", std::memcmp(back, source, sizeof(source)) == 0 ? "as written" : "DIFFERENT");
  }
  neuron_dma_eng_state engine = {};
  neuron_ioctl_dma_eng_get_state get = {kEngine, &engine};
  if (call("DMA_ENG_GET_STATE", NEURON_IOCTL_DMA_ENG_GET_STATE, &get)) {
    say(" tx %u rx %u", engine.tx_state, engine.rx_state);
  }
  init.tx_desc_count = 16;  // fewer than 32
  call("DMA_QUEUE_INIT short", NEURON_IOCTL_DMA_QUEUE_INIT, &init);
  init.tx_desc_count = 64;
  init.qid = 16;
  call("DMA_QUEUE_INIT of no queue", NEURON_IOCTL_DMA_QUEUE_INIT, &init);
  for (const Memory& memory : {from, to}) {
    neuron_ioctl_mem_free free = {memory.handle};
    call("MEM_FREE", NEURON_IOCTL_MEM_FREE, &free);
  }
}

// The state buffer is written through PROGRAM_ENGINE and read back by a ring.
void Trace::programs() {
  const uint64_t window = cores_ == 8 ? NEURON_V3_CORE_DEVICE(uint64_t{1})
                                      : NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(1);
  const Bytes bytes = pattern(2048, 31);
  neuron_ioctl_program_engine_nc64 program = {1, window + NEURON_SBUF_PARTITION_STRIDE,
                                              const_cast<unsigned char*>(bytes.data()), 2048, 0};
  call("PROGRAM_ENGINE_NC64", NEURON_IOCTL_PROGRAM_ENGINE_NC64, &program);
  const Memory tx = allocate(kPage, kPage, false, 0);
  const Memory rx = allocate(kPage, kPage, false, 0);
  const Memory to = allocate(kPage, 0, false, 0);
  write(to, 0, Bytes(kPage, 0));
  neuron_ioctl_dma_queue_init init = {};
  init.eng_id = 16 + kEngine;
  init.qid = kQueue;
  init.tx_desc_count = init.rx_desc_count = 64;
  init.tx_handle = tx.handle;
  init.rx_handle = rx.handle;
  call("DMA_QUEUE_INIT", NEURON_IOCTL_DMA_QUEUE_INIT, &init);
  nd_descriptor source = nd_descriptor_source(program.dst, 2048, 1, ND_BARRIER_WRITE);
  nd_descriptor destination = nd_descriptor_destination(to.address, 2048, 1);
  neuron_ioctl_dma_copy_descriptors64 put = {tx.handle, &source, 1, 0, NEURON_DMA_QUEUE_TYPE_TX};
  call("DMA_COPY_DESCRIPTORS64 tx", NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &put);
  put = {rx.handle, &destination, 1, 0, NEURON_DMA_QUEUE_TYPE_RX};
  call("DMA_COPY_DESCRIPTORS64 rx", NEURON_IOCTL_DMA_COPY_DESCRIPTORS64, &put);
  neuron_ioctl_dma_queue_copy_start start = {16 + kEngine, kQueue, 1, 1};
  call("DMA_QUEUE_COPY_START", NEURON_IOCTL_DMA_QUEUE_COPY_START, &start);
  for (int round = 0; round < 1000; ++round) {
    unsigned char tail[16] = {};
    neuron_ioctl_mem_buf_copy64 look = {to.handle, tail, sizeof(tail), 2032, 0};
    if (device_->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &look) != 0) break;
    if (std::memcmp(tail, bytes.data() + 2032, sizeof(tail)) == 0) break;
  }
  read(to, 0, kPage);
  program.dst = 0x123400000000;  // belongs to nothing that may be programmed
  call("PROGRAM_ENGINE_NC64 elsewhere", NEURON_IOCTL_PROGRAM_ENGINE_NC64, &program);
}

void Trace::notifications() {
  neuron_ioctl_notifications_init_v2 init = {};
  init.nq_dev_type = NQ_DEVICE_TYPE_NEURON_CORE;
  init.nq_type = NQ_TYPE_NOTIFY;
  init.engine_index = 11;
  init.size = 16 << 10;
  init.on_host_memory = 1;
  uint64_t first = 0;
  if (call("NOTIFICATIONS_INIT_V2", NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &init)) {
    first = init.mem_handle;
    say(" %s", handle(first).c_str());
    void* address = nullptr;
    const bool mapped =
        device_->map(init.size, PROT_READ | PROT_WRITE, init.mmap_offset, &address) == 0;
    say("\nmmap of the queue %s", mapped ? "ok" : "refused");
    if (mapped) device_->unmap(address, init.size);
  }
  if (call("NOTIFICATIONS_INIT_V2 again", NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &init)) {
    say(" %s", handle(init.mem_handle).c_str());
  }
  init.engine_index = 12;
  init.size = 5000;
  call("NOTIFICATIONS_INIT_V2 of an odd size", NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &init);
}

void Trace::locks() {
  neuron_ioctl_cinit_set init = {1, NEURON_CINIT_STATE_STARTED, 0};
  if (call("CINIT_SET_STATE", NEURON_IOCTL_CINIT_SET_STATE, &init)) say(" %u", init.new_state);
  init.state = NEURON_CINIT_STATE_COMPLETED;
  if (call("CINIT_SET_STATE", NEURON_IOCTL_CINIT_SET_STATE, &init)) say(" %u", init.new_state);
  init.state = NEURON_CINIT_STATE_STARTED;
  if (call("CINIT_SET_STATE", NEURON_IOCTL_CINIT_SET_STATE, &init)) say(" %u", init.new_state);
  neuron_ioctl_crwl lock = {};
  lock.nc_id = 1;
  std::memset(&lock.uuid, 0x5A, sizeof(lock.uuid));
  call("CRWL_WRITER_ENTER", NEURON_IOCTL_CRWL_WRITER_ENTER, &lock);
  call("CRWL_WRITER_DOWNGRADE", NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, &lock);
  call("CRWL_READER_ENTER", NEURON_IOCTL_CRWL_READER_ENTER, &lock);
  call("CRWL_READER_EXIT", NEURON_IOCTL_CRWL_READER_EXIT, &lock);
  call("CRWL_READER_EXIT", NEURON_IOCTL_CRWL_READER_EXIT, &lock);
  call("CRWL_READER_EXIT of none", NEURON_IOCTL_CRWL_READER_EXIT, &lock);
  neuron_ioctl_crwl_nc_map_ext marks = {};
  marks.nc_count = 2;
  marks.end_nc_index = 1;
  if (call("CRWL_NC_RANGE_MARK_EXT0", NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &marks)) {
    say(" %#lx", marks.bitmap[0]);
  }
  neuron_ioctl_crwl_nc_map_ext more = {};
  more.nc_count = 1;
  more.end_nc_index = 1;
  call("CRWL_NC_RANGE_MARK_EXT0 again", NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &more);
  say(" free %u", more.max_nc_available);
  call("CRWL_NC_RANGE_UNMARK_EXT0", NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0, &marks);
}

void Trace::datastore() {
  neuron_ioctl_neuron_ds_info store = {};
  if (call("ACQUIRE_NEURON_DS", NEURON_IOCTL_ACQUIRE_NEURON_DS, &store)) {
    say(" size %u", store.size);
    void* address = nullptr;
    if (device_->map(store.size, PROT_READ | PROT_WRITE, store.mmap_offset, &address) == 0) {
      auto* words = static_cast<volatile uint64_t*>(address);
      words[40] = 0x1234;
      say("\ndatastore word %llu", static_cast<unsigned long long>(words[40]));
      device_->unmap(address, store.size);
    }
  }
  neuron_ioctl_neuron_ds_info other = {0x7FFFFFF, 0, 0};
  call("ACQUIRE_NEURON_DS of nobody", NEURON_IOCTL_ACQUIRE_NEURON_DS, &other);
  store.pid = 0;
  call("RELEASE_NEURON_DS", NEURON_IOCTL_RELEASE_NEURON_DS, &store);
}

void Trace::reset() {
  const Memory memory = allocate(64 << 10, 0, false, 1);
  write(memory, 0, pattern(64 << 10, 41));
  neuron_ioctl_semaphore semaphore = {0, 77, 9};
  call("SEMAPHORE_WRITE", NEURON_IOCTL_SEMAPHORE_WRITE, &semaphore);
  neuron_ioctl_device_reset request = {1, 0};
  if (call("NC_RESET", NEURON_IOCTL_NC_RESET, &request)) {
    neuron_ioctl_device_ready ready = {request.request_id, 99};
    if (call("NC_RESET_READY", NEURON_IOCTL_NC_RESET_READY, &ready)) say(" %d", ready.result);
  }
  // Memory outlives a reset; the semaphores of the core begin anew.
  read(memory, 0, 64 << 10);
  if (call("SEMAPHORE_READ", NEURON_IOCTL_SEMAPHORE_READ, &semaphore)) say(" %u", semaphore.value);
  neuron_ioctl_device_ready unknown = {0x7FFFFFF, 99};
  if (call("NC_RESET_READY of no request", NEURON_IOCTL_NC_RESET_READY, &unknown)) {
    say(" %d", unknown.result);
  }
}

// What a descriptor without a process slot may and may not do.
void Trace::restricted() {
  const int result = port_.open(0, O_WRONLY, device_);
  say("\nopen O_WRONLY %s", result == 0 ? "ok" : "refused");
  if (result != 0) return;
  neuron_ioctl_device_basic_info basic = {};
  if (call("DEVICE_BASIC_INFO", NEURON_IOCTL_DEVICE_BASIC_INFO, &basic)) {
    say(" architecture %u", basic.architecture);
  }
  neuron_ioctl_semaphore semaphore = {0, 0, 0};
  call("SEMAPHORE_READ", NEURON_IOCTL_SEMAPHORE_READ, &semaphore);
  device_.reset();
}

std::string Trace::run() {
  const int result = port_.open(0, O_RDWR, device_);
  say("open O_RDWR %s", result == 0 ? "ok" : "refused");
  if (result == 0) {
    identity();
    memory();
    copies();
    mappings();
    semaphores();
    rings();
    programs();
    notifications();
    locks();
    datastore();
    reset();
    device_.reset();
    restricted();
  }
  return text_ + "\n";
}

}  // namespace neuron::trace
