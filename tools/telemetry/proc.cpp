// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/neff/text.h"
#include "tools/telemetry/lines.h"

namespace neuron::telemetry {
namespace {

// Words of a line, as many as there are.
std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  while (!line.empty()) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == line.npos) break;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    found.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return found;
}

uint64_t ticks_to_us(uint64_t ticks) {
  static const auto per_second = static_cast<uint64_t>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  return ticks * 1'000'000 / per_second;
}

uint64_t boot_time() {
  static const uint64_t seconds = [] {
    uint64_t found = 0;
    each_line(read_file("/proc/stat"), [&](std::string_view line) {
      if (line.starts_with("btime ")) found = number(line.substr(6));
    });
    return found;
  }();
  return seconds;
}

std::string user_name(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  char buffer[4096];
  if (::getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) != 0 || found == nullptr) {
    return std::to_string(uid);
  }
  return presentable(found->pw_name);
}

bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

// A value of the environment block of a process; "" if this user may not read it.
std::string value_of(const std::string& environment, std::string_view name) {
  for (size_t at = 0; at < environment.size();) {
    const size_t end = std::min(environment.find('\0', at), environment.size());
    const std::string_view entry(environment.data() + at, end - at);
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return presentable(std::string(entry.substr(name.size() + 1)));
    }
    at = end + 1;
  }
  return "";
}

void read_statistics(const std::string& folder, Process& process) {
  const std::string text = read_file(folder + "/stat");
  // The command in parentheses may hold anything, also spaces and parentheses.
  const size_t behind = text.rfind(')');
  if (behind == text.npos) return;
  const std::vector<std::string_view> fields = words(std::string_view(text).substr(behind + 1));
  constexpr size_t kUser = 11, kSystem = 12, kStart = 19;  // counted from the state
  if (fields.size() <= kStart) return;
  process.user_us = ticks_to_us(number(fields[kUser]));
  process.system_us = ticks_to_us(number(fields[kSystem]));
  process.started = std::chrono::system_clock::time_point(std::chrono::seconds(boot_time())) +
                    std::chrono::microseconds(ticks_to_us(number(fields[kStart])));
}

ProcessorTimes times_of(std::string_view line) {
  const std::vector<std::string_view> fields = words(line);
  const auto at = [&](size_t i) { return i < fields.size() ? ticks_to_us(number(fields[i])) : 0; };
  return {at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
}

}  // namespace

std::string read_file(const std::string& path, size_t limit) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return "";
  std::string text;
  char buffer[8192];
  while (text.size() < limit) {  // bounded: by the limit
    const ssize_t length = ::read(file, buffer, std::min(sizeof(buffer), limit - text.size()));
    if (length <= 0) break;
    text.append(buffer, static_cast<size_t>(length));
  }
  ::close(file);
  return text;
}

std::string first_line(const std::string& path) {
  const std::string text = read_file(path, 4096);
  return text.substr(0, text.find('\n'));
}

std::string presentable(std::string text) {
  const bool utf8 = neff::is_utf8(text);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) c = ' ';
    if (byte == 0x7F || (byte >= 0x80 && !utf8)) c = '?';
  }
  return text;
}

void find_container(std::string_view cgroup, Process& process) {
  constexpr size_t kIdentifier = 64, kPod = 36;
  each_line(cgroup, [&](std::string_view line) {
    while (!line.empty()) {
      const size_t end = std::min(line.find('/'), line.size());
      std::string_view part = line.substr(0, end);
      line.remove_prefix(std::min(end + 1, line.size()));
      if (part.ends_with(".scope") || part.ends_with(".slice")) {
        part.remove_suffix(std::strlen(".slice"));
      }
      const size_t pod = part.rfind("pod");
      if (pod != part.npos && part.size() - pod == 3 + kPod) {
        std::string uid(part.substr(pod + 3));
        std::replace(uid.begin(), uid.end(), '_', '-');
        if (uid.find_first_not_of("0123456789abcdef-") == uid.npos) process.pod_uid = uid;
      }
      if (part.size() >= kIdentifier && is_hexadecimal(part.substr(part.size() - kIdentifier))) {
        process.container_id = part.substr(part.size() - kIdentifier);
      }
    }
  });
}

