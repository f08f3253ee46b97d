// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// 0: the request may enter.
int status(const Gate& gate, const Visitor& visitor) {
  const auto refusal = gate.check(visitor);
  return refusal ? refusal->status : 0;
}

int status_for_host(const Gate& gate, std::string_view host) {
  return status(gate, {.method = "GET", .path = "/metrics", .host = host});
}

int status_of_form(std::string_view host, std::string_view origin, std::string_view site = "") {
  return status(Gate(), {.method = "POST",
                         .path = "/v1/models/digits/infer",
                         .host = host,
                         .origin = origin,
                         .fetch_site = site});
}

constexpr std::string_view kToken = "0123456789abcdef0123456789abcdef";

Gate with_tokens() {
  Gate gate;
  std::string error;
  EXPECT_TRUE(gate.set_tokens(
      "# of two clients\n" + std::string(kToken) + "\r\n\nanother-token-of-24-bytes\n", error))
      << error;
  return gate;
}

int status_with(const Gate& gate, std::string_view authorization,
                std::string_view path = "/v1/status") {
  return status(
      gate, {.method = "GET", .path = path, .host = "localhost", .authorization = authorization});
}

TEST(Gate, KnowsLocalhostAddressesAndNamesThatItWasGivenAndNoOther) {
  const Gate gate({"models.example", "other"});
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1", "10.1.2.3:80", "[::1]",
                           "[2001:db8::1]:8443", "models.example", "Models.Example:443", "other"}) {
    EXPECT_EQ(status_for_host(gate, host), 0) << host;
  }
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "evil.example:8000", "127.0.0.1.evil.example",
        "models.example.evil", "xmodels.example", "[::1].evil.example", "[evil]", "1.2.3", "::1",
        "localhost@evil.example", "localhost:80:80"}) {
    EXPECT_EQ(status_for_host(gate, host), 421) << host;
  }
}

TEST(Gate, WantsExactlyOneHostUnlessTheRequestIsOfVersion10) {
  Visitor visitor{.method = "GET", .path = "/", .hosts = 0};
  EXPECT_EQ(status(Gate(), visitor), 400);
  visitor.version_1_0 = true;
  EXPECT_EQ(status(Gate(), visitor), 0);
  visitor.hosts = 2;
  visitor.host = "localhost";
  EXPECT_EQ(status(Gate(), visitor), 400);
}

TEST(Gate, RefusesWhatPagesOfOtherSitesAsk) {
  EXPECT_EQ(status_of_form("localhost:8000", "http://localhost:8000"), 0);
  EXPECT_EQ(status_of_form("127.0.0.1", "http://127.0.0.1"), 0);
  EXPECT_EQ(status_of_form("localhost:80", "http://localhost"), 0);
  EXPECT_EQ(status_of_form("localhost", "https://localhost"), 0) << "behind a proxy with TLS";
  for (const char* origin : {"http://evil.example", "null", "http://localhost:8001",
                             "http://localhost:8000.evil.example", "https://evil.example", "x"}) {
    EXPECT_EQ(status_of_form("localhost:8000", origin), 403) << origin;
  }
  // Another server of the same host, at the port that another scheme has by itself.
  EXPECT_EQ(status_of_form("localhost", "http://localhost:443"), 403);
  EXPECT_EQ(status_of_form("localhost:443", "http://localhost"), 403);
  EXPECT_EQ(status_of_form("localhost:443", "https://localhost"), 0);
  EXPECT_EQ(status_of_form("localhost", "https://localhost:80"), 403);
  EXPECT_EQ(status_of_form("localhost", "chrome-extension://localhost"), 403);
  // Without Origin there may be another word for it.
  EXPECT_EQ(status_of_form("localhost", "", "same-origin"), 0);
  EXPECT_EQ(status_of_form("localhost", "", "none"), 0);
  EXPECT_EQ(status_of_form("localhost", "", "cross-site"), 403);
  EXPECT_EQ(status_of_form("localhost", "", "same-site"), 403);
  // A link from another site is followed.
  EXPECT_EQ(status(Gate(),
                   {.method = "GET", .path = "/", .host = "localhost", .fetch_site = "cross-site"}),
            0);
}

TEST(Gate, LetsNobodyReadTheFolderAgainWithoutATokenOrTheControlSocket) {
  Visitor visitor{.method = "POST", .path = "/v1/reload", .host = "localhost"};
  EXPECT_EQ(status(Gate(), visitor), 403);
  EXPECT_EQ(status(with_tokens(), visitor), 401);
  visitor.authorization = "Bearer 0123456789abcdef0123456789abcdef";
  EXPECT_EQ(status(Gate(), visitor), 403) << "a token means nothing where there is none";
  EXPECT_EQ(status(with_tokens(), visitor), 0);
  visitor.authorization = "";
  visitor.trusted = true;
  visitor.host = "anything";
  EXPECT_EQ(status(Gate(), visitor), 0);
  EXPECT_EQ(status(with_tokens(), visitor), 0);
}

TEST(Gate, TakesEachTokenWholeAndNothingElse) {
  const Gate gate = with_tokens();
  const std::string good = "Bearer " + std::string(kToken);
  EXPECT_EQ(status_with(gate, good), 0);
  EXPECT_EQ(status_with(gate, "bearer another-token-of-24-bytes"), 0);
  for (const std::string& bad :
       {std::string(), std::string("Bearer "), std::string("Bearer"), good + "0", good + " ",
        good.substr(0, good.size() - 1), "Basic " + std::string(kToken), std::string(kToken),
        "Bearer  " + std::string(kToken), "Bearer # of two clients" + std::string()}) {
    EXPECT_EQ(status_with(gate, bad), 401) << "'" << bad << "'";
  }
  // Whichever character is another one.
  for (size_t i = 7; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_EQ(status_with(gate, bad), 401) << bad;
  }
  for (const char* open : {"/", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"}) {
    EXPECT_EQ(status_with(gate, "", open), 0) << open;
  }
  for (const char* closed : {"/metrics", "/v1/models", "/v1/models/digits/infer", "/x"}) {
    EXPECT_EQ(status_with(gate, "", closed), 401) << closed;
  }
}

TEST(Gate, KeepsItsTokensWhenAFileHasNoneAndShowsNone) {
  Gate gate = with_tokens();
  for (const std::string& text : {std::string(), std::string("# nothing\n"), std::string("short\n"),
                                  std::string("a secret of several words\n"), std::string(513, 'x'),
                                  std::string("0123456789abcde\x01"
                                              "f\n")}) {
    std::string error;
    EXPECT_FALSE(gate.set_tokens(text, error)) << text;
    EXPECT_THAT(error, HasSubstr("token"));
    EXPECT_THAT(error, Not(HasSubstr("secret")));
    EXPECT_EQ(status_with(gate, "Bearer " + std::string(kToken)), 0);
  }
  std::string error;
  EXPECT_TRUE(gate.set_tokens("a-token-without-a-line-end", error));
  EXPECT_EQ(status_with(gate, "Bearer " + std::string(kToken)), 401);
  EXPECT_EQ(status_with(gate, "Bearer a-token-without-a-line-end"), 0);
}

}  // namespace
}  // namespace neuron::serve
