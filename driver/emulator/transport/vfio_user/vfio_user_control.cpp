// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_control.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/transport/control/control.pb.h"
#include "driver/emulator/transport/control/control_handler.h"

namespace neuron::transport {
namespace {

constexpr unsigned kEngineLabels = 8;
// Of one answer about writes. The socket of a user takes packets of some 200 KiB.
constexpr size_t kMostWritesBytes = size_t{128} << 10;

void fill_device(control::Device& entry, unsigned index, chip::Chip& chip) {
  const chip::FaultStatus faults = chip.faults().status();
  entry.set_index(index);
  entry.set_state(faults.off ? "off" : "ready");
  for (const std::string& line : faults.armed) entry.add_faults(line);
  entry.set_sram_corrected(faults.corrected[0]);
  entry.set_sram_uncorrected(faults.uncorrected[0]);
  entry.set_dma_errors(faults.dma_errors);
  entry.set_bad_hbm_bytes(faults.bad_bytes);
  for (unsigned i = 0; i < chip.config().cores; ++i) {
    control::Core& core = *entry.add_cores();
    core.set_index(i);
    core.set_host_index(index * chip.config().cores + i);
    const unsigned hung = i < faults.hung.size() ? faults.hung[i] : 0;
    for (unsigned engine = 0; engine < kEngineLabels; ++engine) {
      if ((hung >> engine & 1) != 0) core.add_hung_engines(chip::engine_label(engine));
    }
  }
  // Only the guest knows its allocations; this daemon knows which memory it has never written.
  const uint64_t written = chip.hbm().resident_bytes() / chip.hbm().stacks();
  const uint64_t bytes = chip.hbm().stack_bytes();
  for (unsigned i = 0; i < chip.hbm().stacks() && i + 1 < faults.corrected.size(); ++i) {
    control::Hbm& hbm = *entry.add_hbm();
    hbm.set_bytes(bytes);
    hbm.set_free(bytes - std::min(bytes, written));
    hbm.set_largest_free(hbm.free());
    hbm.set_corrected(faults.corrected[i + 1]);
    hbm.set_uncorrected(faults.uncorrected[i + 1]);
  }
}

void fill_writes(control::Response& response, const std::vector<std::string>& lines, size_t skip) {
  const size_t end = lines.size() - std::min(skip, lines.size());
  size_t begin = end;
  size_t bytes = 0;
  while (begin > 0 && bytes + lines[begin - 1].size() <= kMostWritesBytes) {
    bytes += lines[--begin].size();
  }
  for (size_t i = begin; i < end; ++i) response.add_writes(lines[i]);
  response.set_writes_left(static_cast<uint32_t>(begin));
}

}  // namespace

VfioUserControl::VfioUserControl(VfioUserServer& server, std::string profile, std::string socket)
    : server_(server),
      profile_(std::move(profile)),
      socket_(std::move(socket)),
      started_(static_cast<uint64_t>(time(nullptr))) {}

std::string VfioUserControl::answer(std::string_view packet) {
  control::Request request;
  control::Response response;
  std::string why;
  int error = 0;
  if (packet.size() > kMostControlBytes ||
      !request.ParseFromArray(packet.data(), static_cast<int>(packet.size()))) {
    error = EINVAL;
    why = "the packet of " + std::to_string(packet.size()) +
          " bytes is no request of the control channel";
  } else {
    error = act(request, response, why);
  }
  response.set_error(error);
  response.set_message(why);
  response.set_version(NEURON_PROJECT_VERSION);
  std::string bytes = response.SerializeAsString();
  if (bytes.size() <= kMostControlBytes) return bytes;
  response.Clear();
  response.set_version(NEURON_PROJECT_VERSION);
  response.set_error(EMSGSIZE);
  response.set_message("the answer has " + std::to_string(bytes.size()) +
                       " bytes, which no packet holds; clear some faults");
  return response.SerializeAsString();
}

int VfioUserControl::act(const control::Request& request, control::Response& response,
                         std::string& why) {
  switch (request.command_case()) {
    case control::Request::kStatus:
      fill(*response.mutable_status());
      return 0;
    case control::Request::kInject:
      return inject(request.inject().plan(), why);
    case control::Request::kClear:
      for (unsigned i = 0; i < server_.functions(); ++i) {
        server_.with_chip(i, [](chip::Chip& chip) { chip.faults().clear(); });
      }
      return 0;
    case control::Request::kReset: {
      uint32_t map = 0;
      for (const uint32_t core : request.reset().cores()) map |= core < 32 ? 1u << core : 1u << 31;
      if (request.reset().has_device()) return reset(request.reset().device(), map, why);
      for (unsigned i = 0; i < server_.functions(); ++i) {
        if (const int error = reset(i, map, why); error != 0) return error;
      }
      return 0;
    }
    case control::Request::kPower: {
      const unsigned function = request.power().device();
      if (const int error = check_function(function, why); error != 0) return error;
      const bool on = request.power().on();
      server_.with_chip(function, [on](chip::Chip& chip) { chip.set_power(on); });
      return 0;
    }
    case control::Request::kLink:
      why = "chips in a virtual machine have no links";
      return ENOTSUP;
    case control::Request::kWrites: {
      const unsigned function = request.writes().device();
      if (const int error = check_function(function, why); error != 0) return error;
      fill_writes(response, server_.host_writes(function), request.writes().skip());
      return 0;
    }
    case control::Request::COMMAND_NOT_SET:
      break;
  }
  why = std::string("the request holds no command that this daemon (") + NEURON_PROJECT_VERSION +
        ") knows; use the neuron-emulatorctl of its version";
  return EINVAL;
}

int VfioUserControl::check_function(unsigned function, std::string& why) const {
  if (function < server_.functions()) return 0;
  why = "there is no function " + std::to_string(function) + "; the last is " +
        std::to_string(server_.functions() - 1);
  return ENODEV;
}

int VfioUserControl::inject(const std::string& text, std::string& why) {
  std::vector<chip::FaultSpec> plan;
  if (!chip::parse_fault_plan(text, plan, why)) return EINVAL;
  for (const chip::FaultSpec& spec : plan) {  // all or nothing
    if (spec.at == chip::FaultPoint::kLink) {
      why = "chips in a virtual machine have no links that could fail";
      return ENOTSUP;
    }
    if (spec.chip == chip::FaultSpec::kAny) continue;
    if (const int error = check_function(static_cast<unsigned>(spec.chip), why); error != 0) {
      return error;
    }
  }
  for (unsigned i = 0; i < server_.functions(); ++i) {
    server_.with_chip(i, [&plan](chip::Chip& chip) {
      for (const chip::FaultSpec& spec : plan) (void)chip.faults().arm(spec);  // if it is its own
    });
  }
  return 0;
}

int VfioUserControl::reset(unsigned function, uint32_t core_map, std::string& why) {
  if (const int error = check_function(function, why); error != 0) return error;
  int error = 0;
  server_.with_chip(function, [&](chip::Chip& chip) {
    const unsigned cores = chip.config().cores;
    if (core_map >> cores != 0) {
      why = "function " + std::to_string(function) + " has cores 0 to " +
            std::to_string(cores - 1) + ", the reset names another";
      error = EINVAL;
    } else {
      chip.reset(core_map);
    }
  });
  return error;
}

void VfioUserControl::fill(control::Status& status) {
  status.set_profile(profile_);
  status.set_version(NEURON_PROJECT_VERSION);
  status.set_pid(static_cast<uint32_t>(getpid()));
  status.set_started(started_);
  status.set_socket(socket_);
  status.set_connections(server_.connections());
  for (unsigned i = 0; i < server_.functions(); ++i) {
    server_.with_chip(i, [&](chip::Chip& chip) { fill_device(*status.add_devices(), i, chip); });
  }
}

}  // namespace neuron::transport
