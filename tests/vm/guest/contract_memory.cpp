// SPDX-License-Identifier: Apache-2.0
// Allocation: forms, limits, information, and what mmap gives for it.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>

#include "hw/address_map.h"
#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

CASE("memory comes from the HBM that was asked for, never from the firmware's part") {
  const Device device;
  const Chip& chip = device.chip();
  for (uint32_t channel = 0; channel < chip.hbm_count; ++channel) {
    for (const __u64 size : {4096ull, 1ull << 20, 64ull << 20}) {
      Where where;
      where.channel = channel;
      where.core = chip.cores / chip.hbm_count * channel;
      const Memory memory(device, size, where);
      EXPECT(memory.pa() >= chip.hbm_base(channel) + NEURON_V2_HBM_CARVE_OUT);
      EXPECT(memory.pa() + size <= chip.hbm_base(channel) + chip.hbm_size);
      EXPECT_EQ(memory.size(), size);
      EXPECT_EQ(device.info(memory.handle()).pid, getpid());
      EXPECT_EQ(device.info(memory.handle()).host_memory, 0);
    }
  }
}

CASE("host memory has the address of the host's side, which is its mmap offset too") {
  const Device device;
  const Memory memory(device, 65536, {.host = true});
  EXPECT_EQ(memory.pa() & device.chip().host_base, device.chip().host_base);
  EXPECT_EQ(memory.mmap_offset(), memory.pa());
  EXPECT_EQ(device.info(memory.handle()).host_memory, 1);
}

CASE("every form of allocation gives a handle") {
  const Device device;
  __u64 handles[4] = {};
  neuron_ioctl_mem_alloc first = {8192, 0, 0, 0, 0, &handles[0]};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_ALLOC, &first), 0);
  neuron_ioctl_mem_alloc_v2 second = {8192, 0, 0, 0, 0, 0, &handles[1]};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_ALLOC_V2, &second), 0);
  neuron_ioctl_mem_alloc_v2_mem_type third = {8192, 0, 0, 0, 0, 0, 9, &handles[2]};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_ALLOC_V2MT, &third), 0);
  EXPECT_EQ(allocate(device, 8192, {}, handles[3]), 0);
  for (const __u64 handle : handles) {
    EXPECT(handle >= 1 && handle <= 4194303);
    neuron_ioctl_mem_free request = {handle};
    EXPECT_EQ(device.call(NEURON_IOCTL_MEM_FREE, &request), 0);
    EXPECT_EQ(device.call(NEURON_IOCTL_MEM_FREE, &request), -EINVAL);
  }
}

CASE("sizes are whole pages, and alignment is kept") {
  const Device device;
  const Memory small(device, 5000);
  EXPECT_EQ(small.size(), 8192);
  const Memory aligned(device, 4096, {.align = 1 << 20});
  EXPECT_EQ(aligned.pa() % (1 << 20), 0);
}

CASE("what cannot be allocated is refused with its reason") {
  const Device device;
  __u64 handle = 0;
  EXPECT_EQ(allocate(device, 4096, {.channel = device.chip().hbm_count}, handle), -EINVAL);
  EXPECT_EQ(allocate(device, 4096, {.core = 8}, handle), -EINVAL);
  EXPECT_EQ(allocate(device, 4096, {.host = true, .align = 4096}, handle), -EINVAL);
  EXPECT_EQ(allocate(device, 4096, {.align = 1ull << 32}, handle), -EINVAL);
  EXPECT_EQ(allocate(device, 1ull << 63, {}, handle), -EINVAL);
  EXPECT_EQ(allocate(device, device.chip().hbm_size, {}, handle), -ENOMEM);
}

CASE("an HBM can be filled, refuses more, and is whole again after frees") {
  const Device device;
  std::vector<std::unique_ptr<Memory>> all;
  constexpr __u64 kPiece = 1ull << 30;
  while (true) {
    __u64 handle = 0;
    const int error = allocate(device, kPiece, {}, handle);
    if (error) {
      EXPECT_EQ(error, -ENOMEM);
      break;
    }
    neuron_ioctl_mem_free request = {handle};
    EXPECT_EQ(device.call(NEURON_IOCTL_MEM_FREE, &request), 0);
    all.push_back(std::make_unique<Memory>(device, kPiece));
    EXPECT(all.size() <= device.chip().hbm_size / kPiece);
  }
  EXPECT(all.size() >= device.chip().hbm_size / kPiece - 3);
  all.clear();
  const Memory large(device, device.chip().hbm_size - (4ull << 30));
}

