// SPDX-License-Identifier: Apache-2.0
// The edge of the C interface: no exception crosses it, and a call begins without a sentence.
//
// Callers: every ndl_* and nds_* function whose body may allocate. Thread-safe.
#ifndef DRIVER_NDL_GUARD_H
#define DRIVER_NDL_GUARD_H

#include <cerrno>
#include <utility>

#include "driver/base/guarded.h"
#include "driver/ndl/error.h"

namespace neuron::ndl {

template <class Body>
int guarded(const char* function, Body&& body) {
  clear_error();
  // Nothing below throws anything but bad_alloc.
  return base::guarded(std::forward<Body>(body), [&](const char*, bool) {
    return fail(-ENOMEM, "%s: this process is out of memory", function);
  });
}

}  // namespace neuron::ndl

#endif
