// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model_host.h"

#include <nrt/nrt_open.h>

#include <algorithm>
#include <utility>

#include "driver/base/format.h"
#include "tools/neuron-serve/log.h"

namespace neuron::serve {
namespace {

constexpr std::chrono::milliseconds kFirstRetry{100}, kLastRetry{2'000};
constexpr std::chrono::seconds kStuck{120};
}  // namespace

ModelHost::ModelHost(const Options& options, Events events)
    : options_(options),
      events_(std::move(events)),
      compiler_(
          options.cache, options.compile_timeout, [this] { return compiling_is_vain(); },
          [this](const std::string& what) { compiling(what); }) {}

ModelHost::~ModelHost() { stop(); }

void ModelHost::start() {
  thread_ = std::thread([this] { run(); });
}

void ModelHost::reload(std::function<void(ReloadReport)> done) {
  std::lock_guard lock(mutex_);
  reloads_.push_back(std::move(done));
  changed_.notify_all();
}

void ModelHost::lost(const std::string& error) {
  std::lock_guard lock(mutex_);
  if (lost_.empty()) lost_ = error.empty() ? "the device does not answer" : error;
  // Told first: whoever gets a 503 because of what follows sees a service that is not ready.
  events_.unready(lost_);
  // From now on nothing waits for a device that is gone: pushes fail, and recover() does the rest.
  for (const auto& [name, model] : models_) model->queue.close();
  changed_.notify_all();
}

void ModelHost::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    // The network thread, which would close them, may have ended before it was asked to.
    for (const std::shared_ptr<Model>& model : retired_) model->queue.close();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool ModelHost::alive() const {
  std::lock_guard lock(mutex_);
  const int64_t now = Clock::now().time_since_epoch().count();
  for (const auto& [name, model] : models_) {
    for (const auto& counter : model->counters) {
      const int64_t beat = counter->beat_ns.load(std::memory_order_relaxed);
      if (beat != 0 && now - beat > std::chrono::nanoseconds(kStuck).count()) return false;
    }
  }
  return true;
}

bool ModelHost::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return stop_; });
  return !stop_;
}

// Also without a device, whose return must not wait for a compiler.
bool ModelHost::compiling_is_vain() const {
  std::lock_guard lock(mutex_);
  return stop_ || !lost_.empty();
}

Model::Events ModelHost::model_events() {
  return {.deliver = events_.deliver,
          .device_lost = [this](const std::string& error) { lost(error); }};
}

void ModelHost::publish(State state, const std::string& detail) {
  auto catalog = std::make_shared<Catalog>();
  // Held until it is published, so that what lost() says cannot be overtaken.
  std::lock_guard lock(mutex_);
  const bool gone = !lost_.empty();
  catalog->state = gone ? State::kRecovering : state;
  catalog->detail = gone ? lost_ : detail;
  for (const auto& [name, model] : models_) {
    if (model->running()) catalog->models.emplace(name, model);
  }
  catalog->failed = failed_;
  catalog->attached = attached_;
  events_.publish(std::move(catalog));
}

void ModelHost::run() {
  std::string error = attach();
  ReloadReport first;
  if (error.empty()) {
    do_reload(first);
    unread_ = !first.good && compiling_is_vain();
    error = first.error;
    if (error.empty()) error = unknown_batched();
    if (error.empty() && models_.empty()) {
      error = failed_.empty()
                  ? options_.only.empty()
                        ? "no file in " + options_.models +
                              " ends with .neff or .onnx, and no folder in it has versions of a "
                              "model"
                        : options_.models + "/" + options_.only +
                              " is no model: its name ends neither with .neff nor with .onnx; give "
                              "a model or a folder of models with --models"
                  : "no model can be served; why is told for each of them above";
    }
  }
  events_.started(error);
  if (!error.empty()) {
    stop_models();
    return;
  }
  // bounded: until stop()
  while (true) {
    std::deque<std::function<void(ReloadReport)>> reloads;
    std::string why;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::seconds(1),
                        [&] { return stop_ || !reloads_.empty() || !lost_.empty(); });
      if (stop_) break;
      why = lost_;
      if (why.empty()) reloads.swap(reloads_);
    }
    if (!why.empty()) {
      recover();
      // What was being read when the device went is read again.
      if (std::exchange(unread_, false)) reloads.emplace_back([](const ReloadReport&) {});
    }
    for (const auto& done : reloads) {
      ReloadReport report;
      do_reload(report);
      unread_ = !report.good && compiling_is_vain();
      done(std::move(report));
    }
  }
  stop_models();
}

