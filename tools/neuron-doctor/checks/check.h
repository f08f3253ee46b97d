// SPDX-License-Identifier: Apache-2.0
//
// One check of neuron-doctor, and the host that it examines. Callers: the files of this folder,
// each with its subject; neuron-doctor. One thread. Fails never: a check that cannot be made is
// skipped, with the reason in `found`.
//
// Ids are stable: scripts select by them. A check without a device is skipped, not failed, so that
// one cause gives one failure.
#ifndef TOOLS_NEURON_DOCTOR_CHECKS_CHECK_H
#define TOOLS_NEURON_DOCTOR_CHECKS_CHECK_H

#include <map>
#include <string>
#include <vector>

#include "tools/common/format.h"
#include "tools/neuron-doctor/checks/access.h"
#include "tools/telemetry/snapshot.h"

namespace neuron::doctor {

enum class Verdict { kPass, kWarn, kFail, kSkip };
const char* name(Verdict verdict);

struct Check {
  std::string id;    // "driver.permission"
  std::string what;  // "permission to open the devices"
  Verdict verdict = Verdict::kSkip;
  std::string found, expected, action;
};

using Checks = std::vector<Check>;

// The host to examine; tests make their own.
struct Host {
  Places places;
  std::string proc = "/proc";
  std::map<std::string, std::string> environment;
  telemetry::Snapshot snapshot;
};

Host this_host();

// Each appends its checks.
void check_driver(const Host& host, Checks& checks);       // PCI, module, nodes, permission, daemon
void check_versions(const Host& host, Checks& checks);     // driver, runtime, libccom, libfabric
void check_limits(const Host& host, Checks& checks);       // memlock, descriptors, memory, kernel
void check_environment(const Host& host, Checks& checks);  // variables, paths
void check_devices(const Host& host, Checks& checks);      // health, faults, holders, NUMA

Check driver_version(const Host& host);  // the part of check_versions() that loads no library

Checks check_all(const Host& host);

// How many have that verdict.
unsigned count(const Checks& checks, Verdict verdict);
tools::Records records_of(const Checks& checks, const Host& host);
// For people: a problem is explained below its line.
std::string text_of(const Checks& checks, bool problems_only, const tools::Style& style);

}  // namespace neuron::doctor

#endif
