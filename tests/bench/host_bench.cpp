// SPDX-License-Identifier: Apache-2.0
// These rows measure the host: how long its first two processors, which may share a core, take to
// see a line of each other and to wake each other, and how long a new page takes. They say why
// ratios of launches, clients and loads differ between hosts of one kind.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "tests/bench/ratio.h"

namespace neuron::bench {
namespace {

constexpr uint32_t kExchanges = 200'000, kRoundTrips = 20'000;
constexpr size_t kPage = 4096, kPages = 16384;

struct alignas(128) Word {
  std::atomic<uint32_t> value{0};
};

// The processor with that number among those that this process may use, counted round.
void pin_to(int number) {
  cpu_set_t allowed, one;
  CPU_ZERO(&allowed);
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int left = number % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) CPU_SET(cpu, &one);
  }
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

// Two threads on two processors: `first` and `second` begin at once. Seconds until both are over.
double on_two_processors(const std::function<void()>& first, const std::function<void()>& second) {
  std::atomic<int> ready{0};
  double begin = 0;
  const auto start = [&](int number) {
    pin_to(number);
    ++ready;
    while (ready < 2) {  // bounded: the other thread has just been started
    }
  };
  std::thread one([&] {
    start(0);
    begin = now_seconds();
    first();
  });
  std::thread other([&] {
    start(1);
    second();
  });
  one.join();
  other.join();
  return now_seconds() - begin;
}

// Each writes a line and waits until it sees the other's: what any hand-over costs at least.
double line_exchange() {
  Word a, b;
  const auto side = [](Word& mine, Word& others) {
    for (uint32_t i = 1; i <= kExchanges; ++i) {
      mine.value.store(i, std::memory_order_release);
      while (others.value.load(std::memory_order_acquire) < i) {  // bounded: the other one counts
      }
    }
  };
  return on_two_processors([&] { side(a, b); }, [&] { side(b, a); }) / kExchanges * 1e9;
}

double futex_round_trip() {
  Word word;
  const auto wait_for = [&](uint32_t wanted) {
    for (;;) {  // bounded: the other one counts
      const uint32_t now = word.value.load(std::memory_order_acquire);
      if (now == wanted) return;
      syscall(SYS_futex, &word.value, FUTEX_WAIT_PRIVATE, now, nullptr, nullptr, 0);
    }
  };
  const auto set = [&](uint32_t value) {
    word.value.store(value, std::memory_order_release);
    syscall(SYS_futex, &word.value, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  };
  return on_two_processors(
             [&] {
               for (uint32_t i = 1; i <= kRoundTrips; ++i) {
                 set(2 * i - 1);
                 wait_for(2 * i);
               }
             },
             [&] {
               for (uint32_t i = 1; i <= kRoundTrips; ++i) {
                 wait_for(2 * i - 1);
                 set(2 * i);
               }
             }) /
         kRoundTrips * 1e6;
}

double first_touch() {
  void* const memory =
      mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -1;
  madvise(memory, kPages * kPage, MADV_NOHUGEPAGE);
  const double begin = now_seconds();
  for (size_t page = 0; page < kPages; ++page) static_cast<char*>(memory)[page * kPage] = 1;
  const double seconds = now_seconds() - begin;
  munmap(memory, kPages * kPage);
  return seconds / kPages * 1e9;
}

// Without a peer: its place has the unit.
Ratio fact(const char* name, const char* unit, double (*measure)()) {
  Ratio row{.name = name, .peer_name = unit, .unit = unit, .rounds = 5};
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  if (CPU_COUNT(&allowed) < 2) row.error = "this process may use one processor only";
  row.ours = measure;
  row.peer = [] { return 1.0; };
  return row;
}

}  // namespace

std::vector<Ratio> host() {
  return {fact("host-line-exchange", "ns, until two processors have seen a line of each other",
               line_exchange),
          fact("host-futex-round-trip", "us, to another processor and back", futex_round_trip),
          fact("host-first-touch", "ns, a page of 4 KiB", first_touch)};
}

}  // namespace neuron::bench