CASE("information about a handle that does not exist is an error") {
  const Device device;
  neuron_ioctl_mem_get_extended_info info = {};
  info.mem_handle = 4000000;
  EXPECT(device.call(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &info) != 0);
  __u64 pa = 0;
  neuron_ioctl_mem_get_pa request = {4000000, &pa};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_GET_PA, &request), -EINVAL);
}

CASE("old ways to ask for an address agree with the new one") {
  const Device device;
  const Memory memory(device, 4096);
  __u64 pa = 0, offset = 0;
  neuron_ioctl_mem_get_pa by_pointer = {memory.handle(), &pa};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_GET_PA, &by_pointer), 0);
  EXPECT_EQ(pa, memory.pa());
  neuron_ioctl_mem_get_info both = {memory.handle(), &offset, &pa};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_GET_INFO, &both), 0);
  EXPECT_EQ(pa, memory.pa());
}

CASE("an allocation is found by any address inside it") {
  const Device device;
  const Memory memory(device, 65536);
  neuron_ioctl_mem_get_mc_mmap_info_v2 found = {memory.pa() + 5000, 0, 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_MC_GET_INFO_V2, &found), 0);
  EXPECT_EQ(found.mmap_offset, memory.pa());
  EXPECT_EQ(found.size, 65536);
  EXPECT_EQ(device.info(found.mem_handle).pa, memory.pa());
  neuron_ioctl_mem_get_mc_mmap_info old = {memory.pa() + 65535, 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_MC_GET_INFO, &old), 0);
  EXPECT_EQ(old.mmap_offset, memory.pa());
  old.pa = device.chip().hbm_base(0) + device.chip().hbm_size + 4096;
  EXPECT_EQ(device.call(NEURON_IOCTL_MEM_MC_GET_INFO, &old), -ENOMEM);
}

CASE("live allocations are listed by address, and a list that is too short says so") {
  const Device device;
  const Memory memory(device, 12288, {.category = NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE});
  neuron_ioctl_dump_mem_chunks request = {0, 0, 0, nullptr};
  EXPECT_EQ(device.call(NEURON_IOCTL_DUMP_MEM_CHUNKS, &request), -EAGAIN);
  EXPECT(request.num_entries_out >= 2);  // the firmware's part and ours
  bool found = false;
  __u64 last = 0;
  for (const auto& chunk : device.chunks(0)) {
    EXPECT(chunk.pa >= last);
    last = chunk.pa;
    if (chunk.pa != memory.pa()) continue;
    found = true;
    EXPECT_EQ(chunk.size, 12288);
    EXPECT_EQ(chunk.mem_type, NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE);
  }
  EXPECT(found);
}

CASE("the growing scratchpad is one piece below the end of the HBM's main part") {
  const Device device;
  const Where where = {.category = NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE};
  const Memory first(device, 1 << 20, where);
  const Memory second(device, 1 << 20, where);
  EXPECT_EQ(second.pa() + (1 << 20), first.pa());
}

CASE("a process sees device memory through its mapping, both ways") {
  const Device device;
  const Memory memory(device, 256 << 10);
  const Mapping mapping(device, memory.mmap_offset(), memory.size(), PROT_READ | PROT_WRITE);
  const auto bytes = pattern(memory.size(), 3);
  EXPECT_EQ(device.copy_in(memory.handle(), bytes.data(), bytes.size()), 0);
  EXPECT(std::memcmp(mapping.bytes(), bytes.data(), bytes.size()) == 0);
  const auto other = pattern(memory.size(), 4);
  std::memcpy(mapping.bytes(), other.data(), other.size());
  __sync_synchronize();
  std::vector<uint8_t> back(memory.size());
  EXPECT_EQ(device.copy_out(memory.handle(), back.data(), back.size()), 0);
  EXPECT(back == other);
}

CASE("a process sees host memory of the driver through its mapping, both ways") {
  const Device device;
  const Memory memory(device, 64 << 10, {.host = true});
  const Mapping mapping(device, memory.mmap_offset(), memory.size(), PROT_READ | PROT_WRITE);
  const auto bytes = pattern(memory.size(), 5);
  std::memcpy(mapping.bytes(), bytes.data(), bytes.size());
  std::vector<uint8_t> back(memory.size());
  EXPECT_EQ(device.copy_out(memory.handle(), back.data(), back.size()), 0);
  EXPECT(back == bytes);
}

