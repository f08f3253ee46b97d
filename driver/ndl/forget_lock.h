// SPDX-License-Identifier: Apache-2.0
// Reinitialises, in the child, a reader-writer lock that was held when fork() copied it.
//
// The lock knows its writer by thread number. The child's thread has another number and so cannot
// unlock it. A thread sanitizer must be told, or it goes on counting the lock as held. Callers: the
// fork handlers, in the child's only thread. Cannot fail.
#ifndef DRIVER_NDL_FORGET_LOCK_H
#define DRIVER_NDL_FORGET_LOCK_H

#include <new>
#include <shared_mutex>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NEURON_NDL_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) && !defined(NEURON_NDL_THREAD_SANITIZER)
#define NEURON_NDL_THREAD_SANITIZER 1
#endif
#ifdef NEURON_NDL_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace neuron::ndl {

inline void forget_lock(std::shared_mutex& mutex) {
#ifdef NEURON_NDL_THREAD_SANITIZER
  __tsan_mutex_pre_unlock(&mutex, 0);
  __tsan_mutex_post_unlock(&mutex, 0);
#endif
  new (&mutex) std::shared_mutex;
}

}  // namespace neuron::ndl

#endif
