// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/calibration.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace neuron::ccom {
namespace {

namespace json = boost::json;

constexpr size_t kMostBytes = 1 << 16;
constexpr int kVersion = 1;

// Of a message through the sockets of the kernel.
constexpr uint64_t kKernelLatency = 8'000'000, kKernelMessage = 16'000'000;
constexpr double kKernelRate = 1.2e9;

const char* medium_name(Medium medium) { return medium == Medium::kDevice ? "device" : "host"; }

struct Field {
  const char* name;
  uint64_t CostParameters::*time;  // or
  double CostParameters::*rate;
};

constexpr Field kFields[] = {
    {"local_latency_ps", &CostParameters::local_latency_ps, nullptr},
    {"local_bytes_per_second", nullptr, &CostParameters::local_bytes_per_second},
    {"remote_latency_ps", &CostParameters::remote_latency_ps, nullptr},
    {"remote_bytes_per_second", nullptr, &CostParameters::remote_bytes_per_second},
    {"reduce_bytes_per_second", nullptr, &CostParameters::reduce_bytes_per_second},
    {"step_ps", &CostParameters::step_ps, nullptr},
    {"remote_message_ps", &CostParameters::remote_message_ps, nullptr},
};

Result<json::object> read(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return system_error(errno, format("cannot open the calibration {}", file));
  std::string text;
  text.resize(kMostBytes + 1);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kMostBytes) {
    return fail(CCOM_INVALID, "the calibration {} has more than {} bytes", file, kMostBytes);
  }
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error) return fail(CCOM_INVALID, "the calibration {} is no JSON: {}", file, error.message());
  if (!value.is_object()) {
    return fail(CCOM_INVALID, "the calibration {} is no JSON object", file);
  }
  const json::value* version = value.as_object().if_contains("version");
  if (version == nullptr || !version->is_int64() || version->as_int64() != kVersion) {
    return fail(CCOM_INVALID,
                "the calibration {}: field \"version\" is {}, expected {}; measure anew", file,
                version == nullptr ? "missing" : json::serialize(*version), kVersion);
  }
  return std::move(value.as_object());
}

Result<void> take(const std::string& file, const char* section, const Field& field,
                  const json::value& value, CostParameters& costs) {
  boost::system::error_code error;
  const double number = value.to_number<double>(error);
  const double most = field.time != nullptr ? 1e15 : 1e18;
  if (error || !std::isfinite(number) || number <= 0 || number > most) {
    return fail(CCOM_INVALID,
                "the calibration {}: field \"{}.{}\" is {}, expected a number above 0", file,
                section, field.name, json::serialize(value));
  }
  if (field.time != nullptr) {
    costs.*field.time = static_cast<uint64_t>(std::max(1.0, number));
  } else {
    costs.*field.rate = number;
  }
  return {};
}

}  // namespace

