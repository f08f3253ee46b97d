// SPDX-License-Identifier: Apache-2.0
//
// The runtime and the models of the folder: loads them, loads them again on request, and attaches
// to the device anew when it was lost.
// One thread of its own does all this; the network thread is told by `publish` what is served.
// Callers: the network thread and executors; stop() by main(). Thread-safe: all.
// Owns: the process's runtime (nrt_init to nrt_close) and the models, which the network thread's
// catalog keeps alive as well. Fails: start() through `started`; later failures are in the catalog.
#ifndef TOOLS_NEURON_SERVE_MODEL_HOST_H
#define TOOLS_NEURON_SERVE_MODEL_HOST_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tools/neuron-serve/model.h"
#include "tools/neuron-serve/model_compiler.h"
#include "tools/neuron-serve/options.h"

namespace neuron::serve {

enum class State : uint8_t { kStarting, kReady, kRecovering };

// What the network thread knows; never changed once published.
struct Catalog {
  State state = State::kStarting;
  std::string detail;  // why it is not ready
  // By key: NAME, or NAME/VERSION.
  std::map<std::string, std::shared_ptr<Model>, std::less<>> models;
  std::map<std::string, std::string> failed;  // key, sentence
  uint64_t attached = 0;                      // how often the runtime was initialised

  // Why it is not ready.
  std::string reason() const;
  // The version, the last one that is served if none is given; null: there is none.
  std::shared_ptr<Model> find(std::string_view name, std::string_view version = {}) const;
  // Why there is none; "" if nothing is known of it.
  std::string why_missing(std::string_view name, std::string_view version = {}) const;
  // In ascending order.
  std::vector<std::string> versions(std::string_view name) const;
};

struct ReloadReport {
  bool good = true;
  std::string error;
  std::map<std::string, std::string> models;  // name, what became of it
};

class ModelHost {
 public:
  struct Events {
    std::function<void(Jobs)> deliver;
    std::function<void(std::shared_ptr<const Catalog>)> publish;
    // What was published is not ready any more; says why.
    std::function<void(const std::string&)> unready;
    // Closes the queues of models that were published no longer, on the network thread, after what
    // that thread still has for them.
    std::function<void(std::vector<std::shared_ptr<Model>>)> retire;
    std::function<void(const std::string&)> started;  // "", or why not
  };

  ModelHost(const Options& options, Events events);
  ~ModelHost();

  void start();
  void reload(std::function<void(ReloadReport)> done);
  // Ends executors and closes the runtime; requests that wait are answered as unavailable.
  void stop();
  // False: an executor has not come by for so long that only a new start helps.
  bool alive() const;

 private:
  using Models = std::map<std::string, std::shared_ptr<Model>, std::less<>>;
  using Replicas = std::vector<std::unique_ptr<Replica>>;
  void run();
  void lost(const std::string& error);
  bool wait(std::chrono::milliseconds time);  // false: stop() was called
  std::string attach();
  // The model of a file, compiled if need be, on these cores.
  std::shared_ptr<Model> load(const std::string& key, const FoundModel& file,
                              const std::vector<uint32_t>& cores, std::string& error);
  bool complete(const std::string& key, const FoundModel& file, ModelSpec& spec,
                std::string& error);
  Replicas replicate(ModelSpec& spec, const std::vector<uint32_t>& cores, std::string& error);
  void compiling(const std::string& what);
  // A sentence if --batched names a model that the folder does not have.
  std::string unknown_batched() const;
  std::vector<uint32_t> next_cores();
  bool device_answers() const;
  bool compiling_is_vain() const;
  void do_reload(ReloadReport& report);
  void recover();
  bool load_again();
  void stop_models();
  void publish(State state, const std::string& detail);
  Model::Events model_events();

  const Options options_;
  const Events events_;
  std::thread thread_;

  mutable std::mutex mutex_;  // the next five, of which models_ where another thread looks
  std::condition_variable changed_;
  std::deque<std::function<void(ReloadReport)>> reloads_;
  std::string lost_;  // why; "" if it is not
  bool stop_ = false;
  Models models_;
  std::vector<std::shared_ptr<Model>> retired_;  // replaced or removed, executors still at work

  // Of the host's own thread.
  std::map<std::string, std::string> failed_;
  std::string instance_type_;
  ModelCompiler compiler_;
  std::vector<uint32_t> cores_;
  size_t next_core_ = 0;
  uint64_t attached_ = 0;
  bool open_ = false;
  bool unread_ = false;  // the device went while the folder was being read
};

}  // namespace neuron::serve

#endif
