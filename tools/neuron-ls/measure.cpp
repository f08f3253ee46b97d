// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-ls/measure.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>

#include "driver/base/file_descriptor.h"

namespace neuron::ls {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

// The program beside this one: both are in one package.
std::string program_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return "nccom-test";
  const std::string self(path, static_cast<size_t>(length));
  return self.substr(0, self.rfind('/') + 1) + "nccom-test";
}

// Both ends of every link once, and the core that stands for each.
struct Ends {
  unsigned device_a = 0, device_b = 0, core_a = 0, core_b = 0;
};

unsigned first_core(const telemetry::Device& device) {
  unsigned first = UINT_MAX;
  for (const telemetry::Core& core : device.cores) first = std::min(first, core.logical_core);
  return first;
}

std::vector<Ends> links_of(const telemetry::Snapshot& snapshot) {
  std::vector<Ends> links;
  for (const telemetry::Device& a : snapshot.devices) {
    for (const telemetry::Device& b : snapshot.devices) {
      if (a.index >= b.index || a.cores.empty() || b.cores.empty()) continue;
      const bool linked = std::any_of(a.links.begin(), a.links.end(), [&](const auto& link) {
        return link.device == b.index && link.up;
      });
      if (linked) links.push_back({a.index, b.index, first_core(a), first_core(b)});
    }
  }
  return links;
}

std::string pairs_json(const std::vector<Ends>& links) {
  std::string text;
  for (const Ends& link : links) {
    const std::string a = std::to_string(link.core_a), b = std::to_string(link.core_b);
    text += std::string(text.empty() ? "" : ",") + "[[" + a + "," + b + "],[" + b + "," + a + "]]";
  }
  return "{\"src_target_pairs\": [" + text + "]}";
}

// A file that only the child finds: no name, no trace.
base::FileDescriptor memory_file(const std::string& text) {
  base::FileDescriptor file(memfd_create("pairs", MFD_CLOEXEC));
  if (file && write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return base::FileDescriptor();
  }
  return file;
}

// What the child writes, until it ends or the time is over. False: the time was over.
bool collect(int from, Clock::time_point end, std::string& text) {
  char piece[65536];
  for (;;) {  // bounded: by `end`
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{from, POLLIN, 0};
    const int found = poll(&ready, 1, static_cast<int>(std::min<long>(left.count(), 1000)));
    if (found < 0 && errno != EINTR) return true;
    if (found <= 0) continue;
    const ssize_t got = read(from, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text.append(piece, static_cast<size_t>(got));
  }
}

// A row for each link, in order: the slower end says how long the bytes were on their way.
bool read_rows(const std::string& text, const std::vector<Ends>& links,
               std::vector<Measured>& measured) {
  boost::system::error_code wrong;
  const json::value whole = json::parse(text, wrong);
  if (wrong || !whole.is_object()) return false;
  const json::value* rows = whole.get_object().if_contains("results");
  if (rows == nullptr || !rows->is_array() || rows->get_array().size() != links.size())
    return false;
  for (size_t i = 0; i < links.size(); ++i) {
    const json::object* row = rows->get_array()[i].if_object();
    const json::value* bytes = row ? row->if_contains("size(B)") : nullptr;
    const json::value* slowest = row ? row->if_contains("slowest_rank") : nullptr;
    const json::object* rank = slowest ? slowest->if_object() : nullptr;
    const json::value* time = rank ? rank->if_contains("time:avg(us)") : nullptr;
    if (!bytes || !time || !bytes->is_number() || !time->is_number()) return false;
    const double seconds = time->to_number<double>() / 1e6;
    if (seconds <= 0) return false;
    const double rate = bytes->to_number<double>() / seconds;
    measured.push_back({links[i].device_a, links[i].device_b, rate});
    measured.push_back({links[i].device_b, links[i].device_a, rate});
  }
  return true;
}

}  // namespace

bool measure_links(const telemetry::Snapshot& snapshot, unsigned seconds,
                   std::vector<Measured>& measured, std::string& error) {
  const std::vector<Ends> links = links_of(snapshot);
  if (links.empty()) return true;
  unsigned last = 0;
  for (const Ends& link : links) last = std::max({last, link.core_a, link.core_b});
  const std::string program = program_path();
  const std::string ranks = std::to_string(last + 1);
  const base::FileDescriptor pairs = memory_file(pairs_json(links));
  if (!pairs) {
    error = std::string("no memory for the list of links: ") + std::strerror(errno);
    return false;
  }
  const std::string pairs_path =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(pairs.get());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    error = std::string("no pipe to nccom-test: ") + std::strerror(errno);
    return false;
  }
  base::FileDescriptor from(ends[0]), to(ends[1]);
  // Everything that allocates comes before the fork.
  const char* const arguments[] = {program.c_str(),
                                   "permute",
                                   "-r",
                                   ranks.c_str(),
                                   "-b",
                                   "4M",
                                   "-e",
                                   "4M",
                                   "-n",
                                   "2",
                                   "-w",
                                   "1",
                                   "--backend",
                                   "device",
                                   "--non-interactive",
                                   "--custom-src-target-pairs",
                                   pairs_path.c_str(),
                                   "--json",
                                   "-",
                                   nullptr};
  unsetenv("NEURON_RT_VISIBLE_CORES");
  const pid_t child = fork();
  if (child < 0) {
    error = std::string("nccom-test cannot be started: ") + std::strerror(errno);
    return false;
  }
  if (child == 0) {
    dup2(to.get(), STDOUT_FILENO);
    execv(arguments[0], const_cast<char* const*>(arguments));
    _exit(127);
  }
  to = base::FileDescriptor();
  std::string text;
  const bool in_time = collect(from.get(), Clock::now() + std::chrono::seconds(seconds), text);
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    error = "nccom-test did not end within " + std::to_string(seconds) + " s";
    return false;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    error = program + " cannot be started; it belongs to the same package as this program";
    return false;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !read_rows(text, links, measured)) {
    error = "nccom-test could not measure the links; its sentence is above";
    return false;
  }
  return true;
}

}  // namespace neuron::ls
