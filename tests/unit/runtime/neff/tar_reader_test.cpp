// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "runtime/neff/text.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using test::Buffer;
using testing::HasSubstr;

// One header block with its data, as an old archiver or an attacker would write it.
Buffer raw_member(const std::string& name, char type, std::string_view data,
                  const std::string& magic = std::string("ustar\00000", 8)) {
  Buffer block(512, 0);
  std::copy_n(name.begin(), std::min<size_t>(name.size(), 100), block.begin());
  std::snprintf(reinterpret_cast<char*>(block.data()) + 100, 8, "%07o", 0644);
  std::snprintf(reinterpret_cast<char*>(block.data()) + 124, 12, "%011zo", data.size());
  block[156] = static_cast<uint8_t>(type);
  std::copy(magic.begin(), magic.end(), block.begin() + 257);
  std::fill_n(block.begin() + 148, 8, ' ');
  unsigned sum = 0;
  for (uint8_t byte : block) sum += byte;
  std::snprintf(reinterpret_cast<char*>(block.data()) + 148, 8, "%06o", sum);
  block.insert(block.end(), data.begin(), data.end());
  block.resize((block.size() + 511) / 512 * 512, 0);
  return block;
}

Buffer archive_of(std::initializer_list<Buffer> members) {
  Buffer all;
  for (const Buffer& member : members) all.insert(all.end(), member.begin(), member.end());
  all.resize(all.size() + 1024, 0);
  return all;
}

void fix_checksum(Buffer& archive, size_t at) {
  std::fill_n(archive.begin() + at + 148, 8, ' ');
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += archive[at + i];
  std::snprintf(reinterpret_cast<char*>(archive.data()) + at + 148, 8, "%06o", sum);
}

std::string pax_record(const std::string& key, const std::string& value) {
  const std::string body = " " + key + "=" + value + "\n";
  size_t length = body.size() + 1;
  while (std::to_string(length).size() + body.size() != length) ++length;
  return std::to_string(length) + body;
}

void expect_archive_refused(const Buffer& archive, const std::string& sentence,
                            const Limits& limits = {}) {
  const auto entries = read_tar(archive, limits);
  ASSERT_FALSE(entries) << "accepted, expected: " << sentence;
  EXPECT_EQ(entries.error().status, NRT_INVALID);
  EXPECT_THAT(entries.error().sentence, HasSubstr(sentence));
}

using Listing = std::vector<std::pair<std::string, std::string>>;

Listing listing_of(const Buffer& archive) {
  const auto entries = read_tar(archive, Limits());
  if (!entries) return {{"refused", entries.error().sentence}};
  Listing listing;
  for (const TarEntry& entry : *entries) {
    listing.emplace_back(entry.name + (entry.directory ? "/" : ""),
                         std::string(entry.bytes.begin(), entry.bytes.end()));
  }
  return listing;
}

TEST(TarReader, ReadsOldUstarPaxAndGnuNames) {
  const std::string deep = "sg00/" + std::string(120, 'p') + "/name";
  EXPECT_EQ(
      listing_of(archive_of({raw_member("old", '\0', "1", ""), raw_member("dir/", '\0', "", ""),
                             raw_member("./a//b/./c", '0', "2"), raw_member("d/", '5', "")})),
      (Listing{{"old", "1"}, {"dir/", ""}, {"a/b/c", "2"}, {"d/", ""}}));
  EXPECT_EQ(listing_of(archive_of(
                {raw_member("x", 'x', pax_record("mtime", "1.5") + pax_record("path", deep)),
                 raw_member("short", '0', "3"), raw_member("next", '0', "")})),
            (Listing{{deep, "3"}, {"next", ""}}));
  EXPECT_EQ(listing_of(archive_of({raw_member("././@LongLink", 'L', deep + std::string(1, '\0')),
                                   raw_member("cut", '0', "4", std::string("ustar  \0", 8))})),
            (Listing{{deep, "4"}}));
  EXPECT_EQ(listing_of(archive_of(
                {raw_member("g", 'g', pax_record("comment", "c")), raw_member("f", '7', "5")})),
            (Listing{{"f", "5"}}));
}

TEST(TarReader, TakesTheSizeOfAPaxRecord) {
  Buffer member = raw_member("f", '0', "12345");
  std::fill_n(member.begin() + 124, 11, '0');
  fix_checksum(member, 0);
  EXPECT_EQ(listing_of(archive_of({raw_member("x", 'x', pax_record("size", "5")), member})),
            (Listing{{"f", "12345"}}));
}

