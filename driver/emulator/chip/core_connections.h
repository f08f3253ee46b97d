// SPDX-License-Identifier: Apache-2.0
// What a NeuronCore is connected to: everything that it needs from its chip, given at construction.
//
// The chip owns all of it and outlives the core. The core sets itself as listener of its semaphores
// and DMA engines and is the bus target of its window, which forwards
// NEURON_CORE_SEMAPHORES.. to `semaphores`, and of the windows of its CC cores.
#ifndef DRIVER_EMULATOR_CHIP_CORE_CONNECTIONS_H
#define DRIVER_EMULATOR_CHIP_CORE_CONNECTIONS_H

#include <array>
#include <cstdint>

#include "driver/emulator/chip/chip_layout.h"

namespace neuron::chip {

class Bus;
class ChipFaults;
class Hbm;
class NotificationBlock;
class PairExchange;
class SemaphoreBlock;
class UdmaEngine;

// One of the core's CC cores: TOPSP core * topsps_per_core + k.
struct CcConnection {
  SemaphoreBlock* semaphores = nullptr;
  NotificationBlock* notifications = nullptr;
};

struct CoreConnections {
  unsigned core = 0;
  uint32_t routing_id = 0;  // number of the chip, for `ident`
  Bus& bus;
  Hbm& hbm;
  SemaphoreBlock& semaphores;
  NotificationBlock& notifications;
  // Chip engines core * 16 + 0..15.
  std::array<UdmaEngine*, kEnginesPerCore> engines;
  ChipFaults* faults = nullptr;                  // null: none are planned
  std::array<CcConnection, kMaxCcPerCore> cc{};  // the first cc_count
  unsigned cc_count = 0;
  PairExchange* exchange = nullptr;  // null: the core has no other one to meet
};

}  // namespace neuron::chip

#endif
