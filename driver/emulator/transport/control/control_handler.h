// SPDX-License-Identifier: Apache-2.0
// Answers to the messages of the control channel (control.proto).
//
// Callers: ControlServer, one thread; tests. Borrows the instance. Fails: every packet has an
// answer; for a request that cannot be read or done it is an errno value and a sentence.
#ifndef DRIVER_EMULATOR_TRANSPORT_CONTROL_CONTROL_HANDLER_H
#define DRIVER_EMULATOR_TRANSPORT_CONTROL_CONTROL_HANDLER_H

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace neuron::service {
class Instance;
}
namespace neuron::control {
class Request;
class Response;
class Status;
}  // namespace neuron::control

namespace neuron::transport {

// Largest packet, in either direction.
inline constexpr size_t kMostControlBytes = size_t{1} << 20;

class ControlHandler {
 public:
  // `connections` counts the clients of the shared device.
  ControlHandler(service::Instance& instance, std::string socket_path,
                 std::function<unsigned()> connections);

  // A packet in, a packet out.
  std::string answer(std::string_view packet);
  void answer(const control::Request& request, control::Response& response);

 private:
  void fill(control::Status& status);
  void fill_device(control::Status& status, unsigned index);
  void fill_processes(control::Status& status);

  service::Instance& instance_;
  const std::string socket_path_;
  const std::function<unsigned()> connections_;
  const uint64_t started_;
};

}  // namespace neuron::transport

#endif
