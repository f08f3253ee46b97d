// SPDX-License-Identifier: Apache-2.0
// Keeps pages of the guest for itself, and looks whether anybody else has written into them.
//
// pages SECONDS MIB: takes MIB of memory that is free at this moment, as much of it as there is
// up to a reserve, fills it with a pattern, and looks at it for SECONDS. Pages that a driver has
// just freed are among them: a device that is late writes into the pattern. One line for each page
// that was hit, with its physical address and the first bytes, for `neuron-emulatorctl writes`.
// Exit status: 0 untouched, 1 written to, 2 wrong usage or no memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kWords = kPage / sizeof(uint64_t);
constexpr uint64_t kReserve = uint64_t{96} << 20;  // for the rest of the guest
constexpr unsigned kShown = 16;
constexpr useconds_t kRestMicroseconds = 50'000;

// What every page is filled with.
std::array<uint64_t, kWords> pattern() {
  std::array<uint64_t, kWords> words;
  for (uint64_t i = 0; i < kWords; ++i) words[i] = (i + 1) * 0x9E3779B97F4A7C15u;
  return words;
}
const std::array<uint64_t, kWords> kPattern = pattern();

double seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// 0 where the kernel does not tell.
uint64_t physical(const void* address) {
  const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  uint64_t entry = 0;
  const auto offset =
      static_cast<off_t>(reinterpret_cast<uintptr_t>(address) / kPage * sizeof entry);
  const bool read = map >= 0 && pread(map, &entry, sizeof entry, offset) == sizeof entry;
  if (map >= 0) close(map);
  return read ? (entry & ((uint64_t{1} << 55) - 1)) * kPage : 0;
}

// Tells of the first word that differs, and mends the page, so that a second hit is seen too.
bool hit(uint64_t* page, unsigned& shown) {
  if (std::memcmp(page, kPattern.data(), kPage) == 0) return false;
  if (shown++ < kShown) {
    const uint64_t* const word = std::mismatch(page, page + kWords, kPattern.begin()).first;
    const unsigned long long at = physical(page) + uint64_t(word - page) * sizeof *word;
    const unsigned long long found = *word;
    std::printf("# physical %#llx: %016llx\n", at, found);
  }
  std::memcpy(page, kPattern.data(), kPage);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const double wanted_seconds = argc == 3 ? std::atof(argv[1]) : 0;
  const auto wanted = argc == 3 ? std::strtoull(argv[2], nullptr, 10) << 20 : 0;
  if (wanted_seconds <= 0 || wanted == 0) {
    std::fprintf(stderr, "usage: pages SECONDS MIB\n");
    return 2;
  }
  struct sysinfo memory = {};
  if (sysinfo(&memory) != 0) return 2;
  const uint64_t free = uint64_t{memory.freeram} * memory.mem_unit;
  const uint64_t bytes =
      free > kReserve ? std::min<uint64_t>(wanted, free - kReserve) / kPage * kPage : 0;
  void* const at =
      bytes == 0 ? MAP_FAILED
                 : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    std::fprintf(stderr, "pages: of %llu bytes that are free none can be taken\n",
                 static_cast<unsigned long long>(free));
    return 2;
  }
  // Pages of the processor's own size: those that drivers free.
  (void)madvise(at, bytes, MADV_NOHUGEPAGE);
  auto* const words = static_cast<uint64_t*>(at);
  const uint64_t count = bytes / sizeof *words;
  for (uint64_t i = 0; i < count; i += kWords) std::memcpy(words + i, kPattern.data(), kPage);
  const double end = seconds() + wanted_seconds;
  uint64_t pages = 0;
  unsigned looks = 0;
  unsigned shown = 0;
  // Bounded: by the time.
  do {
    for (uint64_t i = 0; i < count; i += kWords) pages += hit(words + i, shown) ? 1 : 0;
    ++looks;
    usleep(kRestMicroseconds);  // the processor is the programs'
  } while (seconds() < end || looks < 2);
  if (pages == 0) return 0;
  std::printf("# %llu of %llu pages were written to by somebody else\n",
              static_cast<unsigned long long>(pages),
              static_cast<unsigned long long>(bytes / kPage));
  return 1;
}
