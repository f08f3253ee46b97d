// SPDX-License-Identifier: Apache-2.0
// One TOPSP (collective core): its semaphores and events, and its notification queues.
//
// Callers: any thread. Thread-safe: yes. A refused change posts a notification in slot 7.
#ifndef DRIVER_EMULATOR_CHIP_TOPSP_H
#define DRIVER_EMULATOR_CHIP_TOPSP_H

#include "driver/emulator/chip/notification_queue.h"
#include "driver/emulator/chip/semaphores.h"

namespace neuron::chip {

class Topsp final : public SemaphoreListener {
 public:
  explicit Topsp(const Bus& bus) : notifications_(bus) { semaphores_.set_listener(this); }

  SemaphoreBlock& semaphores() { return semaphores_; }
  NotificationBlock& notifications() { return notifications_; }
  void reset() {
    semaphores_.reset();
    notifications_.reset();
  }
  void semaphore_changed(const SemaphoreChange&, const Access&) override {}
  void semaphore_refused(neuron_fault fault, const SemaphoreChange& change,
                         const Access& access) override {
    notifications_.post_error(
        fault, access,
        {change.index | (change.event ? 1u << 8 : 0u), change.before, change.operand});
  }

 private:
  SemaphoreBlock semaphores_;
  NotificationBlock notifications_;
};

}  // namespace neuron::chip

#endif
