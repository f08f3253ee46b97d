// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/handshake.h"

#include <map>

#include "driver/base/deadline.h"
#include "driver/base/hmac_sha256.h"
#include "driver/base/random_bytes.h"

namespace neuron::ccom {
namespace {

Digest proof_of(const Bytes& key, char side, const Digest& first, const Digest& second) {
  Bytes data;
  data.push_back(static_cast<std::byte>(side));
  for (const Digest* nonce : {&first, &second}) {
    const auto bytes = std::as_bytes(std::span(*nonce));
    data.insert(data.end(), bytes.begin(), bytes.end());
  }
  return base::hmac_sha256(key, data);
}

// One accepted connection until it is admitted or refused.
struct Stranger {
  LinkPointer link;
  uint64_t number = 0;  // in the order of arrival
  base::Moment came;
  Digest mine{};
  Digest theirs{};
  bool greeted = false;
  uint64_t timer = 0;
};

}  // namespace

Digest server_proof(const Bytes& key, const Digest& client, const Digest& server) {
  return proof_of(key, 'S', client, server);
}

Digest client_proof(const Bytes& key, const Digest& client, const Digest& server) {
  return proof_of(key, 'C', server, client);
}

void prove(Loop& loop, LinkPointer link, const Bytes& key, std::chrono::milliseconds time,
           std::function<void(const Error*)> done) {
  const std::string where = text_of(link->remote());
  auto mine = std::make_shared<Digest>();
  if (!base::random_bytes(*mine)) {
    link->close(false);
    const Error error = fail(CCOM_SYSTEM, "the system gives no random numbers for a handshake");
    done(&error);
    return;
  }
  const uint64_t timer = loop.after(time, [link, where, done] {
    link->close(false);
    const Error error =
        fail(CCOM_TIMEOUT, "{} accepted a connection, but did not answer in time", where);
    done(&error);
  });
  link->limit(kStrangerBytes);
  link->listen(
      [&loop, link = std::weak_ptr<Link>(link), key, mine, where, timer, done](MessageType type,
                                                                               Bytes body) {
        const LinkPointer here = link.lock();
        Challenge challenge;
        loop.cancel(timer);
        if (here == nullptr) {
          return;
        }
        if (type != MessageType::kChallenge || !decode(body, challenge)) {
          here->close(false);
          const Error error =
              fail(CCOM_REFUSED, "what listens at {} is no rank of a libccom job", where);
          done(&error);
          return;
        }
        if (challenge.version != kProtocolVersion) {
          here->close(false);
          const Error error = fail(CCOM_MISMATCH,
                                   "the rank at {} speaks version {} of the bootstrap protocol, "
                                   "this one version {}; use one version of libccom on all hosts",
                                   where, challenge.version, kProtocolVersion);
          done(&error);
          return;
        }
        if (!base::equal_digests(challenge.proof, server_proof(key, *mine, challenge.nonce))) {
          here->close(false);
          const Error error = fail(CCOM_REFUSED,
                                   "the rank at {} has another secret; give all ranks of the job "
                                   "the same CCOM_SECRET and root address",
                                   where);
          done(&error);
          return;
        }
        here->listen(nullptr, nullptr);
        here->send(MessageType::kProof, encode(Proof{client_proof(key, *mine, challenge.nonce)}));
        done(nullptr);
      },
      [&loop, timer, where, done](const std::string& why) {
        loop.cancel(timer);
        const Error error =
            fail(CCOM_SYSTEM,
                 "{} ended the handshake: {}; ranks with CCOM_TLS and ranks without it do not meet",
                 where, why);
        done(&error);
      });
  link->send(MessageType::kHello, encode(Hello{kProtocolVersion, *mine}));
}

struct Door::State : std::enable_shared_from_this<Door::State> {
  State(Loop& loop_of, Bytes key_of, std::function<void(LinkPointer)> admitted_of)
      : loop(loop_of), key(std::move(key_of)), admitted(std::move(admitted_of)) {}

