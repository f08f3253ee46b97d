// SPDX-License-Identifier: Apache-2.0
// What a thread sanitizer has to be told: order between two threads that goes through another
// process.
//
// A thread stores a word of shared memory with release order, or sends a message. Another process
// sees that and then asks this one for something, which a second thread takes with acquire order.
// The two threads are ordered, but the sanitizer does not see the other process. The first thread
// calls hand_to_other_processes() before it stores or sends, the second take_from_other_processes()
// behind what it has taken. Both are empty in all other builds. Callers: any thread. Cannot fail.
//
// The sanitizer then takes every request for one that knows of all that was published before. It
// misses a race between two requests whose clients know nothing of each other.
//
// hand_over() and take_over() do the same for one object that a library hands from one thread to
// another: a library that is not compiled for the sanitizer, whose locks it therefore does not see.
#ifndef DRIVER_BASE_THREAD_SANITIZER_H
#define DRIVER_BASE_THREAD_SANITIZER_H

// gcc defines the macro, clang the feature.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NEURON_THREAD_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define NEURON_THREAD_SANITIZER 1
#endif
#ifndef NEURON_THREAD_SANITIZER
#define NEURON_THREAD_SANITIZER 0
#endif

#if NEURON_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace neuron::base {

#if NEURON_THREAD_SANITIZER
inline char seen_by_other_processes = 0;
inline void hand_to_other_processes() { __tsan_release(&seen_by_other_processes); }
inline void take_from_other_processes() { __tsan_acquire(&seen_by_other_processes); }
inline void hand_over(void* object) { __tsan_release(object); }
inline void take_over(void* object) { __tsan_acquire(object); }
#else
inline void hand_to_other_processes() {}
inline void take_from_other_processes() {}
inline void hand_over(void*) {}
inline void take_over(void*) {}
#endif

}  // namespace neuron::base

#endif
