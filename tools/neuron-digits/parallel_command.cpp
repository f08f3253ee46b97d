// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-digits/parallel_command.h"

#include <netinet/in.h>
#include <nrt/nrt_open.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "driver/base/file_descriptor.h"
#include "driver/base/sha256.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/launched/launched.h"
#include "tools/neuron-digits/failure_text.h"
#include "tools/neuron-digits/process_group.h"
#include "tools/neuron-digits/rank_threads.h"

namespace neuron::digits {
namespace {

constexpr const char* kRootVariable = "NEURON_RT_ROOT_COMM_ID";
constexpr uint32_t kBatch = kernels::kDigitsTrainingBatch;

// The processes meet at the port behind that of the ranks. Empty: the root is no IPv4 address.
std::string behind(const std::string& root) {
  const auto address = tools::address_behind(root);
  return address ? tools::text_of(*address, ntohs(address->sin_port)) : "";
}

bool is_free(sockaddr_in address, uint16_t port) {
  address.sin_port = htons(port);
  const base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket &&
         bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Where this process can be rank 0 of those that are left: its address on the way to the root
// before, with a port that is free now, below those that Linux gives out. Empty: there is none.
std::string new_root(const std::string& before) {
  const auto there = tools::address_behind(before);
  if (!there) return "";
  sockaddr_in address = *there;
  const base::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  socklen_t length = sizeof address;
  if (!socket ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return "";
  }
  std::random_device random;
  for (int i = 0; i < 100; ++i) {
    const auto port = static_cast<uint16_t>(20000 + random() % 12000);
    if (is_free(address, port)) return tools::text_of(address, port);
  }
  return "";
}

// The first bytes of the weights' SHA-256, as a number that processes can compare.
uint64_t digest_of(const std::vector<uint8_t>& weights) {
  const auto digest = base::Sha256::of(weights);
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof number; ++i) number = number << 8 | digest[i];
  return number;
}

class ParallelJob {
 public:
  ParallelJob(const ParallelOptions& options, std::span<const Digit> training)
      : options_(options), training_(training) {}

  bool join();
  bool train();
  bool report(std::span<const Digit> unseen);

 private:
  uint32_t ranks() const { return options_.cores * group_.processes(); }
  bool is_first() const { return group_.process() == 0; }
  bool train_once();
  bool go_on();

