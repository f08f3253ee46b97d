// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-digits/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/support/files.h"

namespace neuron::digits {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 64 pixels and a label.
std::string line(const std::string& pixel = "0", const std::string& label = "7") {
  std::string text;
  for (int i = 0; i < 64; ++i) text += pixel + ",";
  return text + label;
}

class Dataset : public ::testing::Test {
 protected:
  std::vector<Digit> read(const std::string& text) {
    return read_dataset(folder_.write("digits.csv", text), error_);
  }
  std::string refusal(const std::string& text) {
    error_.clear();
    EXPECT_TRUE(read(text).empty());
    return error_.substr(error_.find(": ") + 2);
  }
  test::Folder folder_;
  std::string error_;
};

TEST_F(Dataset, IsALineADigitWithPixelsAndALabel) {
  std::string ramp;
  for (int i = 0; i < 64; ++i) ramp += std::to_string(i % 17) + ",";
  const auto digits = read(line("0", "0") + "\r\n" + ramp + "9\n" + line("16", "4"));
  EXPECT_EQ(error_, "");
  ASSERT_EQ(digits.size(), 3u);
  EXPECT_EQ(digits[0].label, 0);
  EXPECT_EQ(digits[1].label, 9);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(digits[1].pixels[i], i % 17) << i;
  EXPECT_EQ(digits[2].pixels[63], 16);
  EXPECT_EQ(digits[2].label, 4) << "the last line needs no end";
}

TEST_F(Dataset, MayBeCompressed) {
  const std::string path = folder_.path("digits.csv.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  const std::string text = line() + "\n" + line() + "\n";
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
  EXPECT_EQ(read_dataset(path, error_).size(), 2u);
  const std::string bytes = folder_.read("digits.csv.gz");
  folder_.write("cut.csv.gz", bytes.substr(0, bytes.size() - 6));
  EXPECT_TRUE(read_dataset(folder_.path("cut.csv.gz"), error_).empty());
  EXPECT_THAT(error_, HasSubstr("damaged after line 2: "));
}

TEST_F(Dataset, ThatIsMalformedIsNamedByLineAndColumn) {
  EXPECT_EQ(refusal(line() + "\n" + line("17") + "\n"),
            "line 2, column 1: expected a pixel 0..16 and a comma");
  EXPECT_EQ(refusal(line("-1")), "line 1, column 1: expected a pixel 0..16 and a comma");
  EXPECT_EQ(refusal(line("1.5")), "line 1, column 1: expected a pixel 0..16 and a comma");
  EXPECT_EQ(refusal(line("")), "line 1, column 1: expected a pixel 0..16 and a comma");
  EXPECT_EQ(refusal("1,2"), "line 1, column 2: expected a pixel 0..16 and a comma");
  EXPECT_EQ(refusal(line("0", "10")), "line 1, column 65: expected a label 0..9");
  EXPECT_EQ(refusal(line("0", "7,")), "line 1, column 65: expected a label 0..9");
  EXPECT_EQ(refusal(line("0", "")), "line 1, column 65: expected a label 0..9");
  EXPECT_EQ(refusal(""), "holds no digits");
}

TEST_F(Dataset, ThatIsNotThereIsNamed) {
  EXPECT_TRUE(read_dataset(folder_.path("nowhere"), error_).empty());
  EXPECT_EQ(error_, folder_.path("nowhere") +
                        ": cannot be opened; give the file of handwritten digits with --data");
}

TEST(Drawing, ShowsEachPixelAsTwoCharactersOfItsShade) {
  Digit digit{};
  for (int row = 0; row < 8; ++row) digit.pixels[row * 8 + row] = static_cast<float>(2 * row + 2);
  digit.pixels[7] = 1;
  EXPECT_THAT(draw(digit), ElementsAre("..              ", "  ::            ", "    --          ",
                                       "      ==        ", "        ++      ", "          **    ",
                                       "            ##  ", "              @@"));
}

}  // namespace
}  // namespace neuron::digits