CASE("a mapping has the length of its allocation, or is refused") {
  const Device device;
  const Memory memory(device, 64 << 10);
  // Who may touch raw input and output is not asked for a length.
  EXPECT_EQ(exit_status_of_child([&] {
              if (setgid(65534) != 0 || setuid(65534) != 0) return 1;
              const Device own;
              return Mapping::attempt(own.fd(), memory.mmap_offset(), 4096, PROT_READ) < 0 ? 0 : 2;
            }),
            0);
  EXPECT_EQ(Mapping::attempt(device.fd(), memory.mmap_offset(), 64 << 10, PROT_READ), 0);
  const Device restricted(0, O_WRONLY);
  EXPECT(Mapping::attempt(restricted.fd(), memory.mmap_offset(), 64 << 10, PROT_READ) < 0);
}

CASE("a child does not inherit its parent's mappings") {
  const Device device;
  const Memory memory(device, 4096);
  const Mapping mapping(device, memory.mmap_offset(), 4096, PROT_READ | PROT_WRITE);
  const int status = in_child([&] {
    signal(SIGSEGV, SIG_DFL);
    return mapping.word(0) == 1 ? 1 : 0;
  });
  EXPECT((status & 0x7f) == SIGSEGV);
}

CASE("another process reads foreign memory through a mapping") {
  const Device device;
  const Memory memory(device, 4096);
  EXPECT_EQ(device.copy_in(memory.handle(), "for both", 8), 0);
  EXPECT_EQ(exit_status_of_child([&] {
              const Device own;
              const Mapping mapping(own, memory.mmap_offset(), 4096, PROT_READ);
              return std::memcmp(mapping.bytes(), "for both", 8) == 0 ? 0 : 1;
            }),
            0);
}

CASE("mapped device memory exports as a dma-buf") {
  const Device device;
  const Memory memory(device, 64 << 10);
  int32_t fd = -1;
  {
    const Mapping mapping(device, memory.mmap_offset(), memory.size(), PROT_READ | PROT_WRITE);
    neuron_ioctl_dmabuf_fd request = {reinterpret_cast<__u64>(mapping.bytes()), 64 << 10, &fd};
    EXPECT_EQ(device.call(NEURON_IOCTL_DMABUF_FD, &request), 0);
    EXPECT(fd > 2);
    EXPECT_EQ(close(fd), 0);
    request.va += 1ull << 40;
    EXPECT_EQ(device.call(NEURON_IOCTL_DMABUF_FD, &request), -EINVAL);
  }
}

CASE("the state buffer of a core is mapped where the resource call says") {
  const Device device;
  neuron_ioctl_resource_mmap_info info = {NEURON_DM_BLOCK_TPB, 0, NEURON_DM_RESOURCE_SBUF, 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_RESOURCE_MMAP_INFO, &info), 0);
  EXPECT_EQ(info.size, NEURON_CORE_SBUF_SIZE);
  EXPECT_EQ(info.offset, device.chip().core_cookie);
  const Mapping sbuf(device, info.offset, info.size, PROT_READ | PROT_WRITE);
  const auto bytes = pattern(4096, 8);
  neuron_ioctl_program_engine_nc64 program = {0, device.chip().core_address,
                                              const_cast<uint8_t*>(bytes.data()), 4096, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &program), 0);
  for (uint32_t at = 0; at < 4096; at += 512) {
    uint32_t wanted;
    std::memcpy(&wanted, bytes.data() + at, 4);
    EXPECT_EQ(sbuf.word(at), wanted);
  }
  sbuf.word(64) = 0x12345678;
  EXPECT_EQ(sbuf.word(64), 0x12345678);
  program.dst = device.chip().hbm_base(0) + device.chip().hbm_size + (1ull << 36);
  EXPECT_EQ(device.call(NEURON_IOCTL_PROGRAM_ENGINE_NC64, &program), -ENOMEM);
  info.block_id = 64;
  EXPECT_EQ(device.call(NEURON_IOCTL_RESOURCE_MMAP_INFO, &info), -EINVAL);
}

}  // namespace
}  // namespace neuron::guest
