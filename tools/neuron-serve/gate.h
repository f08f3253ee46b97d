// SPDX-License-Identifier: Apache-2.0
//
// Who may ask for what: looks at a request's header, before anything of its body is read.
//
// Concepts: three things are refused. A request by a name that is not this server's comes from a
// page of another site that made its own name point here (DNS rebinding). A request that a page of
// another site makes says so in Origin or Sec-Fetch-Site. Where there are tokens, a request without
// one of them gets nothing but health and the page. Reading the folder again needs a token or the
// control socket in any case. Callers: the network thread. Thread-safe: as a value. Fails: a token
// file without a good token, with a sentence that shows none of them.
#ifndef TOOLS_NEURON_SERVE_GATE_H
#define TOOLS_NEURON_SERVE_GATE_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::serve {

// What the gate looks at; "" is what was not given.
struct Visitor {
  std::string_view method, path, host, origin, fetch_site, authorization;
  size_t hosts = 1;          // how many Host fields
  bool version_1_0 = false;  // may do without Host
  bool trusted = false;      // came through the control socket
};

struct Refusal {
  int status = 0;
  std::string_view message;
  std::string_view headers = {};  // whole lines
};

class Gate {
 public:
  explicit Gate(std::vector<std::string> names = {}) : names_(std::move(names)) {}

  // Text of a token file: a token a line, of 16 to 512 characters that a header can hold; empty
  // lines and those that begin with # count for nothing. Replaces the tokens. False: they stay.
  bool set_tokens(std::string_view text, std::string& error);
  bool has_tokens() const { return !tokens_.empty(); }

  std::optional<Refusal> check(const Visitor& visitor) const;

 private:
  bool is_ours(std::string_view host) const;
  // Takes as long whichever token it is like, and however much like it.
  bool knows(std::string_view authorization) const;

  std::vector<std::string> names_;
  std::vector<std::string> tokens_;
};

}  // namespace neuron::serve

#endif
