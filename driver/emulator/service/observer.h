// SPDX-License-Identifier: Apache-2.0
// What an operator sees of the devices of an instance from outside: ndl_observe.h is the question.
//
// Callers: the C interface and the daemon's connections, any thread. Takes no process slot, builds
// no chip (a device that nobody has opened is told from its profile), waits for nobody: a table
// that stays locked belongs to a device that is being reset, and is told as such. Fails: negative
// errno and a sentence.
#ifndef DRIVER_EMULATOR_SERVICE_OBSERVER_H
#define DRIVER_EMULATOR_SERVICE_OBSERVER_H

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

struct neuron_emulator_question;

namespace neuron::service {

class Instance;

// At most `limit` bytes of answer; `next`: 0, or the offset at which the rest is asked for.
int observe(Instance& instance, const neuron_emulator_question& question, size_t limit,
            std::string& answer, uint64_t& next);

// The mutex, if whoever holds it gives it back soon: no call but a reset keeps it.
std::unique_lock<std::mutex> lock_soon(std::mutex& mutex);

}  // namespace neuron::service

#endif