  const ParallelOptions& options_;
  const std::span<const Digit> training_;
  ProcessGroup group_;
  std::string root_;
  uint32_t rows_ = 0;
  std::vector<uint8_t> neff_;
  Checkpoints checkpoints_;
  uint64_t step_ps_ = 0;
  bool has_device_ = true;
  std::string error_;
};

bool ParallelJob::join() {
  const auto launched = tools::read_launched([](const char* name) { return std::getenv(name); });
  if (!launched) return complain(launched.error().sentence);
  const uint32_t processes = *launched ? (*launched)->processes : 1;
  if (const char* given = std::getenv(kRootVariable)) root_ = given;
  if (processes > 1 && root_.empty()) {
    tools::Launched job = **launched;
    if (job.job.empty()) job.job = std::to_string(getppid());
    const auto root = tools::root_of(job);
    if (!root) return complain(root.error().sentence);
    root_ = *root;
  }
  if (processes > 1 && behind(root_).empty()) {
    return complain(std::string(kRootVariable) + " is \"" + root_ +
                    "\"; expected IPV4:PORT, with PORT and the next one free");
  }
  const uint64_t all = uint64_t{options_.cores} * processes;
  if (all > kBatch) {
    return complain(std::to_string(all) + " ranks (" + std::to_string(processes) +
                    " processes with " + std::to_string(options_.cores) +
                    " cores) are more than the " + std::to_string(kBatch) +
                    " digits of a batch; use fewer --cores");
  }
  if (!group_.join(*launched ? (*launched)->process : 0, processes, behind(root_))) {
    return complain(group_.error());
  }
  rows_ = kBatch / ranks();
  auto neff = kernels::digits_parallel("digits_parallel", rows_);
  if (!neff) return complain(neff.error().sentence);
  neff_ = std::move(*neff);
  return true;
}

bool ParallelJob::train_once() {
  if (!root_.empty()) setenv(kRootVariable, root_.c_str(), 1);
  if (NRT_STATUS s = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "")) {
    error_ = failure_text("no device", s);
    has_device_ = false;
    return false;
  }
  RankThreads threads;
  const unsigned step_of_news = std::max(1u, options_.epochs / 10);
  // The step divides by a whole batch; the ranks together may have less.
  const float rate =
      options_.rate * static_cast<float>(kBatch) / static_cast<float>(rows_ * ranks());
  const bool good = threads.train({.first_rank = group_.process() * options_.cores,
                                   .cores = options_.cores,
                                   .ranks = ranks(),
                                   .epochs = options_.epochs,
                                   .rate = rate,
                                   .neff = neff_,
                                   .on_epoch =
                                       [&](unsigned epoch) {
                                         if (!is_first() || epoch % step_of_news != 0) return;
                                         std::printf("epoch %u of %u\n", epoch, options_.epochs);
                                         std::fflush(stdout);
                                       }},
                                  training_, checkpoints_);
  step_ps_ = threads.step_ps();
  error_ = threads.error();
  nrt_close();
  return good;
}

// After a failure: the processes that are left agree where to go on. All have the weights of that
// epoch, since ranks are at most one apart.
bool ParallelJob::go_on() {
  if (!group_.shrink()) return complain(group_.error());
  uint64_t epoch = checkpoints_.empty() ? 0 : checkpoints_.rbegin()->first;
  std::string root = is_first() ? new_root(root_) : "";
  if (!group_.least(epoch) || !group_.of_first(root)) return complain(group_.error());
  if (root.empty() && group_.processes() > 1) {
    return complain("the first process that is left finds no free port for the ranks to meet at");
  }
  root_ = root;
  checkpoints_.erase(checkpoints_.upper_bound(static_cast<unsigned>(epoch)), checkpoints_.end());
  if (epoch > 0 && !checkpoints_.contains(static_cast<unsigned>(epoch))) {
    return complain("the weights of epoch " + std::to_string(epoch) +
                    ", where the others go on, are not here any more");
  }
  std::printf("%u ranks of %u processes go on behind epoch %llu\n", ranks(), group_.processes(),
              static_cast<unsigned long long>(epoch));
  std::fflush(stdout);
  return true;
}

bool ParallelJob::train() {
  if (is_first()) {
    std::printf("training on %zu digits by %u ranks of %u processes, %u epochs, batches of %u\n",
                training_.size(), ranks(), group_.processes(), options_.epochs, rows_ * ranks());
    std::fflush(stdout);
  }
  // Each failure takes a process away, so this ends.
  for (uint32_t left = group_.processes(); !train_once(); --left) {
    complain(error_);
    if (!options_.goes_on || !has_device_ || left <= 1 || !go_on()) return false;
  }
  return true;
}

bool ParallelJob::report(std::span<const Digit> unseen) {
  const std::vector<uint8_t>& weights = checkpoints_.rbegin()->second;
  const uint64_t own = digest_of(weights);
  uint64_t least = own, of_most = ~own;
  if (!group_.least(least) || !group_.least(of_most)) return complain(group_.error());
  if (least != own || ~of_most != own) {
    return complain("the processes have ended with different weights");
  }
  if (!is_first()) return true;
  if (NRT_STATUS s = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "")) {
    return complain(failure_text("no device", s));
  }
  Evaluation seen, fresh;
  bool good = false;
  {
    Trainer trainer;
    const auto neff = kernels::digits_training("digits_training_f32", NEURON_DTYPE_F32, false);
    good = neff && trainer.load("the evaluation", *neff) && trainer.set_weights(weights) &&
           trainer.evaluate(training_, seen) && trainer.evaluate(unseen, fresh);
    if (!good) complain(neff ? trainer.error() : neff.error().sentence);
  }
  nrt_close();
  if (!good) return false;
  std::printf("loss %.4f; accuracy on unseen digits %.4f; model time of a step %.3f us\n",
              seen.loss, fresh.accuracy, static_cast<double>(step_ps_) / 1e6);
  std::printf("weights %016llx, the same on all ranks\n", static_cast<unsigned long long>(own));
  return true;
}

}  // namespace

bool train_parallel(const ParallelOptions& options, std::span<const Digit> training,
                    std::span<const Digit> unseen) {
  ParallelJob job(options, training);
  return job.join() && job.train() && job.report(unseen);
}

}  // namespace neuron::digits
