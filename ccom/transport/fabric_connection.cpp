// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/fabric_connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace neuron::ccom {

FabricLane* FabricConnection::lane(uint32_t stream, uint32_t channel) {
  if (stream >= CCOM_MAX_STREAMS || channel >= FabricTag::kChannels) {
    return nullptr;
  }
  auto& lanes = lanes_[stream];
  if (channel >= lanes.size()) {
    lanes.resize(channel + 1);
  }
  if (!lanes[channel]) {
    lanes[channel] = std::make_unique<FabricLane>();
    lanes[channel]->connection = this;
    lanes[channel]->stream = static_cast<uint8_t>(stream);
    lanes[channel]->channel = static_cast<uint16_t>(channel);
  }
  return lanes[channel].get();
}

// The place for message `number`; made here if this call is the first to know of the message.
FabricLane::Incoming* FabricConnection::slot(FabricLane& lane, uint64_t number) {
  // A peer is at most its window ahead of the grants.
  if (number < lane.in_first || number >= lane.in_granted + NetworkPort::kInitialWindow) {
    return nullptr;
  }
  while (number - lane.in_first >= lane.in.size()) {
    lane.in.emplace_back();
  }
  return &lane.in[number - lane.in_first];
}

uint64_t FabricConnection::tag(FabricKind kind, const FabricLane& lane, uint64_t number) const {
  return FabricTag{kind, port_.rank(), lane.stream, lane.channel, number, lane.in_granted}.encode();
}

Outcome FabricConnection::refuse(const char* rule) {
  if (!failed_) {
    failed_ = true;
    failure_ = fail(CCOM_SYSTEM, "rank {} ({}) sent a message that {}: is it of this version?",
                    peer_, description(), rule);
  }
  return Outcome::kFailed;
}

void FabricConnection::broken(const char* doing, int error) {
  if (!failed_) {
    failed_ = true;
    failure_ = fail(CCOM_SYSTEM, "the connection to rank {} ({}) broke while {}: {}", peer_,
                    description(), doing, std::strerror(error));
  }
}

Outcome FabricConnection::posted(int error, const char* doing) {
  if (error == 0) {
    return Outcome::kDone;
  }
  if (error == -EAGAIN) {
    return Outcome::kNotYet;
  }
  broken(doing, -error);
  return Outcome::kFailed;
}

const char* FabricConnection::description() const {
  if (description_.empty()) {
    description_ = port_.endpoint().provider() + " " + port_.endpoint().route(peer_);
  }
  return description_.c_str();
}

Outcome FabricConnection::grant(const MessageId& id, std::byte* place, uint64_t bytes) {
  FabricLane* lane = this->lane(id.stream, id.channel);
  if (failed_ || lane == nullptr) {
    return failed_ ? Outcome::kFailed : refuse("is for a channel that there cannot be");
  }
  if (lane->in_operation != id.operation + 1) {
    lane->in_operation = id.operation + 1;  // 0: none yet
    lane->in_base = lane->in_granted;
  }
  const uint64_t number = lane->in_base + id.number;
  FabricLane::Incoming* incoming = slot(*lane, number);
  if (number != lane->in_granted || incoming == nullptr) {
    return Outcome::kNotYet;
  }
  if (bytes > NetworkPort::kEagerBytes) {
    FabricOperation* operation = port_.take_operation();
    operation->owner = lane;
    operation->number = number;
    operation->purpose = NetworkPort::kBulkReceive;
    const int error = port_.endpoint_->receive(
        kAnyPeer, place, bytes, port_.memory_of(place, bytes),
        FabricTag{FabricKind::kBulk, peer_, lane->stream, lane->channel, number, 0}.encode(),
        FabricTag::kAnyGrants, *operation);
    if (error != 0) {
      port_.give_operation(operation);
      return posted(error, "posting a receive");
    }
    ++port_.receiving_;
    incoming->operation = operation;
  } else if (incoming->arrived && !incoming->stash.empty()) {
    incoming->truncated = incoming->got > bytes;
    std::memcpy(place, incoming->stash.data(), std::min(incoming->got, bytes));
    port_.stashes_.push_back(std::move(incoming->stash));
    incoming->stash = {};
  }
  incoming->place = place;
  incoming->bytes = bytes;
  incoming->granted = true;
  ++lane->in_granted;
  if (!lane->untold && lane->in_granted - lane->in_told >= NetworkPort::kInitialWindow / 2) {
    lane->untold = true;
    port_.untold_.push_back(lane);
  }
  return Outcome::kDone;
}

