#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/open_beneath.h"
#include "support/fake_files.h"
#include "support/test_data.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::WriteWholeFile;

std::string TextOf(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string ReadAll(const File& file) {
  std::string text(file.size_bytes(), '\0');
  const Status status = file.ReadAt(0, std::as_writable_bytes(std::span(text)));
  return status.ok() ? text : status.ToString();
}

TEST(FileTest, ReadsAndMapsAnyRange) {
  const TempDir folder;
  std::string content;
  std::mt19937 random(2);
  for (int i = 0; i < 20'000; ++i) content += static_cast<char>(random());
  WriteWholeFile(folder.File("data"), content);
  const auto file = SystemFiles().Open(folder.File("data"));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ((*file)->size_bytes(), content.size());
  for (int round = 0; round < 200; ++round) {
    const size_t offset = random() % (content.size() + 1);
    const size_t length = random() % (content.size() - offset + 1);
    std::string read(length, '\0');
    ASSERT_TRUE((*file)->ReadAt(offset, std::as_writable_bytes(std::span(read))).ok());
    ASSERT_EQ(read, content.substr(offset, length));
    const auto region = (*file)->Map(offset, length);
    ASSERT_TRUE(region.ok());
    ASSERT_EQ(TextOf(region->bytes()), read);
    for (const auto access : {MappedRegion::Access::kWillNeed, MappedRegion::Access::kDontNeed,
                              MappedRegion::Access::kRandom, MappedRegion::Access::kSequential}) {
      region->Advise(access);
      ASSERT_EQ(TextOf(region->bytes()), read);
    }
  }
}

TEST(FileTest, ARegionOutlivesItsFile) {
  const TempDir folder;
  WriteWholeFile(folder.File("data"), "0123456789");
  MappedRegion part;
  {
    const auto file = SystemFiles().Open(folder.File("data"));
    part = (*file)->Map(2, 6)->Subregion(1, 3);
  }
  EXPECT_EQ(TextOf(part.bytes()), "345");
}

TEST(FileTest, RangesOutsideAreErrors) {
  const TempDir folder;
  WriteWholeFile(folder.File("data"), "0123456789");
  const auto file = *SystemFiles().Open(folder.File("data"));
  std::byte buffer[4];
  for (const uint64_t offset : {uint64_t{7}, uint64_t{11}, UINT64_MAX, UINT64_MAX - 3}) {
    EXPECT_EQ(file->ReadAt(offset, buffer).code(), StatusCode::kIo);
    EXPECT_EQ(file->Map(offset, 4).status().code(), StatusCode::kIo);
  }
  EXPECT_EQ(file->Map(4, UINT64_MAX).status().code(), StatusCode::kIo);
  EXPECT_TRUE(file->Map(10, 0).ok());
}

TEST(FileTest, AFileThatWasCutShortIsAnError) {
  const TempDir folder;
  WriteWholeFile(folder.File("data"), "0123456789");
  const auto file = *SystemFiles().Open(folder.File("data"));
  fs::resize_file(folder.File("data"), 5);
  std::byte buffer[8];
  const Status status = file->ReadAt(0, buffer);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(status.message(), HasSubstr("ends at offset 5"));
}

TEST(FileTest, PopulatingFindsWhatIsCutOff) {
  const TempDir folder;
  const std::string content(20 * 4096 + 7, 'x');
  WriteWholeFile(folder.File("data"), content);
  const auto file = *SystemFiles().Open(folder.File("data"));
  const MappedRegion all = *file->Map(0, content.size());
  ASSERT_TRUE(all.Populate().ok());
  EXPECT_EQ(*all.ResidentBytes(), content.size());
  fs::resize_file(folder.File("data"), 3 * 4096);
  EXPECT_EQ(file->Map(4096, content.size() - 4096)->Populate().code(), StatusCode::kIo);
  EXPECT_TRUE(all.Subregion(100, 4096).Populate().ok());
  EXPECT_TRUE(MappedRegion().Populate().ok());
  EXPECT_EQ(*MappedRegion().ResidentBytes(), 0u);
}

TEST(FileTest, StateTellsWritesAndCuts) {
  const TempDir folder;
  WriteWholeFile(folder.File("data"), "0123456789");
  const auto file = *SystemFiles().Open(folder.File("data"));
  const FileState before = *file->State();
  EXPECT_EQ(before.size_bytes, 10u);
  EXPECT_EQ(*file->State(), before);
  fs::last_write_time(folder.File("data"), fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE(file->State()->modified_ns, before.modified_ns);
  fs::resize_file(folder.File("data"), 5);
  EXPECT_EQ(file->State()->size_bytes, 5u);
}

TEST(FileTest, DirectReadsOfAlignedRangesAndTheEnd) {
  const TempDir folder;
  std::string content;
  for (int i = 0; i < 5000; ++i) content += std::to_string(i);
  WriteWholeFile(folder.File("data"), content);
  const auto file = *SystemFiles().Open(folder.File("data"));
  const auto direct = file->OpenDirect();
  if (!direct.ok()) {
    EXPECT_EQ(direct.status().code(), StatusCode::kUnsupported);
    GTEST_SKIP() << direct.status().ToString();
  }
  ASSERT_EQ((*direct)->alignment_bytes(), 4096u);
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, 8 * 4096)), std::free);
  const std::span<std::byte> into(memory.get(), 8 * 4096);
  ASSERT_TRUE((*direct)->ReadAt(4096, into.first(4096), 4096).ok());
  EXPECT_EQ(TextOf(into.first(4096)), content.substr(4096, 4096));
  const size_t rest = content.size() - 4096;
  ASSERT_TRUE((*direct)->ReadAt(4096, into, rest).ok());
  EXPECT_EQ(TextOf(into.first(rest)), content.substr(4096));
  EXPECT_EQ((*direct)->ReadAt(4096, into, rest + 1).code(), StatusCode::kIo);
  fs::rename(folder.File("data"), folder.File("moved"));
  WriteWholeFile(folder.File("data"), "another file");
  EXPECT_TRUE(file->OpenDirect().ok()) << "the opened file, whatever its name leads to by now";
}

