// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/host_writes.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <ctime>

namespace neuron::chip {
namespace {

const char* name_of(HostWriteKind kind) {
  switch (kind) {
    case HostWriteKind::kCopy:
      return "copy";
    case HostWriteKind::kWord:
      return "word";
    case HostWriteKind::kCompute:
      return "compute";
    case HostWriteKind::kRefused:
      return "refused, too late";
    case HostWriteKind::kStore:
      return "store";
    case HostWriteKind::kNotification:
      return "notification";
    case HostWriteKind::kCompletion:
      return "completion record";
    case HostWriteKind::kWork:
      return "work record";
    case HostWriteKind::kFirmware:
      return "answer of firmware";
  }
  return "?";
}

bool of_queue(HostWriteKind kind) { return kind <= HostWriteKind::kRefused; }

}  // namespace

uint64_t HostWrites::now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void HostWrites::record(HostWrite write, uint64_t doorbell_ns) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  write.time_ns = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count());
  if (doorbell_ns != 0) write.waited_ns = std::max<uint64_t>(now_ns() - doorbell_ns, 1);
  const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  Entry& entry = entries_[number % kEntries];
  entry.version.store(2 * number + 1, std::memory_order_relaxed);
  // A reader that sees one of the words sees the odd version too, behind its own fence.
  std::atomic_thread_fence(std::memory_order_release);
  const uint64_t words[] = {write.time_ns,
                            write.waited_ns,
                            write.address,
                            write.bytes,
                            static_cast<uint64_t>(write.kind) | uint64_t{write.core} << 8 |
                                uint64_t{write.engine} << 16 | uint64_t{write.queue} << 24,
                            write.descriptor};
  for (size_t i = 0; i < entry.words.size(); ++i) {
    entry.words[i].store(words[i], std::memory_order_relaxed);
  }
  // Release: pairs with the first load in last().
  entry.version.store(2 * number + 2, std::memory_order_release);
}

std::vector<HostWrite> HostWrites::last(size_t most) const {
  const uint64_t end = next_.load(std::memory_order_acquire);
  const uint64_t count = std::min<uint64_t>({end, most, kEntries});
  std::vector<HostWrite> writes;
  writes.reserve(count);
  for (uint64_t number = end - count; number < end; ++number) {
    const Entry& entry = entries_[number % kEntries];
    if (entry.version.load(std::memory_order_acquire) != 2 * number + 2) continue;
    uint64_t words[6];
    for (size_t i = 0; i < entry.words.size(); ++i) {
      words[i] = entry.words[i].load(std::memory_order_relaxed);
    }
    // Acquire: pairs with the fence in record().
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.version.load(std::memory_order_relaxed) != 2 * number + 2) continue;
    HostWrite write;
    write.time_ns = words[0];
    write.waited_ns = words[1];
    write.address = words[2];
    write.bytes = words[3];
    write.kind = static_cast<HostWriteKind>(words[4] & 0xFF);
    write.core = static_cast<uint8_t>(words[4] >> 8);
    write.engine = static_cast<uint8_t>(words[4] >> 16);
    write.queue = static_cast<uint8_t>(words[4] >> 24);
    write.descriptor = static_cast<uint32_t>(words[5]);
    writes.push_back(write);
  }
  return writes;
}

std::string HostWrite::describe() const {
  char when[32] = "";
  const auto seconds = static_cast<std::time_t>(time_ns / 1'000'000'000);
  std::tm parts{};
  if (localtime_r(&seconds, &parts) != nullptr) {
    std::strftime(when, sizeof when, "%H:%M:%S", &parts);
  }
  char who[64];
  if (of_queue(kind)) {
    std::snprintf(who, sizeof who, "DMA engine %u queue %u, S2M descriptor %" PRIu32, engine, queue,
                  descriptor);
  } else {
    std::snprintf(who, sizeof who, "core %u, %s %u", core,
                  kind == HostWriteKind::kNotification ? "queue" : "engine", engine);
  }
  char delay[48] = "";
  if (waited_ns != 0) {
    std::snprintf(delay, sizeof delay, ", %" PRIu64 " us behind its doorbell", waited_ns / 1000);
  }
  char text[256];
  std::snprintf(text, sizeof text, "%s.%06" PRIu64 " 0x%" PRIx64 " %" PRIu64 " bytes, %s, %s%s",
                when, time_ns / 1000 % 1'000'000, address, bytes, name_of(kind), who, delay);
  return text;
}

}  // namespace neuron::chip
