// SPDX-License-Identifier: Apache-2.0
// neuron-packager: shows and unpacks NEFF files of any origin.
// Exit status: 0 done, 1 the file or the directory is at fault (one sentence on stderr), 2 wrong
// usage.
#include <cstdio>
#include <exception>
#include <string>

#include "runtime/neff/container.h"
#include "tools/common/command_line.h"
#include "tools/common/file.h"
#include "tools/common/neff_info.h"
#include "tools/common/neff_unpack.h"
#include "tools/common/output.h"

namespace {

using neuron::runtime::Result;

constexpr int kFailed = 1;

struct Arguments {
  std::string file;
  bool validate = false;
  std::string format = "text";
  std::string directory;
  bool force = false;
};

// "models/mlp.neff" unpacks into "mlp", as a file of the same name cannot be in the way.
std::string default_directory(const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  const std::string ending = ".neff";
  if (name.size() > ending.size() && name.ends_with(ending)) {
    name.resize(name.size() - ending.size());
  } else {
    name += ".unpacked";
  }
  return name;
}

// What to print.
Result<std::string> run(const Arguments& arguments, bool unpack) {
  NEURON_TRY(bytes, neuron::tools::read_file(arguments.file));
  auto container = neuron::neff::Container::open(bytes, {.validate_hash = arguments.validate});
  if (!container) return container.error().with("{}", arguments.file);
  if (!unpack) {
    return arguments.format == "json" ? neuron::tools::neff_info_json(*container) + "\n"
                                      : neuron::tools::neff_info_text(*container);
  }
  const std::string directory =
      arguments.directory.empty() ? default_directory(arguments.file) : arguments.directory;
  NEURON_CHECK(neuron::tools::unpack_neff(*container, {directory, arguments.force}));
  std::string listing;
  for (const neuron::neff::Member& member : container->members()) {
    listing += neuron::runtime::escaped(directory + "/" + member.name) + "\n";
  }
  return listing;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Shows and unpacks NEFF files.", "neuron-packager"};
  app.require_subcommand(1);
  CLI::App* info =
      app.add_subcommand("info", "header, inputs and outputs, and whether it runs here");
  CLI::App* unpack = app.add_subcommand("unpack", "write the members into a directory");
  for (CLI::App* command : {info, unpack}) {
    command->add_option("FILE", arguments.file, "the NEFF")->required();
    command->add_flag("--validate-hash", arguments.validate,
                      "compare the payload with the header's hash");
  }
  info->add_option("--format", arguments.format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  unpack->add_option("-C,--directory", arguments.directory,
                     "where to; default: the file's name without .neff");
  unpack->add_flag("-f,--force", arguments.force, "replace existing files");
  if (const auto status = neuron::tools::parse_command_line(app, argc, argv)) return *status;
  try {
    const auto done = run(arguments, unpack->parsed());
    if (done) return neuron::tools::print_output("neuron-packager", *done) ? 0 : kFailed;
    std::fprintf(stderr, "neuron-packager: %s\n",
                 neuron::runtime::escaped(done.error().detail).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "neuron-packager: %s\n", error.what());
  }
  return kFailed;
}
