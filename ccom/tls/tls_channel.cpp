// SPDX-License-Identifier: Apache-2.0
// The plug-in ccom-tls.so: TLS 1.3 by OpenSSL. Both sides prove that they have the job's key (a
// pre-shared key), so there are no certificates; each connection has its own Diffie-Hellman
// exchange, so what was recorded stays secret if the key becomes known later.
#include <ccom/ccom_channel.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {

constexpr unsigned char kIdentity[] = "libccom";
constexpr size_t kIdentityBytes = sizeof(kIdentity) - 1;
// TLS_AES_128_GCM_SHA256, whose keys have 32 bytes.
constexpr unsigned char kCipher[] = {0x13, 0x01};
constexpr size_t kKeyBytes = 32;

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* session) const { SSL_free(session); }
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

// The first error that OpenSSL has noted in this thread; the others follow from it.
std::string openssl_error() {
  const unsigned long code = ERR_get_error();  // NOLINT(google-runtime-int): OpenSSL's type
  ERR_clear_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  return reason != nullptr ? reason : "no reason is known";
}

struct Context {
  std::unique_ptr<SSL_CTX, Free> tls;
  std::vector<unsigned char> key;

  ~Context() { OPENSSL_cleanse(key.data(), key.size()); }
};

struct Session {
  std::unique_ptr<SSL, Free> tls;
  BIO* from_socket = nullptr;  // both belong to `tls`
  BIO* to_socket = nullptr;
  std::string error;

  int fail(const char* doing) {
    error = std::string(SSL_get_version(tls.get())) + ", " + doing + ": " + openssl_error();
    return -1;
  }
  // Whether a call of OpenSSL that gave `result` only has to be made again when more bytes came.
  bool waits(int result) const {
    const int code = SSL_get_error(tls.get(), result);
    return code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE;
  }
};

const Context& context_of(SSL* tls) {
  return *static_cast<const Context*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(tls)));
}

// The key as a session that both sides resume.
std::unique_ptr<SSL_SESSION, Free> session_of_key(SSL* tls) {
  std::unique_ptr<SSL_SESSION, Free> session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(tls, kCipher);
  const auto& key = context_of(tls).key;
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), key.data(), key.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1) {
    return nullptr;
  }
  return session;
}

int offer_key(SSL* tls, const EVP_MD* digest, const unsigned char** identity, size_t* bytes,
              SSL_SESSION** session) {
  *identity = kIdentity;
  *bytes = kIdentityBytes;
  *session = nullptr;
  // Offered again after a retry of the handshake with another hash, which ours never is.
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
  *session = session_of_key(tls).release();
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* tls, const unsigned char* identity, size_t bytes, SSL_SESSION** session) {
  *session = nullptr;
  if (bytes != kIdentityBytes || std::memcmp(identity, kIdentity, bytes) != 0) return 1;
  *session = session_of_key(tls).release();
  return *session != nullptr ? 1 : 0;
}

