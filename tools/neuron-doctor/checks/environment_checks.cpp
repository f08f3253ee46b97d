// SPDX-License-Identifier: Apache-2.0
// Checks for variables that no program reads, and for programs and libraries in unexpected places.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "tools/neuron-doctor/checks/check.h"
#include "tools/neuron-doctor/checks/variables.h"

namespace neuron::doctor {
namespace {

std::vector<std::string> folders_of(const std::string& list) {
  std::vector<std::string> folders;
  size_t begin = 0;
  while (begin <= list.size()) {
    size_t end = list.find(':', begin);
    if (end == std::string::npos) end = list.size();
    if (end > begin) folders.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

std::string value_of(const Host& host, const std::string& name) {
  const auto found = host.environment.find(name);
  return found == host.environment.end() ? std::string() : found->second;
}

std::string own_folder() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return {};
  const std::string self(path, static_cast<size_t>(length));
  return self.substr(0, self.rfind('/'));
}

void check_path(const Host& host, Checks& checks) {
  Check check{"path.programs", "search path of programs", Verdict::kPass, {}, {}, {}};
  const std::string own = own_folder();
  std::string first;
  for (const std::string& folder : folders_of(value_of(host, "PATH"))) {
    if (first.empty() && access((folder + "/neuron-ls").c_str(), X_OK) == 0) first = folder;
  }
  struct stat a {
  }, b{};
  const bool same = !first.empty() && stat(first.c_str(), &a) == 0 && stat(own.c_str(), &b) == 0 &&
                    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  check.found = first.empty() ? "neuron-ls is not in PATH; this program is in " + own
                              : "neuron-ls is found in " + first;
  if (!same) {
    check.verdict = Verdict::kWarn;
    if (!first.empty()) check.found += ", this program is in " + own;
    check.expected = "programs of one installation";
    check.action = "export PATH=" + own + ":$PATH";
  }
  checks.push_back(check);
}

void check_libraries(const Host& host, Checks& checks) {
  Check check{"path.libraries", "libraries in LD_LIBRARY_PATH", Verdict::kPass, {}, {}, {}};
  unsigned copies = 0;
  for (const std::string& folder : folders_of(value_of(host, "LD_LIBRARY_PATH"))) {
    if (access((folder + "/libnrt.so.1").c_str(), F_OK) != 0) continue;
    check.found += (copies++ == 0 ? "libnrt.so.1 is in " : " and in ") + folder;
  }
  if (copies == 0) {
    check.found = "LD_LIBRARY_PATH has no libnrt.so.1: the installed one is used";
  } else if (copies > 1) {
    check.verdict = Verdict::kWarn;
    check.found += "; the first one is used";
    check.expected = "one";
    check.action = "take the others out of LD_LIBRARY_PATH";
  }
  checks.push_back(check);
}

}  // namespace

void check_environment(const Host& host, Checks& checks) {
  check_path(host, checks);
  check_libraries(host, checks);
  unsigned known = 0, strange = 0;
  for (const auto& [name, value] : host.environment) {
    if (!is_ours(name)) continue;
    if (is_known_variable(name)) {
      ++known;
      continue;
    }
    Check check{"environment.variable", "variables of the environment", Verdict::kWarn, {}, {}, {}};
    const std::string similar = similar_variable(name);
    check.found = name + "=" + value + " is a variable that nothing here reads";
    check.expected = similar.empty() ? "one of the variables that the manuals name" : similar;
    check.action =
        similar.empty() ? "unset " + name : "is " + similar + " meant? set that, and unset " + name;
    checks.push_back(check);
    ++strange;
  }
  if (strange == 0) {
    checks.push_back({"environment.variable",
                      "variables of the environment",
                      Verdict::kPass,
                      std::to_string(known) + " variables of Neuron programs, all known",
                      {},
                      {}});
  }
}

}  // namespace neuron::doctor
