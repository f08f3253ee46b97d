// SPDX-License-Identifier: Apache-2.0
#include "ccom/proxy/device_proxy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <tuple>
#include <utility>

#include "ccom/transport/fabric_connection.h"
#include "driver/base/backoff.h"

namespace neuron::ccom {
namespace {

// What a closing proxy waits for the network to let go of device memory.
constexpr std::chrono::milliseconds kLettingGo{100};
// What it waits for a slow network to take the last messages: a connection of TCP that loses its
// first two frames is there after three seconds.
constexpr std::chrono::seconds kLastMessages{5};
constexpr std::chrono::microseconds kNap{100};
// Times travel on channels of their own, beside those of the bytes.
constexpr uint16_t kTimeChannels = FabricTag::kChannels / 2;

// The ranks have compared their collectives when they loaded them; messages need only the stream.
Signature signature_of(uint32_t stream) {
  Signature signature;
  signature.stream = static_cast<uint8_t>(stream);
  return signature;
}

MessageId time_of(MessageId id) {
  id.channel = static_cast<uint16_t>(id.channel + kTimeChannels);
  return id;
}

bool same_lane(const ccom_device_message_t& a, const ccom_device_message_t& b) {
  return a.sends == b.sends && a.peer == b.peer && a.channel == b.channel;
}

}  // namespace

DeviceProxy::DeviceProxy(std::unique_ptr<NetworkPort> port, const ccom_device_host_t& host,
                         std::function<bool()> usable)
    : port_(std::move(port)), host_(host), usable_(std::move(usable)) {
  for (uint32_t stream = 0; stream < CCOM_MAX_STREAMS; ++stream) {
    port_->expect(signature_of(stream));
  }
}

DeviceProxy::~DeviceProxy() {
  if (!failure_) bring_the_rest();
  port_->quiesce(base::Deadline::after(kLettingGo));
  for (const void* memory : registered_) port_->remove_memory(memory);
}

// What is left in this rank's queue is lost, and a peer would wait for it until its deadline.
void DeviceProxy::bring_the_rest() {
  const base::Deadline end = base::Deadline::after(kLastMessages);
  try {
    while ((port_->busy() || !port_->endpoint().has_arrived()) && !end.expired() && usable_() &&
           port_->progress() != Outcome::kFailed) {
      base::sleep_for(kNap);
    }
  } catch (const std::bad_alloc&) {
    // They are lost.
  }
}

Result<void> DeviceProxy::add(uint32_t stream, const ccom_device_program_t& program) {
  if (stream >= CCOM_MAX_STREAMS && program.message_count != 0) {
    return fail(CCOM_UNSUPPORTED,
                "collectives between instances use stream {}; streams 0 to {} reach the network",
                stream, CCOM_MAX_STREAMS - 1);
  }
  auto added = std::make_unique<Program>();
  added->stream = stream;
  added->nic_latency_ps = program.nic_latency_ps;
  added->nic_bytes_per_second = program.nic_bytes_per_second;
  std::map<std::tuple<uint32_t, uint32_t, uint16_t, uint32_t>, uint64_t> numbers;
  for (uint32_t i = 0; i < program.message_count; ++i) {
    Message message;
    message.what = program.messages[i];
    const ccom_device_message_t& what = message.what;
    if (what.peer >= port_->ranks() || what.channel >= kTimeChannels) {
      return fail(CCOM_INVALID,
                  "a program has a message for rank {} on channel {}; there are {} ranks and {} "
                  "channels",
                  what.peer, what.channel, port_->ranks(), kTimeChannels);
    }
    message.number = numbers[{what.sends, what.peer, what.channel, what.collective}]++;
    if (what.bytes != 0) {
      message.bytes = static_cast<std::byte*>(host_.map(host_.context, what.address, what.bytes));
      if (message.bytes == nullptr) {
        return fail(CCOM_UNSUPPORTED,
                    "{} bytes of device memory at {:#x}, which a rank of another instance needs, "
                    "cannot be mapped into this process",
                    what.bytes, what.address);
      }
      NEURON_CHECK(port_->add_memory(message.bytes, what.bytes));
      registered_.push_back(message.bytes);
    }
    added->collectives = std::max(added->collectives, what.collective + 1);
    added->messages.push_back(message);
  }
  programs_.push_back(std::move(added));
  return {};
}

MessageId DeviceProxy::id_of(const Program& program, const Message& message) const {
  return {static_cast<uint8_t>(program.stream), message.what.channel,
          program.pass * program.collectives + message.what.collective, message.number};
}

Error DeviceProxy::failure_of(uint32_t peer) const {
  const Error& error = port_->connection(peer).failure();
  return error.sentence.empty() ? port_->failure() : error;
}

// Takes note of what has become due.
Result<bool> DeviceProxy::look(Program& program) {
  bool moved = false;
  uint32_t number = 0;
  uint64_t time = 0;
  while (host_.due(host_.context, program.stream, &number, &time)) {
    if (number != program.due || number >= program.messages.size()) {
      return fail(CCOM_SYSTEM,
                  "the collective core of stream {} calls message {} due where {} of {} is next: "
                  "notifications were lost, or its program was changed",
                  program.stream, number, program.due, program.messages.size());
    }
    Message& message = program.messages[number];
    message.given = message.timed = false;
    message.done_ps = time;
    if (message.what.sends != 0) {
      const double seconds = static_cast<double>(message.what.bytes) / program.nic_bytes_per_second;
      message.done_ps =
          std::max(time, program.nic_free_ps) + static_cast<uint64_t>(std::llround(seconds * 1e12));
      program.nic_free_ps = message.done_ps;
      message.arrival_ps = message.done_ps + program.nic_latency_ps;
    }
    program.waiting.push_back(number);
    ++program.due;
    moved = true;
  }
  return moved;
}

Outcome DeviceProxy::give(const Program& program, Message& message) {
  FabricConnection& connection = port_->connection(message.what.peer);
  const MessageId id = id_of(program, message);
  auto* time = reinterpret_cast<std::byte*>(&message.arrival_ps);
  const Signature signature = signature_of(program.stream);
  const bool sends = message.what.sends != 0;
  if (!message.given) {
    const Outcome outcome = sends
                                ? connection.send(id, message.bytes, message.what.bytes, signature)
                                : connection.grant(id, message.bytes, message.what.bytes);
    if (outcome != Outcome::kDone) return outcome;
    message.given = true;
  }
  const Outcome outcome = sends ? connection.send(time_of(id), time, sizeof(uint64_t), signature)
                                : connection.grant(time_of(id), time, sizeof(uint64_t));
  message.timed = outcome == Outcome::kDone;
  return outcome;
}

// Gives what is due to the connections. The time of a message leaves with its bytes.
Result<bool> DeviceProxy::give(Program& program) {
  if (program.waiting.empty()) return false;
  FabricEndpoint& endpoint = port_->endpoint();
  endpoint.hold();
  try {
    const auto moved = give_in_order(program);
    endpoint.let_go();
    return moved;
  } catch (...) {  // no memory: an endpoint that holds would send nothing to anybody any more
    endpoint.let_go();
    throw;
  }
}

// In order for each lane.
Result<bool> DeviceProxy::give_in_order(Program& program) {
  bool moved = false;
  std::vector<const ccom_device_message_t*> held;  // of lanes that take nothing now
  for (size_t i = 0; i < program.waiting.size();) {
    Message& message = program.messages[program.waiting[i]];
    const bool blocked = std::any_of(held.begin(), held.end(), [&](const ccom_device_message_t* m) {
      return same_lane(*m, message.what);
    });
    const Outcome outcome = blocked ? Outcome::kNotYet : give(program, message);
    if (outcome == Outcome::kFailed) return failure_of(message.what.peer);
    if (outcome == Outcome::kNotYet) {
      held.push_back(&message.what);
      ++i;
      continue;
    }
    program.under_way.push_back(program.waiting[i]);
    program.waiting.erase(program.waiting.begin() + static_cast<ptrdiff_t>(i));
    moved = true;
  }
  return moved;
}

Outcome DeviceProxy::ended(const Program& program, const Message& message, MessageId& data,
                           MessageId& time) {
  FabricConnection& connection = port_->connection(message.what.peer);
  data = id_of(program, message);
  time = time_of(data);
  for (const MessageId& id : {data, time}) {
    Arrival arrival;
    const Outcome outcome =
        message.what.sends != 0 ? connection.sent(id) : connection.arrived(id, arrival);
    if (outcome != Outcome::kDone) return outcome;
  }
  return Outcome::kDone;
}

// Tells the CC core of messages that are done.
Result<bool> DeviceProxy::finish(Program& program) {
  bool moved = false;
  std::vector<const ccom_device_message_t*> open;  // earlier messages, which are used up first
  for (size_t i = 0; i < program.under_way.size();) {
    Message& message = program.messages[program.under_way[i]];
    const ccom_device_message_t& what = message.what;
    MessageId data, time;
    const Outcome outcome = ended(program, message, data, time);
    if (outcome == Outcome::kFailed) return failure_of(what.peer);
    const bool behind =
        what.sends == 0 && std::any_of(open.begin(), open.end(),
                                       [&](const auto* other) { return same_lane(*other, what); });
    if (outcome == Outcome::kNotYet || behind) {
      open.push_back(&what);
      ++i;
      continue;
    }
    uint64_t at = message.done_ps;
    if (what.sends == 0) {
      port_->connection(what.peer).consumed(data);
      port_->connection(what.peer).consumed(time);
      at = std::max(at, message.arrival_ps);
    }
    program.under_way.erase(program.under_way.begin() + static_cast<ptrdiff_t>(i));
    moved = true;
    const bool last = program.due == program.messages.size() && program.waiting.empty() &&
                      program.under_way.empty();
    if (last) {
      ++program.pass;
      program.due = 0;
      program.nic_free_ps = 0;  // the time of the next execution begins at 0
    }
    // The last step: from here on the CC core may go on to the next pass.
    if (!host_.signal(host_.context, program.stream, what.semaphore, at)) {
      return fail(CCOM_SYSTEM, "the collective core of stream {} cannot be told that {} bytes {}",
                  program.stream, what.bytes, what.sends != 0 ? "have been sent" : "have arrived");
    }
    if (last) break;
  }
  return moved;
}

Result<bool> DeviceProxy::poll() {
  if (failure_) return *failure_;
  const auto fails = [this](const Error& error) {
    failure_ = error;
    port_->quiesce(base::Deadline::after(kLettingGo));
    return error;
  };
  bool moved = false;
  for (const auto& program : programs_) {
    const auto seen = look(*program);
    if (!seen) return fails(seen.error());
    const auto given = give(*program);
    if (!given) return fails(given.error());
    moved = *seen || *given || moved;
  }
  const Outcome outcome = port_->progress();
  if (outcome == Outcome::kFailed) return fails(port_->failure());
  moved = outcome == Outcome::kDone || moved;
  for (const auto& program : programs_) {
    const auto finished = finish(*program);
    if (!finished) return fails(finished.error());
    moved = *finished || moved;
  }
  return moved;
}

bool DeviceProxy::busy() const {
  return !failure_ && (port_->busy() || std::any_of(programs_.begin(), programs_.end(),
                                                    [](const auto& p) { return p->due != 0; }));
}

}  // namespace neuron::ccom
