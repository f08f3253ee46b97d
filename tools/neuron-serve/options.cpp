// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "tools/common/command_line.h"

namespace neuron::serve {
namespace {

constexpr uint32_t kMostCores = 4096;

const tools::Manual kManual{
    .name = "neuron-serve",
    .summary = "serve models over HTTP",
    .description =
        "Loads every model of a folder, a NEFF or an ONNX file, onto NeuronCores and answers "
        "inferences in JSON or as binary "
        "tensors. Requests for a model whose rows are independent are gathered into batches for as "
        "long as the latency budget allows. What is too much gets 503 at once.\n\n"
        "SIGTERM finishes what was asked and ends. SIGHUP reads the folder again, the tokens and "
        "the "
        "TLS files, and opens the access log anew. When the device "
        "is lost, requests get 503 until it is back and the models are loaded anew.\n\n"
        "Every option may also stand in the environment, NEURON_SERVE_LISTEN for `--listen` and so "
        "on, and in the file of `--config`. An argument wins over the environment, and that over "
        "the file. Times are numbers with us, ms or s.",
    .sections =
        {{"PATHS",
          "POST /v1/models/NAME/infer :: an inference: {\"inputs\": {\"x\": [[...]]}} or "
          "application/octet-stream, the rows of all inputs one after the other\n\n"
          "GET /v1/models, /v1/models/NAME :: what is served, with types and shapes\n\n"
          "GET /healthz, /readyz :: whether the program lives; whether it serves\n\n"
          "GET /metrics, /v1/status :: counters, for Prometheus and as JSON\n\n"
          "POST /v1/reload :: reads the folder of models again; with a token, or at the "
          "socket of `--control`\n\n"
          "GET / :: a page that asks models, and on which digits are drawn\n\n"
          "/v2 :: the inference protocol of KServe, version 2: /v2/health/live, "
          "/v2/health/ready, /v2/models/NAME[/versions/VERSION] and, behind that, /ready "
          "and /infer, with the extension for binary tensors; and /example, a request whose "
          "numbers are zero\n\n"
          "gRPC :: with `--grpc-listen`, the same protocol's inference.GRPCInferenceService: "
          "ServerLive, ServerReady, ServerMetadata, ModelReady, ModelMetadata and "
          "ModelInfer"},
         {"MODELS",
          "NAME.neff, NAME.onnx, or versions of one model, NAME/2/model.onnx. ONNX files "
          "are compiled for this device by neuron-compile when the server starts and when "
          "the folder is read again. What they were compiled to is kept in the folder of "
          "`--cache` under a hash of the model, its options and the compiler, and may be "
          "deleted at any time.\n\n"
          "NAME.json, or model.json for versions, has settings: {\"batched\": true} (the "
          "rows are independent), {\"warm_up\": false} (do not execute it once with zeros "
          "first); and for ONNX files {\"batch_sizes\": [1, 8, 32]} (compile for each of "
          "these; the smallest that is enough runs), {\"shapes\": {\"x\": [null, 3, 224, "
          "224]}} (null is the batch size), {\"dimensions\": {\"sequence\": 128}}, {\"constants\": "
          "{\"rate\": 16000}}, "
          "{\"auto_cast\": \"bf16\"}."},
         {"SECURITY",
          "Only requests for localhost, an IP address or a name of `--host` are answered, "
          "so that a page of another site cannot make its own name point here; requests "
          "that such a page makes (Origin, Sec-Fetch-Site) get 403. With `--token-file` "
          "they need `Authorization: Bearer TOKEN`; open the page as /#token=TOKEN then. "
          "Give tokens only to a server with `--tls-certificate`, or on loopback.\n\n"
          "The files of tokens and of the key must belong to this server's user or to root "
          "and be closed to others: mode 0600, or 0640 if they are root's."},
         {"SERVICE MANAGER",
          "READY=1, STOPPING=1 and WATCHDOG=1 are sent to NOTIFY_SOCKET. A listening TCP "
          "socket that is passed (LISTEN_FDS) is used instead of `--listen`."}},
    .exit_statuses = {{tools::kDone, "ended as asked"},
                      {tools::kFailed,
                       "it could not start: the sentence on standard error says why"},
                      tools::kUsageStatus},
    .environment = {tools::kEmulatorVariable,
                    {"NEURON_RT_VISIBLE_CORES",
                     "cores of this process; --cores counts among them"}},
    .examples = {{"neuron-serve --models model.onnx",
                  "compile a model and serve it at http://127.0.0.1:8000/"},
                 {"neuron-serve --models /usr/share/neuron/models",
                  "serve them at http://127.0.0.1:8000/"},
                 {"neuron-serve --models DIR --listen :443 --host models.example "
                  "--tls-certificate chain.pem --tls-key key.pem --token-file tokens",
                  "on all addresses, with TLS, to clients that have a token"},
                 {"curl --unix-socket control -X POST http://localhost/v1/reload",
                  "read the folder of models again, where --control names the socket"}},
    .see_also = {"neuron-compile(1)", "neuron-ls(1)", "neuron-packager(1)"}};

template <class Number>
bool whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

void add_duration(tools::Command& line, const char* name, const char* variable,
                  std::chrono::microseconds& duration, const std::string& help) {
  line.parsed(
          name,
          [&duration](const std::string& text) {
            return parse_duration(text, duration)
                       ? std::string()
                       : "'" + text +
                             "' is no time: give a number with us, ms or s, at most an hour";
          },
          help)
      .value_name("TIME")
      .or_variable(variable);
}

// Who may ask, and how that is recorded.
void add_access_options(tools::CommandLine& line, Options& options) {
  line.option("--host", options.hosts,
              "a name by which clients call this server, besides localhost and IP addresses; "
              "requests for other names get 421; repeatable")
      .separated_by(',')
      .value_name("NAME")
      .or_variable("NEURON_SERVE_HOST");
  line.option("--token-file", options.token_file,
              "file of bearer tokens, one a line, that only this server's user may read; requests "
              "without one of them get 401, but for /, /healthz, /readyz and /v2/health")
      .value_name("FILE")
      .or_variable("NEURON_SERVE_TOKEN_FILE");
  auto certificate = line.option("--tls-certificate", options.tls_certificate,
                                 "certificate chain in PEM: serve HTTPS, TLS 1.2 or later")
                         .value_name("FILE")
                         .or_variable("NEURON_SERVE_TLS_CERTIFICATE");
  auto key = line.option("--tls-key", options.tls_key,
                         "key of the certificate in PEM, that only this server's user may read")
                 .value_name("FILE")
                 .or_variable("NEURON_SERVE_TLS_KEY");
  certificate.needs(key);
  key.needs(certificate);
  line.option("--control", options.control,
              "a Unix socket for requests of this user and root, who need no token")
      .value_name("PATH")
      .or_variable("NEURON_SERVE_CONTROL");
  line.option("--access-log", options.access_log,
              "file to which each request that was answered is a line; - is standard error")
      .value_name("FILE")
      .or_variable("NEURON_SERVE_ACCESS_LOG");
}

// The folder of models may also be one file.
void take_single_model(Options& options) {
  namespace fs = std::filesystem;
  const fs::path path(options.models);
  std::error_code code;
  if (!fs::is_regular_file(path, code)) return;
  options.only = path.filename();
  options.models = path.has_parent_path() ? path.parent_path().string() : ".";
}

}  // namespace

bool parse_duration(const std::string& text, std::chrono::microseconds& duration) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  const std::string unit(end, text.data() + text.size());
  double scale = 0;
  if (unit.empty() || unit == "ms") scale = 1e3;
  if (unit == "us") scale = 1;
  if (unit == "s") scale = 1e6;
  if (scale == 0 || !(number >= 0) || number * scale > 3600e6) return false;
  duration = std::chrono::microseconds(static_cast<int64_t>(number * scale));
  return true;
}

