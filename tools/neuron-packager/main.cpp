// SPDX-License-Identifier: Apache-2.0
// neuron-packager: shows, unpacks, makes and optimizes NEFF files.
// Exit status: 0 done, 1 the file or the directory is at fault (one sentence on stderr), 2 wrong
// usage.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/neff/container.h"
#include "runtime/neff/neff_create.h"
#include "runtime/neff/neff_info.h"
#include "runtime/neff/neff_unpack.h"
#include "tools/common/command_line.h"
#include "tools/common/format.h"
#include "tools/common/output.h"
#include "tools/compiler/assembler/optimizer.h"
#include "tools/neuron-packager/manual.h"

namespace {

using neuron::runtime::Result;
namespace tools = neuron::tools;

struct Arguments {
  std::string file;
  bool validate = false;
  tools::Format format = tools::Format::kText;
  std::string directory;
  bool force = false;
  std::string output;
  tools::CreateOptions create;
  bool no_compress = false;
  bool keep_debug_info = false;
};

// "models/mlp.neff" unpacks into "mlp", "models/mlp" into "mlp.unpacked": the file itself would be
// in the way.
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

Result<std::string> unpack(const Arguments& arguments, const neuron::neff::Container& container) {
  const std::string directory =
      arguments.directory.empty() ? default_directory(arguments.file) : arguments.directory;
  NEURON_CHECK(tools::unpack_neff(container, {directory, arguments.force}));
  std::string listing;
  for (const neuron::neff::Member& member : container.members()) {
    listing += neuron::base::escaped(directory + "/" + member.name) + "\n";
  }
  return listing;
}

// Writes the file; returns the text to print about it.
Result<std::string> store(const std::string& path, neuron::neff::Bytes contents) {
  NEURON_CHECK(tools::write_file(path, contents));
  return neuron::base::format("{}: {} bytes\n", neuron::base::escaped(path), contents.size());
}

Result<std::string> create(Arguments arguments) {
  arguments.create.input = arguments.file;
  arguments.create.compress = !arguments.no_compress;
  NEURON_TRY(file, tools::create_neff(arguments.create));
  return store(arguments.output, file);
}

// The inputs and outputs that the document lists, one a record.
tools::Records tensors_of(const std::string& document) {
  const boost::json::value info = boost::json::parse(document);
  tools::Records records;
  records.schema = "neuron-packager-info";
  records.list = "tensors";
  records.columns = {{"usage", "USAGE"},
                     {"name", "NAME"},
                     {"dtype", "TYPE"},
                     {"shape", "SHAPE"},
                     {"size_bytes", "SIZE", tools::Unit::kBytes}};
  for (const auto& [list, usage] : {std::pair{"inputs", "input"}, std::pair{"outputs", "output"}}) {
    const boost::json::value* tensors = info.as_object().if_contains(list);
    if (tensors == nullptr) continue;
    for (const boost::json::value& tensor : tensors->as_array()) {
      std::string shape;
      for (const boost::json::value& size : tensor.at("shape").as_array()) {
        shape += (shape.empty() ? "" : " ") + boost::json::serialize(size);
      }
      records.rows.push_back({usage, tensor.at("name"), tensor.at("dtype"),
                              boost::json::value(shape), tensor.at("size")});
    }
  }
  return records;
}

// Runs the command; returns the text to print.
Result<std::string> run(const Arguments& arguments, const std::string& command) {
  if (command == "create") return create(arguments);
  NEURON_TRY(bytes, tools::read_file(arguments.file));
  auto container = neuron::neff::Container::open(bytes, {.validate_hash = arguments.validate});
  if (!container) return container.error().with("{}", arguments.file);
  if (command == "unpack") return unpack(arguments, *container);
  if (command == "optimize") {
    auto optimized =
        neuron::assembler::optimize(*container, {.drop_debug_info = !arguments.keep_debug_info});
    if (!optimized) return optimized.error().with("{}", arguments.file);
    return store(arguments.output, *optimized);
  }
  if (arguments.format == tools::Format::kText) return tools::neff_info_text(*container);
  const std::string document = tools::neff_info_json(*container);
  if (arguments.format == tools::Format::kJson) return document + "\n";
  return tools::render(tensors_of(document), arguments.format, {});
}

void add_create_options(tools::Command create, Arguments& arguments) {
  create.option("INPUT", arguments.file, "a directory of members, or a tar or tar.gz of them")
      .required();
  create.option("--name", arguments.create.name, "network name; default: that of INPUT");
  create.option("--tool-version", arguments.create.tool_version,
                "version of the compiler that made the contents");
  create.option("--neff-version", arguments.create.neff_version, "MAJOR.MINOR").with_default();
  create
      .option("--header-version", arguments.create.header_version,
              "1: SHA-256 of the payload; 2: MD5")
      .with_default();
  create.option("--num-nc", arguments.create.cores,
                "NeuronCores; default: the number of sgNN directories");
  create.option("--enable-feature", arguments.create.features,
                "open-program, custom-operators, or the number of a feature bit; may be repeated");
  create.flag("--no-compress", arguments.no_compress, "leave a directory's archive as a tar");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  tools::CommandLine line(neuron::packager::manual());
  line.needs_command();
  tools::Command info =
      line.command("info", "header, inputs and outputs, and whether it runs here");
  tools::Command unpack = line.command("unpack", "write the members into a directory");
  tools::Command create = line.command("create", "make a NEFF of its contents");
  tools::Command optimize = line.command(
      "optimize", "one file of weights, no debug information, not compressed: loads faster");
  for (tools::Command command : {info, unpack, optimize}) {
    command.option("FILE", arguments.file, "the NEFF").required();
    command.flag("--validate-hash", arguments.validate,
                 "compare the payload with the header's hash");
  }
  tools::add_format_option(info, arguments.format);
  unpack
      .option("-C,--directory", arguments.directory,
              "where to; default: the file's name without .neff")
      .value_name("DIRECTORY");
  unpack.flag("-f,--force", arguments.force, "replace existing files");
  add_create_options(create, arguments);
  optimize.flag("--keep-debug-info", arguments.keep_debug_info,
                "keep source lines and debug members");
  for (tools::Command command : {create, optimize}) {
    command.option("-o,--output", arguments.output, "the NEFF to write")
        .value_name("FILE")
        .required();
  }
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    const auto done = run(arguments, line.used_command());
    if (done) return tools::print_output("neuron-packager", *done) ? 0 : tools::kFailed;
    std::fprintf(stderr, "neuron-packager: %s\n",
                 neuron::base::escaped(done.error().sentence).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "neuron-packager: %s\n", error.what());
  }
  return tools::kFailed;
}
