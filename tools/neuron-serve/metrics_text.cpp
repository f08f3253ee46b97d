// SPDX-License-Identifier: Apache-2.0
//
// What /metrics and /v1/status say of a server.
#include "driver/base/format.h"
#include "driver/base/json_text.h"
#include "tools/common/prometheus_text.h"
#include "tools/neuron-serve/model_json.h"
#include "tools/neuron-serve/server.h"

namespace neuron::serve {
namespace {

tools::Labels of(const Model& model) { return {{"model", model.spec.name}}; }
tools::Labels of(const Model& model, const ReplicaCounters& counter) {
  return {{"model", model.spec.name}, {"core", std::to_string(counter.core)}};
}
tools::Labels of(const Model& model, const std::string& bound) {
  return {{"model", model.spec.name}, {"le", bound}};
}

}  // namespace

std::string Server::metrics_text() const {
  tools::PrometheusText text;
  const auto& models = catalog_->models;
  text.family("neuron_serve_ready", "gauge", "1 if models are served.");
  text.sample("", {}, catalog_->state == State::kReady && !draining_ ? 1 : 0);
  text.family("neuron_serve_attachments_total", "counter",
              "How often the runtime was initialised.");
  text.sample("", {}, catalog_->attached);
  text.family("neuron_serve_connections", "gauge", "Open connections.");
  text.sample("", {}, open_connections());
  text.family("neuron_serve_connections_total", "counter", "Connections accepted.");
  text.sample("", {}, counters_.connections);
  text.family("neuron_serve_connections_refused_total", "counter", "Connections beyond the limit.");
  text.sample("", {}, counters_.refused);
  text.family("neuron_serve_held_bytes", "gauge", "Bytes of requests and answers in memory.");
  text.sample("", {}, held_);
  text.family("neuron_serve_held_limit_bytes", "gauge", "Bytes of them that there may be.");
  text.sample("", {}, options_.max_held);
  text.family("neuron_serve_withdrawn_total", "counter",
              "Requests that left a queue because their client had gone.");
  text.sample("", {}, counters_.withdrawn);
  text.family("neuron_serve_access_log_dropped_total", "counter",
              "Lines that the access log did not take.");
  text.sample("", {}, access_log_.dropped());
  text.family("neuron_serve_http_responses_total", "counter", "Answers by HTTP status.");
  for (const auto& [status, count] : counters_.answers) {
    text.sample("", {{"code", std::to_string(status)}}, count);
  }
  text.family("neuron_serve_grpc_calls", "gauge", "Calls over gRPC that are not over.");
  text.sample("", {}, open_calls());
  text.family("neuron_serve_grpc_connections", "gauge", "Connections of clients of gRPC.");
  text.sample("", {}, rpc_server_ != nullptr ? rpc_server_->connections() : 0);
  text.family("neuron_serve_grpc_responses_total", "counter", "Calls over gRPC by their status.");
  for (const auto& [status, count] : counters_.calls) {
    text.sample("", {{"code", std::to_string(status)}}, count);
  }
  text.family("neuron_serve_queue_rows", "gauge", "Rows that wait for a model.");
  for (const auto& [name, model] : models) text.sample("", of(*model), model->queue.waiting_rows());
  text.family("neuron_serve_queue_limit_rows", "gauge", "Rows that may wait for a model.");
  for (const auto& [name, model] : models) text.sample("", of(*model), model->queue.limit());
  const struct {
    const char* name;
    const char* help;
    std::atomic<uint64_t> ReplicaCounters::*counter;
    double scale;
  } counted[] = {
      {"batches_total", "Executions that succeeded.", &ReplicaCounters::batches, 0},
      {"rows_total", "Rows that were computed.", &ReplicaCounters::rows, 0},
      {"execution_failures_total", "Executions that failed.", &ReplicaCounters::failures, 0},
      {"busy_seconds_total", "Host time of executions with their copies.",
       &ReplicaCounters::busy_ns, 1e-9},
      {"execution_seconds_total", "Host time of executions.", &ReplicaCounters::host_ns, 1e-9},
      {"device_seconds_total", "Time that the device says it took.", &ReplicaCounters::device_ps,
       1e-12},
  };
  for (const auto& row : counted) {
    text.family(std::string("neuron_serve_") + row.name, "counter", row.help);
    for (const auto& [name, model] : models) {
      for (const auto& counter : model->counters) {
        const uint64_t value = ((*counter).*(row.counter)).load(kRelaxed);
        if (row.scale == 0) {
          text.sample("", of(*model, *counter), value);
        } else {
          text.sample("", of(*model, *counter), static_cast<double>(value) * row.scale);
        }
      }
    }
  }
  text.family("neuron_serve_latency_seconds", "histogram",
              "From a request to its answer, of those answered.");
  for (const auto& [name, model] : models) {
    uint64_t sum = 0;
    for (size_t i = 0; i < model->latencies.size(); ++i) {
      sum += model->latencies[i];
      const std::string bound =
          i < Model::kLatencyBounds.size() ? base::format("{}", Model::kLatencyBounds[i]) : "+Inf";
      text.sample("_bucket", of(*model, bound), sum);
    }
    text.sample("_sum", of(*model), model->latency_sum);
    text.sample("_count", of(*model), sum);
  }
  return text.take();
}

// Counters and the time at which they were read: whoever asks twice knows the rates.
std::string Server::status_json() const {
  const auto now = Clock::now().time_since_epoch();
  std::string text = base::format(
      "{{\"state\":\"{}\",\"time_us\":{},\"attached\":{},\"connections\":{},\"inferences\":{},"
      "\"replicas\":[",
      draining_ ? "draining" : state_name(catalog_->state),
      std::chrono::duration_cast<std::chrono::microseconds>(now).count(), catalog_->attached,
      open_connections(), counters_.inferences);
  bool first = true;
  for (const auto& [name, model] : catalog_->models) {
    for (const auto& counter : model->counters) {
      text += first ? "{\"model\":" : ",{\"model\":";
      first = false;
      base::append_json_string(text, name);
      text += base::format(
          ",\"core\":{},\"batches\":{},\"rows\":{},\"busy_us\":{},\"host_us\":{},\"device_us\":{}}"
          "}",
          counter->core, counter->batches.load(kRelaxed), counter->rows.load(kRelaxed),
          counter->busy_ns.load(kRelaxed) / 1000, counter->host_ns.load(kRelaxed) / 1000,
          static_cast<double>(counter->device_ps.load(kRelaxed)) / 1e6);
    }
  }
  return text + "]}\n";
}

}  // namespace neuron::serve
