// SPDX-License-Identifier: Apache-2.0
// Restores signals of the program that libraries of libfabric have taken.
//
// Concepts: libfabric loads every provider of its distribution. One of them, libinfinipath, changes
// signals as soon as it is loaded, whether its network is there or not: SIGINT, SIGTERM and the
// signals of a crash then print a backtrace, write a file into the working directory and end the
// program with status 1. Callers: this library when it is loaded, and every function that has just
// asked libfabric for providers. Thread-safe: as sigaction() is. Cannot fail: a handler that cannot
// be identified stays.
#ifndef CCOM_TRANSPORT_FABRIC_SIGNALS_H
#define CCOM_TRANSPORT_FABRIC_SIGNALS_H

namespace neuron::ccom {

// Replaces handlers that are code of such a library by the default; others stay.
void give_signals_back();

}  // namespace neuron::ccom

#endif
