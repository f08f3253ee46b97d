// SPDX-License-Identifier: Apache-2.0
// One request of a client, carried out on its session and answered.
//
// Callers: a worker thread per request. Thread-safe: for different requests of one session too.
// Borrows session and socket. Fails: a call that fails is answered with its error and sentence; the
// result is that of sending the answer.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_SHARED_CALLS_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_SHARED_CALLS_H

#include <atomic>
#include <cstddef>
#include <exception>
#include <span>
#include <vector>

#include "driver/base/packet_socket.h"
#include "driver/emulator/transport/shared/call_budget.h"
#include "driver/emulator/transport/shared/shared_message.h"

namespace neuron::service {
class Instance;
class Session;
}  // namespace neuron::service

namespace neuron::transport {

// A packet that outlives the buffer it was received into, with the file that came with it.
struct Call {
  Call(CallBudget& packets, const service::Client& client) : memory(packets, client) {}

  CallMemory memory;  // of the packet, and of the rest of this
  std::vector<std::byte> packet;
  Request request;  // leads into `packet`
  base::FileDescriptor file;
  bool file_lost = false;  // one came, and the daemon may not open any more
};

// Negative errno if the answer could not be sent. `gone`: set when nobody waits for it any more.
// `budget`: where the buffers of large calls are counted.
int carry_out(service::Session& session, int socket, Call& call, CallBudget& budget,
              const std::atomic<bool>& gone);
// The same for a question, on a connection that has no session.
int carry_out_question(service::Instance& instance, int socket, const Request& request);

// What a call answers that `failure` has ended: -ENOMEM or -EIO, with a sentence.
int fail_of(const std::exception& failure);

// Sends an answer without data; `result` below 0 with this thread's sentence of the service.
// `file`: goes with it unless negative.
int send_reply(int socket, uint32_t id, int result, uint64_t first = 0, uint64_t second = 0,
               int file = -1);

}  // namespace neuron::transport

#endif
