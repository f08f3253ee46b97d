// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/fabric_provider.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "ccom/transport/fabric_libfabric.h"
#include "ccom/transport/fabric_signals.h"
#include "ccom/transport/rough_endpoint.h"
#include "ccom/transport/rough_link.h"
#include "ccom/transport/stream_endpoint.h"

namespace neuron::ccom {
namespace {

constexpr const char* kDefaultPreference = "efa,stream,tcp;ofi_rxm,net";
constexpr const char* kRough = "rough+";

using Description = std::unique_ptr<fi_info, void (*)(fi_info*)>;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> names;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    name.erase(0, name.find_first_not_of(" \t"));
    name.erase(name.find_last_not_of(" \t") + 1);
    if (!name.empty()) {
      names.push_back(name);
    }
    begin = end + 1;
  }
  return names;
}

bool is_stream(const std::string& full_name) { return full_name == kStreamProvider; }

bool is_rough(const std::string& name) { return name.rfind(kRough, 0) == 0; }

// The provider's name in libfabric.
std::string full_name(const std::string& name) {
  const std::string plain = is_rough(name) ? name.substr(std::strlen(kRough)) : name;
  return plain == "tcp" ? "tcp;ofi_rxm" : plain;
}

Description ask(const std::string& provider, const std::string& local_address) {
  Description hints(fi_allocinfo(), fi_freeinfo);
  if (!hints) {
    return hints;
  }
  hints->caps = FI_TAGGED | FI_SEND | FI_RECV;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = static_cast<int>(fabric_memory_modes());
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->cq_data_size = sizeof(uint32_t);
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  if (!provider.empty()) {
    hints->fabric_attr->prov_name = strdup(provider.c_str());
  }
  // Providers without internet addresses (efa, shm) choose their own.
  const bool addressed = provider.rfind("tcp", 0) == 0 || provider.rfind("net", 0) == 0 ||
                         provider.rfind("udp", 0) == 0 || provider.rfind("sockets", 0) == 0;
  const bool bind = addressed && !local_address.empty();
  fi_info* found = nullptr;
  const int error = fi_getinfo(FI_VERSION(1, 17), bind ? local_address.c_str() : nullptr, nullptr,
                               bind ? FI_SOURCE : 0, hints.get(), &found);
  give_signals_back();  // loading providers may have loaded libraries
  return Description(error == 0 ? found : nullptr, fi_freeinfo);
}

// Why a provider is unfit for us, or "".
std::string unfit(const fi_info& info) {
  // Observed with libfabric 1.17: decisions.md.
  if (std::strcmp(info.fabric_attr->prov_name, "shm") == 0) {
    return "stalls with long messages once two ranks have written to each other at the same time";
  }
  if (info.domain_attr->cq_data_size < sizeof(uint32_t)) {
    return "has no data beside a message";
  }
  // The provider keeps the bits of the format's leading zeros for itself.
  if ((info.ep_attr->mem_tag_format >> 62 & 3) == 0) {
    return "has tags of less than 63 bits";
  }
  if (info.ep_attr->max_msg_size < (size_t{1} << 30)) {
    return format("sends at most {} bytes in a message", info.ep_attr->max_msg_size);
  }
  return "";
}

// The first description that fits, or the reason why there is none.
Description choose(const std::string& name, const std::string& local_address, std::string& reason) {
  Description all = ask(full_name(name), local_address);
  reason = "not here";
  for (const fi_info* info = all.get(); info != nullptr; info = info->next) {
    // libfabric also answers a request for "net" with providers layered over it.
    if (full_name(name) != info->fabric_attr->prov_name) {
      continue;
    }
    reason = unfit(*info);
    if (reason.empty()) {
      return Description(fi_dupinfo(info), fi_freeinfo);
    }
  }
  return Description(nullptr, fi_freeinfo);
}

// Ranks tell each other the address, so it must be one.
bool offers_stream(const std::string& local_address, std::string& reason) {
  reason = "needs an address of this host";
  if (local_address.empty()) return false;
  const auto endpoint = open_stream(local_address);
  reason = endpoint ? "" : endpoint.error().sentence;
  return static_cast<bool>(endpoint);
}

std::string everything_here() {
  Description all = ask("", "");
  std::vector<std::string> names = {kStreamProvider};
  for (const fi_info* info = all.get(); info != nullptr; info = info->next) {
    names.emplace_back(info->fabric_attr->prov_name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (const auto& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

Result<std::vector<std::string>> offered_providers(const std::string& preference,
                                                   const std::string& local_address) {
  std::vector<std::string> offered;
  std::string refused;
  for (const auto& name : split(preference.empty() ? kDefaultPreference : preference)) {
    std::string reason;
    const bool here = is_stream(full_name(name)) ? offers_stream(local_address, reason)
                                                 : choose(name, local_address, reason) != nullptr;
    if (here) {
      offered.push_back((is_rough(name) ? kRough : "") + full_name(name));
    } else {
      refused += format("{}{}: {}", refused.empty() ? "" : "; ", name, reason);
    }
  }
  if (offered.empty()) {
    return fail(CCOM_UNSUPPORTED,
                "no provider of libfabric for messages between hosts ({}) at address {}; this host "
                "has {}: name one of them in CCOM_PROVIDERS",
                refused.empty() ? "the list is empty" : refused,
                local_address.empty() ? "any" : local_address, everything_here());
  }
  return offered;
}

namespace {

Result<std::unique_ptr<FabricEndpoint>> open_plain(const std::string& provider,
                                                   const std::string& local_address) {
  if (is_stream(full_name(provider))) return open_stream(local_address);
  std::string reason;
  Description description = choose(provider, local_address, reason);
  if (!description) {
    return fail(CCOM_UNSUPPORTED, "provider {} at address {} {}; this host has {}", provider,
                local_address.empty() ? "any" : local_address, reason, everything_here());
  }
  return open_libfabric(description.release());
}

}  // namespace

Result<std::unique_ptr<FabricEndpoint>> open_provider(const std::string& provider,
                                                      const std::string& local_address) {
  NEURON_TRY(endpoint, open_plain(provider, local_address));
  if (is_rough(provider)) {
    return make_rough_endpoint(make_fabric_link(std::move(endpoint)),
                               RoughManners::from_environment());
  }
  return std::move(endpoint);
}

}  // namespace neuron::ccom
