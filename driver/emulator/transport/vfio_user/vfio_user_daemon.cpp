// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_daemon.h"

#include <pthread.h>
#include <systemd/sd-daemon.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/transport/control/control_server.h"
#include "driver/emulator/transport/shared/listener.h"
#include "driver/emulator/transport/vfio_user/vfio_user_control.h"
#include "driver/emulator/transport/vfio_user/vfio_user_server.h"
#include "driver/profiles/profile.h"

namespace neuron::transport {
namespace {

constexpr unsigned kMaxRevision = 255;

int complain(const std::string& sentence) {
  std::fprintf(stderr, "neuron-emulatord: %s\n", sentence.c_str());
  return 1;
}

}  // namespace

int run_vfio_user(const std::string& profile_name, const VfioUserArguments& arguments) {
  std::string error;
  const profiles::Profile* profile = profiles::load_profile(profile_name, error);
  if (profile == nullptr) return complain(error);
  VfioUserOptions options;
  options.folder = arguments.folder;
  options.functions = arguments.functions != 0 ? arguments.functions : profile->chips;
  options.pci_device = profile->pci_device;
  options.revision = arguments.revision <= kMaxRevision ? static_cast<uint8_t>(arguments.revision)
                                                        : profile->revision;
  options.map_level = static_cast<MapLevel>(arguments.map_level);
  options.hbm_bytes_each = arguments.hbm_bytes_each;
  options.log = [](const std::string& sentence) {
    std::fprintf(stderr, "neuron-emulatord: %s\n", sentence.c_str());
  };
  // A plan (chip/fault_plan.h) is armed anew in each chip that a client gets.
  std::vector<chip::FaultSpec> plan;
  if (const char* path = std::getenv("NEURON_EMULATOR_FAULTS"); path != nullptr && *path != 0) {
    if (!chip::read_fault_plan(path, plan, error)) {
      return complain("NEURON_EMULATOR_FAULTS: " + error);
    }
    options.prepare = [&plan](unsigned, chip::Chip& chip) {
      for (const chip::FaultSpec& spec : plan) (void)chip.faults().arm(spec);
    };
  }
  // Before the first thread, so that all of them leave these signals to the wait below.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  auto server = VfioUserServer::create(options, error);
  if (server == nullptr) return complain(error);
  const std::string name = options.folder + "/nd";
  const auto listener = Listener::open(control_path(name), "control channel", error);
  if (listener == nullptr) return complain(error);
  VfioUserControl operators(*server, profile->name, name);
  const auto control = ControlServer::start(
      listener->release(),
      [&operators](std::string_view packet) { return operators.answer(packet); }, error);
  if (control == nullptr) return complain(error);
  sd_notifyf(0, "READY=1\nSTATUS=%u functions of %s in %s", server->functions(), profile->name,
             options.folder.c_str());
  const timespec while_idle{60, 0};
  // Bounded: by the signal.
  while (sigtimedwait(&ends, nullptr, &while_idle) < 0 && (errno == EAGAIN || errno == EINTR)) {
  }
  sd_notify(0, "STOPPING=1");
  if (arguments.statistics) std::fputs(server->statistics().c_str(), stdout);
  server->stop();
  return 0;
}

}  // namespace neuron::transport
