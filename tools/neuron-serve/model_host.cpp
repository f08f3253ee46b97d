// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model_host.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <cstring>

#include "driver/base/format.h"
#include "runtime/base/file.h"
#include "tools/neuron-serve/log.h"

namespace neuron::serve {
namespace {

constexpr std::chrono::milliseconds kFirstRetry{100}, kLastRetry{2'000};
constexpr std::chrono::seconds kStuck{120};
constexpr const char* kSuffix = ".neff";

bool good_name(const std::string& name) {
  return !name.empty() && name.size() <= 128 && name[0] != '.' &&
         name.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
             std::string::npos;
}

// {"batched": true}; false: `error` has a sentence.
bool read_sidecar(const std::string& path, bool& batched, std::string& error) {
  auto bytes = tools::read_file(path);
  if (!bytes) {
    error = bytes.error().sentence;
    return false;
  }
  boost::system::error_code code;
  const auto value =
      boost::json::parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, code);
  if (code || !value.is_object()) {
    error = path + ": expected a JSON object such as {\"batched\": true}" +
            (code ? "; " + code.message() : "");
    return false;
  }
  for (const auto& field : value.as_object()) {
    if (field.key() != "batched" || !field.value().is_bool()) {
      error = path + ": field \"" + std::string(field.key()) +
              "\": expected \"batched\" with true or false and nothing else";
      return false;
    }
    batched = field.value().as_bool();
  }
  return true;
}

}  // namespace

ModelHost::ModelHost(const Options& options, Events events)
    : options_(options), events_(std::move(events)) {}

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
    error = first.error;
    if (error.empty() && models_.empty()) {
      error = failed_.empty() ? "no file in " + options_.models + " ends with .neff"
                              : "no model can be served; the first: " + failed_.begin()->second;
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
    if (!why.empty()) recover();
    for (const auto& done : reloads) {
      ReloadReport report;
      do_reload(report);
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
  cores_ = options_.cores;
  if (cores_.empty()) {
    for (uint32_t core = 0; core < count; ++core) cores_.push_back(core);
  }
  if (cores_.empty() || cores_.back() >= count) {
    return base::format("--cores names core {}; this process has {} (NEURON_RT_VISIBLE_CORES)",
                        cores_.empty() ? 0 : cores_.back(), count);
  }
  if (options_.replicas > cores_.size()) {
    return base::format("--replicas asks for {} cores; there are {}", options_.replicas,
                        cores_.size());
  }
  return "";
}

ModelHost::Found ModelHost::look_at(const std::string& name) const {
  Found found;
  found.spec.name = name;
  found.spec.file = options_.models + "/" + name + kSuffix;
  if (!good_name(name)) {
    found.error = "'" + found.spec.file +
                  "': a model's name has 1 to 128 letters, digits, '.', '_' and '-'; rename it";
    return found;
  }
  const std::string sidecar = options_.models + "/" + name + ".json";
  size_t word = 0;
  for (const std::string& file : {found.spec.file, sidecar}) {
    struct stat status = {};
    if (::stat(file.c_str(), &status) == 0) {
      found.identity.words[word] = status.st_ino;
      found.identity.words[word + 1] = static_cast<uint64_t>(status.st_size);
      found.identity.words[word + 2] = static_cast<uint64_t>(status.st_mtim.tv_sec);
      found.identity.words[word + 3] = static_cast<uint64_t>(status.st_mtim.tv_nsec);
      if (&file != &found.spec.file && word != 0) {
        read_sidecar(sidecar, found.spec.batched, found.error);
      }
    }
    word += 4;
  }
  const auto& named = options_.batched;
  if (std::find(named.begin(), named.end(), name) != named.end()) found.spec.batched = true;
  return found;
}

std::string ModelHost::scan(std::map<std::string, Found>& found) const {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(options_.models.c_str()), &::closedir);
  if (folder == nullptr) {
    return "the folder of models, " + options_.models +
           ", cannot be opened: " + std::strerror(errno) + "; give it with --models";
  }
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string file = entry->d_name;
    if (!file.ends_with(kSuffix) || file.starts_with('.')) continue;
    const std::string name = file.substr(0, file.size() - std::strlen(kSuffix));
    found.emplace(name, look_at(name));
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

ModelHost::Replicas ModelHost::load(ModelSpec& spec, const std::vector<uint32_t>& cores,
                                    std::string& error) {
  Replicas replicas;
  ModelSpec first;
  for (const uint32_t core : cores) {
    std::unique_ptr<Replica> replica = Replica::load(core, spec, error);
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
  std::map<std::string, Found> found;
  report.error = scan(found);
  if (!report.error.empty()) {
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
    Replicas replicas;
    std::string error = file.error;
    if (error.empty()) {
      std::vector<uint32_t> cores;
      if (old == models_.end()) {
        cores = next_cores();
      } else {
        for (const auto& counter : old->second->counters) cores.push_back(counter->core);
      }
      replicas = load(file.spec, cores, error);
    }
    if (replicas.empty()) {
      failed_[name] = error;
      report.good = false;
      report.models[name] = "failed: " + error;
      log(base::format("model {} cannot be loaded{}: {}", name,
                       old != models_.end() ? "; what was loaded before stays" : "", error));
      if (old != models_.end()) next.emplace(name, old->second);
      continue;
    }
    report.models[name] = old != models_.end() ? "replaced" : "loaded";
    auto model = std::make_shared<Model>(file.spec, file.identity, std::move(replicas),
                                         options_.queue_limit, options_.latency_budget);
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
  return nrt_get_vnc_memory_stats(cores_.empty() ? 0 : cores_[0], &stats, sizeof(stats), nullptr) ==
         NRT_SUCCESS;
}

// All models on the cores that they had, as their files are now; false: the device is gone again.
bool ModelHost::load_again() {
  for (auto& [name, model] : models_) {
    Found file = look_at(name);
    std::vector<uint32_t> cores;
    for (const auto& counter : model->counters) cores.push_back(counter->core);
    std::string error = file.error;
    Replicas replicas;
    if (error.empty()) replicas = load(file.spec, cores, error);
    if (replicas.empty()) {
      if (!device_answers()) return false;
      failed_[name] = error;
      log("model " + name + " cannot be loaded again: " + error);
      continue;
    }
    failed_.erase(name);
    if (file.identity == model->identity && file.spec.same_tensors(model->spec)) {
      model->resume(std::move(replicas), model_events());
      continue;
    }
    // The file was replaced since: requests must fit what is loaded now.
    auto other = std::make_shared<Model>(file.spec, file.identity, std::move(replicas),
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