TEST(FileTest, OnlyRegularFilesOpen) {
  const TempDir folder;
  EXPECT_EQ(SystemFiles().Open(folder.File("missing")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(SystemFiles().Open(folder.path()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SystemFiles().Open("/dev/zero").status().code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(folder.File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(SystemFiles().Open(folder.File("pipe")).status().code(), StatusCode::kInvalidArgument);
}

TEST(FileTest, IdentityTellsWhetherTwoNamesAreOneFile) {
  const TempDir folder;
  WriteWholeFile(folder.File("a"), "a");
  WriteWholeFile(folder.File("b"), "a");
  fs::create_symlink("a", folder.File("link"));
  const auto identity = [&](const char* name) {
    return (*SystemFiles().Open(folder.File(name)))->identity();
  };
  EXPECT_EQ(identity("a"), identity("link"));
  EXPECT_NE(identity("a"), identity("b"));
}

// Both ways of opening obey the same rules.
using OpenDescriptor = Result<UniqueFd> (*)(const FileSystem::Beneath&, const std::string&);

class OpenBeneathTest : public ::testing::TestWithParam<OpenDescriptor> {
 protected:
  OpenBeneathTest() {
    fs::create_directories(root_.File("model/sub"));
    fs::create_directories(root_.File("model-evil"));
    WriteWholeFile(root_.File("model/w.bin"), "weights");
    WriteWholeFile(root_.File("model/sub/w.bin"), "sub weights");
    WriteWholeFile(root_.File("secret"), "secret");
    WriteWholeFile(root_.File("model-evil/secret"), "secret");
  }

  // The content, or the status's code.
  std::string Open(const std::string& location) {
    const auto descriptor = GetParam()({model_, real_folder_, false}, location);
    if (!descriptor.ok()) return StatusCodeName(descriptor.status().code());
    char buffer[64];
    const ssize_t bytes = pread(descriptor->get(), buffer, sizeof buffer, 0);
    return bytes < 0 ? "unreadable" : std::string(buffer, static_cast<size_t>(bytes));
  }

  TempDir root_;
  std::string model_ = root_.File("model");
  std::string real_folder_;
};

TEST_P(OpenBeneathTest, PathsInside) {
  EXPECT_EQ(Open("w.bin"), "weights");
  EXPECT_EQ(Open("./w.bin"), "weights");
  EXPECT_EQ(Open("sub//w.bin"), "sub weights");
  EXPECT_EQ(Open("sub/../w.bin"), "weights");
  EXPECT_EQ(Open("missing.bin"), "NOT_FOUND");
  EXPECT_EQ(Open("sub\\w.bin"), "NOT_FOUND");
  EXPECT_EQ(Open("file://w.bin"), "NOT_FOUND");
}

TEST_P(OpenBeneathTest, PathsOutside) {
  EXPECT_EQ(Open(""), "INVALID_MODEL");
  EXPECT_EQ(Open(std::string("w.bin\0x", 7)), "INVALID_MODEL");
  EXPECT_EQ(Open("../secret"), "INVALID_MODEL");
  EXPECT_EQ(Open("sub/../../secret"), "INVALID_MODEL");
  EXPECT_EQ(Open("../model-evil/secret"), "INVALID_MODEL");
  EXPECT_EQ(Open(root_.File("model/w.bin")), "INVALID_MODEL");
  EXPECT_EQ(Open("/dev/zero"), "INVALID_MODEL");
  EXPECT_EQ(Open("../../../../../../../../etc/passwd"), "INVALID_MODEL");
  EXPECT_EQ(Open(std::string(10'000, 'a')), "INVALID_MODEL");
}

TEST_P(OpenBeneathTest, LinksInsideAreFollowed) {
  fs::create_symlink("sub/w.bin", model_ + "/inside");
  fs::create_symlink(model_ + "/w.bin", model_ + "/absolute");
  fs::create_directory_symlink("sub", model_ + "/folder");
  EXPECT_EQ(Open("inside"), "sub weights");
  EXPECT_EQ(Open("absolute"), "weights");
  EXPECT_EQ(Open("folder/w.bin"), "sub weights");
}

TEST_P(OpenBeneathTest, LinksOutsideAreRefused) {
  fs::create_symlink("../secret", model_ + "/relative");
  fs::create_symlink(root_.File("secret"), model_ + "/absolute");
  fs::create_directory_symlink("..", model_ + "/parent");
  fs::create_symlink("relative", model_ + "/chain");
  fs::create_symlink("loop", model_ + "/loop");
  fs::create_symlink("gone", model_ + "/dangling");
  EXPECT_EQ(Open("relative"), "INVALID_MODEL");
  EXPECT_EQ(Open("absolute"), "INVALID_MODEL");
  EXPECT_EQ(Open("parent/secret"), "INVALID_MODEL");
  EXPECT_EQ(Open("chain"), "INVALID_MODEL");
  EXPECT_EQ(Open("loop"), "INVALID_MODEL");
  EXPECT_EQ(Open("dangling"), "NOT_FOUND");
}

// What is checked is what was opened: somebody swaps a file and a link to the outside all the time.
TEST_P(OpenBeneathTest, ALinkThatIsSwappedWhileFilesAreOpened) {
  fs::create_symlink(root_.File("secret"), root_.File("outside"));
  fs::create_directory_symlink(root_.File("model-evil"), root_.File("outside-folder"));
  fs::create_directories(root_.File("folder"));
  WriteWholeFile(root_.File("folder/secret"), "weights");
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    const std::string file = root_.File("model/swapped");
    const std::string folder = root_.File("model/swapped-folder");
    while (!stop) {
      std::error_code error;
      fs::copy_file(root_.File("model/w.bin"), root_.File("new"), fs::copy_options::overwrite_existing,
                    error);
      fs::rename(root_.File("new"), file, error);
      fs::rename(root_.File("folder"), folder, error);
      fs::rename(folder, root_.File("folder"), error);
      fs::copy_symlink(root_.File("outside"), root_.File("new"), error);
      fs::rename(root_.File("new"), file, error);
      fs::copy_symlink(root_.File("outside-folder"), folder, error);
      fs::remove(folder, error);
    }
  });
  std::set<std::string> seen;
  for (int i = 0; i < 3000; ++i) {
    seen.insert(Open("swapped"));
    seen.insert(Open("swapped-folder/secret"));
  }
  stop = true;
  swapper.join();
  EXPECT_EQ(seen.count("secret"), 0u);
  for (const std::string& outcome : seen) {
    EXPECT_TRUE(outcome == "weights" || outcome == "" || outcome == "INVALID_MODEL" ||
                outcome == "NOT_FOUND" || outcome == "IO")
        << outcome;
  }
}

TEST_P(OpenBeneathTest, HubCacheOfLinks) {
  fs::create_directories(root_.File("hub/blobs"));
  fs::create_directories(root_.File("hub/snapshots/1/onnx"));
  WriteWholeFile(root_.File("hub/blobs/aaaa"), "model");
  WriteWholeFile(root_.File("hub/blobs/bbbb"), "blob");
  fs::create_symlink("../../../blobs/aaaa", root_.File("hub/snapshots/1/onnx/model.onnx"));
  fs::create_symlink("../../../blobs/bbbb", root_.File("hub/snapshots/1/onnx/model.onnx_data"));
  fs::create_symlink("../../../../secret", root_.File("hub/snapshots/1/onnx/evil"));
  model_ = root_.File("hub/snapshots/1/onnx");
  EXPECT_EQ(Open("model.onnx_data"), "INVALID_MODEL") << "without the folder of the real model file";
  real_folder_ = root_.File("hub/blobs");
  EXPECT_EQ(Open("model.onnx_data"), "blob");
  EXPECT_EQ(Open("evil"), "INVALID_MODEL");
  EXPECT_EQ(Open("../../../blobs/bbbb"), "blob");
}

TEST_P(OpenBeneathTest, AModelFolderBehindALinkOrInTheCurrentFolder) {
  fs::create_directory_symlink("model", root_.File("link"));
  model_ = root_.File("link");
  EXPECT_EQ(Open("w.bin"), "weights");
  EXPECT_EQ(Open("../secret"), "INVALID_MODEL");
  const fs::path before = fs::current_path();
  fs::current_path(root_.File("model"));
  model_ = "";
  EXPECT_EQ(Open("w.bin"), "weights");
  EXPECT_EQ(Open("../secret"), "INVALID_MODEL");
  fs::current_path(before);
}

INSTANTIATE_TEST_SUITE_P(Ways, OpenBeneathTest,
                         ::testing::Values(&OpenDescriptorBeneath, &OpenDescriptorBeneathByWalking),
                         [](const auto& way) { return way.index == 0 ? "Openat2" : "Walking"; });

TEST(SystemFilesTest, ExternalDataIsARegularFile) {
  const TempDir folder;
  fs::create_directory(folder.File("sub"));
  WriteWholeFile(folder.File("w.bin"), "weights");
  ASSERT_EQ(mkfifo(folder.File("pipe").c_str(), 0600), 0);
  const FileSystem::Beneath where{folder.path(), "", false};
  const auto opened = SystemFiles().OpenBeneath(where, "w.bin");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(ReadAll(*opened->file), "weights");
  EXPECT_FALSE(opened->has_other_hard_links);
  for (const char* location : {"sub", ".", "pipe", "sub/"}) {
    const auto refused = SystemFiles().OpenBeneath(where, location);
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidModel) << location;
  }
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, folder.File("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(SystemFiles().OpenBeneath(where, "socket").status().code(), StatusCode::kInvalidModel);
  close(socket_fd);
}

TEST(SystemFilesTest, HardLinksAreNoticedAndRefusedWhenStrict) {
  const TempDir folder;
  WriteWholeFile(folder.File("secret"), "weights");
  fs::create_directory(folder.File("model"));
  fs::create_hard_link(folder.File("secret"), folder.File("model/w.bin"));
  const auto noticed = SystemFiles().OpenBeneath({folder.File("model"), "", false}, "w.bin");
  ASSERT_TRUE(noticed.ok());
  EXPECT_TRUE(noticed->has_other_hard_links);
  const auto refused = SystemFiles().OpenBeneath({folder.File("model"), "", true}, "w.bin");
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidModel);
  EXPECT_THAT(refused.status().message(), HasSubstr("2 hard links"));
}

TEST(FakeFilesTest, MemoryFilesBehaveLikeFiles) {
  testing::MemoryFiles files;
  files.Add("m/model.onnx", "model");
  files.Add("m/w.bin", "weights");
  EXPECT_EQ(ReadAll(**files.Open("m/model.onnx")), "model");
  EXPECT_EQ(files.Open("m/other").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadAll(*files.OpenBeneath({"m", "", false}, "w.bin")->file), "weights");
  EXPECT_EQ(files.OpenBeneath({"m", "", false}, "../w.bin").status().code(), StatusCode::kInvalidModel);
  const auto region = (*files.Open("m/w.bin"))->Map(1, 3);
  region->Advise(MappedRegion::Access::kDontNeed);
  EXPECT_EQ(TextOf(region->bytes()), "eig");
}

TEST(FakeFilesTest, FaultyFilesFailOnRequestAndCount) {
  testing::MemoryFiles memory;
  memory.Add("w", "weights");
  testing::FaultyFiles files(memory);
  files.before_read = [&](const std::string&, uint64_t offset, uint64_t) {
    return offset == 3 ? IoError("injected") : Status();
  };
  const auto file = *files.Open("w");
  std::byte buffer[2];
  EXPECT_TRUE(file->ReadAt(0, buffer).ok());
  EXPECT_EQ(file->ReadAt(3, buffer).message(), "injected");
  EXPECT_TRUE(file->Map(0, 7).ok());
  EXPECT_EQ(files.opens(), 1);
  EXPECT_EQ(files.reads(), 2);
  EXPECT_EQ(files.maps(), 1);
  EXPECT_EQ(files.bytes_read(), 2u);
}

}  // namespace
}  // namespace lamina
