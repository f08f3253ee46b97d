// SPDX-License-Identifier: Apache-2.0
// Who may ask: names, other sites, tokens, the control socket, TLS; and who asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/system/serve/served.h"
#include "tests/system/serve/tls_client.h"

namespace neuron::serve_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "c2VjcmV0LXRva2VuLW9mLXRoaXMtdGVzdA";
const std::string kBearer = std::string("Authorization: Bearer ") + kToken + "\r\n";

// A file that only this user may read.
std::string secret(const test::Folder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder.write(name, text);
  EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
  return path;
}

unsigned status_of(const Served& served, const std::string& headers,
                   const std::string& path = kInfer) {
  return served.client().post(path, json(random_rows(1, 1)), "application/json", headers).status;
}

TEST(Security, ARequestByANameThatIsNotTheServersIsRefusedBeforeItsBodyIsRead) {
  const Served served({"--host", "models.example"});
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_EQ(status_of(served, "Host: 127.0.0.1:1\r\n"), 200u);
  EXPECT_EQ(status_of(served, "Host: models.example\r\n"), 200u);
  EXPECT_EQ(status_of(served, "Host: rebound.example\r\n"), 421u);
  for (const char* path : {"/", "/v1/models", "/metrics", "/v1/status", "/healthz"}) {
    EXPECT_EQ(served.client().ask("GET", path, "", "Host: rebound.example\r\n").status, 421u);
  }
  Client client = served.client();
  client.send("POST " + std::string(kInfer) +
              " HTTP/1.1\r\nHost: rebound.example\r\nContent-Length: 8000000\r\n\r\n");
  const Answer answer = client.receive();
  EXPECT_EQ(answer.status, 421u);
  EXPECT_EQ(answer.header("Connection"), "close");
  Client nameless = served.client();
  nameless.send("GET /healthz HTTP/1.1\r\n\r\n");
  EXPECT_EQ(nameless.receive().status, 400u);
  Client old = served.client();
  old.send("GET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.receive().status, 200u);
}

TEST(Security, AFormOfAnotherSiteIsRefusedAndTheServersOwnPageIsNot) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  const std::string host = "127.0.0.1:" + std::to_string(served.port());
  EXPECT_EQ(status_of(served, "Host: " + host + "\r\nOrigin: http://" + host + "\r\n"), 200u);
  for (const char* header : {"Origin: http://evil.example", "Origin: null",
                             "Sec-Fetch-Site: cross-site", "Origin: http://127.0.0.1:1"}) {
    EXPECT_EQ(status_of(served, "Host: " + host + "\r\n" + header + "\r\n"), 403u) << header;
  }
  EXPECT_EQ(served.metric("latency_seconds_count{model=\"digits\"}"), 1);
}

