// SPDX-License-Identifier: Apache-2.0
//
// Finds what prevents this process from using a device. Reads only the file system; attaches
// nothing. Callers: neuron-ls when there is no device, neuron-doctor. One thread. Never blocks: the
// socket of a daemon is connected to without waiting, and closed at once. Cannot fail: an obstacle
// to the check is itself reported.
#ifndef TOOLS_NEURON_DOCTOR_CHECKS_ACCESS_H
#define TOOLS_NEURON_DOCTOR_CHECKS_ACCESS_H

#include <string>
#include <vector>

namespace neuron::doctor {

enum class Obstacle {
  kNone,
  kNoHardware,  // no PCI function, no module: a host without devices
  kNoModule,    // PCI functions, but no driver for them
  kNoNodes,     // the module is there, device files are not: a container, no udev, an older module
  kNoPermission,  // the action names the group that may open it
  kBusy,
  kNoDaemon,   // NEURON_EMULATOR=unix:PATH, but no daemon answers there
  kNoProfile,  // NEURON_EMULATOR names a type that the library refuses; only the library knows
};

struct Access {
  Obstacle obstacle = Obstacle::kNone;
  std::string found;   // a sentence without its full stop
  std::string action;  // what to do
};

// Where to look; tests give folders of their own.
struct Places {
  std::string devices = "/dev";
  std::string sys = "/sys";
  std::string emulator;  // value of NEURON_EMULATOR
};

Places places_of_environment();
Access look_for_devices(const Places& places);

// The device files that exist: "/dev/neuron0" ..., in order of their numbers.
std::vector<std::string> device_files(const Places& places);
// PCI functions of Neuron devices: "0000:00:1e.0".
std::vector<std::string> pci_functions(const Places& places);
bool exists(const std::string& path);
// "alice", or the number.
std::string user_name(unsigned uid);
std::string group_name(unsigned gid);
// The exit status of a program that found no device for this reason.
int exit_status(Obstacle obstacle);
// The exit status of a program that failed with this sentence of libnrt, which alone learns who
// holds the cores.
int exit_status_of(const std::string& sentence);
// Says on standard error why `program` finds no device here; `otherwise` if no obstacle is known.
// Returns the matching exit status.
int explain_no_device(const char* program, const std::string& otherwise);

}  // namespace neuron::doctor

#endif
