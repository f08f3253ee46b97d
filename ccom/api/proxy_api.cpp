// SPDX-License-Identifier: Apache-2.0
// The C edge of the proxy that carries messages of devices between instances.
#include <ccom/ccom_device.h>

#include <memory>

#include "ccom/api/handle.h"
#include "ccom/proxy/device_proxy.h"

struct ccom_device_proxy {
  std::unique_ptr<neuron::ccom::DeviceProxy> body;
};

using namespace neuron::ccom;

ccom_status_t ccom_device_proxy_open(ccom_comm_t* comm, const ccom_device_host_t* host,
                                     ccom_device_proxy_t** proxy) {
  return guarded([&] {
    if (!good_handle(comm)) return set_last_error(bad_handle(comm, "ccom_device_proxy_open"));
    if (host == nullptr || proxy == nullptr || host->size_of != sizeof(*host) ||
        host->map == nullptr || host->due == nullptr || host->signal == nullptr) {
      return set_last_error(
          {CCOM_INVALID, "ccom_device_proxy_open needs the functions of this version's host"});
    }
    auto port = comm->body->open_port("ccom_device_proxy_open");
    if (!port) return set_last_error(port.error());
    auto owned = std::make_unique<ccom_device_proxy>();
    owned->body = std::make_unique<DeviceProxy>(
        std::move(*port), *host, [comm] { return ccom_status(comm) == CCOM_SUCCESS; });
    *proxy = owned.release();
    return CCOM_SUCCESS;
  });
}

ccom_status_t ccom_device_proxy_add(ccom_device_proxy_t* proxy, uint32_t stream,
                                    const ccom_device_program_t* program) {
  return guarded([&] {
    if (proxy == nullptr || program == nullptr) {
      return set_last_error({CCOM_INVALID, "ccom_device_proxy_add needs a proxy and a program"});
    }
    const auto added = proxy->body->add(stream, *program);
    return added ? CCOM_SUCCESS : set_last_error(added.error());
  });
}

ccom_status_t ccom_device_proxy_poll(ccom_device_proxy_t* proxy, bool* moved, bool* busy) {
  return guarded([&] {
    if (proxy == nullptr || moved == nullptr || busy == nullptr) {
      return set_last_error({CCOM_INVALID, "ccom_device_proxy_poll needs a proxy and two places"});
    }
    const auto polled = proxy->body->poll();
    if (!polled) return set_last_error(polled.error());
    *moved = *polled;
    *busy = proxy->body->busy();
    return CCOM_SUCCESS;
  });
}

void ccom_device_proxy_close(ccom_device_proxy_t* proxy) { delete proxy; }