CostParameters complete_costs(const CostParameters& costs, const Topology& topology) {
  CostParameters result = costs;
  const NodeProfile& node = topology.node();
  const bool device = costs.medium == Medium::kDevice;
  const auto fill = [](auto& price, auto known, auto otherwise) {
    using Price = std::decay_t<decltype(price)>;
    if (price == 0) price = static_cast<Price>(known > 0 ? known : otherwise);
  };
  fill(result.local_latency_ps, device ? node.link.latency_ps : 0, device ? 1'500'000 : 200'000);
  fill(result.local_bytes_per_second, device ? node.link.bytes_per_second : 0.0,
       device ? 48e9 : 10e9);
  fill(result.remote_latency_ps, node.nic.latency_ps, 15'000'000);
  fill(result.remote_bytes_per_second, node.nic.bytes_per_second, 12.5e9);
  fill(result.reduce_bytes_per_second, device ? node.dma_bytes_per_second : 0.0,
       device ? 1e12 : 10e9);
  fill(result.step_ps, 0, 10'000);
  return result;
}

CostParameters network_costs(const CostParameters& costs, const std::string& provider) {
  CostParameters result = costs;
  // EFA and whatever else has a device of its own: as the topology says.
  const bool kernel = provider.rfind("stream", 0) == 0 || provider.rfind("tcp", 0) == 0 ||
                      provider.rfind("net", 0) == 0 || provider.rfind("sockets", 0) == 0 ||
                      provider.rfind("udp", 0) == 0;
  if (!kernel) return result;
  // Measured: decisions.md.
  if (result.remote_bytes_per_second == 0) result.remote_bytes_per_second = kKernelRate;
  // A latency that was measured without a price for messages contains that.
  if (result.remote_latency_ps == 0) {
    result.remote_latency_ps = kKernelLatency;
    if (result.remote_message_ps == 0) result.remote_message_ps = kKernelMessage;
  }
  return result;
}

Result<CostParameters> load_calibration(const std::string& file, Medium medium) {
  CostParameters costs;
  costs.medium = medium;
  NEURON_TRY(root, read(file));
  const char* section = medium_name(medium);
  const json::value* values = root.if_contains(section);
  if (values == nullptr) return costs;
  if (!values->is_object()) {
    return fail(CCOM_INVALID, "the calibration {}: field \"{}\" is no object", file, section);
  }
  for (const auto& entry : values->get_object()) {
    const auto field = std::find_if(std::begin(kFields), std::end(kFields),
                                    [&](const Field& known) { return entry.key() == known.name; });
    if (field == std::end(kFields)) {
      return fail(CCOM_INVALID, "the calibration {}: field \"{}.{}\" is unknown; take it out", file,
                  section, std::string(entry.key()));
    }
    NEURON_CHECK(take(file, section, *field, entry.value(), costs));
  }
  return costs;
}

Result<CostParameters> calibration_of_environment(Medium medium) {
  const char* file = std::getenv("CCOM_CALIBRATION");
  if (file != nullptr && *file != '\0') return load_calibration(file, medium);
  CostParameters costs;
  costs.medium = medium;
  return costs;
}

std::string describe(const CostParameters& costs) {
  std::string text;
  for (const Field& field : kFields) {
    const char* gap = text.empty() ? "" : " ";
    if (field.time != nullptr && costs.*field.time != 0) {
      text += format("{}{}={}", gap, field.name, costs.*field.time);
    }
    if (field.rate != nullptr && costs.*field.rate != 0) {
      text += format("{}{}={}", gap, field.name, costs.*field.rate);
    }
  }
  return text.empty() ? "built-in" : text;
}

Result<std::string> describe_calibration_of_environment() {
  NEURON_TRY(host, calibration_of_environment(Medium::kHostMemory));
  NEURON_TRY(device, calibration_of_environment(Medium::kDevice));
  const std::string of_host = describe(host), of_device = describe(device);
  if (of_host == of_device) return of_host;  // built in
  return format("host {}, device {}", of_host, of_device);
}

Result<void> save_calibration(const std::string& file, const CostParameters& costs) {
  json::object root;
  if (::access(file.c_str(), F_OK) == 0) {
    NEURON_TRY(before, read(file));
    root = std::move(before);
  }
  root["version"] = kVersion;
  json::object section;
  for (const Field& field : kFields) {
    if (field.time != nullptr && costs.*field.time != 0) section[field.name] = costs.*field.time;
    if (field.rate != nullptr && costs.*field.rate != 0) section[field.name] = costs.*field.rate;
  }
  root[medium_name(costs.medium)] = std::move(section);
  // Readers see the old file or the new one, never a mixture.
  const std::string fresh = format("{}.{}", file, ::getpid());
  std::ofstream stream(fresh, std::ios::binary | std::ios::trunc);
  stream << json::serialize(root) << "\n";
  stream.close();
  if (!stream || std::rename(fresh.c_str(), file.c_str()) != 0) {
    const int error = errno;
    std::remove(fresh.c_str());
    return system_error(error, format("cannot write the calibration {}", file));
  }
  return {};
}

Result<Fitted> fit(const std::vector<Sample>& samples) {
  // Weights of 1 / time^2 minimise the relative error, so that small sizes count as well.
  double weight = 0, x = 0, y = 0, xx = 0, xy = 0;
  uint64_t least = ~uint64_t{0}, most = 0;
  for (const Sample& sample : samples) {
    if (!(sample.seconds > 0) || !std::isfinite(sample.seconds)) continue;
    const double w = 1 / (sample.seconds * sample.seconds);
    const auto bytes = static_cast<double>(sample.bytes);
    weight += w;
    x += w * bytes;
    y += w * sample.seconds;
    xx += w * bytes * bytes;
    xy += w * bytes * sample.seconds;
    least = std::min(least, sample.bytes);
    most = std::max(most, sample.bytes);
  }
  if (least >= most) {
    return fail(CCOM_INVALID,
                "{} measurements do not give a latency and a rate; measure at least two sizes",
                samples.size());
  }
  const double slope = (weight * xy - x * y) / (weight * xx - x * x);
  const double latency = (y - slope * x) / weight;
  if (!(slope > 0)) {
    return fail(CCOM_INVALID,
                "time does not grow from {} to {} bytes in {} measurements; measure larger sizes",
                least, most, samples.size());
  }
  return Fitted{static_cast<uint64_t>(std::max(1.0, latency * 1e12)), 1 / slope};
}

}  // namespace neuron::ccom