TEST(TarReader, RefusesNamesThatLeaveTheArchive) {
  expect_archive_refused(archive_of({raw_member("../escape", '0', "")}),
                         "archive offset 0: a member name leaves the archive through \"..\"");
  expect_archive_refused(archive_of({raw_member("ok", '0', ""), raw_member("a/../../b", '0', "")}),
                         "archive offset 512: a member name leaves");
  expect_archive_refused(archive_of({raw_member("/etc/passwd", '0', "")}),
                         "\"/etc/passwd\" is absolute");
  expect_archive_refused(
      archive_of({raw_member("x", 'x', pax_record("path", "/abs")), raw_member("f", '0', "")}),
      "archive offset 1024: member name \"/abs\" is absolute");
  expect_archive_refused(archive_of({raw_member("a\\b", '0', "")}),
                         "\"a\\x5cb\" holds a backslash");
  expect_archive_refused(archive_of({raw_member("a\x1b[2J", '0', "")}),
                         "\"a\\x1b[2J\" holds a control character");
  expect_archive_refused(archive_of({raw_member("a\xff", '0', "")}), "\"a\\xff\" is not UTF-8");
  expect_archive_refused(archive_of({raw_member("", '0', "")}), "a member has no name");
  expect_archive_refused(archive_of({raw_member("./", '0', "")}), "a member has no name");
}

TEST(TarReader, RefusesLinksDevicesAndSparseFiles) {
  expect_archive_refused(
      archive_of({raw_member("l", '2', "")}),
      "archive offset 0: member \"l\" is a symbolic link (type 0x32); a NEFF holds files");
  expect_archive_refused(archive_of({raw_member("l", '1', "")}), "is a hard link");
  expect_archive_refused(archive_of({raw_member("l", '3', "")}), "is a character device");
  expect_archive_refused(archive_of({raw_member("l", '4', "")}), "is a block device");
  expect_archive_refused(archive_of({raw_member("l", '6', "")}), "is a FIFO");
  expect_archive_refused(archive_of({raw_member("l", 'S', "")}), "is a sparse file");
  Buffer sparse = archive_of({raw_member("f", '0', "1", std::string("ustar  \0", 8))});
  sparse[483] = '7';  // GNU's real size of a sparse file
  fix_checksum(sparse, 0);
  expect_archive_refused(sparse, "archive offset 0: a sparse file");
  expect_archive_refused(archive_of({raw_member("l", 'V', "")}),
                         "is of an unknown type (type 0x56)");
  expect_archive_refused(archive_of({raw_member("x", 'x', pax_record("GNU.sparse.map", "0,1")),
                                     raw_member("f", '0', "")}),
                         "a sparse file");
}

TEST(TarReader, RefusesANameThatStandsTwice) {
  expect_archive_refused(archive_of({raw_member("a/b", '0', ""), raw_member("./a/b", '0', "")}),
                         "archive offset 512: member \"a/b\" exists twice");
  expect_archive_refused(archive_of({raw_member("a", '0', ""), raw_member("a/b", '0', "")}),
                         "member \"a/b\" lies in \"a\", which is a file");
  expect_archive_refused(archive_of({raw_member("a/b", '0', ""), raw_member("a", '0', "")}),
                         "\"a\" exists twice");
  EXPECT_EQ(listing_of(archive_of({raw_member("a/", '5', ""), raw_member("a/", '5', "")})).size(),
            2u);
}

TEST(TarReader, RefusesDamagedHeaders) {
  Buffer archive = archive_of({raw_member("f", '0', "data")});
  archive[3] ^= 1;
  expect_archive_refused(archive, "archive offset 0: the header checksum of member \"f\" is wrong");
  archive = archive_of({raw_member("f", '0', "data")});
  archive[130] = 'z';
  fix_checksum(archive, 0);
  expect_archive_refused(archive, "the size of member \"f\" is not a number");
  archive = archive_of({raw_member("f", '0', "data")});
  std::copy_n("77777777777", 11, archive.begin() + 124);
  fix_checksum(archive, 0);
  expect_archive_refused(
      archive, "member \"f\" has 8589934591 bytes, but 1536 are left; the archive is truncated");
  std::fill_n(archive.begin() + 124, 12, 0xFF);
  fix_checksum(archive, 0);
  expect_archive_refused(archive, "is not a number");
  archive[124] = 0x80;
  fix_checksum(archive, 0);
  expect_archive_refused(archive, "is not a number");  // More than 64 bits.
  archive = archive_of({raw_member("d/", '5', "data")});
  expect_archive_refused(archive, "directory \"d\" has 4 bytes of data");
}

