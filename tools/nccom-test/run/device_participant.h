// SPDX-License-Identifier: Apache-2.0
// Ranks that are NeuronCores: each operation is a program whose collective runs on the collective
// cores of the chips, loaded and executed through libnrt.so.1.
//
// Concepts: a program copies its input to a buffer that the other ranks know, in HBM or in rows of
// SBUF, runs the collective, and copies the result out. Times are those of the device (model time
// on an emulated one), with both copies. Rank i has the i-th of this process's visible cores.
// Callers: threads of the ranks. Owns: the runtime of the process, models, tensors. Fails with the
// runtime's sentence.
#ifndef TOOLS_NCCOM_TEST_RUN_DEVICE_PARTICIPANT_H
#define TOOLS_NCCOM_TEST_RUN_DEVICE_PARTICIPANT_H

#include <memory>
#include <string>
#include <vector>

#include "tools/nccom-test/run/participant.h"

namespace neuron::nccom {

enum class BufferPlace : uint8_t { kMemory, kSbuf };

// What a tile in SBUF has before the next block of it begins beside: `columns` elements in each of
// `partitions`. 0: chosen by the size.
struct TileShape {
  uint32_t columns = 0, partitions = 0;
};

struct DeviceBuffers {
  BufferPlace place = BufferPlace::kMemory;
  TileShape input, output;        // in SBUF
  bool along_partitions = false;  // in SBUF: blocks of ranks lie below one another, not beside
  bool shared_output = false;     // in memory: one output for all works of a block
};

// `of_instance`: ranks on each instance; those of one are numbered one behind the other.
// `root`: ADDRESS:PORT where ranks of several processes meet; empty: all ranks are in this process.
// `sets`: of buffers, which iterations take in turn; at most 64 are made.
ccom::Result<std::vector<std::unique_ptr<Participant>>> make_device_participants(
    uint32_t first, uint32_t count, uint32_t ranks, uint32_t of_instance, const std::string& root,
    uint32_t sets = 1, const DeviceBuffers& buffers = {});

}  // namespace neuron::nccom

#endif