  void arrive(LinkPointer link) {
    auto stranger = std::make_shared<Stranger>();
    stranger->link = std::move(link);
    if (!base::random_bytes(stranger->mine)) {
      stranger->link->close(false);
      return;
    }
    stranger->number = ++arrived;
    stranger->came = base::Clock::now();
    strangers[stranger->number] = stranger;
    if (strangers.size() >= kMostStrangers) {
      loop.pause_accepting(listener, true);
      thin_out();
    }
    const std::weak_ptr<State> self = weak_from_this();
    stranger->timer = loop.after(kHandshakeTime, [self, stranger] {
      if (const auto state = self.lock()) {
        state->refuse(stranger);
      }
    });
    stranger->link->limit(kStrangerBytes);
    stranger->link->listen(
        [self, weak = std::weak_ptr<Stranger>(stranger)](MessageType type, Bytes body) {
          const auto state = self.lock();
          const auto here = weak.lock();
          if (state && here) {
            state->hear(here, type, body);
          }
        },
        [self, weak = std::weak_ptr<Stranger>(stranger)](const std::string&) {
          const auto state = self.lock();
          const auto here = weak.lock();
          if (state && here) {
            state->refuse(here);
          }
        });
  }

  void hear(const std::shared_ptr<Stranger>& stranger, MessageType type, const Bytes& body) {
    if (!stranger->greeted) {
      Hello hello;
      if (type != MessageType::kHello || !decode(body, hello)) {
        refuse(stranger);
        return;
      }
      stranger->greeted = true;
      stranger->theirs = hello.nonce;
      stranger->link->send(MessageType::kChallenge,
                           encode(Challenge{kProtocolVersion, stranger->mine,
                                            server_proof(key, hello.nonce, stranger->mine)}));
      return;
    }
    Proof proof;
    if (type != MessageType::kProof || !decode(body, proof) ||
        !base::equal_digests(proof.proof, client_proof(key, stranger->theirs, stranger->mine))) {
      refuse(stranger);
      return;
    }
    const LinkPointer link = stranger->link;
    forget(stranger);
    link->limit(kJoinBytes);
    admitted(link);
  }

  void refuse(const std::shared_ptr<Stranger>& stranger) {
    if (strangers.count(stranger->number) == 0) {
      return;
    }
    ++refused;
    stranger->link->close(false);
    forget(stranger);
  }

  void forget(const std::shared_ptr<Stranger>& stranger) {
    loop.cancel(stranger->timer);
    strangers.erase(stranger->number);
    loop.pause_accepting(listener, false);
  }

  // Refuses the oldest strangers while the door is full, once their time is over. A rank among them
  // connects again.
  void thin_out() {
    while (strangers.size() >= kMostStrangers) {  // bounded: each round refuses one, or is the last
      const std::shared_ptr<Stranger> oldest = strangers.begin()->second;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(oldest->came + kCrowdedTime -
                                                                     base::Clock::now());
      if (left.count() > 0) {
        if (thinning == 0) {
          thinning = loop.after(left, [self = weak_from_this()] {
            if (const auto state = self.lock()) {
              state->thinning = 0;
              state->thin_out();
            }
          });
        }
        return;
      }
      refuse(oldest);
    }
  }

  Loop& loop;
  Bytes key;
  std::function<void(LinkPointer)> admitted;
  uint64_t listener = 0;
  uint64_t refused = 0;
  uint64_t arrived = 0;
  uint64_t thinning = 0;  // timer of thin_out()
  std::map<uint64_t, std::shared_ptr<Stranger>> strangers;
};

Door::Door(Loop& loop, int listener, Bytes key, std::function<void(LinkPointer)> admitted)
    : state_(std::make_shared<State>(loop, std::move(key), std::move(admitted))) {
  state_->listener =
      loop.accept(listener, [state = std::weak_ptr<State>(state_)](LinkPointer link) {
        if (const auto here = state.lock()) {
          here->arrive(std::move(link));
        }
      });
}

Door::~Door() {
  state_->loop.stop_accepting(state_->listener);
  if (state_->thinning != 0) {
    state_->loop.cancel(state_->thinning);
  }
  for (const auto& [number, stranger] : state_->strangers) {
    state_->loop.cancel(stranger->timer);
    stranger->link->close(false);
  }
}

uint64_t Door::refused() const { return state_->refused; }

}  // namespace neuron::ccom
