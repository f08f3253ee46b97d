// SPDX-License-Identifier: Apache-2.0
// Tables of a profile with ten million events: seconds and memory of neuron-profile, against what
// they may be.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "driver/isa/instruction.h"
#include "hw/address_map.h"
#include "hw/isa.h"
#include "hw/notification.h"
#include "runtime/ntff/trace_file.h"
#include "tests/bench/ratio.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::bench {
namespace {

constexpr uint64_t kEvents = 10'000'000;
constexpr double kMostSeconds = 30, kMostMebibytes = 512;

constexpr uint32_t kInstructions = 3000;  // of each engine

// Copies between tiles for each engine, and the packets of the rings.
void write_code(ntff::TraceFileWriter& file) {
  std::vector<uint8_t> code(size_t{kInstructions} * NEURON_INSTRUCTION_BYTES);
  for (uint32_t pc = 0; pc < kInstructions; ++pc) {
    isa::Instruction copy;
    copy.opcode = NEURON_OP_TENSOR_COPY;
    const auto tile = [](uint32_t base) {
      isa::Operand operand{.base = base, .parts = 128, .dtype = NEURON_DTYPE_F32};
      operand.space = NEURON_SPACE_SBUF;
      operand.ndim = 1;
      operand.size[0] = 128;
      operand.step[0] = 1;
      return operand;
    };
    copy.src0 = tile(pc % 64 * 512);
    copy.dst = tile((pc + 32) % 64 * 512);
    isa::encode(copy, isa::MutableBytes(reinterpret_cast<std::byte*>(code.data()) +
                                            size_t{pc} * NEURON_INSTRUCTION_BYTES,
                                        NEURON_INSTRUCTION_BYTES));
  }
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    (void)file.write(ntff::ChunkKind::kCode, {.part = 0, .index = engine}, code);
  }
  std::vector<ntff::TracePacket> packets(64);
  for (uint32_t n = 0; n < packets.size(); ++n) {
    packets[n] = {.bytes = 1024, .from = 0, .to = 1};
    packets[n].from_offset = n * 1024;
    packets[n].to_offset = n * 2 * NEURON_SBUF_PARTITION_STRIDE;
  }
  for (uint32_t engine = 0; engine < 16; ++engine) {
    (void)file.write(
        ntff::ChunkKind::kPackets, {.part = 0, .index = 1u << 8 | engine},
        {reinterpret_cast<const uint8_t*>(packets.data()), packets.size() * sizeof(packets[0])});
  }
}

// Instructions of three engines, transfers and changes of semaphores, in the order in which a
// profile has them: a chunk of one ring and then one of the next.
std::string write_profile(const std::string& path) {
  constexpr uint64_t kOfChunk = 16384;
  auto file = ntff::TraceFileWriter::create(path);
  if (!file) return file.error().sentence;
  (void)file->write(ntff::ChunkKind::kModel, {},
                    R"({"part":0,"name":"large","uuid":"00","hash":1,"generation":2,)"
                    R"("queues":[{"number":1,"name":"in","engines":16,"dynamic":false}],)"
                    R"("variables":[{"name":"x","kind":"input","bytes":1048576},)"
                    R"({"name":"tile","kind":"core","bytes":33554432}]})");
  write_code(*file);
  std::vector<neuron_notification> entries;
  uint64_t time = 0;
  for (uint64_t at = 0, chunk = 0; at < kEvents; at += kOfChunk, ++chunk) {
    constexpr uint32_t kSlots[] = {0, 1, 3, NEURON_NQ_SLOT_SEMAPHORE, NEURON_NQ_SLOT_TRANSFER};
    const uint32_t slot = kSlots[chunk % std::size(kSlots)];
    entries.clear();
    for (uint64_t n = 0; n < std::min(kOfChunk, kEvents - at); ++n) {
      time += 1000 + n % 7;
      neuron_notification entry{};
      entry.time = time;
      entry.pc = static_cast<uint32_t>(n % kInstructions);
      const uint32_t kind = slot == NEURON_NQ_SLOT_SEMAPHORE  ? NEURON_NK_SEMAPHORE
                            : slot == NEURON_NQ_SLOT_TRANSFER ? NEURON_NK_TRANSFER
                                                              : NEURON_NK_TRACE;
      entry.word = kind << NEURON_NW_KIND_SHIFT | 4u << NEURON_NW_CODE_SHIFT |
                   NEURON_OP_TENSOR_COPY << NEURON_NW_OPCODE_SHIFT;
      entry.info[0] = slot == NEURON_NQ_SLOT_TRANSFER
                          ? (NEURON_PLACE_HBM | NEURON_PLACE_CORE << 4) << 16 |
                                static_cast<uint32_t>(n % 16) << 8 | 1
                          : static_cast<uint32_t>(n % 200 + 100);
      entry.info[1] = 4096;
      entry.info[2] = 900;
      entries.push_back(entry);
    }
    (void)file->write(
        ntff::ChunkKind::kEntries, {.part = 0, .index = slot},
        {reinterpret_cast<const uint8_t*>(entries.data()), entries.size() * sizeof(entries[0])});
  }
  (void)file->write(ntff::ChunkKind::kExecution, {},
                    "{\"exec_id\":1,\"device_ps\":" + std::to_string(time) + "}");
  const auto written = file->write(ntff::ChunkKind::kEnd, {}, "{}");
  return written ? "" : written.error().sentence;
}

struct Use {
  double seconds = -1, mebibytes = -1;
};

// Runs a program as its only child and prints the most memory that it had, in KiB. Of this process,
// other benchmarks' children count as well.
constexpr const char* kMeasured =
    "import resource, subprocess, sys\n"
    "status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    "sys.exit(status)";

// Both figures are of one run.
Use show(const test::Folder& folder) {
  const double begin = now_seconds();
  const test::Run run =
      test::run({"/usr/bin/python3", "-c", kMeasured, test::built("bin/neuron-profile"), "view",
                 "-s", folder.path("large.ntff"), "--output-format", "parquet", "--output-file",
                 folder.path("tables")},
                {}, std::chrono::minutes(5));
  if (run.ending != 0) return {};
  return {now_seconds() - begin, std::strtod(run.output.c_str(), nullptr) / 1024};
}

}  // namespace

std::vector<Ratio> view() {
  const auto folder = std::make_shared<test::Folder>();
  const std::string error = write_profile(folder->path("large.ntff"));
  const auto last = std::make_shared<Use>();
  Ratio seconds{.name = "view-seconds", .peer_name = "the limit", .unit = "s", .goal = 1};
  seconds.smaller_is_better = true;
  seconds.rounds = 1;
  seconds.error = error;
  seconds.ours = [=] {
    *last = show(*folder);
    return last->seconds;
  };
  seconds.peer = [] { return kMostSeconds; };
  Ratio memory = seconds;
  memory.name = "view-memory";
  memory.unit = "MiB";
  memory.ours = [=] { return last->mebibytes; };
  memory.peer = [] { return kMostMebibytes; };
  return {seconds, memory};
}

}  // namespace neuron::bench
