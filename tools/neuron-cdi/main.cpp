// SPDX-License-Identifier: Apache-2.0
// neuron-cdi: describes this host's Neuron devices to container engines, as a CDI specification.
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "tools/common/command_line.h"
#include "tools/common/format.h"
#include "tools/common/json_text.h"
#include "tools/common/output.h"
#include "tools/neuron-cdi/libraries.h"
#include "tools/neuron-cdi/specification.h"
#include "tools/telemetry/source.h"

namespace {

using neuron::cdi::Wishes;

constexpr const char* kProgram = "neuron-cdi";
constexpr const char* kLibraries = "/opt/aws/neuron/lib";  // where images for the chip look
constexpr std::chrono::milliseconds kPatience{500};

const neuron::tools::Manual kManual{
    .name = kProgram,
    .summary = "tell container engines of Neuron devices",
    .description =
        "Writes a specification of the Container Device Interface (CDI) for the devices of this "
        "host. Docker, podman, containerd and CRI-O read such files from /etc/cdi and /run/cdi and "
        "put into a container what the name of a device stands for.\n\n"
        "`neuronN` :: device N with all its cores\n\n"
        "`neuronNcoreK` :: core K of device N alone\n\n"
        "`neuronA-B` :: devices A to B, with --group A-B\n\n"
        "`all` :: every device\n\n"
        "The specification is JSON; the other formats list the names that it has.\n\n"
        "A container gets the nodes /dev/neuronN; for a core also NEURON_RT_VISIBLE_CORES, counted "
        "from 0 over the devices of the container. When NEURON_EMULATOR names the socket of a "
        "neuron-emulatord, the socket is mounted in place of nodes, and NEURON_EMULATOR and "
        "NEURON_RT_VISIBLE_CORES, counted over all devices of the daemon, say what is meant.\n\n"
        "Ask for one name only: engines set a variable once, so of two cores, or two emulated "
        "devices, only one would be seen. Several devices have a name of their own with --group.",
    .exit_statuses = {neuron::tools::kDoneStatus,
                      {1, "there is no device, or the file cannot be written"},
                      neuron::tools::kUsageStatus},
    .environment = {neuron::tools::kEmulatorVariable},
    .examples = {{"neuron-cdi --output /etc/cdi/neuron.json", "for all engines of this host"},
                 {"podman run --device aws.amazon.com/neuron=neuron0 IMAGE", "use of a device"},
                 {"neuron-cdi --group 0-3 --group 4-7", "also halves of eight devices by name"}},
    .see_also = {"neuron-ls(1)"}};

int complain(const std::string& sentence, int status = neuron::tools::kFailed) {
  std::fprintf(stderr, "%s: %s\n", kProgram, sentence.c_str());
  return status;
}

// The socket of a daemon; empty for devices of the kernel.
bool find_socket(std::string& socket, std::string& error) {
  constexpr const char* kShared = "unix:";
  const char* const value = std::getenv("NEURON_EMULATOR");
  const std::string emulator = value == nullptr ? "" : value;
  if (emulator.empty()) return true;
  if (emulator.rfind(kShared, 0) != 0) {
    error = "NEURON_EMULATOR=" + emulator +
            ": these devices are private to a process, and a container can set the variable "
            "itself; for devices to share start a neuron-emulatord and set "
            "NEURON_EMULATOR=unix:PATH";
    return false;
  }
  socket = emulator.substr(std::string(kShared).size());
  struct stat status {};
  if (socket.empty() || socket.front() != '/') {
    error = "NEURON_EMULATOR=" + emulator + ": a mount needs the whole path of the socket";
    return false;
  }
  if (stat(socket.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
    error = socket + " is no socket: start neuron-emulatord --socket " + socket;
    return false;
  }
  return true;
}

bool find_devices(Wishes& wishes, std::string& error) {
  neuron::telemetry::Wanted wanted;
  wanted.processes = wanted.hardware = wanted.host = wanted.instance = false;
  const auto snapshot = neuron::telemetry::open_host_source()->take(wanted, kPatience);
  for (const auto& device : snapshot.devices) {
    const unsigned size = device.logical_size == 0 ? 1 : device.logical_size;
    if (device.cores.empty()) {
      error = "the cores of device " + std::to_string(device.index) + " are not known: " +
              (device.error.empty() ? "the driver does not tell" : device.error);
      return false;
    }
    unsigned first = device.cores.front().logical_core;
    for (const auto& core : device.cores) first = std::min(first, core.logical_core);
    wishes.devices.push_back(
        {device.index, first, static_cast<unsigned>(device.cores.size()) / size});
  }
  if (!wishes.devices.empty()) return true;
  error = snapshot.error.empty() ? "there is no Neuron device" : snapshot.error;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  neuron::tools::CommandLine line(kManual);
  Wishes wishes;
  std::string output;
  std::vector<std::string> groups;
  bool libraries = false;
  uint32_t group_id = 0;
  neuron::tools::Format format = neuron::tools::Format::kJson;
  line.option("-o,--output", output,
              "file to write, replaced as a whole; without it, standard output")
      .value_name("FILE");
  line.option("--kind", wishes.kind, "what the devices are called in a request: VENDOR/CLASS")
      .value_name("KIND")
      .with_default();
  line.option("--group", groups, "devices A to B by one name; may be given again")
      .value_name("A-B")
      .repeatable();
  line.flag("--libraries", libraries,
            "mount this host's libnrt.so.1, libccom.so.1 and libneuron-emulator.so.1 into " +
                std::string(kLibraries) + ", and set LD_LIBRARY_PATH");
  const neuron::tools::Option gid =
      line.option("--gid", group_id,
                  "number of the group neuron, for containers without root "
                  "(engines with CDI 0.7 or newer)")
          .value_name("NUMBER");
  neuron::tools::add_format_option(line, format);
  if (const auto status = line.parse(argc, argv)) return *status;

  std::string error;
  for (const std::string& text : groups) {
    const auto group = neuron::cdi::parse_group(text);
    if (!group) return complain(group.error().sentence, neuron::tools::kWrongUsage);
    wishes.groups.push_back(*group);
  }
  if (gid.given()) wishes.group_id = group_id;
  if (!find_socket(wishes.socket, error) || !find_devices(wishes, error)) return complain(error);
  if (libraries) {
    auto mounts = neuron::cdi::find_libraries(kLibraries);
    if (!mounts) return complain(mounts.error().sentence);
    wishes.mounts = std::move(*mounts);
    wishes.environment.push_back("LD_LIBRARY_PATH=" + std::string(kLibraries));
  }
  const auto specification = neuron::cdi::make_specification(wishes);
  if (!specification) return complain(specification.error().sentence, neuron::tools::kWrongUsage);
  const std::string text =
      format == neuron::tools::Format::kJson
          ? neuron::tools::json_text(*specification, 2) + "\n"
          : neuron::tools::render(neuron::cdi::names_in(*specification), format, {});
  if (output.empty()) return neuron::tools::print_output(kProgram, text) ? 0 : 1;
  const auto written = neuron::tools::write_file(
      output, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return written ? 0 : complain(written.error().sentence);
}