void ModelHost::stop_models() {
  for (const auto& [name, model] : models_) {
    model->queue.close();
    Jobs jobs = model->queue.clear();
    for (const std::shared_ptr<Job>& job : jobs) {
      job->outcome = Outcome::kUnavailable;
      job->detail = "the device was lost, or this server ends";
    }
    if (!jobs.empty()) events_.deliver(std::move(jobs));
  }
  for (const auto& [name, model] : models_) model->stop();
  if (open_) nrt_close();
  open_ = false;
}

std::string ModelHost::attach() {
  const NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "neuron-serve", "");
  if (status != NRT_SUCCESS) return runtime_failure("initialising the runtime", status);
  open_ = true;
  ++attached_;
  uint32_t count = 0;
  if (const NRT_STATUS s = nrt_get_visible_vnc_count(&count)) {
    return runtime_failure("asking for the number of cores", s);
  }
  char type[64] = "";
  nrt_open_get_instance_type(type, sizeof type);
  instance_type_ = type;
  cores_ = options_.cores;
  if (cores_.empty()) {
    for (uint32_t core = 0; core < count; ++core) cores_.push_back(core);
  }
  if (cores_.empty() || cores_.back() - options_.first_core >= count) {
    return base::format("--cores names core {}; this process has {} (NEURON_RT_VISIBLE_CORES)",
                        cores_.empty() ? 0 : cores_.back(), count);
  }
  if (options_.replicas > cores_.size()) {
    return base::format("--replicas asks for {} cores; there are {}", options_.replicas,
                        cores_.size());
  }
  return "";
}

std::string ModelHost::unknown_batched() const {
  for (const std::string& name : options_.batched) {
    const auto has = [&](const auto& entry) { return name_of(entry.first) == name; };
    if (std::any_of(models_.begin(), models_.end(), has)) continue;
    if (std::any_of(failed_.begin(), failed_.end(), has)) continue;
    return base::format("--batched names the model {}, and {} has no {}.neff or {}.onnx", name,
                        options_.models, name, name);
  }
  return "";
}

std::vector<uint32_t> ModelHost::next_cores() {
  std::vector<uint32_t> cores;
  for (uint32_t i = 0; i < options_.replicas; ++i) {
    cores.push_back(cores_[next_core_++ % cores_.size()]);
  }
  return cores;
}

// Shown where somebody may wait for it.
void ModelHost::compiling(const std::string& what) {
  log(what);
  const bool first = models_.empty() && attached_ == 1;
  if (first) publish(State::kStarting, what);
}

// What is said of the model, and the NEFFs that it is made of.
bool ModelHost::complete(const std::string& key, const FoundModel& file, ModelSpec& spec,
                         std::string& error) {
  spec.name = key;
  spec.file = file.file;
  spec.warm_up = file.settings.warm_up;
  const auto& named = options_.batched;
  // Several batch sizes mean nothing else.
  spec.batched = file.settings.batched || !file.settings.batch_sizes.empty() ||
                 std::find(named.begin(), named.end(), name_of(key)) != named.end();
  error = file.error;
  if (!error.empty()) return false;
  spec.neffs = {file.file};
  return !file.compiled_here() ||
         compiler_.compile(key, file.file, file.settings, instance_type_, spec.neffs, error);
}

std::shared_ptr<Model> ModelHost::load(const std::string& key, const FoundModel& file,
                                       const std::vector<uint32_t>& cores, std::string& error) {
  ModelSpec spec;
  if (!complete(key, file, spec, error)) return nullptr;
  Replicas replicas = replicate(spec, cores, error);
  if (replicas.empty()) return nullptr;
  return std::make_shared<Model>(spec, file.identity, std::move(replicas), options_.queue_limit,
                                 options_.latency_budget);
}

ModelHost::Replicas ModelHost::replicate(ModelSpec& spec, const std::vector<uint32_t>& cores,
                                         std::string& error) {
  Replicas replicas;
  ModelSpec first;
  for (const uint32_t core : cores) {
    std::unique_ptr<Replica> replica = Replica::load(core, core - options_.first_core, spec, error);
    if (replica == nullptr) return {};
    if (!replicas.empty() && !spec.same_tensors(first)) {
      error = spec.file + " was replaced while it was being loaded; load it again";
      return {};
    }
    first = spec;
    replicas.push_back(std::move(replica));
  }
  return replicas;
}

