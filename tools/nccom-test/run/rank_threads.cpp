// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/rank_threads.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

#include "driver/base/backoff.h"
#include "driver/base/deadline.h"
#include "tools/execution/core_claim.h"
#include "tools/nccom-test/run/device_participant.h"
#include "tools/nccom-test/run/host_participant.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::Result;

namespace {

HostSettings settings_of(const RunContext& context, const std::string& root,
                         const std::string& secret) {
  const Options& options = *context.options;
  HostSettings settings;
  settings.root = root;
  settings.secret = secret;
  settings.providers = options.providers;
  settings.timeout_ms = options.timeout_ms;
  settings.no_shared_memory =
      options.no_shared_memory || (context.backend == Backend::kNetwork && options.nodes == 1);
  settings.fast_order = options.fast_order;
  settings.unique_buffers = options.unique_buffers;
  settings.shared_output = options.shared_output;
  settings.every_result = options.check != Check::kNone;
  settings.operations = context.job->operations + context.job->operations_before;
  settings.memory_bytes = memory_needed(*context.job, options.ranks, settings);
  return settings;
}

Result<TileShape> tile_of(const char* option, const std::optional<OnChipShape>& shape) {
  if (!shape) return TileShape{};
  if (shape->step[0] != 1 || shape->step[1] != 1 || shape->count[0] == 0 || shape->count[1] == 0 ||
      shape->count[1] > 128) {
    return fail(CCOM_UNSUPPORTED,
                "{} [{},{}][{},{}]: elements of a row lie one behind the other and rows in "
                "neighbouring partitions; expected [1,1][elements,partitions] with at most 128 "
                "partitions",
                option, shape->step[0], shape->step[1], shape->count[0], shape->count[1]);
  }
  return TileShape{shape->count[0], shape->count[1]};
}

Result<DeviceBuffers> device_buffers(const Options& options) {
  DeviceBuffers buffers;
  buffers.place = options.on_chip ? BufferPlace::kSbuf : BufferPlace::kMemory;
  buffers.shared_output = options.shared_output;
  buffers.along_partitions = options.cc_dimension == 1;
  NEURON_TRY(input, tile_of("--input-shape", options.input_shape));
  NEURON_TRY(output, tile_of("--output-shape", options.output_shape));
  buffers.input = input;
  buffers.output = output;
  return buffers;
}

void pin_to(uint32_t rank) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  uint32_t left = rank % static_cast<uint32_t>(std::max(1, CPU_COUNT(&allowed)));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) {
      CPU_SET(cpu, &one);
      pthread_setaffinity_np(pthread_self(), sizeof one, &one);
      return;
    }
  }
}

// Each rank of the host is a thread. To find out one by one that there are too many would take the
// threads of all other programs first. A limit of this user's processes leaves those of other users
// alone, so only what is more than all of it is refused here; the first thread that it leaves no
// room for is told when it cannot be made. The kernel does not apply that limit to root.
Result<void> check_threads(uint32_t ranks) {
  rlimit own = {};
  if (::getuid() != 0 && ::getrlimit(RLIMIT_NPROC, &own) == 0 && ranks > own.rlim_cur) {
    return fail(CCOM_RESOURCE,
                "{} ranks would take {} threads, and this user may have {} processes and threads; "
                "ask for fewer ranks on this host (-r), or raise its limit of processes "
                "(ulimit -u), or ask for modelled time, which needs no threads (--simulate)",
                ranks, ranks, own.rlim_cur);
  }
  uint64_t all = RLIM_INFINITY;
  for (const char* path : {"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"}) {
    uint64_t number = 0;
    if (std::ifstream(path) >> number) all = std::min(all, number);
  }
  if (ranks <= all / 2) return {};
  return fail(CCOM_RESOURCE,
              "{} ranks would take {} threads of this host, which has {} for all programs, half of "
              "them for this one; ask for fewer ranks on this host (-r), or for modelled time, "
              "which needs no threads (--simulate)",
              ranks, ranks, all);
}

}  // namespace

