// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-ls/measure.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>

#include "driver/base/file_descriptor.h"
#include "tools/common/child_process.h"

namespace neuron::ls {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

// Both ends of a link, each link once, and the core that stands for each end.
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

// A file without a name, which only the child can open.
base::FileDescriptor memory_file(const std::string& text) {
  base::FileDescriptor file(memfd_create("pairs", MFD_CLOEXEC));
  if (file && write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return base::FileDescriptor();
  }
  return file;
}

// Reads a row for each link, in order. The slower end gives the time of the transfer.
bool read_rows(const std::string& text, const std::vector<Ends>& links,
               std::vector<Measured>& measured) {
  boost::system::error_code wrong;
  const json::value whole = json::parse(text, wrong);
  if (wrong || !whole.is_object()) return false;
  const json::value* rows = whole.get_object().if_contains("results");
  if (rows == nullptr || !rows->is_array() || rows->get_array().size() != links.size()) {
    return false;
  }
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
  const std::string program = tools::program_beside("nccom-test");
  const base::FileDescriptor pairs = memory_file(pairs_json(links));
  if (!pairs) {
    error = std::string("no memory for the list of links: ") + std::strerror(errno);
    return false;
  }
  tools::ChildProcess child(
      {.command = {program, "permute", "-r", std::to_string(last + 1), "-b", "4M", "-e", "4M", "-n",
                   "2", "-w", "1", "--backend", "device", "--non-interactive",
                   "--custom-src-target-pairs",
                   "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(pairs.get()),
                   "--json", "-"},
       .environment = {{"NEURON_RT_VISIBLE_CORES", ""}},
       .input = tools::ChildProcess::Stream::kOurs});
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  std::string text;
  const tools::Ending& ending =
      child.attend({std::chrono::seconds(seconds), end},
                   [&](std::string_view line) { text.append(line).append("\n"); });
  using How = tools::Ending::How;
  if (ending.how == How::kLate || ending.how == How::kOver) {
    error = "nccom-test did not end within " + std::to_string(seconds) + " s";
    return false;
  }
  if (ending.how == How::kNotStarted) {
    error = program + " cannot be started; it belongs to the same package as this program";
    return false;
  }
  if (!ending.good() || !read_rows(text, links, measured)) {
    error = "nccom-test could not measure the links; its sentence is above";
    return false;
  }
  return true;
}

}  // namespace neuron::ls
