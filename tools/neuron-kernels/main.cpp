// SPDX-License-Identifier: Apache-2.0
// neuron-kernels: writes the NEFF files of tools/compiler/kernels.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "tools/common/child_process.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/compiler/kernels/kernels.h"

namespace {

const neuron::tools::Manual kManual{
    .name = "neuron-kernels",
    .summary = "write the kernels of this project as NEFF files",
    .description =
        "Programs for NeuronCores, built anew by the library that a compiler would use. Each is "
        "written for one chip; those for trn1 also run on later ones.",
    .exit_statuses = {neuron::tools::kDoneStatus,
                      {1, "a file cannot be written, or there is no such kernel"},
                      neuron::tools::kUsageStatus},
    .examples = {{"neuron-kernels --list", "what there is"},
                 {"neuron-kernels --kernel softmax_f32", "one of them"}},
    .see_also = {"neuron-packager(1)", "neuron-as(1)"}};

// The kernels for one chip, or for all of them if `generation` is 0.
std::vector<std::string> chosen(std::vector<std::string> names, unsigned generation) {
  std::erase_if(names, [generation](const std::string& name) {
    return generation != 0 && neuron::kernels::generation_of(name) != generation;
  });
  return names;
}

bool write_kernel(const std::string& name, const std::string& data, const std::string& output) {
  const auto neff = neuron::kernels::build(name, data);
  if (!neff) {
    std::fprintf(stderr, "neuron-kernels: %s\n", neff.error().sentence.c_str());
    return false;
  }
  const std::string path = output + "/" + name + ".neff";
  const auto written = neuron::tools::write_file(path, *neff);
  if (!written) {
    std::fprintf(stderr, "neuron-kernels: %s\n", written.error().sentence.c_str());
    return false;
  }
  std::printf("%s: %zu bytes\n", path.c_str(), neff->size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  neuron::tools::CommandLine line(kManual);
  bool all = false;
  bool list = false;
  std::vector<std::string> wanted;
  std::string data = neuron::tools::program_beside("../share/neuron/digits");
  std::string output = ".";
  std::string target;
  line.flag("--all", all, "Write every kernel of the target but the large ones");
  line.flag("--list", list, "Print the names of the kernels");
  line.option("--kernel", wanted, "Write the kernel of this name (may be repeated)");
  line.option("--target", target,
              "Chip of --all and --list: trn1, trn2 or trn3; without it trn1 and all")
      .one_of({"trn1", "trn2", "trn3"});
  line.option("--data", data, "Folder with the digits' weights")
      .with_default("share/neuron/digits of the installation");
  line.option("--output", output, "Folder to write to, made if missing").with_default();
  if (const auto status = line.parse(argc, argv)) return *status;
  const unsigned generation = target.empty() ? 0 : 2 + static_cast<unsigned>(target[3] - '1');
  if (list) {
    for (const auto& names : {neuron::kernels::names(), neuron::kernels::large_names()}) {
      for (const std::string& name : chosen(names, generation)) std::puts(name.c_str());
    }
    return neuron::tools::finish_output("neuron-kernels") ? 0 : 1;
  }
  if (all) wanted = chosen(neuron::kernels::names(), std::max(generation, 2u));
  if (wanted.empty()) {
    std::fprintf(stderr, "neuron-kernels: nothing to write; give --all, or --kernel NAME\n");
    return neuron::tools::kWrongUsage;
  }
  std::error_code error;
  std::filesystem::create_directories(output, error);
  if (error) {
    std::fprintf(stderr, "neuron-kernels: the folder %s cannot be made: %s\n", output.c_str(),
                 error.message().c_str());
    return 1;
  }
  for (const std::string& name : wanted) {
    if (!write_kernel(name, data, output)) return 1;
  }
  return 0;
}
