// SPDX-License-Identifier: Apache-2.0
//
// One call over gRPC, from its header to its answer: what a connection is to HTTP.
// Callers: the network thread only. Owns: the call, and what it was asked; it is itself the job of
// the inference. Lives as long as the server or a queue refers to it. Fails: a call that is
// malformed, too large or too slow is ended with a status, for the reasons for which HTTP has one.
#ifndef TOOLS_NEURON_SERVE_RPC_H
#define TOOLS_NEURON_SERVE_RPC_H

#include <memory>
#include <string>
#include <string_view>

#include "tools/neuron-serve/grpc/rpc_call.h"
#include "tools/neuron-serve/grpc/rpc_form.h"
#include "tools/neuron-serve/message/job.h"
#include "tools/neuron-serve/model_host.h"

namespace neuron::serve {

class Server;

class Rpc : public Job, public RpcCall::Owner, public std::enable_shared_from_this<Rpc> {
 public:
  Rpc(Server& server, std::shared_ptr<RpcCall> call);
  ~Rpc() override;

  void start();
  // Ends it at once: there are too many.
  void refuse();
  // Asks for the message if there is room for one of the largest; false: there is not.
  bool take_room();
  // Ends what takes too long; called ten times a second.
  void check_deadline(Clock::time_point now);
  void close();

  void finished() override;

  size_t index = 0;  // in the server's list

 private:
  enum class Phase : uint8_t { kRoom, kReading, kWaiting, kWriting, kClosed };

  void message_came(bool good) override;
  void peer_gone() override;
  void answered(bool good) override;

  bool hold(size_t bytes);
  void hold_anyway(size_t bytes);
  void handle();
  void handle_model_ready();
  void handle_metadata();
  void handle_infer();
  void parse();
  void parsed(bool good);
  void ask_model();
  void refuse_inference();
  // Takes room for so many bytes in all, or ends the call.
  bool take_room_for(size_t bytes);
  // Finds the model of a name, or ends the call.
  std::shared_ptr<Model> find(const std::string& name, const std::string& version);
  // Does work on a message of this size, on another thread if that takes long, then the rest here.
  void elsewhere(size_t bytes, std::function<void()> work, std::function<void()> rest);
  void answer(std::string message);
  void fail(int status, const std::string& sentence);
  void log_access(int status, size_t bytes);

  Server& server_;
  const std::shared_ptr<RpcCall> call_;
  std::shared_ptr<Model> model_;
  RpcForm form_;
  std::string out_, error_;
  bool good_ = false;  // what another thread found
  Clock::time_point deadline_, asked_;
  Phase phase_ = Phase::kRoom;
  bool in_queue_ = false;  // the job was handed over, and is not back yet
  size_t held_ = 0;        // bytes, of those that the server has for all clients
  size_t came_ = 0;        // bytes of the message
  size_t parsed_size_ = 0;
};

}  // namespace neuron::serve

#endif
