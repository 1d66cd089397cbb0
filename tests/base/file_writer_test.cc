#include "base/file_writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/test_data.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::ReadWholeFile;
using testing::TempDir;
using testing::WriteWholeFile;

size_t FilesIn(const TempDir& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

TEST(FileWriterTest, AppearsOnCommitOnly) {
  const TempDir folder;
  std::string expected;
  {
    auto writer = FileWriter::Create(folder.File("out"));
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    for (const size_t bytes : {size_t{10}, size_t{3'000'000}, size_t{1}, size_t{1 << 20}, size_t{700'000}}) {
      const std::string piece(bytes, static_cast<char>('a' + bytes % 26));
      ASSERT_TRUE(writer->Append(piece).ok());
      expected += piece;
    }
    EXPECT_EQ(writer->bytes_written(), expected.size());
    EXPECT_FALSE(fs::exists(folder.File("out")));
    ASSERT_TRUE(writer->Commit().ok());
  }
  EXPECT_EQ(ReadWholeFile(folder.File("out")), expected);
  EXPECT_EQ(FilesIn(folder), 1u);
}

TEST(FileWriterTest, WithoutCommitNothingChanges) {
  const TempDir folder;
  WriteWholeFile(folder.File("out"), "before");
  {
    auto writer = FileWriter::Create(folder.File("out"));
    ASSERT_TRUE(writer->Append("after").ok());
    FileWriter moved = std::move(*writer);
    ASSERT_TRUE(moved.Append("after").ok());
  }
  EXPECT_EQ(ReadWholeFile(folder.File("out")), "before");
  EXPECT_EQ(FilesIn(folder), 1u);
}

TEST(FileWriterTest, ReplacesBehindLinksAndKeepsPermissions) {
  const TempDir folder;
  WriteWholeFile(folder.File("real"), "before");
  ASSERT_EQ(chmod(folder.File("real").c_str(), 0640), 0);
  fs::create_symlink("real", folder.File("link"));
  auto writer = FileWriter::Create(folder.File("link"));
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Append("after").ok());
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_TRUE(fs::is_symlink(folder.File("link")));
  EXPECT_EQ(ReadWholeFile(folder.File("real")), "after");
  EXPECT_EQ(static_cast<int>(fs::status(folder.File("real")).permissions()), 0640);
}

TEST(FileWriterTest, AlignsWithZeros) {
  const TempDir folder;
  auto writer = FileWriter::Create(folder.File("out"));
  ASSERT_TRUE(writer->AlignTo(64).ok());
  EXPECT_EQ(writer->bytes_written(), 0u);
  ASSERT_TRUE(writer->Append("abc").ok());
  ASSERT_TRUE(writer->AlignTo(8).ok());
  EXPECT_EQ(writer->bytes_written(), 8u);
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(ReadWholeFile(folder.File("out")), std::string("abc\0\0\0\0\0", 8));
}

TEST(FileWriterTest, ErrorsNameTheFile) {
  const TempDir folder;
  EXPECT_EQ(FileWriter::Create(folder.path()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FileWriter::Create(folder.File("no/such/folder")).status().code(), StatusCode::kIo);
  auto full = FileWriter::Create("/dev/full");
  ASSERT_TRUE(full.ok());
  ASSERT_TRUE(full->Append("x").ok()) << "still in the buffer";
  const Status status = full->Commit();
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_EQ(status.message(), "/dev/full: cannot write: No space left on device");
}

}  // namespace
}  // namespace lamina
