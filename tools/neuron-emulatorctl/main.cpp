// SPDX-License-Identifier: Apache-2.0
// neuron-emulatorctl: shows the state of a running neuron-emulatord, and breaks its devices on
// purpose.
//
// Exit status: 0 done, 1 the daemon refused (its sentence is on standard error), 2 wrong usage, 3
// no daemon answers.
#include <charconv>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "driver/base/utf8.h"
#include "runtime/base/file.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/neuron-emulatorctl/client.h"
#include "tools/neuron-emulatorctl/manual.h"
#include "tools/neuron-emulatorctl/status_text.h"

namespace {

using neuron::emulatorctl::Outcome;
namespace control = neuron::control;

constexpr const char* kProgram = "neuron-emulatorctl";

struct Options {
  std::string socket;
  bool json = false, all = false;
  neuron::tools::Format format = neuron::tools::Format::kText;
  std::string plan;
  std::vector<uint32_t> cores;
  int device = -1;
  bool up = false, on = false;
  std::string a, b;
  uint32_t chip = 0, writer = 0;
};

// An end of a link: "5", a device of the daemon's socket, or "1:5", device 5 of node 1.
struct LinkEnd {
  std::optional<uint32_t> node;
  uint32_t device = 0;
};

std::optional<LinkEnd> link_end_of(const std::string& text) {
  LinkEnd end;
  const char* at = text.data();
  const char* const last = at + text.size();
  const auto number = [&](uint32_t& value) {
    const auto [stopped, error] = std::from_chars(at, last, value);
    at = stopped;
    return error == std::errc();
  };
  if (!number(end.device)) return std::nullopt;
  if (at != last && *at++ == ':') {
    end.node = end.device;
    if (!number(end.device)) return std::nullopt;
  }
  return at == last ? std::optional(end) : std::nullopt;
}

std::string judge_link_end(const std::string& text) {
  if (link_end_of(text)) return "";
  return "found '" + text +
         "', expected a device, for example 5, or a device of a node of an "
         "UltraServer, for example 1:5";
}

// A line of a plan, "-" for standard input, or the name of a file with a plan.
bool read_any_plan(const std::string& what, std::string& plan, std::string& error) {
  if (what.find('{') == what.find_first_not_of(" \t\n") && what.find('{') != std::string::npos) {
    plan = what;
    return true;
  }
  if (what == "-") {
    constexpr size_t kMost = size_t{1} << 20;
    plan.resize(kMost);
    plan.resize(std::fread(plan.data(), 1, kMost, stdin));
    return true;
  }
  auto bytes = neuron::tools::read_file(what);
  if (!bytes) {
    error = bytes.error().sentence;
    return false;
  }
  plan.assign(bytes->begin(), bytes->end());
  return true;
}

// As read_any_plan(); a request has text alone.
bool read_plan(const std::string& what, std::string& plan, std::string& error) {
  if (!read_any_plan(what, plan, error)) return false;
  if (neuron::base::is_utf8(plan)) return true;
  size_t at = 0;
  for (size_t next = 1; next != 0; at += next) {
    next = neuron::base::first_character(std::string_view(plan).substr(at)).bytes;
  }
  error = "the plan " + (what == "-" ? "of standard input" : "'" + what + "'") +
          " is no text: byte " + std::to_string(at) + " is not UTF-8; expected JSON";
  return false;
}

void add_commands(neuron::tools::Command& line, Options& options, control::Request& request) {
  line.needs_command();
  neuron::tools::Command status =
      line.command("status",
                   "devices with state, memory and errors; cores and who "
                   "holds them since when; processes; links "
                   "that are down; faults that are armed");
  neuron::tools::add_format_option(status, options.format);
  status.flag("-j,--json", options.json, "as --format json");
  status.on_use([&] { request.mutable_status(); });

  neuron::tools::Command inject = line.command("inject", "arm faults");
  inject
      .option(
          "SPEC", options.plan,
          "a line of a fault plan, such as '{\"at\":\"hbm\",\"kind\":\"uncorrectable\"}', a file "
          "with one, or - for standard input")
      .required();
  inject.on_use([&] { request.mutable_inject(); });

  line.command("clear", "forget armed faults, heal memory and links").on_use([&] {
    request.mutable_clear();
  });

  neuron::tools::Command reset = line.command("reset", "reset devices or cores");
  neuron::tools::Option device = reset.option("--device", options.device, "device").between(0, 63);
  reset.flag("--all", options.all, "every device: what runs on any core ends with an error")
      .excludes(device);
  reset.option("--core", options.cores, "core of the device; may be given again")
      .needs(device)
      .between(0, 7);
  reset.on_use([&] {
    control::ResetCommand& command = *request.mutable_reset();
    if (options.device >= 0) command.set_device(static_cast<uint32_t>(options.device));
    for (const uint32_t core : options.cores) command.add_cores(core);
  });

  neuron::tools::Command link =
      line.command("link", "take a link between two chips down, or up again");
  link.needs_command();
  for (const bool up : {true, false}) {
    neuron::tools::Command way = link.command(
        up ? "up" : "down", up ? "the link works again" : "the link between A and B fails");
    way.option("A", options.a, "device, or NODE:DEVICE").required().judged_by(judge_link_end);
    way.option("B", options.b, "device, or NODE:DEVICE").required().judged_by(judge_link_end);
    way.on_use([&options, &request, up] {
      control::LinkCommand& command = *request.mutable_link();
      const LinkEnd a = *link_end_of(options.a), b = *link_end_of(options.b);
      command.set_a(a.device);
      command.set_b(b.device);
      if (a.node) command.set_a_node(*a.node);
      if (b.node) command.set_b_node(*b.node);
      command.set_up(up);
    });
  }

  neuron::tools::Command writes =
      line.command("writes", "what a device has written last into the memory of its guest");
  writes.option("DEVICE", options.writer, "device").required();
  writes.on_use([&] { request.mutable_writes()->set_device(options.writer); });

  neuron::tools::Command power =
      line.command("power", "switch a chip off, as if it were pulled, or on");
  power.needs_command();
  for (const bool on : {true, false}) {
    neuron::tools::Command way =
        power.command(on ? "on" : "off", on ? "as after a cold start" : "nothing answers any more");
    way.option("DEVICE", options.chip, "device").required();
    way.on_use([&options, &request, on] {
      control::PowerCommand& command = *request.mutable_power();
      command.set_device(options.chip);
      command.set_on(on);
    });
  }
}

int complain(Outcome outcome, const std::string& sentence) {
  std::fprintf(stderr, "%s: %s\n", kProgram, sentence.c_str());
  return static_cast<int>(outcome);
}

// The newest come first, and each further answer has older ones; an older daemon sends one answer.
int print_writes(const std::string& path, control::Request& request, control::Response& response) {
  std::string lines;
  uint32_t shown = 0;
  // bounded: every answer but the last has a line, and a ring holds few thousand
  while (true) {
    std::string answer;
    for (const std::string& line : response.writes()) answer += line + "\n";
    lines.insert(0, answer);
    shown += static_cast<uint32_t>(response.writes_size());
    if (response.writes_left() == 0 || response.writes_size() == 0) break;
    request.mutable_writes()->set_skip(shown);
    std::string error;
    response.Clear();
    const Outcome outcome = neuron::emulatorctl::ask(path, request, response, error);
    if (outcome != Outcome::kDone) return complain(outcome, error);
  }
  return neuron::tools::print_output(kProgram, lines) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  neuron::tools::CommandLine line(neuron::emulatorctl::manual());
  Options options;
  control::Request request;
  line.option("--socket", options.socket,
              "socket of the daemon; without it, that of NEURON_EMULATOR=unix:PATH")
      .value_name("PATH");
  add_commands(line, options, request);
  if (const auto status = line.parse(argc, argv)) return *status;

  const std::string path = options.socket.empty()
                               ? neuron::emulatorctl::path_of_environment()
                               : neuron::emulatorctl::control_path(options.socket);
  if (path.empty()) {
    std::fprintf(stderr, "%s: say which daemon: --socket PATH, or NEURON_EMULATOR=unix:PATH\n",
                 kProgram);
    return neuron::tools::kWrongUsage;
  }
  if (request.has_reset() && options.device < 0 && !options.all) {
    std::fprintf(stderr, "%s reset: say which device: --device N, or --all for every one\n",
                 kProgram);
    return neuron::tools::kWrongUsage;
  }
  std::string error;
  if (request.has_inject()) {
    if (!read_plan(options.plan, *request.mutable_inject()->mutable_plan(), error)) {
      std::fprintf(stderr, "%s: %s\n", kProgram, error.c_str());
      return neuron::tools::kWrongUsage;
    }
  }
  control::Response response;
  const Outcome outcome = neuron::emulatorctl::ask(path, request, response, error);
  if (outcome != Outcome::kDone) return complain(outcome, error);
  if (request.has_writes()) return print_writes(path, request, response);
  if (!request.has_status()) return 0;
  const neuron::tools::Format format = options.json ? neuron::tools::Format::kJson : options.format;
  const std::string text = neuron::emulatorctl::status_as(format, response.status());
  return neuron::tools::print_output(kProgram, text) ? 0 : 1;
}
