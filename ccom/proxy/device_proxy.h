// SPDX-License-Identifier: Apache-2.0
// Carries the messages that programs of collective cores exchange with ranks of other instances.
//
// Concepts. A program has a list of such messages (ccom_device_message_t). Its CC core posts the
// number of each when it is due, and the proxy takes them in this order. A receive that is due is
// granted its place in device memory, a send leaves from there: nothing is copied on this side.
// When the bytes have arrived, or have been taken, the proxy adds 1 to the semaphore that the CC
// core waits for. A *pass* is one run through the list. The CC core cannot end a pass before all
// its messages are done, so a new pass never meets an old message.
// Model time. A message leaves when it is due and the rank's part of the NICs is free, takes its
// bytes at the rate of that part, and arrives a latency later. A second message of 8 bytes tells
// the receiver when. So times depend on the programs alone, not on the network that is used here.
// The end. A short message is sent, for its CC core, when it lies in this rank's queue. So a
// program may end, and its proxy, before its peers have all that it sent: the destructor waits
// until the network has taken that, for some seconds, as long as the job is usable. Callers: the
// runtime's proxy thread, one at a time. Owns: the port. Fails: with the sentence of the
// connection; then nothing moves any more.
#ifndef CCOM_PROXY_DEVICE_PROXY_H
#define CCOM_PROXY_DEVICE_PROXY_H

#include <ccom/ccom_device.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ccom/transport/network_port.h"

namespace neuron::ccom {

class DeviceProxy {
 public:
  // `usable`: whether the ranks still work together; asked in the destructor.
  DeviceProxy(
      std::unique_ptr<NetworkPort> port, const ccom_device_host_t& host,
      std::function<bool()> usable = [] { return true; });
  ~DeviceProxy();
  DeviceProxy(const DeviceProxy&) = delete;
  DeviceProxy& operator=(const DeviceProxy&) = delete;

  Result<void> add(uint32_t stream, const ccom_device_program_t& program);
  // Returns whether something happened.
  Result<bool> poll();
  // Messages are under way, or the port has not sent all.
  bool busy() const;

 private:
  // A message of a program, with the message that tells its time.
  struct Message {
    ccom_device_message_t what{};
    uint64_t number = 0;  // of its peer, direction, channel and collective
    std::byte* bytes = nullptr;
    uint64_t done_ps = 0;     // send: the NIC has taken all; receive: the place became free
    uint64_t arrival_ps = 0;  // what the sender tells the receiver
    bool given = false, timed = false;  // to the connection: the bytes, the time
  };
  struct Program {
    uint32_t stream = 0;
    uint32_t collectives = 0;
    uint64_t nic_latency_ps = 0;
    double nic_bytes_per_second = 0;
    std::vector<Message> messages;
    uint64_t pass = 0;
    uint64_t nic_free_ps = 0;
    uint32_t due = 0;                // messages of this pass so far
    std::deque<uint32_t> waiting;    // due, and not yet given to the connection
    std::deque<uint32_t> under_way;  // given to the connection
  };

  Result<bool> look(Program& program);
  Result<bool> give(Program& program);
  Result<bool> give_in_order(Program& program);
  Result<bool> finish(Program& program);
  Outcome give(const Program& program, Message& message);
  // kDone: the bytes and the time have been taken, or are there.
  Outcome ended(const Program& program, const Message& message, MessageId& data, MessageId& time);
  MessageId id_of(const Program& program, const Message& message) const;
  Error failure_of(uint32_t peer) const;
  void bring_the_rest();

  std::unique_ptr<NetworkPort> port_;
  const ccom_device_host_t host_;
  const std::function<bool()> usable_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<const void*> registered_;
  std::optional<Error> failure_;
};

}  // namespace neuron::ccom

#endif
