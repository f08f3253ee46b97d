// SPDX-License-Identifier: Apache-2.0
// neuron-ls: lists the Neuron devices of this host. Flags, table and JSON are those of the
// original.
#include <langinfo.h>

#include <clocale>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/neuron-ls/inventory.h"

namespace {

// The original's one line for "nothing found", with our sentence for the cause.
void print_fatal(const std::string& error) {
  char time_text[64] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(time_text, sizeof time_text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  // The sentence stands between quotes.
  std::string quotable = error;
  for (char& c : quotable) {
    if (c == '"') c = '\'';
  }
  std::fprintf(stderr,
               "time=\"%s\" level=fatal msg=\"Failed to load MLA system information\" "
               "error=\"failed to discover "
               "Neuron devices\" cause=\"%s\"\n",
               time_text, quotable.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Lists Neuron devices, their cores, memory, links and processes.", "neuron-ls"};
  bool wide = false, all = false, topology = false, json = false;
  app.add_flag("-w,--wide", wide, "wider table: 80 instead of 40 characters of a command");
  app.add_flag("-a,--show-all-procs", all, "also processes without a runtime record");
  app.add_flag("-t,--topology", topology, "draw the interconnect behind the table");
  app.add_flag("-j,--json-output", json, "JSON array instead of the table");
  if (const auto status = neuron::tools::parse_command_line(app, argc, argv)) return *status;

  std::setlocale(LC_CTYPE, "");
  std::string error;
  const neuron::ls::Inventory inventory = neuron::ls::discover(all, error);
  if (inventory.devices.empty()) {
    print_fatal(error);
    return 1;
  }
  if (!error.empty()) std::fprintf(stderr, "neuron-ls: %s\n", error.c_str());
  std::string text;
  if (json) {
    text = format_json(inventory);
  } else {
    if (!inventory.instance_type.empty())
      text += "instance-type: " + inventory.instance_type + "\n";
    if (!inventory.instance_id.empty()) text += "instance-id: " + inventory.instance_id + "\n";
    const unsigned logical_size = inventory.devices.front().logical_size;
    if (logical_size != 0) {
      text += "logical-neuroncore-config: " + std::to_string(logical_size) + "\n";
    }
    text += format_table(inventory, wide);
    const bool unicode = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (topology) text += format_topology(inventory, unicode);
  }
  return neuron::tools::print_output("neuron-ls", text) ? 0 : 1;
}
