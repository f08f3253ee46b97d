// SPDX-License-Identifier: Apache-2.0
#include "tests/multi/long_work.h"

#include <vector>

namespace neuron::multi {
namespace {

using Begun = std::function<void()>;

void run_ring(DeviceClient& client, uint32_t descriptors, const Begun& begun) {
  const uint64_t a = client.address(client.allocate(1 << 20, false));
  const uint64_t b = client.address(client.allocate(1 << 20, false));
  if (!client.make_ring(3, 2, descriptors)) return;
  client.fill_ring(a, b, 65536);
  begun();
  while (client.start_ring(descriptors - 1) == 0) {
  }
}

const LongWork kLongWorks[] = {
    {"RingOf4MDescriptors",
     [](DeviceClient& client, const Begun& begun) { run_ring(client, 4 << 20, begun); }},
    {"RingOf256KDescriptors",
     [](DeviceClient& client, const Begun& begun) { run_ring(client, 256 << 10, begun); }},
    {"Fills",
     [](DeviceClient& client, const Begun& begun) {
       const uint64_t handle = client.allocate(512 << 20, false);
       begun();
       while (client.fill(handle, 512 << 20) == 0) {
       }
     }},
    {"CopiesOnTheDevice",
     [](DeviceClient& client, const Begun& begun) {
       const uint64_t from = client.allocate(256 << 20, false);
       const uint64_t to = client.allocate(256 << 20, false);
       begun();
       while (client.copy(from, to, 256 << 20) == 0) {
       }
     }},
    {"CopiesOfBuffers",
     [](DeviceClient& client, const Begun& begun) {
       std::vector<char> buffer(64 << 20, 1);
       const uint64_t handle = client.allocate(buffer.size(), false);
       begun();
       while (client.buffer(handle, buffer.data(), buffer.size(), true) == 0) {
       }
     }},
    {"CopiesWithinTheHost",
     [](DeviceClient& client, const Begun& begun) {
       std::vector<char> buffer(64 << 20, 1);
       const uint64_t handle = client.allocate(buffer.size(), true);
       begun();
       while (client.buffer(handle, buffer.data(), buffer.size(), false) == 0) {
       }
     }},
};

}  // namespace

std::span<const LongWork> long_works() { return kLongWorks; }

}  // namespace neuron::multi
