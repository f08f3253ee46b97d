// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/capture.h"

#include <nrt/nrt_profile.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "driver/base/crc32c.h"
#include "runtime/base/file.h"
#include "runtime/neff/npy_file.h"
#include "tools/common/progress_bar.h"
#include "tools/execution/dtype.h"
#include "tools/execution/session.h"
#include "tools/neuron-profile/sink/sink.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {
namespace {

using execution::Model;
using execution::Port;
using runtime::Error;
using runtime::fail;
using runtime::Result;

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Result<std::vector<uint8_t>> read_input(const std::string& file, const Port& port) {
  std::vector<uint8_t> bytes;
  if (ends_with(file, ".npy")) {
    NEURON_TRY(array, tools::read_npy_file(file));
    bytes = std::move(array.data);
  } else {
    NEURON_TRY(contents, tools::read_file(file));
    bytes = std::move(contents);
  }
  if (bytes.size() != port.bytes) {
    return fail(NRT_INVALID, "input {}: {} has {} bytes of data, expected {}", port.name, file,
                bytes.size(), port.bytes);
  }
  return bytes;
}

// The pairs of a rank.
Result<std::vector<std::string>> inputs_of(const CaptureWishes& wishes, uint32_t rank) {
  if (wishes.multi_input.empty()) return wishes.inputs;
  NEURON_TRY(bytes, tools::read_file(wishes.multi_input));
  std::istringstream lines(std::string(bytes.begin(), bytes.end()));
  std::string line;
  for (uint32_t n = 0; std::getline(lines, line); ++n) {
    if (n != rank) continue;
    std::istringstream words(line);
    std::vector<std::string> list;
    for (std::string word; words >> word;) list.push_back(word);
    return list;
  }
  return fail(NRT_INVALID, "{} has no line {} with the inputs of rank {}", wishes.multi_input,
              rank + 1, rank);
}

Result<void> write_inputs(const Model& model, const std::vector<std::string>& pairs) {
  if (pairs.size() % 2 != 0) {
    return fail(NRT_INVALID, "the input {} has no file: give NAME FILE NAME FILE ...",
                pairs.back());
  }
  NEURON_CHECK(model.fill(execution::Fill::kZero));
  for (size_t n = 0; n < pairs.size(); n += 2) {
    const Port* named = nullptr;
    std::string names;
    for (const Port& port : model.ports()) {
      if (!port.input) continue;
      names += (names.empty() ? "" : ", ") + port.name;
      if (port.name == pairs[n]) named = &port;
    }
    if (named == nullptr) {
      return fail(NRT_INVALID, "the NEFF has no input {}; its inputs are: {}", pairs[n], names);
    }
    NEURON_TRY(bytes, read_input(pairs[n + 1], *named));
    NEURON_CHECK(named->write(bytes));
  }
  return {};
}

// What no output may destroy.
std::vector<std::string> files_read(const CaptureWishes& wishes, uint32_t rank) {
  std::vector<std::string> files = {wishes.neff, wishes.multi_input};
  const auto pairs = inputs_of(wishes, rank);
  if (!pairs) return files;  // which the rank says when it reads them
  for (size_t n = 1; n < pairs->size(); n += 2) files.push_back((*pairs)[n]);
  return files;
}

Result<void> check_destination(const std::string& file, const CaptureWishes& wishes,
                               uint32_t rank) {
  NEURON_CHECK(refuse_inputs(file, files_read(wishes, rank)));
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::is_regular_file(status)) return {};
  const bool empty = std::filesystem::file_size(file, error) == 0;
  if (empty || Profile::is_one(file)) return {};
  return fail(NRT_INVALID,
              "'{}' exists and is no profile of this project, so it is not replaced by one: name "
              "another file, or remove it",
              file);
}

// Shows for how long something is going on whose end nobody knows.
class Elapsed {
 public:
  explicit Elapsed(const std::string& what) : bar_(what, "s"), thread_([this] { run(); }) {}
  ~Elapsed() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Elapsed(const Elapsed&) = delete;
  Elapsed& operator=(const Elapsed&) = delete;

 private:
  void run() {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return done_; })) {
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      bar_.show(static_cast<uint64_t>(time.count()), 0);
    }
  }

  tools::ProgressBar bar_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

