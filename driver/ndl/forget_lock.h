// SPDX-License-Identifier: Apache-2.0
// A reader-writer lock that fork() has copied while this thread held it, made anew in the child.
//
// The lock knows its writer by thread number. The child's thread has another number and so cannot
// unlock it. A thread sanitizer goes on counting the lock as held unless it is told. Callers: the
// fork handlers, in the child's only thread. Cannot fail.
#ifndef DRIVER_NDL_FORGET_LOCK_H
#define DRIVER_NDL_FORGET_LOCK_H

#include <new>
#include <shared_mutex>

#include "driver/base/thread_sanitizer.h"

namespace neuron::ndl {

inline void forget_lock(std::shared_mutex& mutex) {
#if NEURON_THREAD_SANITIZER
  __tsan_mutex_pre_unlock(&mutex, 0);
  __tsan_mutex_post_unlock(&mutex, 0);
#endif
  new (&mutex) std::shared_mutex;
}

}  // namespace neuron::ndl

#endif
