// SPDX-License-Identifier: Apache-2.0
// Scrapes and pushes over the loopback interface.
#include "tools/neuron-monitor/serve/exporter.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/neuron-monitor/serve/endpoint.h"

namespace neuron::monitor {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

int loopback_socket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

sockaddr_in loopback(unsigned short port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool readable(int socket) {
  pollfd of = {socket, POLLIN, 0};
  return ::poll(&of, 1, 10'000) == 1;
}

// Until `enough` is there, or the other side closes.
std::string receive(int socket, std::string_view enough = "") {
  std::string out;
  char buffer[4096];
  while ((enough.empty() || out.find(enough) == std::string::npos) && readable(socket)) {
    const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
    if (got <= 0) break;
    out.append(buffer, static_cast<size_t>(got));
  }
  return out;
}

class Client {
 public:
  explicit Client(unsigned short port) : socket_(loopback_socket()) {
    const sockaddr_in address = loopback(port);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  void send(std::string_view text) {
    EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  std::string answer(std::string_view enough = "") { return receive(socket_, enough); }

 private:
  const int socket_;
};

std::string ask(unsigned short port, const std::string& request) {
  Client client(port);
  client.send(request);
  return client.answer();
}

std::string get(unsigned short port, const std::string& path, const std::string& fields = "") {
  return ask(port,
             "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + fields + "\r\n");
}

struct Served {
  explicit Served(ExporterOptions options = {.prometheus = "127.0.0.1:0", .otlp = ""})
      : board(false) {
    Observation of;
    of.at = std::chrono::system_clock::now();
    of.memory.emplace().memory_total = 4096;
    board.update(of);
    std::string error;
    exporter = Exporter::start(options, board, error);
    EXPECT_TRUE(exporter) << error;
  }
  MetricFamilies board;
  std::unique_ptr<Exporter> exporter;
};

TEST(ScrapeServer, ServesTheTextFormatAndOpenMetricsToThoseWhoAsk) {
  Served served;
  const std::string plain = get(served.exporter->port(), "/metrics");
  EXPECT_THAT(plain, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(plain, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(plain, HasSubstr("\nsystem_memory_total_bytes 4096\n"));
  const std::string open =
      get(served.exporter->port(), "/metrics?x=1",
          "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3\r\n");
  EXPECT_THAT(open, HasSubstr("Content-Type: application/openmetrics-text; version=1.0.0"));
  EXPECT_THAT(open, EndsWith("# EOF\n"));
  EXPECT_THAT(get(served.exporter->port(), "/metrics",
                  "Accept: text/plain, application/openmetrics-text;q=0.1\r\n"),
              HasSubstr("text/plain; version"));
}

TEST(ScrapeServer, KeepsAConnectionForTheNextScrape) {
  Served served;
  Client client(served.exporter->port());
  for (int i = 0; i < 3; ++i) {
    client.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string answer = client.answer("\r\n\r\nok\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 3\r\n")) << "where the next one begins";
  }
}

TEST(ScrapeServer, RefusesWhatIsNoScrape) {
  Served served;
  const unsigned short port = served.exporter->port();
  EXPECT_THAT(get(port, "/nothing"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask(port, "DELETE /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask(port, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask(port, "rubbish\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(port, "GET / HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(get(port, "/metrics"), StartsWith("HTTP/1.1 200 "));
}

TEST(ScrapeServer, AnswersAHeadWithoutABody) {
  Served served;
  const std::string head = ask(served.exporter->port(),
                               "HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  const std::string whole = get(served.exporter->port(), "/metrics");
  const size_t bytes = whole.size() - (whole.find("\r\n\r\n") + 4);
  EXPECT_THAT(head, HasSubstr("\r\nContent-Length: " + std::to_string(bytes) + "\r\n"));
  EXPECT_THAT(whole, HasSubstr("\r\nContent-Length: " + std::to_string(bytes) + "\r\n"));
}

TEST(ScrapeServer, GoesOnBesideHundredsOfSilentClients) {
  Served served;
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(std::make_unique<Client>(served.exporter->port()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(get(served.exporter->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  }
  // Those that waited longest have made room.
  EXPECT_EQ(silent.front()->answer(), "");
}

TEST(ScrapeServer, SaysWhenNothingIsMeasuredAnyMore) {
  Served served({.prometheus = "127.0.0.1:0", .otlp = "", .longest_silence = -1ms});
  EXPECT_THAT(get(served.exporter->port(), "/healthz"),
              ::testing::AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("nothing was measured for")));
}

TEST(ScrapeServer, TellsNoHostWithoutDevicesBeforeTheFirstReport) {
  MetricFamilies board(false);
  std::string error;
  const auto exporter = Exporter::start({.prometheus = "127.0.0.1:0", .otlp = ""}, board, error);
  ASSERT_TRUE(exporter) << error;
  EXPECT_THAT(
      get(exporter->port(), "/metrics"),
      ::testing::AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("nothing has been measured yet")));
  Observation of;
  of.memory.emplace().memory_total = 4096;
  board.update(of);
  EXPECT_THAT(get(exporter->port(), "/metrics"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(ScrapeServer, NamesAnAddressThatIsTaken) {
  Served served;
  std::string error;
  EXPECT_FALSE(Exporter::start(
      {.prometheus = "127.0.0.1:" + std::to_string(served.exporter->port()), .otlp = ""},
      served.board, error));
  EXPECT_THAT(error, ::testing::AllOf(StartsWith("--prometheus: cannot listen on 127.0.0.1:"),
                                      HasSubstr("another program has the port")));
}

// A collector that answers as it is told.
class Collector {
 public:
  Collector() : listener_(loopback_socket()) {
    const sockaddr_in address = loopback(0);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
  }
  ~Collector() {
    if (connection_ >= 0) ::close(connection_);
    ::close(listener_);
  }
  std::string url() const {
    sockaddr_in address = {};
    socklen_t length = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    return "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  std::string request() {
    if (connection_ < 0 && readable(listener_)) {
      connection_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    }
    return receive(connection_, "]}]}]}");
  }
  void answer(std::string_view status) {
    const std::string text = "HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 2\r\n\r\n{}";
    ::send(connection_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  void hang_up() {
    ::close(connection_);
    connection_ = -1;
  }

 private:
  const int listener_;
  int connection_ = -1;
};

TEST(OtlpPush, SendsTheNewestValuesAndKeepsItsConnection) {
  Collector collector;
  Served served({.prometheus = "", .otlp = collector.url()});
  served.exporter->notify();
  const std::string first = collector.request();
  EXPECT_THAT(first, StartsWith("POST /v1/metrics HTTP/1.1\r\n"));
  EXPECT_THAT(first, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(first, HasSubstr("\"neuron.system.memory.total\""));
  served.exporter->notify();
  collector.answer("200 OK");
  EXPECT_THAT(collector.request(), StartsWith("POST /v1/metrics"));
}

TEST(OtlpPush, TriesAgainWhenTheCollectorIsBusyOrHangsUp) {
  Collector collector;
  Served served({.prometheus = "", .otlp = collector.url()});
  ::testing::internal::CaptureStderr();
  served.exporter->notify();
  collector.request();
  collector.answer("503 Busy");
  EXPECT_THAT(collector.request(), StartsWith("POST "));
  collector.answer("200 OK");
  // A connection that was kept and is closed is opened again at once.
  collector.hang_up();
  served.exporter->notify();
  EXPECT_THAT(collector.request(), StartsWith("POST "));
  served.exporter.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AllOf(HasSubstr("the collector answers 503 Busy; trying again"),
                               HasSubstr("metrics arrive again")));
}

TEST(Endpoint, IsAnAddressAndAPort) {
  std::string error;
  EXPECT_EQ(parse_endpoint(":8000", error)->port, 8000);
  EXPECT_EQ(parse_endpoint("[::1]:1", error)->host, "::1");
  EXPECT_EQ(parse_endpoint("localhost:9", error)->host, "localhost");
  for (const char* text : {"", "8000", "a:b", "a:70000", "::1:80", "[::1]", "[::1:80", "a b:80"}) {
    EXPECT_FALSE(parse_endpoint(text, error)) << text;
    EXPECT_THAT(error, HasSubstr("ADDRESS:PORT")) << text;
  }
}

TEST(Url, HasThePortAndThePathOfCollectorsByDefault) {
  std::string error;
  EXPECT_EQ(parse_url("http://c", error)->endpoint.port, 4318);
  EXPECT_EQ(parse_url("http://c/", error)->target, "/v1/metrics");
  EXPECT_EQ(parse_url("http://[::1]:99/in?k=1#x", error)->target, "/in?k=1");
  EXPECT_EQ(parse_url("http://[::1]:99/in", error)->endpoint.host, "::1");
  for (const char* text :
       {"", "c:4318", "ftp://c", "https://c", "http://", "http://:80", "http://c:0", "http://c:x",
        "http://u@c", "http://a b", "http://a\r\nX: 1"}) {
    EXPECT_FALSE(parse_url(text, error)) << text;
    EXPECT_THAT(error, HasSubstr("expected a URL such as")) << text;
  }
}

}  // namespace
}  // namespace neuron::monitor
