// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/control/control_handler.h"

#include <unistd.h>

#include <cerrno>

#include "driver/base/pci_address.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/holder.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/transport/control/control.pb.h"

namespace neuron::transport {
namespace {

int reset(service::Instance& instance, const control::ResetCommand& command) {
  uint32_t map = 0;
  for (const uint32_t core : command.cores()) {
    if (core >= 32) {
      return service::fail(-EINVAL, "core %u does not exist; a chip has %u", core,
                           instance.profile().cores);
    }
    map |= 1u << core;
  }
  if (command.has_device()) return instance.faults().reset(command.device(), map);
  int result = 0;
  for (unsigned i = 0; i < instance.device_count(); ++i) {
    if (int error = instance.faults().reset(i, map)) result = error;
  }
  return result;
}

service::Link link_of(const control::LinkCommand& command) {
  service::Link link{{command.a()}, {command.b()}};
  if (command.has_a_node()) link.a.node = command.a_node();
  if (command.has_b_node()) link.b.node = command.b_node();
  return link;
}

}  // namespace

ControlHandler::ControlHandler(service::Instance& instance, std::string socket_path,
                               std::function<unsigned()> connections)
    : instance_(instance),
      socket_path_(std::move(socket_path)),
      connections_(std::move(connections)),
      started_(service::now_in_seconds()) {}

std::string ControlHandler::answer(std::string_view packet) {
  control::Request request;
  control::Response response;
  if (packet.size() > kMostControlBytes ||
      !request.ParseFromArray(packet.data(), static_cast<int>(packet.size()))) {
    response.set_error(EINVAL);
    response.set_message("the packet of " + std::to_string(packet.size()) +
                         " bytes is no request of the control channel");
  } else {
    answer(request, response);
  }
  response.set_version(NEURON_PROJECT_VERSION);
  std::string bytes = response.SerializeAsString();
  if (bytes.size() <= kMostControlBytes) return bytes;
  response.Clear();
  response.set_version(NEURON_PROJECT_VERSION);
  response.set_error(EMSGSIZE);
  response.set_message("the answer has " + std::to_string(bytes.size()) + " bytes, at most " +
                       std::to_string(kMostControlBytes) + " fit a packet; clear some faults");
  return response.SerializeAsString();
}

void ControlHandler::answer(const control::Request& request, control::Response& response) {
  int error = 0;
  switch (request.command_case()) {
    case control::Request::kStatus:
      fill(*response.mutable_status());
      break;
    case control::Request::kInject:
      error = instance_.faults().inject(request.inject().plan());
      break;
    case control::Request::kClear:
      instance_.faults().clear();
      break;
    case control::Request::kReset:
      error = reset(instance_, request.reset());
      break;
    case control::Request::kLink:
      error = instance_.faults().set_link(link_of(request.link()), request.link().up());
      break;
    case control::Request::kPower:
      error = instance_.faults().set_power(request.power().device(), request.power().on());
      break;
    case control::Request::kWrites:
      error = service::fail(-ENOTSUP,
                            "only the functions of virtual machines record what they write; these "
                            "devices are shared by processes");
      break;
    case control::Request::COMMAND_NOT_SET:
      error = service::fail(-EINVAL,
                            "the request holds no command that this daemon (%s) knows; use the "
                            "neuron-emulatorctl of its version",
                            NEURON_PROJECT_VERSION);
      break;
  }
  if (error == 0) return;
  response.set_error(-error);
  response.set_message(service::last_error());
}

void ControlHandler::fill(control::Status& status) {
  status.set_profile(instance_.profile().name);
  status.set_version(NEURON_PROJECT_VERSION);
  status.set_pid(static_cast<uint32_t>(::getpid()));
  status.set_started(started_);
  status.set_socket(socket_path_);
  status.set_connections(connections_ ? connections_() : 0);
  for (unsigned i = 0; i < instance_.device_count(); ++i) fill_device(status, i);
  fill_processes(status);
  for (const auto& [a, b] : instance_.faults().links_down()) {
    control::Link& link = *status.add_links_down();
    link.set_a(a.device);
    link.set_b(b.device);
    if (a.node) link.set_a_node(*a.node);
    if (b.node) link.set_b_node(*b.node);
  }
}

void ControlHandler::fill_device(control::Status& status, unsigned index) {
  const profiles::Profile& profile = instance_.profile();
  const profiles::ChipPlace& place = profile.places[index];
  control::Device& entry = *status.add_devices();
  entry.set_index(index);
  entry.set_address(base::pci_address(place.domain, place.bus, place.slot, place.function));
  for (const std::string& line : instance_.faults().waiting(index)) entry.add_faults(line);

  service::Device* device = instance_.device_if_probed(index);
  const chip::FaultStatus faults = device ? device->chip().faults().status() : chip::FaultStatus{};
  entry.set_state(!device ? "not opened" : faults.off ? "off" : "ready");
  for (const std::string& line : faults.armed) entry.add_faults(line);
  entry.set_sram_corrected(faults.corrected[0]);
  entry.set_sram_uncorrected(faults.uncorrected[0]);
  entry.set_dma_errors(faults.dma_errors);
  entry.set_bad_hbm_bytes(faults.bad_bytes);
  for (unsigned i = 0; i < profile.cores; ++i) {
    control::Core& core = *entry.add_cores();
    core.set_index(i);
    core.set_host_index(index * profile.cores + i);
    const unsigned hung = i < faults.hung.size() ? faults.hung[i] : 0;
    for (unsigned engine = 0; engine < 8; ++engine) {
      if (hung >> engine & 1) core.add_hung_engines(chip::engine_label(engine));
    }
    {
      const std::lock_guard lock(instance_.claims_mutex);
      if (const nd_claim* claim = nd_claims_at(&instance_.claims, core.host_index())) {
        core.set_pid(claim->owner);
        core.set_command(claim->who.command);
        core.set_since(claim->who.since);
      }
    }
    if (device) {
      const std::lock_guard lock(device->mutex);
      core.set_resets(device->core_state[i].resets);
    }
  }
  for (unsigned i = 0; i < profile.hbm_stacks; ++i) {
    control::Hbm& hbm = *entry.add_hbm();
    hbm.set_bytes(profile.hbm_stack_bytes);
    hbm.set_free(profile.hbm_stack_bytes);
    hbm.set_largest_free(profile.hbm_stack_bytes);
    if (!device || i + 1 >= faults.corrected.size()) continue;
    hbm.set_free(device->memory().free_bytes(i));
    hbm.set_largest_free(device->memory().largest_free(i));
    hbm.set_retired(device->memory().retired_bytes(i));
    hbm.set_corrected(faults.corrected[i + 1]);
    hbm.set_uncorrected(faults.uncorrected[i + 1]);
  }
}

void ControlHandler::fill_processes(control::Status& status) {
  for (const service::Instance::SessionInfo& session : instance_.sessions()) {
    control::Process* entry = nullptr;
    for (control::Process& known : *status.mutable_processes()) {
      if (known.pid() == session.pid && known.device() == session.device) entry = &known;
    }
    if (!entry) {
      entry = status.add_processes();
      entry->set_pid(session.pid);
      entry->set_device(session.device);
      entry->set_command(session.who.command);
      entry->set_since(session.who.since);
      entry->set_control_only(true);
    }
    if (session.restricted) continue;
    entry->set_control_only(false);
    uint64_t host = 0;
    uint64_t bytes = 0;
    if (service::Device* device = instance_.device_if_probed(session.device)) {
      device->memory().usage(session.pid, &host, &bytes);
    }
    entry->set_host_bytes(host);
    entry->set_device_bytes(bytes);
  }
  for (control::Device& device : *status.mutable_devices()) {
    uint64_t host = 0;
    for (const control::Process& process : status.processes()) {
      if (process.device() == device.index()) host += process.host_bytes();
    }
    device.set_host_bytes(host);
  }
}

}  // namespace neuron::transport