class Rank {
 public:
  Rank(const CaptureWishes& wishes, uint32_t rank) : wishes_(wishes), rank_(rank) {}

  // Thread of the rank.
  void run(const std::vector<uint8_t>& neff) {
    if (auto done = work(neff); !done) error_ = done.error();
  }

  const std::optional<Error>& error() const { return error_; }
  const std::string& file() const { return file_; }
  const std::string& text() const { return text_; }

 private:
  bool is_profiled() const {
    return wishes_.profile && (wishes_.ranks == 0 || wishes_.profiled_rank == "all" ||
                               wishes_.profiled_rank == std::to_string(rank_));
  }

  Result<void> start(const Model& model) {
    file_ = session_name(wishes_, rank_);
    if (const NRT_STATUS s = nrt_profile_start(model.handle(), file_.c_str())) {
      return execution::failure("starting the profile", s);
    }
    return {};
  }
  Result<void> stop() {
    if (const NRT_STATUS s = nrt_profile_stop(file_.c_str())) {
      return execution::failure("ending the profile", s);
    }
    return {};
  }

  Result<void> work(const std::vector<uint8_t>& neff) {
    // Of several ranks, which run together, one tells.
    std::optional<Elapsed> elapsed;
    if (rank_ == 0) elapsed.emplace("capturing " + wishes_.session);
    NEURON_TRY(model, Model::load(neff, rank_, wishes_.ranks));
    NEURON_TRY(pairs, inputs_of(wishes_, rank_));
    NEURON_CHECK(write_inputs(*model, pairs));
    if (wishes_.executions > 1) elapsed.reset();
    const bool profiled = is_profiled();
    if (profiled && wishes_.nth == 0) NEURON_CHECK(start(*model));
    Result<void> executed;
    tools::ProgressBar bar("capturing " + wishes_.session, "executions");
    for (uint32_t n = 1; n <= wishes_.executions; ++n) {
      const bool this_one = profiled && wishes_.nth == n;
      if (this_one) NEURON_CHECK(start(*model));
      auto report = model->execute();
      if (this_one) NEURON_CHECK(stop());
      if (!report) {
        text_ += "execution " + std::to_string(n) + " failed: " + report.error().sentence + "\n";
        if (!wishes_.ignore_errors) {
          executed = report.error().with("execution {}", n);
          break;
        }
        continue;
      }
      NEURON_CHECK(keep_outputs(*model, n));
      if (rank_ == 0 && !elapsed) bar.show(n, wishes_.executions);
    }
    if (profiled && wishes_.nth == 0) NEURON_CHECK(stop());
    return executed;
  }

  Result<void> keep_outputs(const Model& model, uint32_t execution) {
    const bool save = (wishes_.save_outputs || wishes_.save_npy || wishes_.outputs_each_time) &&
                      (execution == wishes_.executions || wishes_.outputs_each_time);
    if (!save && !wishes_.check_determinism) return {};
    size_t index = 0;
    for (const Port& port : model.ports()) {
      if (port.input) continue;
      NEURON_TRY(bytes, port.read());
      if (wishes_.check_determinism) {
        const uint32_t sum = base::crc32c(bytes);
        if (execution == 1) sums_.push_back(sum);
        if (sums_.size() <= index || sums_[index] != sum) {
          return fail(NRT_FAILURE,
                      "output {} of execution {} differs from that of execution 1 (CRC {:08x}, "
                      "expected {:08x})",
                      port.name, execution, sum, sums_.size() > index ? sums_[index] : 0);
        }
      }
      ++index;
      if (save) NEURON_CHECK(save_output(port, std::move(bytes), execution));
    }
    return {};
  }

