// SPDX-License-Identifier: Apache-2.0
// What an operator sees of the devices of an instance from outside. ndl_observe.h has the
// questions.
//
// Callers: the C interface and the daemon's connections, any thread. An answer takes no process
// slot and builds no chip: a device that nobody has opened is described from its profile. It waits
// for at most 20 ms: a table that stays locked longer belongs to a device that is being reset, and
// the answer says so. Fails: negative errno and a sentence.
#ifndef DRIVER_EMULATOR_SERVICE_OBSERVER_H
#define DRIVER_EMULATOR_SERVICE_OBSERVER_H

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

struct neuron_emulator_question;

namespace neuron::service {

class Instance;

// Gives at most `limit` bytes of answer. `next`: 0, or the offset at which to ask for the rest.
int observe(Instance& instance, const neuron_emulator_question& question, size_t limit,
            std::string& answer, uint64_t& next);

// Locks the mutex if its holder gives it back within 20 ms. Only a reset keeps it longer.
std::unique_lock<std::mutex> lock_soon(std::mutex& mutex);

}  // namespace neuron::service

#endif
