// SPDX-License-Identifier: Apache-2.0
//
// One client: reads a request, has it answered, reads the next.
// Callers: the network thread only. Owns: the socket, the buffer of what was read, the answer that
// is being written; it is itself the job of the inference that it asked for. Lives as long as an
// operation or a queue refers to it. Fails: a request that is malformed, too large or too slow is
// answered with its status, and the connection ends.
#ifndef TOOLS_NEURON_SERVE_CONNECTION_H
#define TOOLS_NEURON_SERVE_CONNECTION_H

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/neuron-serve/job.h"
#include "tools/neuron-serve/model_host.h"

namespace neuron::serve {

class Server;

class Connection : public Job, public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  Connection(Server& server, Socket socket);
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
  enum class Phase : uint8_t { kIdle, kReading, kWaiting, kWriting, kPausing, kLingering, kClosed };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Error = boost::system::error_code;

  struct Answer {
    int status = 200;
    std::string_view type = "application/json";
    std::string_view headers = {};  // whole lines
    std::string body = {};
  };

  void read_header();
  void on_header(Error error);
  void read_body();
  void on_body(Error error);
  void on_read_error(Error error);
  void handle();
  void handle_get(std::string_view path);
  void handle_model(std::string_view name);
  void handle_infer(std::string_view name);
  void handle_reload();
  bool parse_binary(const ModelSpec& model);
  void answer_infer();
  void answer(const Answer& answer);
  void fail(int status, std::string_view message, std::string_view field = {}, long offset = -1,
            std::string_view headers = {});
  void unavailable(std::string_view message);
  void refuse_inference();
  void write();
  void on_written(Error error);
  void pause();
  void linger();
  void on_lingered(Error error, size_t bytes);

  Server& server_;
  Socket socket_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::shared_ptr<Model> model_;
  std::string body_;  // of an inference's answer, kept for its memory
  std::string out_;
  Clock::time_point deadline_;
  Phase phase_ = Phase::kIdle;
  bool keep_alive_ = true;
  bool head_ = false;
  bool binary_answer_ = false;
  bool timed_out_ = false;
  unsigned refusals_ = 0;  // one after the other, because the queue was full
  bool refused_ = false;   // by the answer that is being written
  std::unique_ptr<boost::asio::steady_timer> pause_;
};

}  // namespace neuron::serve

#endif