TEST(TarReader, RefusesArchivesWithoutAnEndAndDataBehindIt) {
  Buffer archive = archive_of({raw_member("f", '0', "data")});
  expect_archive_refused(Buffer(), "archive offset 0: 0 bytes are left");
  expect_archive_refused(Buffer(archive.begin(), archive.begin() + 1024),
                         "archive offset 1024: 0 bytes are left");
  expect_archive_refused(Buffer(archive.begin(), archive.begin() + 600),
                         "the archive is truncated");
  archive.back() = 1;
  expect_archive_refused(archive, "archive offset 1024: data follows the end mark");
  expect_archive_refused(archive_of({raw_member("x", 'x', pax_record("path", "f"))}),
                         "ends behind an extension header");
}

TEST(TarReader, RefusesMalformedPaxRecords) {
  for (const std::string record : {"5 a=b\n", "9 a=b\n", "a=b\n", "6 ab\n\n", "6 a=bc", "0 a=b\n",
                                   "-1 a=b\n", "99999999999999999999 a=b\n"}) {
    expect_archive_refused(archive_of({raw_member("x", 'x', record), raw_member("f", '0', "")}),
                           "a pax extension record is malformed");
  }
  expect_archive_refused(
      archive_of({raw_member("g", 'g', pax_record("path", "all")), raw_member("f", '0', "")}),
      "a global pax record sets \"path\" of every member");
  expect_archive_refused(
      archive_of({raw_member("x", 'x', pax_record("size", "1e3")), raw_member("f", '0', "")}),
      "the pax size \"1e3\" is not a number");
}

TEST(TarReader, KeepsWithinItsLimits) {
  const Buffer archive = archive_of({raw_member("a/b/c", '0', ""), raw_member("d", '0', "")});
  expect_archive_refused(archive, "more than 1 members", {.members = 1});
  expect_archive_refused(archive, "a member name has 5 bytes, at most 4 are allowed",
                         {.name_bytes = 4});
  expect_archive_refused(archive, "a member name has more than 2 parts", {.name_depth = 2});
  expect_archive_refused(
      archive_of({raw_member("x", 'x', pax_record("comment", "long")), raw_member("f", '0', "")}),
      "an extension header has 16 bytes, at most 15 are allowed", {.extension_bytes = 15});
}

// What libarchive makes of the same bytes; "refused" if it stops.
Listing libarchive_listing(const Buffer& bytes) {
  archive* reader = archive_read_new();
  archive_read_support_format_tar(reader);
  Listing listing;
  int status = archive_read_open_memory(reader, bytes.data(), bytes.size());
  archive_entry* entry = nullptr;
  while (status == ARCHIVE_OK &&
         (status = archive_read_next_header(reader, &entry)) == ARCHIVE_OK) {
    std::string data(static_cast<size_t>(archive_entry_size(entry)), '\0');
    if (archive_read_data(reader, data.data(), data.size()) !=
        static_cast<la_ssize_t>(data.size())) {
      status = ARCHIVE_FATAL;
      break;
    }
    listing.emplace_back(archive_entry_pathname(entry), data);
  }
  if (status != ARCHIVE_EOF) listing = {{"refused", archive_error_string(reader) ?: ""}};
  archive_read_free(reader);
  return listing;
}

Buffer libarchive_write(int format, const Listing& members) {
  Buffer out(4 << 20);
  size_t used = 0;
  archive* writer = archive_write_new();
  archive_write_set_format(writer, format);
  archive_write_open_memory(writer, out.data(), out.size(), &used);
  for (const auto& [name, data] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_filetype(entry, name.back() == '/' ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(data.size()));
    archive_entry_set_mtime(entry, 1700000000, 123456789);
    EXPECT_EQ(archive_write_header(writer, entry), ARCHIVE_OK) << name;
    archive_write_data(writer, data.data(), data.size());
    archive_entry_free(entry);
  }
  archive_write_close(writer);
  archive_write_free(writer);
  out.resize(used);
  return out;
}

