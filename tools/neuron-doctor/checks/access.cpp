// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-doctor/checks/access.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "driver/base/file_descriptor.h"
#include "driver/base/process_status.h"
#include "tools/common/exit_status.h"

namespace neuron::doctor {
namespace {

constexpr const char* kVendor = "0x1d0f";
// Inferentia, Trainium and what emulates them, by PCI device id.
struct Kind {
  const char* id;
  const char* chip;
  const char* versions;  // of the public module that serve it; null: all in use
};
constexpr Kind kKinds[] = {
    {"0x7064", "Inferentia1", "up to 2.24"}, {"0x7065", "Inferentia1", "up to 2.24"},
    {"0x7066", "Inferentia1", "up to 2.24"}, {"0x7067", "Inferentia1", "up to 2.24"},
    {"0x7164", "Trainium1", nullptr},        {"0x7264", "Inferentia2", nullptr},
    {"0x7364", "Trainium2", nullptr},        {"0x7564", "Trainium3", "from 2.25 on"},
    {"0x7565", "Trainium3", "from 2.25 on"}};

const Kind* kind_of(const std::string& id) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const Kind& kind) { return id == kind.id; });
  return found == std::end(kKinds) ? nullptr : found;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(opendir(folder.c_str()), &closedir);
  if (!list) return names;
  while (const dirent* entry = readdir(list.get())) {  // bounded: the folder ends
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Says which users may open the file, and how to become one of them.
Access refused(const std::string& path) {
  struct stat status {};
  std::string owner = "its owner";
  std::string group = "neuron";
  if (stat(path.c_str(), &status) == 0) {
    group = group_name(status.st_gid);
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", status.st_mode & 07777u);
    owner = user_name(status.st_uid) + ":" + group + " (" + mode + ")";
  }
  const std::string user = user_name(geteuid());
  Access access{Obstacle::kNoPermission,
                path + " belongs to " + owner + "; the user '" + user + "' may not open it", ""};
  const bool by_group = (status.st_mode & 0020u) != 0 && status.st_gid != 0;
  if (by_group) {
    access.action = "usermod -aG " + group + " " + user + ", then log in again; or run it as root";
  } else if (S_ISSOCK(status.st_mode)) {  // which no udev rule knows
    access.action = "start the daemon as '" + user +
                    "', or as a socket unit of systemd (neuron-emulatord@PROFILE.socket), which "
                    "the group neuron may open; or run it as root";
  } else {
    access.action =
        "install the udev rules (group neuron, 0660) and join that group; or run it as root";
  }
  return access;
}

// Looks for a daemon that listens but cannot answer because it was stopped (SIGSTOP).
Access look_for_stopped(int client, const std::string& path) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 1) return {};
  const std::string pid = std::to_string(peer.pid);
  const std::optional<base::ProcessStatus> status = base::process_status(peer.pid);
  if (!status || !status->is_stopped()) return {};
  return {Obstacle::kNoDaemon,
          "the daemon at " + path + " (pid " + pid + ") does not answer: it is stopped",
          "kill -CONT " + pid + " lets it go on"};
}

Access look_for_daemon(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return {Obstacle::kNoDaemon, "NEURON_EMULATOR names no socket: \"unix:" + path + "\"",
            "set NEURON_EMULATOR=unix:PATH, at most 107 characters"};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const base::FileDescriptor client(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!client) return {};
  if (connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return look_for_stopped(client.get(), path);
  }
  const std::string start =
      "start it: systemctl start neuron-emulatord@PROFILE.socket, or "
      "neuron-emulatord --socket " +
      path;
  switch (errno) {
    case EACCES:
    case EPERM:
      return refused(path);
    case ENOENT:
      return {Obstacle::kNoDaemon, "no daemon answers at " + path + ": there is no such socket",
              start};
    case ECONNREFUSED:
      if (struct stat status{}; ::stat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
        return {Obstacle::kNoDaemon, "no daemon answers at " + path + ": it is no socket", start};
      }
      return {Obstacle::kNoDaemon,
              "no daemon answers at " + path + ": the one that made the socket is gone", start};
    case EAGAIN:
      return {Obstacle::kNoDaemon, "the daemon at " + path + " does not accept connections in time",
              "look at its journal; if it hangs, restart it"};
    case EPROTOTYPE:
      return {};  // A socket of another kind: the library knows which.
    default:
      return {Obstacle::kNoDaemon, "no daemon answers at " + path + ": " + std::strerror(errno),
              start};
  }
}

}  // namespace

bool exists(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0;
}

Places places_of_environment() {
  const char* emulator = std::getenv("NEURON_EMULATOR");
  Places places;
  if (emulator != nullptr) places.emulator = emulator;
  return places;
}

std::string user_name(unsigned uid) {
  const passwd* entry = getpwuid(uid);
  return entry != nullptr ? entry->pw_name : std::to_string(uid);
}

std::string group_name(unsigned gid) {
  const group* entry = getgrgid(gid);
  return entry != nullptr ? entry->gr_name : std::to_string(gid);
}