Outcome FabricConnection::send(const MessageId& id, const std::byte* source, uint64_t bytes,
                               const Signature& signature) {
  FabricLane* lane = this->lane(id.stream, id.channel);
  if (failed_ || lane == nullptr) {
    return failed_ ? Outcome::kFailed : refuse("is for a channel that there cannot be");
  }
  if (lane->out_operation != id.operation + 1) {
    lane->out_operation = id.operation + 1;
    lane->out_base = lane->out_next;
  }
  const uint64_t number = lane->out_next;
  if (lane->out_base + id.number != number ||
      number >= lane->out_granted + NetworkPort::kInitialWindow) {
    return Outcome::kNotYet;
  }
  const uint32_t word =
      shown_.mask ^ (signature == port_.expected(id.stream) ? port_.expected_hash(id.stream)
                                                            : signature_hash(signature));
  int error = 0;
  const bool eager = bytes <= NetworkPort::kEagerBytes;
  if (eager) {
    error =
        port_.send_pool(peer_, tag(FabricKind::kEager, *lane, number), word, source, bytes, this);
  } else {
    FabricOperation* operation = port_.take_operation();
    operation->owner = lane;
    operation->number = number;
    operation->purpose = NetworkPort::kBulkSend;
    error = port_.endpoint_->send(peer_, source, bytes, port_.memory_of(source, bytes),
                                  tag(FabricKind::kBulk, *lane, number), word, *operation);
    if (error != 0) {
      port_.give_operation(operation);
    } else {
      ++port_.bulk_sending_;
    }
  }
  if (error != 0) {
    return posted(error, "sending");
  }
  lane->in_told = lane->in_granted;
  ++lane->out_next;
  lane->out_done.push_back(eager);
  while (!lane->out_done.empty() && lane->out_done.front()) {
    lane->out_done.pop_front();
    ++lane->out_first;
  }
  return Outcome::kDone;
}

Outcome FabricConnection::sent(const MessageId& id) {
  FabricLane* lane = this->lane(id.stream, id.channel);
  if (failed_ || lane == nullptr || lane->out_operation != id.operation + 1) {
    return failed_ ? Outcome::kFailed : Outcome::kNotYet;
  }
  const uint64_t number = lane->out_base + id.number;
  if (number < lane->out_first) {
    return Outcome::kDone;
  }
  return number < lane->out_next && lane->out_done[number - lane->out_first] ? Outcome::kDone
                                                                             : Outcome::kNotYet;
}

Outcome FabricConnection::arrived(const MessageId& id, Arrival& arrival) {
  FabricLane* lane = this->lane(id.stream, id.channel);
  if (lane == nullptr || lane->in_operation != id.operation + 1) {
    return failed_ ? Outcome::kFailed : Outcome::kNotYet;
  }
  const uint64_t number = lane->in_base + id.number;
  if (number < lane->in_first || number - lane->in_first >= lane->in.size()) {
    return failed_ ? Outcome::kFailed : Outcome::kNotYet;
  }
  const FabricLane::Incoming& incoming = lane->in[number - lane->in_first];
  if (!incoming.arrived || !incoming.granted) {
    return failed_ ? Outcome::kFailed : Outcome::kNotYet;
  }
  if (incoming.word != port_.expected_hash(id.stream) || incoming.truncated ||
      incoming.got != incoming.bytes) {
    failed_ = true;
    failure_ = fail(CCOM_MISMATCH,
                    "rank {} ({}) sent {} bytes of another collective where this rank expects {}",
                    peer_, description(), incoming.got, incoming.bytes);
    return Outcome::kFailed;
  }
  arrival = {incoming.place, incoming.got, &port_.expected(id.stream)};
  return Outcome::kDone;
}

