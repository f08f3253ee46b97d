// SPDX-License-Identifier: Apache-2.0
// From the chip to this process: PCI function, module, device files, permission; or the daemon.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "tools/neuron-doctor/checks/check.h"

namespace neuron::doctor {
namespace {

bool in_group(unsigned gid) {
  std::vector<gid_t> groups(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
  const int got = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(0, got)));
  return getegid() == gid || std::find(groups.begin(), groups.end(), gid) != groups.end();
}

std::string identity_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return path + " cannot be looked at";
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", status.st_mode & 07777u);
  return path + " is " + user_name(status.st_uid) + ":" + group_name(status.st_gid) + " " + mode;
}

bool broken(const Access& access, Obstacle obstacle) { return access.obstacle == obstacle; }

void kernel_devices(const Host& host, const Access& access, Checks& checks) {
  const std::vector<std::string> functions = pci_functions(host.places);
  Check pci{"driver.pci", "Neuron PCI functions", Verdict::kPass, {}, {}, {}};
  pci.found = std::to_string(functions.size()) +
              (functions.size() == 1 ? " PCI function" : " PCI functions") + " of Neuron devices";
  const std::vector<std::string> files = device_files(host.places);
  if (functions.empty() && !files.empty()) {
    pci.verdict = Verdict::kSkip;
    pci.found += "; this is a container or a machine that does not show them";
  } else if (functions.empty()) {
    pci.verdict = Verdict::kFail;
    pci.expected = "at least one";
    pci.action = access.action;
  }
  checks.push_back(pci);

  Check module{"driver.module", "kernel module neuron", Verdict::kPass, {}, {}, {}};
  if (exists(host.places.sys + "/module/neuron")) {
    module.found = "the module neuron is loaded";
  } else if (broken(access, Obstacle::kNoHardware)) {
    module.found = "no module, and nothing for it to drive";
    module.verdict = Verdict::kSkip;
  } else {
    module.verdict = Verdict::kFail;
    module.found = "the module neuron is not loaded";
    module.expected = host.places.sys + "/module/neuron";
    module.action = broken(access, Obstacle::kNoModule)
                        ? access.action
                        : "modprobe neuron; if it is not found, install neuron-dkms";
  }
  checks.push_back(module);

  Check nodes{"driver.nodes", "device files", Verdict::kPass, {}, {}, {}};
  nodes.found =
      std::to_string(files.size()) + (files.size() == 1 ? " device file" : " device files");
  if (files.empty()) {
    const bool nothing =
        broken(access, Obstacle::kNoHardware) || broken(access, Obstacle::kNoModule);
    nodes.verdict = nothing ? Verdict::kSkip : Verdict::kFail;
    nodes.expected = host.places.devices + "/neuron0 and so on";
    nodes.action = access.action;
  } else if (!functions.empty() && functions.size() != files.size()) {
    nodes.verdict = Verdict::kWarn;
    nodes.expected = std::to_string(functions.size()) + ", one for each PCI function";
    nodes.action = "look at dmesg for why the others were not probed; in a container, pass them";
  }
  checks.push_back(nodes);

  Check permission{
      "driver.permission", "permission to open the devices", Verdict::kSkip, {}, {}, {}};
  if (files.empty()) {
    permission.found = "no device file to open";
  } else if (broken(access, Obstacle::kNone)) {
    permission.verdict = Verdict::kPass;
    permission.found = identity_of(files.front()) + "; " + user_name(geteuid()) + " may open it";
    struct stat status {};
    if (stat(files.front().c_str(), &status) == 0 && geteuid() != 0 &&
        (status.st_mode & 0006u) != 0 && !in_group(status.st_gid)) {
      permission.verdict = Verdict::kWarn;
      permission.found += ", as everybody may";
      permission.expected = "group neuron, mode 0660: whoever opens a device programs its DMA";
      permission.action = "install the udev rules";
    }
  } else {
    permission.verdict = Verdict::kFail;
    permission.found = access.found;
    permission.expected = "a device file that " + user_name(geteuid()) + " may open";
    permission.action = access.action;
  }
  checks.push_back(permission);
}

void emulated_devices(const Host& host, const Access& access, Checks& checks) {
  const bool shared = host.places.emulator.starts_with("unix:");
  checks.push_back({"driver.module",
                    "kernel module neuron",
                    Verdict::kSkip,
                    "NEURON_EMULATOR is set: the kernel is not asked",
                    {},
                    {}});
  Check emulator{"driver.emulator", "emulated devices", Verdict::kPass, {}, {}, {}};
  if (access.obstacle != Obstacle::kNone) {
    emulator.verdict = Verdict::kFail;
    emulator.found = access.found;
    emulator.expected = "a neuron-emulatord that answers";
    emulator.action = access.action;
  } else if (host.snapshot.devices.empty()) {
    emulator.verdict = Verdict::kFail;
    emulator.found =
        host.snapshot.error.empty() ? "there is no emulated device" : host.snapshot.error;
    emulator.expected = "an instance type that is emulated, or a daemon";
    emulator.action = "set NEURON_EMULATOR to one, for example trn1.2xlarge";
  } else {
    emulator.found = std::string(shared ? "a daemon answers: " : "within the process: ") +
                     std::to_string(host.snapshot.devices.size()) + " devices of " +
                     host.snapshot.instance.type;
  }
  checks.push_back(emulator);
}

}  // namespace

void check_driver(const Host& host, Checks& checks) {
  const Access access = look_for_devices(host.places);
  if (host.places.emulator.empty()) {
    kernel_devices(host, access, checks);
  } else {
    emulated_devices(host, access, checks);
  }
  Check present{"devices.present", "devices that answer", Verdict::kPass, {}, {}, {}};
  const size_t found = host.snapshot.devices.size();
  present.found = std::to_string(found) + (found == 1 ? " device" : " devices");
  if (found == 0) {
    // An obstacle has already failed above. Without one, a missing device is a failure of its own.
    present.verdict = access.obstacle == Obstacle::kNone && host.places.emulator.empty()
                          ? Verdict::kFail
                          : Verdict::kSkip;
    if (!host.snapshot.error.empty() && access.obstacle == Obstacle::kNone) {
      present.found += ": " + host.snapshot.error;
    }
    present.expected = "at least one";
    present.action = access.action.empty() ? "look at dmesg" : access.action;
  }
  checks.push_back(present);
}

}  // namespace neuron::doctor