bool parse_cores(const std::string& text, std::vector<uint32_t>& cores) {
  cores.clear();
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, comma - at);
    const size_t dash = part.find('-');
    uint32_t first = 0, last = 0;
    if (!whole(part.substr(0, dash), first)) return false;
    last = first;
    if (dash != std::string_view::npos && !whole(part.substr(dash + 1), last)) return false;
    if (last < first || last >= kMostCores) return false;
    for (uint32_t core = first; core <= last; ++core) cores.push_back(core);
    at = comma + 1;
  }
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return true;
}

bool parse_listen(const std::string& text, std::string& address, uint16_t& port) {
  const size_t colon = text.rfind(':');
  const std::string number = colon == std::string::npos ? text : text.substr(colon + 1);
  std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  if (host.empty()) host = "0.0.0.0";
  if (host.front() == '[') {
    if (host.back() != ']') return false;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return false;
  }
  if (!whole(std::string_view(number), port)) return false;
  address = host == "localhost" ? "127.0.0.1" : host;
  return true;
}

std::optional<int> parse_options(int argc, char** argv, Options& options) {
  tools::CommandLine line(kManual);
  line.options_file("--config", "read options from this file: lines of name = value")
      .or_variable("NEURON_SERVE_CONFIG");
  line.parsed(
          "--listen",
          [&](const std::string& text) {
            return parse_listen(text, options.address, options.port)
                       ? std::string()
                       : "'" + text + "' is no ADDRESS:PORT";
          },
          "where to listen, 127.0.0.1:8000 by default; port 0 takes a free one; a socket that the "
          "service manager passes comes before it")
      .value_name("ADDRESS:PORT")
      .or_variable("NEURON_SERVE_LISTEN");
  line.parsed(
          "--grpc-listen",
          [&](const std::string& text) {
            return parse_listen(text, options.grpc_address, options.grpc_port)
                       ? std::string()
                       : "'" + text + "' is no ADDRESS:PORT";
          },
          "where to listen for the inference protocol of KServe over gRPC; nowhere by default; "
          "port "
          "0 takes a free one; TLS, tokens and limits are those of HTTP")
      .value_name("ADDRESS:PORT")
      .or_variable("NEURON_SERVE_GRPC_LISTEN");
  line.option("--models", options.models,
              "a model, or a folder of models: NAME.neff or NAME.onnx, NAME.json beside it with "
              "settings; or "
              "NAME/VERSION/model.neff or .onnx")
      .required()
      .value_name("PATH")
      .or_variable("NEURON_SERVE_MODELS");
  line.option("--cache", options.cache,
              "folder that keeps what .onnx files were compiled to; ~/.cache/neuron-serve by "
              "default, CACHE_DIRECTORY under a service manager")
      .value_name("DIR")
      .or_variable("NEURON_SERVE_CACHE");
  add_duration(line, "--compile-timeout", "NEURON_SERVE_COMPILE_TIMEOUT", options.compile_timeout,
               "longest time that one model may take to compile; 1800s by default");
  line.parsed(
          "--cores",
          [&](const std::string& text) {
            return parse_cores(text, options.cores)
                       ? std::string()
                       : "'" + text + "' is no list of cores such as 0,2-3";
          },
          "virtual cores to use, counted from 0 among those of this process; the others, unless "
          "they "
          "lie between these, stay free for other processes; all by default")
      .value_name("LIST")
      .or_variable("NEURON_SERVE_CORES");
  line.option("--replicas", options.replicas, "cores that each model is loaded on")
      .between(1, 1024)
      .with_default()
      .or_variable("NEURON_SERVE_REPLICAS");
  line.option("--batched", options.batched,
              "a model whose rows are independent, as \"batched\" in NAME.json says; repeatable")
      .separated_by(',')
      .value_name("NAME")
      .or_variable("NEURON_SERVE_BATCHED");
  add_duration(line, "--latency-budget", "NEURON_SERVE_LATENCY_BUDGET", options.latency_budget,
               "longest time that a request may wait for its batch to fill, execution included; "
               "5ms by default");
  line.option("--queue-limit", options.queue_limit,
              "rows that may wait for a model, beyond which requests get 503; 0: eight batches")
      .between(0, 1 << 24)
      .with_default()
      .or_variable("NEURON_SERVE_QUEUE_LIMIT");
  add_duration(line, "--request-timeout", "NEURON_SERVE_REQUEST_TIMEOUT", options.request_timeout,
               "longest time that a request may wait for a core, then 504; 1s by default");
  add_duration(line, "--client-timeout", "NEURON_SERVE_CLIENT_TIMEOUT", options.client_timeout,
               "longest time that a client may take to send a request or to read an answer, then "
               "408; 10s by default");
  add_duration(line, "--idle-timeout", "NEURON_SERVE_IDLE_TIMEOUT", options.idle_timeout,
               "how long a connection may stay without a request; 60s by default");
  add_duration(line, "--drain-timeout", "NEURON_SERVE_DRAIN_TIMEOUT", options.drain_timeout,
               "how long SIGTERM waits for requests that were accepted; 10s by default");
  line.option("--max-body", options.max_body,
              "bytes of a request's body, beyond which 413; at most --max-held")
      .between(size_t{1}, size_t{1} << 32)
      .with_default()
      .or_variable("NEURON_SERVE_MAX_BODY");
  line.option("--max-header", options.max_header, "bytes of a request's header, beyond which 431")
      .between(size_t{256}, size_t{1} << 20)
      .with_default()
      .or_variable("NEURON_SERVE_MAX_HEADER");
  line.option("--max-connections", options.max_connections,
              "connections at a time, the next one gets 503")
      .between(size_t{1}, size_t{1} << 20)
      .with_default()
      .or_variable("NEURON_SERVE_MAX_CONNECTIONS");
  line.option(
          "--max-held", options.max_held,
          "bytes of all requests and answers at a time, beyond which bodies get 503 before they "
          "are read")
      .between(size_t{1} << 16, size_t{1} << 40)
      .with_default()
      .or_variable("NEURON_SERVE_MAX_HELD");
  add_access_options(line, options);
  const auto status = line.parse(argc, argv);
  take_single_model(options);
  // What could never be held is refused as too large, and not for the time being.
  options.max_body = std::min(options.max_body, options.max_held);
  return status;
}

}  // namespace neuron::serve
