// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/secure_channel.h"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <utility>

namespace neuron::ccom {
namespace {

constexpr char kPlugin[] = "neuron/ccom-tls.so";

const uint8_t* octets(const std::byte* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }
uint8_t* octets(std::byte* bytes) { return reinterpret_cast<uint8_t*>(bytes); }

// In the folder `neuron` beside this library.
std::string default_plugin() {
  static const char here = 0;
  Dl_info library{};
  if (dladdr(&here, &library) == 0 || library.dli_fname == nullptr) return kPlugin;
  const std::string name = library.dli_fname;
  return name.substr(0, name.rfind('/') + 1) + kPlugin;
}

}  // namespace

bool SecureSession::fail() {
  reason_ = session_ != nullptr ? methods_.error(session_) : "there is no memory to encrypt it";
  return false;
}

bool SecureSession::go_on() {
  if (ready_) return true;
  if (session_ == nullptr) return fail();
  const int ready = methods_.is_ready(session_);
  if (ready < 0) return fail();
  if (ready == 0) return true;
  ready_ = true;
  const Bytes waiting = std::exchange(waiting_, {});
  return waiting.empty() || send(waiting);
}

bool SecureSession::begin() { return go_on(); }

bool SecureSession::take_from_socket(std::span<const std::byte> bytes) {
  if (methods_.take_from_socket(session_, octets(bytes.data()), bytes.size()) != 0) return fail();
  return go_on();
}

bool SecureSession::send(std::span<const std::byte> bytes) {
  if (!ready_) {
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
    return true;
  }
  return methods_.encrypt(session_, octets(bytes.data()), bytes.size()) == 0 || fail();
}

bool SecureSession::receive(std::byte* to, size_t most, size_t& count) {
  count = 0;
  if (!ready_ || most == 0) return true;
  const ptrdiff_t got = methods_.decrypt(session_, octets(to), most);
  if (got < 0) return fail();
  count = static_cast<size_t>(got);
  return true;
}

Bytes SecureSession::give_to_socket() {
  Bytes all;
  std::array<std::byte, 16384> part;
  for (size_t given = part.size(); given == part.size();) {
    given = methods_.give_to_socket(session_, octets(part.data()), part.size());
    all.insert(all.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(given));
  }
  return all;
}

Result<std::unique_ptr<SecureChannel>> SecureChannel::open(const std::string& plugin,
                                                           std::span<const std::byte> key) {
  const std::string file = plugin == "1" ? default_plugin() : plugin;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return ccom::fail(
        CCOM_UNSUPPORTED,
        "CCOM_TLS={}: the plug-in that encrypts cannot be loaded: {}; install {} beside "
        "libccom.so.1, name another one by its path, or take CCOM_TLS away on all ranks",
        plugin, dlerror(), kPlugin);
  }
  const auto* methods = static_cast<const ccom_channel_t*>(dlsym(library, "ccom_channel_v1"));
  if (methods == nullptr || methods->size_of < sizeof(ccom_channel_t)) {
    return ccom::fail(
        CCOM_UNSUPPORTED,
        "CCOM_TLS={}: {} has no ccom_channel_v1 as <ccom/ccom_channel.h> has it; take {} "
        "of this version",
        plugin, file, kPlugin);
  }
  std::array<char, 256> error{};
  void* context = methods->make_context(octets(key.data()), key.size(), error.data(), error.size());
  if (context == nullptr) {
    return ccom::fail(CCOM_SYSTEM, "CCOM_TLS={}: {} cannot be used: {}", plugin, methods->name,
                      error.data());
  }
  return std::unique_ptr<SecureChannel>(new SecureChannel(*methods, context));
}

std::unique_ptr<SecureSession> SecureChannel::session(bool accepts) {
  return std::make_unique<SecureSession>(methods_,
                                         methods_.make_session(context_, accepts ? 1 : 0));
}

}  // namespace neuron::ccom