  Result<void> save_output(const Port& port, std::vector<uint8_t> bytes, uint32_t execution) {
    std::string name = port.name;
    if (wishes_.ranks > 1) name += "_rank_" + std::to_string(rank_);
    if (wishes_.outputs_each_time && execution > 1) name += "." + std::to_string(execution);
    std::string file = name;
    for (char& c : file) c = c == '/' ? '_' : c;
    if (wishes_.save_npy) {
      file += ".npy";
      const std::string& kind = execution::npy_kinds(port.dtype)[0];
      bytes = tools::write_npy({.type = (kind[1] == '1' ? "|" : "<") + kind,
                                .shape = port.shape,
                                .data = std::move(bytes)});
    }
    std::vector<std::string> kept = files_read(wishes_, rank_);
    kept.push_back(file_);
    NEURON_CHECK(refuse_inputs(file, kept));
    NEURON_CHECK(tools::write_file(file, bytes));
    text_ += "saved output \"" + name + "\" as \"" + file + "\"\n";
    return {};
  }

  const CaptureWishes& wishes_;
  const uint32_t rank_;
  std::string file_, text_;
  std::vector<uint32_t> sums_;
  std::optional<Error> error_;
};

// Empty: the profile has all events.
std::string losses_of(const std::string& file) {
  const auto profile = Profile::open(file);
  if (!profile) return {};  // which view says better
  std::string text;
  if (profile->lost() != 0) {
    text += runtime::format(
        "{} lacks {} events, which the device dropped because they came faster than this host "
        "read them, so its counts and times are too small: profile a shorter program, one "
        "execution only (--profile-nth-exec), or on a host with nothing else to do\n",
        file, profile->lost());
  }
  if (!profile->ends_early().empty()) {
    text += runtime::format(
        "{} ends early, because it could not be written further ({}): make "
        "room, and capture again\n",
        file, profile->ends_early());
  }
  return text;
}

}  // namespace

std::string session_name(const CaptureWishes& wishes, uint32_t rank) {
  std::string stem = wishes.session, end;
  if (const size_t dot = stem.rfind('.'); dot != std::string::npos && dot > stem.rfind('/') + 1) {
    end = stem.substr(dot);
    stem.resize(dot);
  }
  if (wishes.ranks > 0) stem += "_rank_" + std::to_string(rank);
  if (wishes.nth_given && wishes.nth != 0) stem += "_exec_" + std::to_string(wishes.nth);
  return stem + end;
}

Result<Capture> capture(const CaptureWishes& wishes) {
  if (wishes.profile && wishes.nth > wishes.executions) {
    return fail(NRT_INVALID, "--profile-nth-exec is {}, and --num-exec only {}", wishes.nth,
                wishes.executions);
  }
  if (wishes.ranks > 0 && wishes.profiled_rank != "all") {
    bool known = false;
    for (uint32_t rank = 0; rank < wishes.ranks; ++rank) {
      known = known || wishes.profiled_rank == std::to_string(rank);
    }
    if (!known) {
      return fail(NRT_INVALID,
                  "--collectives-profile-id is '{}', expected all or a rank from 0 to {}",
                  wishes.profiled_rank, wishes.ranks - 1);
    }
  }
  if (wishes.profile && wishes.session.empty()) {
    return fail(NRT_INVALID, "--session-file is empty: name the profile to write");
  }
  NEURON_TRY(neff, tools::read_file(wishes.neff));
  const uint32_t count = std::max(wishes.ranks, 1u);
  for (uint32_t rank = 0; wishes.profile && rank < count; ++rank) {
    NEURON_CHECK(check_destination(session_name(wishes, rank), wishes, rank));
  }
  NEURON_TRY(session, execution::Session::open(count));
  if (session->cores() < count) {
    return fail(NRT_INVALID, "{} ranks need as many NeuronCores, and there are {}", count,
                session->cores());
  }
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < count; ++number) {
    ranks.push_back(std::make_unique<Rank>(wishes, number));
    // The vector may move what it holds when the next rank is added.
    Rank* const rank = ranks.back().get();
    if (count > 1) threads.emplace_back([&neff, rank] { rank->run(neff); });
  }
  if (count == 1) ranks[0]->run(neff);
  for (std::thread& thread : threads) thread.join();
  Capture result;
  for (const auto& rank : ranks) {
    result.text += rank->text();
    if (!rank->file().empty()) result.files.push_back(rank->file());
  }
  for (const std::string& file : result.files) result.losses += losses_of(file);
  for (const auto& rank : ranks) {
    if (rank->error()) return rank->error()->with("{}", wishes.neff);
  }
  return result;
}

}  // namespace neuron::profile
