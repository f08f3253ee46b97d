// SPDX-License-Identifier: Apache-2.0
// The flight recorder as a file: what this rank did, why it stopped, and what it knows of the
// others.
//
// Callers: ccom_dump from any thread; the communicator's thread after a failure. Thread-safe:
// write() and json(). Fails: CCOM_SYSTEM with the file. A file is written whole or not at all.
#ifndef CCOM_COMMUNICATOR_DUMP_H
#define CCOM_COMMUNICATOR_DUMP_H

#include <string>

#include "ccom/bootstrap/bootstrap.h"
#include "ccom/communicator/first_failure.h"
#include "ccom/communicator/shared_memory.h"
#include "ccom/flight/flight_recorder.h"

namespace neuron::ccom {

class FlightDump {
 public:
  // `path`: for after_failure(); empty: none. All arguments outlive this object. It is a folder,
  // which is made if it is missing, unless it ends in ".json": then the file of a rank has
  // -RANK-PID in front of the ending. So has a file beside a path that cannot be a folder.
  FlightDump(const Bootstrap& bootstrap, const SharedMemory& memory, const FlightRecorder& recorder,
             const FirstFailure& failure, std::string path)
      : bootstrap_(bootstrap),
        memory_(memory),
        recorder_(recorder),
        failure_(failure),
        path_(std::move(path)) {}

  std::string json() const;
  // To this file; an existing folder gets ccom-RANK-PID.json.
  Result<void> write(const std::string& path) const;
  // Writes the dump once, if there is a failure. The communicator's thread calls it when it meets
  // the failure. The thread that notices the failure does not: it may be in the middle of anything.
  void after_failure();
  // Makes after_failure() do nothing from now on.
  void forget() { done_ = true; }

 private:
  uint32_t number() const;
  std::string own_name() const;  // RANK-PID, with -2 and so on behind it from the second one
  Result<void> write_beside_others(const std::string& path) const;

  const Bootstrap& bootstrap_;
  const SharedMemory& memory_;
  const FlightRecorder& recorder_;
  const FirstFailure& failure_;
  std::string path_;
  bool done_ = false;
  mutable uint32_t number_ = 0;  // of this rank's dumps in a folder; 0: none yet
};

}  // namespace neuron::ccom

#endif