struct RankThreads::Rank {
  std::unique_ptr<Participant> participant;
  std::thread thread;
};

Result<std::unique_ptr<RankThreads>> RankThreads::start(const RunContext& context,
                                                        const WorkerPart& part,
                                                        const std::string& root,
                                                        const std::string& secret, Sink sink) {
  const Options& options = *context.options;
  const HostSettings settings = settings_of(context, root, secret);
  std::vector<std::unique_ptr<Participant>> participants;
  NEURON_CHECK(check_threads(part.count));
  if (context.backend == Backend::kDevice) {
    // The runtime's libccom knows its providers from there.
    if (!options.providers.empty()) setenv("CCOM_PROVIDERS", options.providers.c_str(), 1);
    // The other cores of the host stay free for others.
    if (root.empty()) execution::claim_only(part.count);
    NEURON_TRY(buffers, device_buffers(options));
    NEURON_TRY(all, make_device_participants(
                        part.first, part.count, options.ranks, options.ranks / options.nodes, root,
                        settings.unique_buffers ? settings.operations : 1, buffers));
    participants = std::move(all);
  } else if (root.empty()) {
    NEURON_TRY(all, make_host_participants(options.ranks, settings));
    participants = std::move(all);
  } else {
    for (uint32_t i = 0; i < part.count; ++i) {
      participants.push_back(make_host_participant(part.first + i, options.ranks, settings));
    }
  }
  std::unique_ptr<RankThreads> threads(new RankThreads);
  const RankSettings rank_settings{options.check, context.seed, options.dump_folder};
  threads->running_ = participants.size();
  for (auto& participant : participants) {
    threads->ranks_.push_back(std::make_unique<Rank>());
    Rank* rank = threads->ranks_.back().get();
    rank->participant = std::move(participant);
    const auto work = [rank, rank_settings, sink, job = context.job, pin = options.pin,
                       running = &threads->running_] {
      if (pin) pin_to(rank->participant->rank());
      if (const auto joined = rank->participant->join(); !joined) {
        Message message;
        message.kind = Message::Kind::kBroken;
        message.rank = rank->participant->rank();
        message.text = joined.error().sentence;
        sink(message);
      } else {
        run_rank(*rank->participant, *job, rank_settings, sink);
      }
      // Publishes what the thread did. Pairs with the acquire in ended().
      running->fetch_sub(1, std::memory_order_release);
    };
    try {
      rank->thread = std::thread(work);
    } catch (const std::system_error& error) {
      const size_t started = threads->ranks_.size() - 1;
      threads->running_ -= participants.size() - started;
      return ccom::fail(
          CCOM_RESOURCE,
          "rank {} of {} has no thread: {}; {} were started; ask for fewer ranks on this "
          "host (-r), or raise its limit of processes (ulimit -u, a container's pids limit)",
          rank->participant->rank(), options.ranks, error.code().message(), started);
    }
  }
  return threads;
}

RankThreads::~RankThreads() {
  abort();
  for (const auto& rank : ranks_) {
    if (rank->thread.joinable()) rank->thread.join();
  }
}

void RankThreads::abort() {
  // Pairs with the release of the threads that end.
  if (running_.load(std::memory_order_acquire) == 0) return;
  for (const auto& rank : ranks_) rank->participant->abort();
}

bool RankThreads::got_on() {
  uint64_t all = 0;
  for (const auto& rank : ranks_) all += rank->participant->progress();
  return all != std::exchange(seen_, all);
}

bool RankThreads::ended(std::chrono::milliseconds patience) {
  const auto end = base::Deadline::after(patience);
  constexpr std::chrono::milliseconds kPause{1};
  base::Backoff backoff({0, 0, kPause, kPause});
  // Pairs with the release of the threads that end.
  while (running_.load(std::memory_order_acquire) != 0) {
    if (end.expired()) return false;
    backoff.wait(end.remaining());
  }
  return true;
}

}  // namespace neuron::nccom