void* make_context(const uint8_t* key, size_t key_bytes, char* error, size_t error_bytes) {
  if (key_bytes != kKeyBytes) {
    std::snprintf(error, error_bytes, "a key of %zu bytes, expected %zu", key_bytes, kKeyBytes);
    return nullptr;
  }
  std::unique_ptr<Context> context(new (std::nothrow) Context);
  if (context != nullptr) context->tls.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* tls = context != nullptr ? context->tls.get() : nullptr;
  if (tls == nullptr || SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(tls, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set_num_tickets(tls, 0) != 1) {
    std::snprintf(error, error_bytes, "%s", openssl_error().c_str());
    return nullptr;
  }
  context->key.assign(key, key + key_bytes);
  SSL_CTX_set_app_data(tls, context.get());
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(tls, offer_key);
  SSL_CTX_set_psk_find_session_callback(tls, find_key);
  return context.release();
}

void free_context(void* context) { delete static_cast<Context*>(context); }

void* make_session(void* context, int accepts) {
  std::unique_ptr<Session> session(new (std::nothrow) Session);
  if (session == nullptr) return nullptr;
  session->tls.reset(SSL_new(static_cast<Context*>(context)->tls.get()));
  session->from_socket = BIO_new(BIO_s_mem());
  session->to_socket = BIO_new(BIO_s_mem());
  if (session->tls == nullptr || session->from_socket == nullptr || session->to_socket == nullptr) {
    BIO_free(session->from_socket);
    BIO_free(session->to_socket);
    return nullptr;
  }
  // An empty buffer means that more will come.
  BIO_set_mem_eof_return(session->from_socket, -1);
  BIO_set_mem_eof_return(session->to_socket, -1);
  SSL_set_bio(session->tls.get(), session->from_socket, session->to_socket);
  if (accepts != 0) {
    SSL_set_accept_state(session->tls.get());
  } else {
    SSL_set_connect_state(session->tls.get());
    // Whoever shows a certificate instead of the key is refused: none is trusted.
    SSL_set_verify(session->tls.get(), SSL_VERIFY_PEER, nullptr);
  }
  return session.release();
}

void free_session(void* session) { delete static_cast<Session*>(session); }

int take_from_socket(void* opaque, const uint8_t* bytes, size_t count) {
  auto* session = static_cast<Session*>(opaque);
  while (count > 0) {
    const int part = static_cast<int>(std::min<size_t>(count, INT_MAX));
    const int taken = BIO_write(session->from_socket, bytes, part);
    if (taken <= 0) return session->fail("taking what came");
    bytes += taken;
    count -= static_cast<size_t>(taken);
  }
  return 0;
}

size_t give_to_socket(void* opaque, uint8_t* bytes, size_t count) {
  auto* session = static_cast<Session*>(opaque);
  const int given =
      BIO_read(session->to_socket, bytes, static_cast<int>(std::min<size_t>(count, INT_MAX)));
  return given > 0 ? static_cast<size_t>(given) : 0;
}

int is_ready(void* opaque) {
  auto* session = static_cast<Session*>(opaque);
  if (SSL_is_init_finished(session->tls.get()) != 0) return 1;
  ERR_clear_error();
  const int result = SSL_do_handshake(session->tls.get());
  if (result == 1) return 1;
  return session->waits(result) ? 0 : session->fail("the proof of the job's key");
}

int encrypt(void* opaque, const uint8_t* bytes, size_t count) {
  auto* session = static_cast<Session*>(opaque);
  while (count > 0) {
    ERR_clear_error();
    size_t taken = 0;
    if (SSL_write_ex(session->tls.get(), bytes, count, &taken) != 1) {
      return session->fail("encrypting");
    }
    bytes += taken;
    count -= taken;
  }
  return 0;
}

ptrdiff_t decrypt(void* opaque, uint8_t* bytes, size_t count) {
  auto* session = static_cast<Session*>(opaque);
  ERR_clear_error();
  size_t got = 0;
  const int result = SSL_read_ex(session->tls.get(), bytes, count, &got);
  if (result == 1) return static_cast<ptrdiff_t>(got);
  if (session->waits(result)) return 0;
  if (SSL_get_error(session->tls.get(), result) == SSL_ERROR_ZERO_RETURN) {
    session->error = "the other side has ended it";
    return -1;
  }
  return session->fail("decrypting");
}

const char* error_of(void* session) { return static_cast<Session*>(session)->error.c_str(); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const ccom_channel_t ccom_channel_v1 = {
    .size_of = sizeof(ccom_channel_t),
    .name = "TLS 1.3 of OpenSSL",
    .make_context = make_context,
    .free_context = free_context,
    .make_session = make_session,
    .free_session = free_session,
    .take_from_socket = take_from_socket,
    .give_to_socket = give_to_socket,
    .is_ready = is_ready,
    .encrypt = encrypt,
    .decrypt = decrypt,
    .error = error_of,
};
