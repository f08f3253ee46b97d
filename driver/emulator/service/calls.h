// SPDX-License-Identifier: Apache-2.0
// The table of calls: for each ioctl one row with its number, the check of its argument and the
// function that carries it out.
//
// Concepts: driver/core/ioctl_table.h says which calls exist and how large their arguments are; a
// row here says what the emulated device does. A call without a row is answered with -EOPNOTSUPP.
// The rows stand at the end of the file that has their functions: ioctl_copy, ioctl_memory,
// ioctl_dma, ioctl_core, ioctl_device. Callers: ioctl_dispatch, after it has checked the number,
// the access and the pointer. Thread-safe: the tables are constant.
#ifndef DRIVER_EMULATOR_SERVICE_CALLS_H
#define DRIVER_EMULATOR_SERVICE_CALLS_H

#include <cstdint>
#include <span>
#include <type_traits>

#include "driver/emulator/service/session.h"

namespace neuron::service {

struct Call {
  uint32_t request;
  uint32_t argument_bytes;
  // Returns 0, or the error that the call answers. Null: there is nothing to check before.
  int (*check)(Session& session, const void* argument);
  int (*carry_out)(Session& session, void* argument);
};

namespace detail {

template <typename Function>
struct ArgumentOf;
template <>
struct ArgumentOf<int (*)(Session&)> {
  static constexpr uint32_t kBytes = 0;
  using Type = char;
};
template <typename T>
struct ArgumentOf<int (*)(Session&, T&)> {
  static constexpr uint32_t kBytes = sizeof(T);
  using Type = T;
};

struct NothingToCheck {};

}  // namespace detail

// The row of a call whose function takes the session and, by reference, the argument.
// `check` is a function or a lambda without captures that takes the same two.
template <auto carry_out, auto check = detail::NothingToCheck{}>
constexpr Call call(uint32_t request) {
  using Argument = detail::ArgumentOf<decltype(carry_out)>;
  using Type = typename Argument::Type;
  Call row = {request, Argument::kBytes, nullptr, [](Session& session, void* argument) {
                if constexpr (Argument::kBytes == 0) {
                  return carry_out(session);
                } else {
                  return carry_out(session, *static_cast<Type*>(argument));
                }
              }};
  if constexpr (!std::is_same_v<std::remove_const_t<decltype(check)>, detail::NothingToCheck>) {
    row.check = [](Session& session, const void* argument) {
      return check(session, *static_cast<const Type*>(argument));
    };
  }
  return row;
}

extern const std::span<const Call> kCopyCalls;
extern const std::span<const Call> kMemoryCalls;
extern const std::span<const Call> kDmaCalls;
extern const std::span<const Call> kCoreCalls;
extern const std::span<const Call> kDeviceCalls;

// The row of a request, null if the emulated device does not serve it.
const Call* find_call(uint32_t request);

// Checks that several calls share.
inline constexpr auto names_a_core = [](Session& session, const auto& argument) {
  return session.check_core(argument.nc_id);
};

}  // namespace neuron::service

#endif
