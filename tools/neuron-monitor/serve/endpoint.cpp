// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/serve/endpoint.h"

#include <charconv>

namespace neuron::monitor {
namespace {

constexpr uint16_t kCollectorPort = 4318;

bool parse_port(std::string_view text, uint16_t& port) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  return problem == std::errc() && end == text.data() + text.size() && !text.empty();
}

// The host of "host:port" or "[host]:port"; `rest` keeps what follows it, with the colon.
bool take_host(std::string_view& rest, std::string& host) {
  if (!rest.empty() && rest.front() == '[') {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return false;
    host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    return true;
  }
  const size_t colon = rest.rfind(':');
  host = rest.substr(0, colon);
  rest.remove_prefix(host.size());
  return host.find(':') == std::string::npos;
}

bool printable(std::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c >= 0x7f) return false;
  }
  return true;
}

}  // namespace

std::optional<Endpoint> parse_endpoint(std::string_view text, std::string& error) {
  Endpoint out;
  std::string_view rest = text;
  if (printable(text) && take_host(rest, out.host) && !rest.empty() && rest.front() == ':' &&
      parse_port(rest.substr(1), out.port)) {
    return out;
  }
  error = "\"" + std::string(text) +
          "\" is no address; expected ADDRESS:PORT such as 127.0.0.1:8000, [::1]:8000 or :8000";
  return std::nullopt;
}

std::optional<Url> parse_url(std::string_view text, std::string& error) {
  const auto refuse = [&](const char* what) {
    error = "\"" + std::string(text) + "\": " + what +
            "; expected a URL such as http://127.0.0.1:4318/v1/metrics";
    return std::nullopt;
  };
  static constexpr std::string_view kScheme = "http://";
  if (text.substr(0, 8) == "https://") return refuse("TLS is the task of a collector on this host");
  if (text.substr(0, kScheme.size()) != kScheme) return refuse("this is no http:// URL");
  if (!printable(text)) return refuse("a URL holds no spaces and no control characters");
  std::string_view rest = text.substr(kScheme.size());
  const size_t path = rest.find_first_of("/?#");
  Url out;
  out.authority = rest.substr(0, path);
  if (path != std::string_view::npos) out.target = rest.substr(path, rest.find('#') - path);
  if (out.target.empty() || out.target == "/") out.target = "/v1/metrics";
  if (out.target.front() == '?') out.target.insert(0, "/v1/metrics");
  if (out.authority.find('@') != std::string::npos) {
    return refuse("a user and a password do not belong into it");
  }
  rest = out.authority;
  out.endpoint.port = kCollectorPort;
  if (!take_host(rest, out.endpoint.host) || out.endpoint.host.empty()) {
    return refuse("the host is missing");
  }
  if (!rest.empty() && (rest.front() != ':' || !parse_port(rest.substr(1), out.endpoint.port) ||
                        out.endpoint.port == 0)) {
    return refuse("its port is no number from 1 to 65535");
  }
  return out;
}

}  // namespace neuron::monitor
