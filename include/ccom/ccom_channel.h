/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plug-in exports that encrypts the connections over which ranks come together.
 *
 * libccom links no library for cryptography: a Python process may have another version of it. With
 * CCOM_TLS=1 it loads neuron/ccom-tls.so beside itself, with CCOM_TLS=FILE another plug-in, and looks for
 * ccom_channel_v1. What ranks send to each other through libfabric is not encrypted by it.
 *
 * A session turns bytes into bytes and never touches a socket. libccom gives it what came from the
 * socket and sends what it asks to be sent. Threads: make_context from any thread; all sessions of
 * a context are used by one thread. Errors: sentences for people, without a line end.
 */
#ifndef CCOM_CHANNEL_H
#define CCOM_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ccom_channel {
  uint32_t size_of; /* of this struct: later versions append */
  const char *name; /* for people: the protocol and the library */

  /* Both sides know the same key; whoever does not must not get a session. `error` gets the reason
   * of a null pointer. */
  void *(*make_context)(const uint8_t *key, size_t key_bytes, char *error, size_t error_bytes);
  void (*free_context)(void *context);

  /* `accepts`: the side that accepted the connection. Null if there is no memory. Sessions end
   * before their context. */
  void *(*make_session)(void *context, int accepts);
  void (*free_session)(void *session);

  /* Takes all bytes, in the order in which they came from the socket. 0, or -1: see error(). */
  int (*take_from_socket)(void *session, const uint8_t *bytes, size_t count);
  /* Bytes for the socket: how many were written to `bytes`; 0: none for now. */
  size_t (*give_to_socket)(void *session, uint8_t *bytes, size_t count);

  /* Whether both sides have proven that they know the key: 1 or 0, or -1: see error(). Goes on with
   * that as far as the bytes that came allow. */
  int (*is_ready)(void *session);
  /* Once it is ready. Takes all bytes: 0, or -1: see error(). */
  int (*encrypt)(void *session, const uint8_t *bytes, size_t count);
  /* How many bytes of the other side were written to `bytes`; 0: none for now; -1: see error(). */
  ptrdiff_t (*decrypt)(void *session, uint8_t *bytes, size_t count);
  /* Why the session has failed. Belongs to the session. */
  const char *(*error)(void *session);
} ccom_channel_t;

extern const ccom_channel_t ccom_channel_v1;

#ifdef __cplusplus
}
#endif

#endif
