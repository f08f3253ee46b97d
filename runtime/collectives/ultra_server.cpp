// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/ultra_server.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "ndl/ndl.h"

namespace neuron::runtime {
namespace {

constexpr uint32_t kPatienceMs = 1000;

// Of an emulated device: whether it reaches chips of other nodes. A daemon that does not know the
// attribute serves one node.
bool is_joined(int device) {
  char text[16] = {};
  const ssize_t length =
      ndl_read_attribute(device, "emulator/joined_nodes", kPatienceMs, text, sizeof(text));
  return length > 0 && std::strtoul(text, nullptr, 10) > 1;
}

}  // namespace

std::optional<UltraServerPlace> ultra_server_of(int device, const std::string& emulator) {
  std::array<uint8_t, 256> id{};
  uint32_t state = 0, type = 0, nodes = 0, modes = 0;
  int node = -1;
  neuron_ultraserver_mode mode = NEURON_ULTRASERVER_MODE_UNSET;
  if (ndl_pod_status(id.data(), &state, &type, &nodes, &node, &mode, &modes) != 0 ||
      state != NEURON_POD_E_STATE_ULTRASERVER || node < 0 || node >= static_cast<int>(kMostNodes)) {
    return std::nullopt;
  }
  if (!emulator.empty() && !is_joined(device)) return std::nullopt;
  UltraServerPlace place;
  place.node = static_cast<uint32_t>(node);
  std::memcpy(&place.id, id.data(), sizeof(place.id));
  return place;
}

}  // namespace neuron::runtime
