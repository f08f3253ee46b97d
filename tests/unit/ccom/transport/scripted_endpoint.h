// SPDX-License-Identifier: Apache-2.0
// FabricEndpoint whose network is the test: it says what arrives, and sees what is sent.
//
// Callers: tests of NetworkPort, the fuzzer of peer messages. Thread: one. Cannot fail.
#ifndef TESTS_UNIT_CCOM_TRANSPORT_SCRIPTED_ENDPOINT_H
#define TESTS_UNIT_CCOM_TRANSPORT_SCRIPTED_ENDPOINT_H

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "ccom/transport/fabric_endpoint.h"
#include "ccom/transport/fabric_tag.h"
#include "ccom/transport/port_pass.h"

namespace neuron::ccom {

class ScriptedEndpoint final : public FabricEndpoint {
 public:
  struct Sent {
    Rank peer = 0;
    uint64_t tag = 0;
    uint32_t word = 0;
    std::vector<std::byte> data;
    FabricOperation* operation = nullptr;
  };

  std::vector<std::byte> address() const override { return std::vector<std::byte>(4); }
  Result<void> introduce(const std::vector<std::vector<std::byte>>&) override { return {}; }
  bool registers_memory() const override { return false; }
  Result<FabricMemory> register_memory(const void*, uint64_t) override { return FabricMemory{}; }
  void unregister_memory(FabricMemory) override {}

  int send(Rank peer, const std::byte* data, uint64_t bytes, FabricMemory, uint64_t tag,
           uint32_t word, FabricOperation& operation) override {
    if (busy || peer == held_up) {
      return -EAGAIN;
    }
    if (refusal != 0) return refusal;
    sent.push_back({peer, tag, word, {data, data + bytes}, &operation});
    if (completes_sends) {
      complete_send(sent.back(), 0);
    }
    return 0;
  }
  int send_small(Rank, const std::byte*, uint64_t, uint64_t, uint32_t) override { return -ENOSYS; }
  uint64_t small_bytes() const override { return 0; }

  int receive(Rank, std::byte* data, uint64_t bytes, FabricMemory, uint64_t tag, uint64_t ignore,
              FabricOperation& operation) override {
    posted.push_back({data, bytes, tag, ignore, &operation});
    return 0;
  }
  void cancel(FabricOperation& operation) override {
    posted.remove_if([&](const Posted& one) {
      if (one.operation != &operation) {
        return false;
      }
      completions.push_back({&operation, true, ECANCELED, 0, 0, 0});
      return true;
    });
  }
  uint32_t depth() const override { return 64; }
  int poll(std::span<FabricCompletion> room) override {
    size_t count = 0;
    while (count < room.size() && !completions.empty()) {
      room[count++] = completions.front();
      completions.pop_front();
    }
    return static_cast<int>(count);
  }
  void close() override { posted.clear(); }
  const Error& failure() const override { return failure_; }
  const std::string& provider() const override { return name_; }
  std::string route(Rank peer) const override { return "here -> " + std::to_string(peer); }

  // False: nothing was posted for it.
  bool deliver(uint64_t tag, uint32_t word, std::span<const std::byte> data) {
    for (auto one = posted.begin(); one != posted.end(); ++one) {
      if (((one->tag ^ tag) & ~one->ignore) == 0) {
        const uint64_t bytes = std::min<uint64_t>(data.size(), one->bytes);
        if (bytes != 0) {
          std::memcpy(one->data, data.data(), bytes);
        }
        completions.push_back({one->operation, true, data.size() > one->bytes ? EMSGSIZE : 0, tag,
                               word, data.size()});
        posted.erase(one);
        return true;
      }
    }
    return false;
  }
  // As a rank of a job sends it whose ranks all have the key of zeros.
  bool deliver_of_job(const FabricTag& tag, uint32_t word, std::span<const std::byte> data) {
    const PortPass shown = pass_of(PortKey{}, tag.sender);
    std::vector<std::byte> message(data.begin(), data.end());
    if (tag.kind != FabricKind::kBulk) {
      message.insert(message.begin(), shown.pass.begin(), shown.pass.end());
    }
    return deliver(tag.encode(), word ^ shown.mask, message);
  }
  void complete_send(const Sent& message, int error) {
    FabricCompletion completion;
    completion.operation = message.operation;
    completion.error = error;
    completions.push_back(completion);
  }

  struct Posted {
    std::byte* data;
    uint64_t bytes;
    uint64_t tag;
    uint64_t ignore;
    FabricOperation* operation;
  };
  Rank held_up = ~0u;  // takes nothing
  bool busy = false;
  int refusal = 0;  // of every send
  bool completes_sends = true;
  std::deque<Sent> sent;
  std::list<Posted> posted;
  std::deque<FabricCompletion> completions;

 private:
  std::string name_ = "script";
  Error failure_;
};

}  // namespace neuron::ccom

#endif
