// SPDX-License-Identifier: Apache-2.0
// What the peers read of the environment when they are loaded: one thread, and the kernels of this
// processor.
//
// Callers: main.cpp, before anything else. One thread. Cannot fail.
#ifndef TESTS_BENCH_PEER_ENVIRONMENT_H
#define TESTS_BENCH_PEER_ENVIRONMENT_H

namespace neuron::bench {

// Sets the number of threads of OpenBLAS and OpenMP to one, and the kernels of OpenBLAS to
// `core_type`: an unknown processor would get older ones. Whatever the caller's environment says is
// replaced, because a peer with another number of threads is another peer. True: something was
// different, so the program has to start over.
bool set_peer_environment(const char* core_type);

}  // namespace neuron::bench

#endif
