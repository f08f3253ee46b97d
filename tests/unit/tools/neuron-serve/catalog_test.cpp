// SPDX-License-Identifier: Apache-2.0
// Which model answers to which name and version.
#include <gtest/gtest.h>

#include "tools/neuron-serve/model_host.h"

namespace neuron::serve {
namespace {

Catalog catalog() {
  Catalog catalog;
  catalog.state = State::kReady;
  for (const char* key : {"a", "b/2", "b/10"}) {
    ModelSpec spec;
    spec.name = key;
    catalog.models.emplace(
        key, std::make_shared<Model>(spec, FileIdentity{}, std::vector<std::unique_ptr<Replica>>{},
                                     1, std::chrono::microseconds(1)));
  }
  return catalog;
}

std::string found(const Catalog& catalog, std::string_view name, std::string_view version = {}) {
  const auto model = catalog.find(name, version);
  return model != nullptr ? model->spec.name : "none";
}

TEST(Catalog, GivesTheVersionThatIsNamedOrTheLast) {
  const Catalog all = catalog();
  EXPECT_EQ(found(all, "a"), "a");
  EXPECT_EQ(found(all, "a", "1"), "a");
  EXPECT_EQ(found(all, "a", "2"), "none");
  EXPECT_EQ(found(all, "b"), "b/10");
  EXPECT_EQ(found(all, "b", "2"), "b/2");
  EXPECT_EQ(found(all, "b", "1"), "none");
  EXPECT_EQ(found(all, ""), "none");
}

// A client of gRPC may send any text as a name.
TEST(Catalog, TakesNoKeyForAName) {
  const Catalog all = catalog();
  EXPECT_EQ(found(all, "b/2"), "none");
  EXPECT_EQ(found(all, "b/2", "1"), "none");
  EXPECT_EQ(found(all, "b/", "2"), "none");
  EXPECT_EQ(found(all, "b", "2/"), "none");
}

}  // namespace
}  // namespace neuron::serve
