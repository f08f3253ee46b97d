// SPDX-License-Identifier: Apache-2.0
// Whether this is a build of the address or thread sanitizer, whose memory and time are its own.
// Callers: tests. A constant.
#ifndef TESTS_SUPPORT_SANITIZED_H
#define TESTS_SUPPORT_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NEURON_SANITIZED_BUILD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NEURON_SANITIZED_BUILD 1
#endif
#endif

namespace neuron::test {
#ifdef NEURON_SANITIZED_BUILD
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
}  // namespace neuron::test

#endif
