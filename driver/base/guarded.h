// SPDX-License-Identifier: Apache-2.0
// The edge of a C interface: no exception crosses it.
//
// Callers: every function of a C interface whose body may allocate. Thread-safe.
#ifndef DRIVER_BASE_GUARDED_H
#define DRIVER_BASE_GUARDED_H

#include <exception>
#include <new>
#include <utility>

namespace neuron::base {

// Returns what the body returns. If the body throws, returns failed(what, memory_ran_out), where
// `what` is valid during that call. failed() must not throw.
template <class Body, class Failed>
auto guarded(Body&& body, Failed&& failed) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return failed("host memory ran out", true);
  } catch (const std::exception& exception) {
    return failed(exception.what(), false);
  } catch (...) {
    return failed("unknown exception", false);
  }
}

}  // namespace neuron::base

#endif
