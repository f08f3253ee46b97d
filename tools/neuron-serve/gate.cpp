// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/gate.h"

#include <arpa/inet.h>

#include <algorithm>

#include "driver/base/format.h"
#include "tools/neuron-serve/word.h"

namespace neuron::serve {
namespace {

constexpr size_t kShortestToken = 16, kLongestToken = 512;

// "name" of "name:80" and "[::1]" of "[::1]:80".
std::string_view host_name_of(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool port = colon != std::string_view::npos && host.find(']', colon) == host.npos;
  return port ? host.substr(0, colon) : host;
}

bool is_address(std::string_view name) {
  unsigned char bytes[16];
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    return ::inet_pton(AF_INET6, std::string(name.substr(1, name.size() - 2)).c_str(), bytes) == 1;
  }
  return ::inet_pton(AF_INET, std::string(name).c_str(), bytes) == 1;
}

// A port that is left out is that of the scheme. The scheme is the origin's also for `host`: a
// proxy may have spoken TLS in our place.
bool same_site(std::string_view origin, std::string_view host) {
  constexpr std::string_view kHttp = "http://", kHttps = "https://";
  const bool tls = origin.substr(0, kHttps.size()) == kHttps;
  if (!tls && origin.substr(0, kHttp.size()) != kHttp) return false;
  const std::string_view site = origin.substr(tls ? kHttps.size() : kHttp.size());
  const auto port_of = [tls](std::string_view text) {
    const std::string_view port = text.substr(host_name_of(text).size());
    return !port.empty() ? port : std::string_view(tls ? ":443" : ":80");
  };
  return same_word(host_name_of(site), host_name_of(host)) && port_of(site) == port_of(host);
}

bool only_reads(std::string_view method) { return method == "GET" || method == "HEAD"; }

// What probes ask for, who have no token.
bool is_open(std::string_view path) {
  return path == "/" || path == "/healthz" || path == "/readyz" || path == "/v2/health/live" ||
         path == "/v2/health/ready";
}

bool good_token(std::string_view token) {
  return token.size() >= kShortestToken && token.size() <= kLongestToken &&
         std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

// Every byte of `token` is looked at, whatever `given` is.
bool equal(std::string_view given, const std::string& token) {
  size_t different = given.size() ^ token.size();
  for (size_t i = 0; i < token.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    // The compiler must not see that the end is known after the first difference.
    volatile unsigned char bits = static_cast<unsigned char>(token[i] ^ other);
    different |= bits;
  }
  return different == 0;
}

}  // namespace

bool Gate::set_tokens(std::string_view text, std::string& error) {
  std::vector<std::string> tokens;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (!good_token(line)) {
      error = base::format(
          "line {} is no token: {} to {} printable characters without spaces, for "
          "example of openssl rand -hex 32",
          number, kShortestToken, kLongestToken);
      return false;
    }
    tokens.emplace_back(line);
  }
  if (tokens.empty()) {
    error = "there is no token in it, and nobody could ask for anything";
    return false;
  }
  tokens_ = std::move(tokens);
  return true;
}

bool Gate::is_ours(std::string_view host) const {
  const std::string_view name = host_name_of(host);
  if (is_address(name) || same_word(name, "localhost")) return true;
  return std::any_of(names_.begin(), names_.end(),
                     [&](const std::string& ours) { return same_word(name, ours); });
}

bool Gate::knows(std::string_view authorization) const {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() < kScheme.size() ||
      !same_word(authorization.substr(0, kScheme.size()), kScheme)) {
    return false;
  }
  const std::string_view given = authorization.substr(kScheme.size());
  bool known = false;
  for (const std::string& token : tokens_) known = equal(given, token) || known;
  return known;
}

std::optional<Refusal> Gate::check(const Visitor& visitor) const {
  if (visitor.trusted) return std::nullopt;
  if (visitor.hosts > 1 || (visitor.hosts == 0 && !visitor.version_1_0)) {
    return Refusal{400, "a request has one field Host"};
  }
  if (visitor.hosts == 1 && !is_ours(visitor.host)) {
    return Refusal{421,
                   "this server does not have the name in the field Host; --host gives it one"};
  }
  const bool foreign = !visitor.origin.empty() && !same_site(visitor.origin, visitor.host);
  const bool cross = !visitor.fetch_site.empty() && visitor.fetch_site != "same-origin" &&
                     visitor.fetch_site != "none" && !only_reads(visitor.method);
  if (foreign || cross) {
    return Refusal{403, "pages of other sites may ask this server for nothing"};
  }
  if (has_tokens()) {
    if (is_open(visitor.path) || knows(visitor.authorization)) return std::nullopt;
    return Refusal{401, "a token is needed: Authorization: Bearer TOKEN",
                   "WWW-Authenticate: Bearer\r\n"};
  }
  if (visitor.path == "/v1/reload" && !only_reads(visitor.method)) {
    return Refusal{403,
                   "a reload is asked for by SIGHUP, at the socket of --control, or with a token "
                   "of --token-file"};
  }
  return std::nullopt;
}

}  // namespace neuron::serve
