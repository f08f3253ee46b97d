// SPDX-License-Identifier: Apache-2.0
// A client with TLS, and the certificate that a server of its test has.
// One thread. Owns the connection. Nothing waits longer than kPatience; an answer that does not
// come has the status 0, and `error()` says why there is no connection.
#ifndef TESTS_SYSTEM_SERVE_TLS_CLIENT_H
#define TESTS_SYSTEM_SERVE_TLS_CLIENT_H

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "tests/support/files.h"
#include "tests/system/serve/http_client.h"

namespace neuron::serve_test {

// NAME.key, which only this user may read, and NAME.pem: for the name "localhost", signed by
// itself.
inline void make_certificate(const test::Folder& folder, const std::string& name) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  X509_set_pubkey(made.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(made.get(), subject);
  X509_sign(made.get(), key.get(), EVP_sha256());
  const auto text = [](const auto& write) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), BIO_free);
    write(memory.get());
    char* bytes = nullptr;
    const long length = BIO_get_mem_data(memory.get(), &bytes);
    return std::string(bytes, static_cast<size_t>(length));
  };
  folder.write(name + ".pem", text([&](BIO* to) { PEM_write_bio_X509(to, made.get()); }));
  const std::string file =
      folder.write(name + ".key", text([&](BIO* to) {
                     PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
                   }));
  ::chmod(file.c_str(), 0600);
}

class TlsClient {
 public:
  // `newest`: the newest version that it speaks.
  explicit TlsClient(uint16_t port, int newest = TLS1_3_VERSION)
      : tcp_(port), context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
    SSL_CTX_set_security_level(context_.get(), 0);
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_.get(), newest);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), tcp_.descriptor());
    const timeval patience = {Client::kPatience.count(), 0};
    ::setsockopt(tcp_.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    connected_ = SSL_connect(ssl_.get()) == 1;
  }

  bool connected() const { return connected_; }
  // Whom the server says it is.
  std::string name() const {
    const std::unique_ptr<X509, decltype(&X509_free)> peer(SSL_get1_peer_certificate(ssl_.get()),
                                                           X509_free);
    char text[256] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(peer.get()), NID_commonName, text,
                              sizeof(text));
    return text;
  }
  Answer ask(const std::string& method, const std::string& path, const std::string& body = "",
             const std::string& headers = "") {
    const std::string request = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
                                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                                body;
    if (SSL_write(ssl_.get(), request.data(), static_cast<int>(request.size())) <= 0) return {};
    http::response_parser<http::string_body> parser;
    parser.eager(true);
    boost::system::error_code error;
    char piece[16384];
    std::string read;
    while (!parser.is_done()) {
      const int length = SSL_read(ssl_.get(), piece, sizeof(piece));
      if (length <= 0) return {};
      read.append(piece, static_cast<size_t>(length));
      read.erase(0, parser.put(boost::asio::buffer(read), error));
      if (error && error != http::error::need_more) return {};
    }
    return {parser.get().result_int(), parser.get().body(), parser.get().base()};
  }
  // Whether the server says that it ends, and does not only break the connection off.
  bool ended_well() {
    char byte = 0;
    return SSL_read(ssl_.get(), &byte, 1) == 0 &&
           SSL_get_error(ssl_.get(), 0) == SSL_ERROR_ZERO_RETURN;
  }

 private:
  Client tcp_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
  bool connected_ = false;
};

}  // namespace neuron::serve_test

#endif
