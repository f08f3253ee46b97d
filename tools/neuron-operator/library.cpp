// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-operator/library.h"

#include <stdlib.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

#include "hw/custom_operator.h"
#include "runtime/base/file.h"
#include "tools/common/child_process.h"

namespace neuron::operators {

using runtime::fail;
using runtime::Result;

namespace {

constexpr std::chrono::minutes kPatience{5};
constexpr size_t kMostOperators = 10;  // of a library: documented

// Where headers and library of operators lie: beside this program in the build tree and in an
// installation.
Result<std::string> operator_folder() {
  const std::string program = tools::own_program();
  const auto folder =
      std::filesystem::path(program).parent_path().parent_path() / "lib" / "neuron-operator";
  std::error_code error;
  if (program.empty() || !std::filesystem::exists(folder / "libneuron_operator.a", error)) {
    return fail(NRT_INVALID,
                "{} has no libneuron_operator.a: install the headers and the library of custom "
                "operators, or call neuron-operator where they lie beside it",
                folder.string());
  }
  return folder.string();
}

// A folder that is removed with all that lies in it.
class Workshop {
 public:
  static Result<Workshop> open() {
    std::error_code error;
    const std::filesystem::path place = std::filesystem::temp_directory_path(error);
    if (error) return fail(NRT_INVALID, "TMPDIR names no folder: {}", error.message());
    std::string path = (place / "neuron-operator-XXXXXX").string();  // mkdtemp's form
    if (::mkdtemp(path.data()) == nullptr) {
      return runtime::fail_with_errno(NRT_INVALID, errno, "the folder {} cannot be made", path);
    }
    return Workshop(path);
  }
  ~Workshop() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  Workshop(Workshop&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  Workshop& operator=(Workshop&&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit Workshop(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The output of a program, or what it complained of.
Result<std::string> output_of(const std::vector<std::string>& command, const std::string& what) {
  std::string output;
  const tools::Ending ending = tools::run_command(
      command, {}, {.step = kPatience, .end = std::chrono::steady_clock::now() + kPatience},
      [&](std::string_view line) { output.append(line).append("\n"); });
  if (ending.good()) return output;
  return fail(NRT_INVALID, "{}: {} {}{}{}", what, command[0], ending.sentence(),
              ending.errors.empty() ? "" : ":\n", ending.errors);
}

Result<void> check_sources(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) {
      return fail(NRT_INVALID, "{} is no file that can be read", file);
    }
    // Compilers take a file without such an ending for one that is to be linked.
    static const std::set<std::string> kEndings = {".cpp", ".cc", ".cxx", ".c++", ".C"};
    if (!kEndings.contains(std::filesystem::path(file).extension().string())) {
      return fail(
          NRT_INVALID,
          "the name of {} ends neither with .cpp nor with .cc or .cxx, as sources in C++ do", file);
    }
  }
  return {};
}

// The source that takes all kernel functions together and registers those that the shape functions'
// library names. So their types need not be said again.
std::string kernel_source(const LibrarySources& sources, const LibraryContents& contents) {
  std::string text = "#include \"driver/operator/registry.h\"\n";
  for (const std::string& file : sources.compute) {
    text += "#include \"" + std::filesystem::absolute(file).string() + "\"\n";
  }
  text += "namespace {\n";
  if (sources.multicore) {
    text += "const bool neuron_all_cores = ::neuron::operators::is_multicore() = true;\n";
  }
  std::set<std::string> known;
  for (const LibraryOperator& op : contents.operators) {
    if (!known.insert(op.kernel).second) continue;
    text += "const ::neuron::operators::KernelRegistration neuron_kernel_" + op.kernel + "(\"" +
            op.kernel + "\", &::" + op.kernel + ");\n";
  }
  return text + "}  // namespace\n";
}

bool is_identifier(const std::string& name) {
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
}

Result<void> check_contents(const LibraryContents& contents) {
  if (contents.operators.empty() || contents.operators.size() > kMostOperators) {
    return fail(NRT_INVALID,
                "the shape sources define {} operators, expected 1 to {}: m.def(\"name\", "
                "&shape_function, \"kernel_function\") in NEURON_LIBRARY(library, m)",
                contents.operators.size(), kMostOperators);
  }
  for (const LibraryOperator& op : contents.operators) {
    if (is_identifier(op.kernel)) continue;
    return fail(NRT_INVALID, "operator {} names the kernel function \"{}\", expected an identifier",
                op.name, op.kernel);
  }
  return {};
}

// A file that is something else must not run, not even to find that out.
Result<void> check_library(const std::string& path) {
  NEURON_TRY(image, tools::read_file(path));
  constexpr std::string_view kElf = "\177ELF", kMark = NEURON_OPERATOR_MARK;
  const std::string_view bytes(reinterpret_cast<const char*>(image.data()), image.size());
  if (bytes.starts_with(kElf) && bytes.find(kMark) != std::string_view::npos) return {};
  return fail(NRT_INVALID,
              "{} is no library of custom operators: expected a program that `neuron-operator "
              "build` has made, and it {}",
              path,
              bytes.starts_with(kElf) ? "is another program, or a library of an older version"
                                      : "is no program");
}

}  // namespace

Result<void> build_library(const LibrarySources& sources, const std::string& output) {
  NEURON_TRY(folder, operator_folder());
  NEURON_CHECK(check_sources(sources.compute));
  NEURON_CHECK(check_sources(sources.shape));
  NEURON_TRY(workshop, Workshop::open());
  // The same bits everywhere: the smallest processor, and no fused operations.
  const std::vector<std::string> common = {sources.compiler,
                                           "-std=gnu++17",
                                           "-O2",
                                           "-march=x86-64",
                                           "-mtune=generic",
                                           "-ffp-contract=off",
                                           "-Wno-narrowing",
                                           "-g0",
                                           "-fno-pie",
                                           "-I" + folder + "/include",
                                           "-I" + folder + "/include/driver/operator"};
  const auto compile = [&](const std::string& source, const std::string& object) {
    std::vector<std::string> command = common;
    command.insert(command.end(), sources.flags.begin(), sources.flags.end());
    command.insert(command.end(), {"-c", source, "-o", object});
    return output_of(command, source + " does not compile");
  };
  std::vector<std::string> objects;
  for (const std::string& source : sources.shape) {
    objects.push_back(workshop.file("shape" + std::to_string(objects.size()) + ".o"));
    NEURON_CHECK(compile(source, objects.back()));
  }
  const auto link = [&](const std::string& program) {
    std::vector<std::string> command = {
        sources.compiler,           "-static", "-no-pie", "-s", "-Wl,--wrap=abort",
        "-Wl,--wrap=__assert_fail", "-o",      program};
    command.insert(command.end(), objects.begin(), objects.end());
    command.push_back(folder + "/libneuron_operator.a");
    return output_of(command, "the operators cannot be linked");
  };
  const std::string shapes = workshop.file("shapes");
  NEURON_CHECK(link(shapes));
  NEURON_TRY(contents, ask_library(shapes));
  NEURON_CHECK(check_contents(contents));
  const std::string text = kernel_source(sources, contents);
  const std::string kernels = workshop.file("kernels.cpp");
  NEURON_CHECK(
      tools::write_file(kernels, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  objects.push_back(workshop.file("kernels.o"));
  NEURON_CHECK(compile(kernels, objects.back()));
  const std::string whole = workshop.file("operators");
  NEURON_CHECK(link(whole));
  NEURON_TRY(all, ask_library(whole));
  for (size_t n = 0; n < all.operators.size(); ++n) {
    const LibraryOperator& op = all.operators[n];
    if (n < contents.operators.size() && op.kinds == contents.operators[n].kinds) continue;
    return fail(NRT_INVALID,
                "operator {}: its kernel function {} has other parameters than its shape function",
                op.name, op.kernel);
  }
  NEURON_TRY(image, tools::read_file(whole));
  NEURON_CHECK(tools::write_file(output, image));
  std::error_code error;
  std::filesystem::permissions(output, std::filesystem::perms::owner_exec,
                               std::filesystem::perm_options::add, error);
  return {};
}

Result<LibraryContents> ask_library(const std::string& path) {
  NEURON_CHECK(check_library(path));
  NEURON_TRY(text, output_of({std::filesystem::absolute(path).string(), "describe"},
                             path + " is no library of custom operators"));
  LibraryContents contents;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    LibraryOperator op;
    words >> op.name >> op.library >> op.kernel >> op.kinds;
    if (op.name == "multicore" && op.kernel.empty()) {
      contents.multicore = op.library == "1";
      continue;
    }
    if (op.kinds.empty()) {
      return fail(NRT_INVALID, "{} is no library of custom operators: it says \"{}\"", path, line);
    }
    if (op.kinds[0] == '-') {
      op.has_kernel = false;
      op.kinds.erase(0, 1);
    }
    if (op.kinds == ".") op.kinds.clear();
    contents.operators.push_back(std::move(op));
  }
  return contents;
}

Result<std::string> ask_shape(const std::string& path, const std::string& name,
                              const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {std::filesystem::absolute(path).string(), "shape", name};
  command.insert(command.end(), arguments.begin(), arguments.end());
  NEURON_TRY(text, output_of(command, "the shape function of " + name + " failed"));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace neuron::operators
