// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using test::Buffer;
using testing::HasSubstr;

Buffer npy(const std::string& header, size_t data_bytes, uint8_t version = 1) {
  Buffer file = {0x93, 'N', 'U', 'M', 'P', 'Y', version, 0};
  file.resize(version == 1 ? 10 : 12);
  base::store_little(file.data() + 8, static_cast<uint16_t>(header.size()));
  file.insert(file.end(), header.begin(), header.end());
  file.resize(file.size() + data_bytes, 0x55);
  return file;
}

void expect_npy_refused(const Buffer& file, const std::string& sentence) {
  const auto array = parse_npy(file);
  ASSERT_FALSE(array) << "accepted, expected: " << sentence;
  EXPECT_EQ(array.error().status, NRT_INVALID);
  EXPECT_THAT(array.error().sentence, HasSubstr(sentence));
}

TEST(Npy, ReadsWhatNumPyWrites) {
  const auto array =
      parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n", 24));
  ASSERT_TRUE(array) << array.error().sentence;
  EXPECT_EQ(array->type, "<f4");
  EXPECT_EQ(array->shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(array->data.size(), 24u);
  EXPECT_TRUE(parse_npy(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n", 5, 2)));
  EXPECT_TRUE(parse_npy(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n", 8, 3)));
  EXPECT_TRUE(parse_npy(npy("{'descr': '<V2', 'fortran_order': False, 'shape': (0, 7)}", 0)));
  EXPECT_TRUE(parse_npy(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (4,), }\n", 16)));
}

TEST(Npy, RefusesWhatIsNoPlainArray) {
  expect_npy_refused({}, "does not begin with the NumPy magic");
  expect_npy_refused(npy("", 0, 4), ".npy offset 6: format version is 4.0");
  expect_npy_refused(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", 4),
                     ".npy type is \">f4\"");
  expect_npy_refused(npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", 8),
                     ".npy type is \"|O\"");
  expect_npy_refused(npy("{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }\n", 12),
                     ".npy type is \"<U3\"");
  expect_npy_refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4),
                     "is not a dictionary");
  expect_npy_refused(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }\n", 16),
                     "in Fortran order");
  expect_npy_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n", 15),
                     ".npy data has 15 bytes, its shape and type need 16");
  expect_npy_refused(
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n", 0),
      "more than 2^64");
  expect_npy_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", 0),
                     "is not a dictionary");
  expect_npy_refused(npy("{'descr': '<f4', 'shape': (1,)}", 4), "is not a dictionary");
  expect_npy_refused(
      npy("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", 4),
      "is not a dictionary");
  Buffer cut = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", 0);
  cut.resize(30);
  expect_npy_refused(cut, "the file is truncated");
}

TEST(Npy, WritesWhatItReads) {
  const tools::NpyArray written{"<f8", {3, 1, 2}, Buffer(48, 7)};
  const Buffer file = tools::write_npy(written);
  const auto read = tools::read_npy(file);
  ASSERT_TRUE(read) << read.error().sentence;
  EXPECT_EQ(read->type, written.type);
  EXPECT_EQ(read->shape, written.shape);
  EXPECT_EQ(read->data, written.data);
  EXPECT_EQ(read->elements(), 6u);
  EXPECT_EQ((file.size() - 48) % 64, 0u);  // Aligned for mapping.
}

}  // namespace
}  // namespace neuron::neff