TEST(TarReader, ReadsWhatLibarchiveWritesInEveryFormat) {
  const int formats[] = {ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE,
                         ARCHIVE_FORMAT_TAR_PAX_RESTRICTED, ARCHIVE_FORMAT_TAR_GNUTAR};
  std::mt19937 random(11);
  for (const int format : formats) {
    for (int round = 0; round < 20; ++round) {
      Listing members = {{"dir/", ""}};
      const int count = 1 + static_cast<int>(random() % 8);
      for (int i = 0; i < count; ++i) {
        std::string name = "dir/" + std::to_string(i);
        for (size_t parts = random() % 4; parts; --parts) {
          name += "/" + std::string(1 + random() % 40, static_cast<char>('a' + random() % 26));
        }
        if (format != ARCHIVE_FORMAT_TAR_USTAR && random() % 4 == 0) name += std::string(150, 'n');
        members.emplace_back(name, std::string(random() % 2000, static_cast<char>(random())));
      }
      const Buffer archive = libarchive_write(format, members);
      EXPECT_EQ(listing_of(archive), members) << "format " << format << ", round " << round;
    }
  }
}

TEST(TarReader, WritesWhatLibarchiveReads) {
  const test::SampleProgram sample;
  const Buffer archive = test::must(tools::write_tar(sample.members));
  Listing expected;
  for (const auto& [name, bytes] : sample.members) {
    expected.emplace_back(name, std::string(bytes.begin(), bytes.end()));
  }
  EXPECT_EQ(libarchive_listing(archive), expected);
  EXPECT_EQ(listing_of(archive), expected);
}

// Whatever this reader accepts, another reader sees the same members in. The other way round it may
// refuse more, for it is stricter.
TEST(TarReader, NeverSeesOtherMembersThanLibarchive) {
  const std::string deep = "sg00/" + std::string(120, 'p') + "/name";
  const Buffer seeds[] = {
      test::must(tools::write_tar(test::SampleProgram().members)),
      archive_of({raw_member("x", 'x', pax_record("path", deep)), raw_member("short", '0', "3")}),
      archive_of({raw_member("././@LongLink", 'L', deep + std::string(1, '\0')),
                  raw_member("cut", '0', "4", std::string("ustar  \0", 8))}),
  };
  std::mt19937 random(7);
  int accepted = 0;
  for (const Buffer& seed : seeds) {
    for (int round = 0; round < 4000; ++round) {
      Buffer archive = seed;
      for (size_t flips = 1 + random() % 2; flips; --flips) {
        // In headers, where it matters; the checksum is set right so that the change counts.
        const size_t block = random() % (archive.size() / 512) * 512;
        archive[block + random() % 512] ^= static_cast<uint8_t>(1u << random() % 8);
        if (archive[block + 257] == 'u' && random() % 8) fix_checksum(archive, block);
      }
      Listing ours = listing_of(archive);
      if (!ours.empty() && ours[0].first == "refused") continue;
      Listing theirs = libarchive_listing(archive);
      if (!theirs.empty() && theirs[0].first == "refused") continue;
      ++accepted;
      for (Listing* listing : {&ours, &theirs}) {
        for (auto& [name, data] : *listing) {
          while (!name.empty() && name.back() == '/') name.pop_back();
        }
      }
      // Names are compared as this reader normalises them.
      for (auto& [name, data] : theirs) {
        std::string normal;
        size_t at = 0;
        while (at <= name.size()) {
          const size_t slash = std::min(name.find('/', at), name.size());
          const std::string part = name.substr(at, slash - at);
          if (!part.empty() && part != ".") normal += (normal.empty() ? "" : "/") + part;
          at = slash + 1;
        }
        name = normal;
      }
      ASSERT_EQ(ours, theirs) << "round " << round;
    }
  }
  EXPECT_GT(accepted, 1000);
}

TEST(Text, TellsUtf8FromOtherBytes) {
  for (const char* good :
       {"", "abc", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xf8\x88\x80\x80\x80", "\xe0\x80\x80", "\xc3(", "a\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << printable(bad);
  }
  EXPECT_EQ(printable("\xc3\xa4\n\"\\"), "\xc3\xa4\\x0a\\x22\\x5c");
  EXPECT_EQ(printable(std::string(300, 'a')), std::string(200, 'a') + "...");
}

}  // namespace
}  // namespace neuron::neff