TEST(Security, AReloadNeedsTheControlSocketOrAToken) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_EQ(served.client().post("/v1/reload", "").status, 403u);
  EXPECT_EQ(status_of(served, kBearer, "/v1/reload"), 403u);
  EXPECT_EQ(served.control().get("/v1/reload").status, 405u);
  EXPECT_EQ(served.reload().status, 200u);
  struct stat status = {};
  ASSERT_EQ(::stat((served.folder() + "/control").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(Security, WithATokenFileNobodyAsksWithoutOneOfItsTokens) {
  const test::Folder folder;
  const std::string file =
      secret(folder, "tokens", "# clients\n" + std::string(kToken) + "\nanother-token-of-mine\n");
  Served served({"--token-file", file});
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_EQ(served.client().get("/healthz").status, 200u);
  EXPECT_EQ(served.client().get("/readyz").status, 200u);
  EXPECT_EQ(served.client().get("/").status, 200u);
  const Answer refused = served.client().get("/v1/status");
  EXPECT_EQ(refused.status, 401u);
  EXPECT_EQ(refused.header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(status_of(served, ""), 401u);
  EXPECT_EQ(status_of(served, "Authorization: Bearer wrong-token-of-yours\r\n"), 401u);
  EXPECT_EQ(status_of(served, kBearer), 200u);
  EXPECT_EQ(status_of(served, "Authorization: Bearer another-token-of-mine\r\n"), 200u);
  EXPECT_EQ(served.client().post("/v1/reload", "").status, 401u);
  EXPECT_EQ(status_of(served, kBearer, "/v1/reload"), 200u);
  // Other tokens, at the next reload; what is no token changes nothing.
  secret(folder, "tokens", "third-token-of-mine\n");
  served.process().signal(SIGHUP);
  EXPECT_TRUE(test::eventually([&] { return status_of(served, kBearer) == 401; }));
  EXPECT_EQ(status_of(served, "Authorization: Bearer third-token-of-mine\r\n"), 200u);
  secret(folder, "tokens", "short\n");
  served.process().signal(SIGHUP);
  EXPECT_TRUE(test::eventually(
      [&] { return served.log().find("what was there before stays") != std::string::npos; }));
  EXPECT_EQ(status_of(served, "Authorization: Bearer third-token-of-mine\r\n"), 200u);
  EXPECT_THAT(served.log(), Not(HasSubstr("-token-of-mine")));
}

TEST(Security, SecretsThatOthersCouldReadEndTheStart) {
  const test::Folder folder;
  make_certificate(folder, "localhost");
  make_certificate(folder, "other");
  const std::string tokens = secret(folder, "tokens", std::string(kToken) + "\n");
  const std::string key = folder.path("localhost.key"), chain = folder.path("localhost.pem");
  const auto sentence = [&](const test::Words& arguments) {
    test::Words command = {test::built("bin/neuron-serve"), "--models", folder.path(), "--listen",
                           "127.0.0.1:0"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    ::unlink(folder.path("log").c_str());
    test::Process process(command, {{"NEURON_EMULATOR", "trn1.2xlarge"}}, folder.path("log"));
    EXPECT_EQ(process.wait(), 1);
    return folder.read("log");
  };
  const test::Words tls = {"--tls-certificate", chain, "--tls-key", key};
  ASSERT_EQ(::chmod(tokens.c_str(), 0644), 0);
  EXPECT_THAT(sentence({"--token-file", tokens}),
              AllOf(HasSubstr(tokens), HasSubstr("chmod 0600")));
  ASSERT_EQ(::chmod(key.c_str(), 0644), 0);
  EXPECT_THAT(sentence(tls), AllOf(HasSubstr(key), HasSubstr("chmod 0600")));
  EXPECT_THAT(sentence({"--tls-certificate", chain, "--tls-key", folder.path("other.key")}),
              HasSubstr("not that of the certificate"));
  EXPECT_THAT(sentence({"--tls-certificate", folder.path("other.key"), "--tls-key",
                        folder.path("other.key")}),
              HasSubstr("certificate is none in PEM"));
  test::Process half({test::built("bin/neuron-serve"), "--models", folder.path(), "--tls-key", key},
                     {}, folder.path("usage"));
  EXPECT_EQ(half.wait(), 2);
}

TEST(Security, OverTlsTheSameIsAnsweredAndWithoutItNothing) {
  const test::Folder folder;
  make_certificate(folder, "localhost");
  Served served({"--tls-certificate", folder.path("localhost.pem"), "--tls-key",
                 folder.path("localhost.key"), "--client-timeout", "1s"});
  ASSERT_TRUE(served.address().starts_with("https://")) << served.log();
  const auto port =
      static_cast<uint16_t>(std::stoi(served.address().substr(served.address().rfind(':') + 1)));
  TlsClient client(port);
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.name(), "localhost");
  const std::string type = "Content-Type: application/octet-stream\r\n";
  // Bodies and answers of one record, and of many.
  for (const size_t count : {size_t{1}, size_t{120}}) {
    const std::vector<Row> rows = random_rows(count, 3);
    EXPECT_EQ(verdict(client.ask("POST", kInfer, binary(rows), type), Truth::get().of(rows)), "");
  }
  EXPECT_GT(client.ask("POST", kInfer, json(random_rows(120, 1))).body.size(), 10'000u);
  EXPECT_EQ(client.ask("GET", "/healthz", "", "Connection: close\r\n").body, "alive\n");
  EXPECT_TRUE(client.ended_well());
  EXPECT_FALSE(TlsClient(port, TLS1_1_VERSION).connected());
  EXPECT_TRUE(TlsClient(port, TLS1_2_VERSION).connected());
  Client plain(port);
  EXPECT_EQ(plain.get("/healthz").status, 0u);
  Client silent(port);
  EXPECT_TRUE(silent.closed()) << "a handshake takes as long as it likes";
  // A new certificate, for those who come from then on.
  make_certificate(folder, "renewed");
  std::filesystem::rename(folder.path("renewed.pem"), folder.path("localhost.pem"));
  std::filesystem::rename(folder.path("renewed.key"), folder.path("localhost.key"));
  served.process().signal(SIGHUP);
  EXPECT_TRUE(test::eventually([&] { return TlsClient(port).name() == "renewed"; }));
  served.process().signal(SIGTERM);
  EXPECT_EQ(served.ending(), 0) << served.log();
}

TEST(Security, TheAccessLogHasOneLineForEachRequestWhateverItWas) {
  const test::Folder folder;
  const std::string path = folder.path("access");
  {
    Served served({"--access-log", path});
    ASSERT_NE(served.port(), 0) << served.log();
    Client client = served.client();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(served.infer(random_rows(1, 1)).status, 200u);
    EXPECT_EQ(client.get("/nothing\x1b[2J").status, 400u);
    EXPECT_EQ(served.get("/caf\xc3\xa9\xff").status, 404u);
    EXPECT_EQ(served.client().ask("GET", "/v1/status", "", "Host: evil.example\r\n").status, 421u);
    EXPECT_EQ(served.control().get("/healthz").status, 200u);
    served.process().signal(SIGTERM);
    EXPECT_EQ(served.ending(), 0) << served.log();
  }
  const std::string text = test::read_file(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 24) << text;
  for (const char c : text) {
    EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F)) << int{c};
  }
  EXPECT_THAT(text, HasSubstr(" POST /v1/models/digits/infer 200 256 "));
  EXPECT_THAT(text, HasSubstr(" GET /caf\xc3\xa9\\xff 404 0 "));
  EXPECT_THAT(text, HasSubstr(" - - 400 0 "));
  EXPECT_THAT(text, HasSubstr(" GET /v1/status 421 0 "));
  EXPECT_THAT(text, HasSubstr("Z control GET /healthz 200 0 "));
}

}  // namespace
}  // namespace neuron::serve_test