std::vector<std::string> device_files(const Places& places) {
  std::vector<std::pair<int, std::string>> found;
  for (const std::string& name : names_in(places.devices)) {
    if (!name.starts_with("neuron") || name.size() < 7) continue;
    const std::string number = name.substr(6);
    if (number.size() > 4 || number.find_first_not_of("0123456789") != std::string::npos) continue;
    found.emplace_back(std::atoi(number.c_str()), places.devices + "/" + name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> files;
  for (auto& entry : found) files.push_back(std::move(entry.second));
  return files;
}

std::vector<std::string> pci_functions(const Places& places) {
  const std::string folder = places.sys + "/bus/pci/devices";
  std::vector<std::string> found;
  for (const std::string& name : names_in(folder)) {
    if (first_line(folder + "/" + name + "/vendor") != kVendor) continue;
    if (kind_of(first_line(folder + "/" + name + "/device")) != nullptr) found.push_back(name);
  }
  return found;
}

namespace {

// Whether a function is left alone by the module that is loaded: an older one does not know the
// chip, and neither it nor the kernel says so.
bool find_unclaimed(const Places& places, const std::vector<std::string>& functions,
                    Access& access) {
  for (const std::string& function : functions) {
    const std::string folder = places.sys + "/bus/pci/devices/" + function;
    if (exists(folder + "/driver")) continue;
    const Kind* kind = kind_of(first_line(folder + "/device"));
    if (kind == nullptr) continue;
    const std::string version = first_line(places.sys + "/module/neuron/version");
    access = {Obstacle::kNoNodes,
              "the module neuron" + (version.empty() ? "" : " " + version) +
                  " is loaded, but it has not taken PCI function " + function + " (" + kind->chip +
                  ", " + kind->id + ")",
              ""};
    access.action = kind->versions != nullptr
                        ? std::string("load a module that knows ") + kind->chip +
                              ": the public one does " + kind->versions +
                              "; if this one does, dmesg says why its probe failed"
                        : "look at dmesg for why the probe failed";
    return true;
  }
  return false;
}

}  // namespace

Access look_for_devices(const Places& places) {
  if (places.emulator.starts_with("unix:")) return look_for_daemon(places.emulator.substr(5));
  if (!places.emulator.empty()) return {};
  const std::vector<std::string> files = device_files(places);
  if (!files.empty()) {
    // Opened write-only: the driver then takes no process slot and does not wait for a reset.
    for (const std::string& file : files) {
      const base::FileDescriptor device(open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
      if (device) return {};
      if (errno == EACCES || errno == EPERM) return refused(file);
      if (errno == EBUSY) {
        return {Obstacle::kBusy, file + " is held by as many processes as the driver allows",
                "neuron-ls -a shows who; end one of them"};
      }
    }
    return {Obstacle::kNoNodes, files.front() + " cannot be opened: " + std::strerror(errno),
            "reload the module: modprobe -r neuron; modprobe neuron"};
  }
  const bool module = exists(places.sys + "/module/neuron");
  const std::vector<std::string> functions = pci_functions(places);
  if (!module && functions.empty()) {
    return {Obstacle::kNoHardware,
            "there is no Neuron device: no " + places.devices +
                "/neuron*, no such PCI function, no module",
            "use an instance that has one, or set NEURON_EMULATOR to an instance type (for "
            "example trn1.2xlarge) or to unix:PATH of a neuron-emulatord"};
  }
  if (!module) {
    return {Obstacle::kNoModule,
            "PCI function " + functions.front() +
                " is there, but the kernel module neuron is not loaded, so there is no " +
                places.devices + "/neuron0",
            "modprobe neuron; if it is not found, install neuron-dkms and the kernel's headers"};
  }
  Access unclaimed;
  if (find_unclaimed(places, functions, unclaimed)) return unclaimed;
  return {Obstacle::kNoNodes,
          "the module neuron is loaded, but there is no " + places.devices + "/neuron*",
          functions.empty() ? "the kernel sees no Neuron PCI function: look at dmesg"
                            : "in a container, pass the devices to it (--device /dev/neuron0); "
                              "else look at dmesg for why the probe failed"};
}

int exit_status(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kNoPermission:
      return tools::kNoPermission;
    case Obstacle::kBusy:
      return tools::kBusy;
    default:
      return tools::kFailed;
  }
}

int exit_status_of(const std::string& sentence) {
  if (sentence.find(" held by pid ") != sentence.npos) return tools::kBusy;
  const Access access = look_for_devices(places_of_environment());
  return access.obstacle == Obstacle::kNone ? tools::kFailed : exit_status(access.obstacle);
}

int explain_no_device(const char* program, const std::string& otherwise) {
  const Access access = look_for_devices(places_of_environment());
  const bool known = access.obstacle != Obstacle::kNone;
  std::fprintf(stderr, "%s: no device: %s\n", program,
               known ? (access.found + "; " + access.action).c_str() : otherwise.c_str());
  return known ? exit_status(access.obstacle) : tools::kFailed;
}

}  // namespace neuron::doctor