bool describe(Process& process) {
  const std::string folder = "/proc/" + std::to_string(process.pid);
  struct stat status;
  if (::stat(folder.c_str(), &status) != 0) return false;
  process.user = user_name(status.st_uid);
  std::string command = read_file(folder + "/cmdline");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  // A kernel thread, or a process that is ending, has no command line.
  if (command.empty()) command = first_line(folder + "/comm");
  process.command = presentable(std::move(command));
  read_statistics(folder, process);
  find_container(read_file(folder + "/cgroup"), process);
  if (process.container_id.empty() && process.pod_uid.empty()) return true;
  const std::string environment = read_file(folder + "/environ");
  process.pod_namespace = value_of(environment, "POD_NAMESPACE");
  process.container_name = value_of(environment, "CONTAINER_NAME");
  process.pod_name = value_of(environment, "POD_NAME");
  if (process.pod_name.empty() && !process.pod_uid.empty()) {
    process.pod_name = value_of(environment, "HOSTNAME");
  }
  return true;
}

HostState read_host_state() {
  HostState host;
  each_line(read_file("/proc/stat", 16u << 20), [&](std::string_view line) {
    if (line.starts_with("cpu ")) {
      host.all = times_of(line);
    } else if (line.starts_with("cpu")) {
      host.processors.push_back(times_of(line));
    } else if (line.starts_with("ctxt ")) {
      host.context_switches = number(line.substr(5));
    }
  });
  uint64_t available = 0, swap_free = 0;
  each_line(read_file("/proc/meminfo"), [&](std::string_view line) {
    const std::vector<std::string_view> fields = words(line);
    if (fields.size() < 2) return;
    const uint64_t bytes = number(fields[1]) * 1024;
    if (fields[0] == "MemTotal:") host.memory_total = bytes;
    if (fields[0] == "MemAvailable:") available = bytes;
    if (fields[0] == "SwapTotal:") host.swap_total = bytes;
    if (fields[0] == "SwapFree:") swap_free = bytes;
  });
  host.memory_used = host.memory_total - std::min(available, host.memory_total);
  host.swap_used = host.swap_total - std::min(swap_free, host.swap_total);
  return host;
}

Instance read_instance(bool emulated) {
  Instance instance;
  if (emulated) return instance;
  const std::string dmi = "/sys/devices/virtual/dmi/id/";
  instance.type = presentable(first_line(dmi + "product_name"));
  instance.id = presentable(first_line(dmi + "board_asset_tag"));
  if (instance.id.empty()) {
    instance.error = "the firmware of this host does not tell its instance id (" + dmi +
                     "board_asset_tag cannot be read or is empty)";
  }
  return instance;
}

std::vector<NetworkDevice> read_network() {
  std::vector<NetworkDevice> found;
  const std::string folder = "/sys/class/infiniband";
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) return found;
  while (const dirent* entry = ::readdir(entries)) {
    if (entry->d_name[0] == '.') continue;
    NetworkDevice device;
    device.name = entry->d_name;
    const std::string place = folder + "/" + device.name + "/device";
    if (char* real = ::realpath(place.c_str(), nullptr)) {
      const std::string path = real;
      device.bdf = path.substr(path.rfind('/') + 1);
      std::free(real);
    }
    const std::string node = first_line(place + "/numa_node");
    if (!node.empty()) device.numa_node = std::atoi(node.c_str());
    found.push_back(std::move(device));
  }
  ::closedir(entries);
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

void read_place(const std::string& bdf, int& numa_node, std::string& cpu_affinity) {
  const std::string folder = "/sys/bus/pci/devices/" + bdf;
  const std::string node = first_line(folder + "/numa_node");
  if (!node.empty()) numa_node = std::atoi(node.c_str());
  cpu_affinity = first_line(folder + "/local_cpulist");
}

}  // namespace neuron::telemetry