// What was loaded stays until its replacement works; a file that is broken changes nothing.
void ModelHost::do_reload(ReloadReport& report) {
  std::map<std::string, FoundModel> found;
  if (!scan_models(options_.models, options_.only, found, report.error)) {
    report.good = false;
    return;
  }
  Models next;
  std::vector<std::shared_ptr<Model>> retired;
  failed_.clear();
  for (auto& [name, file] : found) {
    const auto old = models_.find(name);
    if (old != models_.end() && file.error.empty() && old->second->identity == file.identity &&
        old->second->running()) {
      next.emplace(name, old->second);
      report.models[name] = "unchanged";
      continue;
    }
    std::string error;
    std::vector<uint32_t> cores;
    if (old != models_.end()) {
      for (const auto& counter : old->second->counters) cores.push_back(counter->core);
    } else if (file.error.empty()) {
      cores = next_cores();
    }
    std::shared_ptr<Model> model = load(name, file, cores, error);
    if (model == nullptr) {
      failed_[name] = error;
      report.good = false;
      report.models[name] = "failed: " + error;
      log(base::format("model {} cannot be loaded{}: {}", name,
                       old != models_.end() ? "; what was loaded before stays" : "", error));
      if (old != models_.end()) next.emplace(name, old->second);
      continue;
    }
    report.models[name] = old != models_.end() ? "replaced" : "loaded";
    model->start(model_events());
    if (old != models_.end()) retired.push_back(old->second);
    log(base::format("model {} {}: batch {}, {} core{}", name, report.models[name],
                     model->spec.batch, model->counters.size(),
                     model->counters.size() == 1 ? "" : "s"));
    next.emplace(name, std::move(model));
  }
  for (const auto& [name, model] : models_) {
    if (found.contains(name)) continue;
    report.models[name] = "removed";
    log("model " + name + " removed");
    retired.push_back(model);
  }
  {
    std::lock_guard lock(mutex_);
    models_ = std::move(next);
    retired_ = retired;
    if (stop_) {
      for (const std::shared_ptr<Model>& model : retired) model->queue.close();
    }
  }
  publish(State::kReady, "");
  if (retired.empty()) return;
  events_.retire(retired);
  for (const std::shared_ptr<Model>& model : retired) model->stop();
  std::lock_guard lock(mutex_);
  retired_.clear();
}

bool ModelHost::device_answers() const {
  nrt_vnc_memory_stats_t stats = {};
  return nrt_get_vnc_memory_stats(cores_.empty() ? 0 : cores_[0] - options_.first_core, &stats,
                                  sizeof(stats), nullptr) == NRT_SUCCESS;
}

// All models on the cores that they had, as their files are now; false: the device is gone again.
bool ModelHost::load_again() {
  for (auto& [name, model] : models_) {
    const FoundModel file = look_at_model(options_.models, options_.only, name);
    std::vector<uint32_t> cores;
    for (const auto& counter : model->counters) cores.push_back(counter->core);
    std::string error;
    ModelSpec spec;
    Replicas replicas;
    if (complete(name, file, spec, error)) replicas = replicate(spec, cores, error);
    if (replicas.empty()) {
      if (!device_answers()) return false;
      failed_[name] = error;
      log("model " + name + " cannot be loaded again: " + error);
      continue;
    }
    failed_.erase(name);
    if (file.identity == model->identity && spec.same_tensors(model->spec)) {
      model->resume(std::move(replicas), model_events());
      continue;
    }
    // The file was replaced since: requests must fit what is loaded now.
    auto other = std::make_shared<Model>(spec, file.identity, std::move(replicas),
                                         options_.queue_limit, options_.latency_budget);
    other->start(model_events());
    log("model " + name + " replaced: its file is another than before the device was lost");
    std::lock_guard lock(mutex_);
    model = std::move(other);
  }
  return true;
}

void ModelHost::recover() {
  std::string why;
  {
    std::lock_guard lock(mutex_);
    why = lost_;
  }
  log("the device was lost; requests get 503 until it is back: " + why);
  publish(State::kRecovering, why);
  const auto start = Clock::now();
  auto pause = kFirstRetry;
  // bounded: until the device is back or stop()
  while (true) {
    stop_models();
    std::deque<std::function<void(ReloadReport)>> reloads;
    {
      std::lock_guard lock(mutex_);
      lost_.clear();
      reloads.swap(reloads_);
    }
    // Whoever asked for a reload does not wait for the device either.
    for (const auto& done : reloads) done({.good = false, .error = "the device was lost: " + why});
    const std::string error = attach();
    if (error.empty() && load_again()) break;
    if (!wait(pause)) return;
    pause = std::min(pause * 2, kLastRetry);
  }
  publish(State::kReady, "");
  log(base::format("the device is back after {:.1f} s",
                   std::chrono::duration<double>(Clock::now() - start).count()));
}

}  // namespace neuron::serve
