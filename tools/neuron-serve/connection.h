// SPDX-License-Identifier: Apache-2.0
//
// One client: reads a request, has it answered, reads the next.
// Callers: the network thread only. Owns: the stream, the answer that is being written; it is
// itself the job of the inference that it asked for. Lives as long as an operation or a queue
// refers to it. Fails: a request that is malformed, too large or too slow is answered with its
// status, and the connection ends.
#ifndef TOOLS_NEURON_SERVE_CONNECTION_H
#define TOOLS_NEURON_SERVE_CONNECTION_H

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/neuron-serve/http_stream.h"
#include "tools/neuron-serve/message/infer_form.h"
#include "tools/neuron-serve/message/job.h"
#include "tools/neuron-serve/model_host.h"

namespace neuron::serve {

class Server;

class Connection : public Job,
                   public HttpStream::Owner,
                   public std::enable_shared_from_this<Connection> {
 public:
  Connection(Server& server, std::shared_ptr<HttpStream> stream);
  ~Connection() override;

  void start();
  // Answers 503 and ends: one connection too many.
  void refuse();
  // Ends what takes too long; called ten times a second.
  void check_deadline(Clock::time_point now);
  // The server ends: a connection without a request goes at once.
  void drain();
  void close();

  void finished() override;

  size_t index = 0;  // in the server's list

 private:
  enum class Phase : uint8_t {
    kIdle,
    kReading,
    kWaiting,  // for the model, for a reload or for the thread that reads JSON
    kWriting,
    kPausing,
    kLingering,
    kClosed
  };

  struct Answer {
    int status = 200;
    std::string_view type = "application/json";
    std::string_view headers = {};  // whole lines
    std::string body = {};
  };

  void header_came() override;
  bool body_grows(size_t bytes) override;
  void body_came() override;
  void unreadable(HttpStream::Trouble trouble, const std::string& why) override;
  void peer_gone(bool broken) override;
  void written() override;

  void read_header();
  bool may_enter();
  // Takes room for so many bytes in all; false: the server has not so much left.
  bool hold(size_t bytes);
  // The same where it cannot be refused any more.
  void hold_anyway(size_t bytes);
  void handle();
  void handle_get(std::string_view path);
  void handle_model(std::string_view name);
  // Finds the model and the patience for an inference; false: it is answered.
  bool begin_infer(std::string_view name, std::string_view version);
  void handle_infer(std::string_view name);
  void handle_kserve(std::string_view path);
  void handle_kserve_model(std::string_view path);
  void handle_reload();
  bool take_patience();
  bool parse_binary(const ModelSpec& model);
  void parse_json();
  void parsed();
  void ask_model();
  void answer_infer();
  void answer_json();
  void answer(const Answer& answer);
  void fail(int status, std::string_view message, std::string_view field = {}, long offset = -1,
            std::string_view headers = {});
  void unavailable(std::string_view message);
  void refuse_inference();
  void log_access(int status, size_t bytes);
  void pause();
  void linger();

  Server& server_;
  const std::shared_ptr<HttpStream> stream_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<InferForm> form_;  // of the inference, unless both ways are plain bytes
  std::optional<JsonError> json_error_;
  std::string body_;  // of an inference's answer, kept for its memory
  std::string out_;
  Clock::time_point deadline_, asked_;
  Phase phase_ = Phase::kIdle;
  bool has_request_ = false;  // the stream has a header, which can be looked at
  bool keep_alive_ = true;
  bool head_ = false;
  bool binary_answer_ = false;
  bool kserve_ = false;    // errors have the form of that protocol
  bool in_queue_ = false;  // the job was handed over, and is not back yet
  unsigned refusals_ = 0;  // one after the other, because the queue was full
  bool refused_ = false;   // by the answer that is being written
  size_t held_ = 0;        // bytes, of those that the server has for all connections
};

}  // namespace neuron::serve

#endif
