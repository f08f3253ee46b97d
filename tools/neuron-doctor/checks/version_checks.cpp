// SPDX-License-Identifier: Apache-2.0
// Checks whether driver, runtime and collectives fit each other, and what libfabric offers.
#include <dlfcn.h>
#include <nrt/nrt_version.h>
#include <rdma/fabric.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <set>

#include "tools/common/child_process.h"
#include "tools/common/version.h"
#include "tools/neuron-doctor/checks/check.h"

namespace neuron::doctor {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(5);
constexpr unsigned kOldestMajor = 2, kOldestMinor = 24;

std::string library_path(void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// Runs `question` in a process of its own: a library that hangs or crashes while it is loaded must
// not end the doctor. False, with an empty answer: it hung or crashed.
bool ask_child(void (*question)(), std::string& answer) {
  tools::ChildProcess child({.work = question,
                             .input = tools::ChildProcess::Stream::kOurs,
                             .errors = tools::ChildProcess::Stream::kNothing});
  return child
      .attend({kPatience, Clock::now() + kPatience},
              [&](std::string_view line) { answer.append(line); })
      .good();
}

void say(const std::string& text) {
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(1);
}

void ask_collectives() {
  void* library = dlopen("libccom.so.1", RTLD_NOW);
  if (library == nullptr) {
    say(std::string("!") + dlerror());
    return;
  }
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(library, "ccom_version"));
  say(version == nullptr ? "!it has no ccom_version" : version());
}

void ask_fabric() {
  void* library = dlopen("libfabric.so.1", RTLD_NOW);
  if (library == nullptr) {
    say(std::string("!") + dlerror());
    return;
  }
  const auto get =
      reinterpret_cast<int (*)(uint32_t, const char*, const char*, uint64_t, const fi_info*,
                               fi_info**)>(dlsym(library, "fi_getinfo"));
  const auto free_info = reinterpret_cast<void (*)(fi_info*)>(dlsym(library, "fi_freeinfo"));
  fi_info* list = nullptr;
  if (get == nullptr || free_info == nullptr ||
      get(FI_VERSION(1, 11), nullptr, nullptr, 0, nullptr, &list) != 0) {
    say("!it offers no provider");
    return;
  }
  std::set<std::string> names;
  for (const fi_info* info = list; info != nullptr; info = info->next) {
    if (info->fabric_attr != nullptr && info->fabric_attr->prov_name != nullptr) {
      names.insert(info->fabric_attr->prov_name);
    }
  }
  free_info(list);
  std::string text;
  for (const std::string& one : names) text += (text.empty() ? "" : " ") + one;
  say(text.empty() ? "!it offers no provider" : text);
}

// Makes a check of a library's answer; "!why" means that the library cannot be used.
Check library_check(const char* id, const char* what, void (*question)(), const char* action) {
  Check check{id, what, Verdict::kPass, {}, {}, {}};
  std::string answer;
  if (!ask_child(question, answer)) {
    check.verdict = Verdict::kFail;
    check.found = std::string(what) + " hangs or crashes while it is loaded";
  } else if (answer.starts_with("!")) {
    check.verdict = Verdict::kWarn;
    check.found = answer.substr(1);
  } else {
    check.found = answer;
  }
  if (check.verdict != Verdict::kPass) {
    check.expected = std::string(what) + " that can be loaded";
    check.action = action;
  }
  return check;
}

}  // namespace

Check driver_version(const Host& host) {
  const telemetry::Versions& versions = host.snapshot.versions;
  Check driver{"version.driver", "version of the driver", Verdict::kPass, {}, {}, {}};
  if (host.snapshot.devices.empty()) {
    driver.verdict = Verdict::kSkip;
    driver.found = "no device to ask";
  } else if (versions.driver.empty()) {
    driver.verdict = Verdict::kWarn;
    driver.found = "the driver does not tell its version";
    driver.expected = "a driver of this project, or the public one from 2.24";
    driver.action = "install neuron-dkms";
  } else {
    driver.found = versions.driver + " (" + versions.backend + ")";
    unsigned major = 0, minor = 0;
    if (std::sscanf(versions.driver.c_str(), "%u.%u", &major, &minor) == 2 &&
        (major < kOldestMajor || (major == kOldestMajor && minor < kOldestMinor))) {
      driver.verdict = Verdict::kWarn;
      driver.expected =
          "2.24 or newer: what older drivers lack (copies without staging, marks of "
          "cores) is not used with them, and they are not tested";
      driver.action = "install neuron-dkms, then modprobe -r neuron; modprobe neuron";
    }
  }
  return driver;
}

void check_versions(const Host& host, Checks& checks) {
  const telemetry::Versions& versions = host.snapshot.versions;
  checks.push_back(driver_version(host));

  Check runtime{"version.runtime", "version of libnrt.so.1", Verdict::kPass, {}, {}, {}};
  runtime.found = (versions.runtime.empty() ? std::string("not known") : versions.runtime) + ", " +
                  library_path(reinterpret_cast<void*>(&nrt_get_version));
  checks.push_back(runtime);

  Check collectives =
      library_check("version.libccom", "libccom.so.1", &ask_collectives,
                    "install libccom1; programs with collectives need it, others do not");
  if (collectives.verdict == Verdict::kPass) {
    collectives.found = "libccom " + collectives.found;
  }
  checks.push_back(collectives);

  Check fabric = library_check("version.libfabric", "libfabric.so.1", &ask_fabric,
                               "install libfabric1; collectives between hosts need it");
  if (fabric.verdict == Verdict::kPass) {
    fabric.found = "libfabric providers: " + fabric.found;
    const bool efa = fabric.found.find("efa") != std::string::npos;
    if (!efa && !host.snapshot.network.empty()) {
      fabric.verdict = Verdict::kWarn;
      fabric.expected = "efa, as the host has network devices for it";
      fabric.action = "install a libfabric with the provider efa";
    }
  }
  checks.push_back(fabric);
}

}  // namespace neuron::doctor
