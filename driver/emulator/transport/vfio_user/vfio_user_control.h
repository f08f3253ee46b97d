// SPDX-License-Identifier: Apache-2.0
// The control channel (control.proto) of a daemon that serves virtual machines: status, faults,
// reset and power of the chips.
//
// Concepts: the guest's driver owns the devices, so processes, claims and free memory are not known
// here and stay empty. A plan holds for the chips that exist; the next guest finds new ones, to
// which only the plan of the environment (NEURON_EMULATOR_FAULTS) is applied again. Callers:
// ControlServer's thread. Borrows the server. Fails: every packet has an answer, with an errno and
// a sentence.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_CONTROL_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_CONTROL_H

#include <cstdint>
#include <string>
#include <string_view>

#include "driver/emulator/transport/vfio_user/vfio_user_server.h"

namespace neuron::control {
class Request;
class Response;
class Status;
}  // namespace neuron::control

namespace neuron::transport {

class VfioUserControl {
 public:
  // `socket` is what operators name; the channel is beside it.
  VfioUserControl(VfioUserServer& server, std::string profile, std::string socket);

  // A packet in, a packet out.
  std::string answer(std::string_view packet);

 private:
  int act(const control::Request& request, control::Response& response, std::string& why);
  int inject(const std::string& text, std::string& why);
  int reset(unsigned function, uint32_t core_map, std::string& why);
  int check_function(unsigned function, std::string& why) const;
  void fill(control::Status& status);

  VfioUserServer& server_;
  const std::string profile_;
  const std::string socket_;
  const uint64_t started_;
};

}  // namespace neuron::transport

#endif
