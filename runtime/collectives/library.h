// SPDX-License-Identifier: Apache-2.0
//
// libccom.so.1 as this process has it: opened once, when collectives are first asked for, and kept.
// NEURON_CCOM_LIBRARY names the file; else it is looked for beside libnrt.so.1, then as the system
// looks for libraries. Callers: everything in this folder. Thread-safe: yes. Owns: the handle, for
// ever. Fails: NRT_FAILURE with what was tried.
#ifndef RUNTIME_COLLECTIVES_LIBRARY_H
#define RUNTIME_COLLECTIVES_LIBRARY_H

#include <ccom/ccom.h>
#include <ccom/ccom_device.h>

#include "runtime/base/error.h"

namespace neuron::runtime {

struct CollectivesLibrary {
  decltype(&::ccom_init) init = nullptr;
  decltype(&::ccom_free) free = nullptr;
  decltype(&::ccom_run) run = nullptr;
  decltype(&::ccom_status) status = nullptr;
  decltype(&::ccom_tell) tell = nullptr;
  decltype(&::ccom_told) told = nullptr;
  decltype(&::ccom_last_error) last_error = nullptr;
  decltype(&::ccom_device_scratch) device_scratch = nullptr;
  decltype(&::ccom_device_compile) device_compile = nullptr;
  decltype(&::ccom_device_describe) device_describe = nullptr;
  decltype(&::ccom_device_free) device_free = nullptr;
  decltype(&::ccom_device_proxy_open) proxy_open = nullptr;
  decltype(&::ccom_device_proxy_add) proxy_add = nullptr;
  decltype(&::ccom_device_proxy_poll) proxy_poll = nullptr;
  decltype(&::ccom_device_proxy_close) proxy_close = nullptr;
};

Result<const CollectivesLibrary*> collectives_library();

// The runtime's status for a status of libccom.
NRT_STATUS status_of_collectives(ccom_status_t status);

}  // namespace neuron::runtime

#endif