void FabricConnection::consumed(const MessageId& id) {
  FabricLane* lane = this->lane(id.stream, id.channel);
  if (lane == nullptr || lane->in_base + id.number != lane->in_first || lane->in.empty()) {
    return;
  }
  lane->in.pop_front();
  ++lane->in_first;
}

void FabricConnection::accept_grants(const FabricTag& tag) {
  FabricLane* lane = this->lane(tag.stream, tag.channel);
  if (lane != nullptr) {
    // Messages overtake one another, so an older count may come later.
    lane->out_granted =
        std::max(lane->out_granted, widen(tag.grants, FabricTag::kGrantMask, lane->out_granted));
  }
}

void FabricConnection::accept_eager(const FabricTag& tag, uint32_t word,
                                    std::span<const std::byte> data) {
  FabricLane* lane = this->lane(tag.stream, tag.channel);
  const uint64_t number = widen(tag.number, FabricTag::kNumberMask, lane->in_first);
  FabricLane::Incoming* incoming = slot(*lane, number);
  if (incoming == nullptr || incoming->arrived) {
    refuse(incoming == nullptr ? "is further ahead than it was allowed" : "came twice");
    return;
  }
  if (incoming->operation != nullptr) {
    // The message is short although a long one is expected: the pending receive stays for
    // quiesce().
    incoming->operation = nullptr;
    incoming->truncated = true;
  } else if (incoming->granted) {
    incoming->truncated = data.size() > incoming->bytes;
    if (!data.empty()) {
      std::memcpy(incoming->place, data.data(), std::min<uint64_t>(data.size(), incoming->bytes));
    }
  } else if (!data.empty()) {
    if (!port_.stashes_.empty()) {
      incoming->stash = std::move(port_.stashes_.back());
      port_.stashes_.pop_back();
    }
    incoming->stash.assign(data.begin(), data.end());
  }
  incoming->arrived = true;
  incoming->got = data.size();
  incoming->word = word ^ expected_.mask;
}

void FabricConnection::received(FabricLane& lane, uint64_t number,
                                const FabricCompletion& completion) {
  FabricLane::Incoming* incoming = slot(lane, number);
  if (incoming == nullptr || incoming->operation != completion.operation) {
    return;
  }
  incoming->operation = nullptr;
  if (completion.error != 0 && completion.bytes <= incoming->bytes) {
    if (completion.error != ECANCELED) {
      broken("receiving", completion.error);
    }
    return;
  }
  incoming->truncated = completion.error != 0;
  incoming->arrived = true;
  incoming->got = completion.bytes;
  incoming->word = completion.word ^ expected_.mask;
  accept_grants(FabricTag::decode(completion.tag));
}

void FabricConnection::send_done(FabricLane& lane, uint64_t number) {
  if (number >= lane.out_first && number - lane.out_first < lane.out_done.size()) {
    lane.out_done[number - lane.out_first] = true;
  }
  while (!lane.out_done.empty() && lane.out_done.front()) {
    lane.out_done.pop_front();
    ++lane.out_first;
  }
}

bool FabricConnection::used() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lanes) { return !lanes.empty(); });
}

void FabricConnection::cancel_receives() {
  for (auto& stream : lanes_) {
    for (auto& lane : stream) {
      if (lane) {
        for (auto& incoming : lane->in) {
          if (incoming.operation != nullptr) {
            port_.endpoint_->cancel(*incoming.operation);
          }
        }
      }
    }
  }
}

}  // namespace neuron::ccom
