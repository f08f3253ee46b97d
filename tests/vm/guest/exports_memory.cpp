// SPDX-License-Identifier: Apache-2.0
// Memory exported as dma-bufs, seen from a device that imports them (tests/vm/importer).
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

struct Map {
  __u64 first, bytes, pieces;
};

class Importer {
 public:
  Importer() : fd_(open("/dev/neuron-importer", O_RDWR | O_CLOEXEC)) { EXPECT(fd_ >= 0); }
  ~Importer() { close(fd_); }
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;
  int attach(int buffer) { return call(1, static_cast<unsigned long>(buffer)); }
  int attach_pinned(int buffer) { return call(2, static_cast<unsigned long>(buffer)); }
  int map(Map& map) { return call(3, reinterpret_cast<unsigned long>(&map)); }
  int unmap() { return call(4, 0); }
  int detach() { return call(5, 0); }
  int times_asked() { return call(6, 0); }

 private:
  int call(unsigned number, unsigned long argument) {
    const int result = ioctl(fd_, _IO('i', number), argument);
    return result < 0 ? -errno : result;
  }
  const int fd_;
};

int export_memory(const Device& device, const uint8_t* at, __u64 size, int wanted = 0) {
  int32_t fd = -1;
  neuron_ioctl_dmabuf_fd request = {reinterpret_cast<__u64>(at), size, &fd};
  EXPECT_EQ(device.call(NEURON_IOCTL_DMABUF_FD, &request), wanted);
  return fd;
}

CASE("an importer sees device memory as one piece of the BAR, and host memory as pages") {
  const Device device;
  for (const bool host : {false, true}) {
    const Memory memory(device, 1 << 20, {.host = host});
    const Mapping mapping(device, memory.mmap_offset(), memory.size(), PROT_READ | PROT_WRITE);
    const int buffer = export_memory(device, mapping.bytes(), memory.size());
    Importer importer;
    Map map = {};
    EXPECT_EQ(importer.attach(buffer), 0);
    EXPECT_EQ(importer.map(map), 0);
    EXPECT_EQ(map.bytes, 1 << 20);
    EXPECT_EQ(map.pieces, 1);
    EXPECT(map.first != 0 && (!host || map.first == (memory.pa() & ~device.chip().host_base)));
    EXPECT_EQ(importer.unmap(), 0);
    EXPECT_EQ(close(buffer), 0);
    EXPECT_EQ(importer.map(map), 0);
    EXPECT_EQ(importer.detach(), 0);
  }
}

CASE("several importers take one export, and parts of a mapping are exported by themselves") {
  const Device device;
  const Memory memory(device, 1 << 20);
  const Mapping mapping(device, memory.mmap_offset(), memory.size(), PROT_READ | PROT_WRITE);
  const int whole = export_memory(device, mapping.bytes(), memory.size());
  const int part = export_memory(device, mapping.bytes() + 65536, 100);
  Importer first, second, third;
  Map a = {}, b = {}, c = {};
  EXPECT_EQ(first.attach(whole), 0);
  EXPECT_EQ(second.attach_pinned(whole), 0);
  EXPECT_EQ(third.attach(part), 0);
  EXPECT_EQ(first.map(a), 0);
  EXPECT_EQ(second.map(b), 0);
  EXPECT_EQ(third.map(c), 0);
  EXPECT_EQ(a.first, b.first);
  EXPECT_EQ(c.first, a.first + 65536);
  EXPECT_EQ(c.bytes, 4096);
  export_memory(device, mapping.bytes(), memory.size() + 4096, -EINVAL);
  export_memory(device, mapping.bytes() + 1, 4096, -EINVAL);
  export_memory(device, mapping.bytes(), 0, -EINVAL);
  close(whole);
  close(part);
}

CASE("importers are asked to let go of memory that is freed, and cannot map it again") {
  const Device device;
  auto memory = std::make_unique<Memory>(device, 1 << 20);
  const __u64 pa = memory->pa();
  Importer importer, pinned;
  Map map = {};
  int buffer = -1;
  {
    const Mapping mapping(device, memory->mmap_offset(), memory->size(), PROT_READ | PROT_WRITE);
    buffer = export_memory(device, mapping.bytes(), memory->size());
  }
  EXPECT_EQ(importer.attach(buffer), 0);
  EXPECT_EQ(pinned.attach_pinned(buffer), 0);
  EXPECT_EQ(importer.map(map), 0);
  memory.reset();
  EXPECT_EQ(importer.times_asked(), 1);
  EXPECT_EQ(pinned.times_asked(), 1);
  EXPECT_EQ(importer.map(map), -ENODEV);
  // Who pinned it still has it: the memory is nobody else's until it is unpinned.
  {
    const Memory other(device, 1 << 20);
    EXPECT(other.pa() != pa);
  }
  EXPECT_EQ(pinned.detach(), 0);
  const Memory again(device, 1 << 20);
  EXPECT_EQ(again.pa(), pa);
  Importer late;
  EXPECT_EQ(late.attach(buffer), 0);
  EXPECT_EQ(late.map(map), -ENODEV);
  close(buffer);
}

CASE("an export outlives the process that made it, but not its memory") {
  const Device device;
  Importer importer;
  Map map = {};
  EXPECT_EQ(exit_status_of_child([&] {
              const Device own;
              auto* memory = new Memory(own, 65536);
              auto* mapping = new Mapping(own, memory->mmap_offset(), 65536, PROT_READ);
              if (importer.attach(export_memory(own, mapping->bytes(), 65536)) != 0) return 1;
              return importer.map(map);
            }),
            0);
  EXPECT_EQ(importer.times_asked(), 1);
  EXPECT_EQ(importer.map(map), -ENODEV);
  EXPECT_EQ(importer.detach(), 0);
}

}  // namespace
}  // namespace neuron::guest
