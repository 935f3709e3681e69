#include "tcc/support/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "scratch.h"

namespace tcc {
namespace {

using testing::error_of;
using testing::ScratchFolder;
using Names = std::vector<std::string>;

TEST(Files, WritesAndReads) {
  ScratchFolder folder;
  const std::string text("one\0two\n", 8);
  write_file_atomically(folder / "a", text);
  EXPECT_EQ(read_text_file(folder / "a"), text);
  EXPECT_EQ(MappedFile::open(folder / "a")->text(), text);
  write_file_atomically(folder / "a", "");
  EXPECT_EQ(MappedFile::open(folder / "a")->bytes().size(), 0u);
  EXPECT_EQ(read_text_file(folder / "a"), "");
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span("ab", 2)), {}, std::as_bytes(std::span("c", 1))};
  write_file_atomically(folder / "a", pieces);
  EXPECT_EQ(read_text_file(folder / "a"), "abc");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(Files, ReadingWhatIsNotThere) {
  ScratchFolder folder;
  const auto check = [](const std::string& path, const std::string& reason) {
    const std::string expected = path + ": error: file can't be read: " + reason + " [unreadable-file]";
    EXPECT_EQ(error_of(ExitCode::environment, [&] { MappedFile::open(path); }), expected);
    EXPECT_EQ(error_of(ExitCode::environment, [&] { read_text_file(path); }), expected);
  };
  check(folder / "none", "no such file or directory");
  check(folder / ".", "is a directory");
}

TEST(Files, MapsPipesAndFilesOfUnknownSize) {
  ScratchFolder folder;
  EXPECT_FALSE(MappedFile::open("/proc/self/status")->text().empty());
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::string text(200000, 'x');
  std::thread writer([&] { write_file_atomically(folder / "pipe", text); });  // directly: a pipe isn't replaced
  EXPECT_EQ(MappedFile::open(folder / "pipe")->text(), text);
  writer.join();
  EXPECT_EQ(folder.names(), Names{"pipe"});
}

TEST(Files, FailuresLeaveNothingBehind) {
  ScratchFolder folder;
  std::filesystem::create_directory(folder / "d");
  EXPECT_EQ(error_of(ExitCode::environment, [&] { write_file_atomically(folder / "d", "x"); }),
            (folder / "d") + ": error: file can't be written: is a directory [unwritable-file]");
  error_of(ExitCode::environment, [&] { write_file_atomically(folder / "none/a", "x"); });
  error_of(ExitCode::environment, [&] { write_file_atomically("", "x"); });
  EXPECT_EQ(error_of(ExitCode::environment, [&] { write_file_atomically("/dev/full", "x"); }),
            "/dev/full: error: file can't be written: no space left on device [unwritable-file]");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_EQ(folder.names(), Names{"d"});
}

TEST(Files, AWriteThatFailsHalfwayKeepsTheOldFile) {
  ScratchFolder folder;
  write_file_atomically(folder / "a", "old");
  // A limit on file size fails as a full disk does: after part of the file.
  struct rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  struct rlimit small = limit;
  small.rlim_cur = 100000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text = error_of(ExitCode::environment, [&] { write_file_atomically(folder / "a", std::string(300000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, handler);
  EXPECT_NE(text.find("file too large"), std::string::npos);
  EXPECT_EQ(read_text_file(folder / "a"), "old");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(Files, ModeAndSymbolicLinks) {
  ScratchFolder folder;
  const mode_t mask = umask(022);
  write_file_atomically(folder / "a", "x", 0777);
  umask(mask);
  struct stat status;
  ASSERT_EQ(stat((folder / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0755u);
  ASSERT_EQ(symlink("a", (folder / "link").c_str()), 0);
  write_file_atomically(folder / "link", "y");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_text_file(folder / "a"), "y");
}

TEST(Files, NamesAsLongAsTheFileSystemAllows) {
  ScratchFolder folder;
  const std::string name(255, 'n');
  write_file_atomically(folder / name, "x");
  EXPECT_EQ(folder.names(), Names{name});
}

TEST(Files, CommitFile) {
  ScratchFolder folder;
  const std::string temporary = temporary_name_beside(folder / "out");
  EXPECT_NE(temporary, temporary_name_beside(folder / "out"));
  write_file_atomically(temporary, "x");
  commit_file(temporary, folder / "out");
  EXPECT_EQ(folder.names(), Names{"out"});

  std::filesystem::create_directory(folder / "d");
  write_file_atomically(temporary, "x");
  error_of(ExitCode::environment, [&] { commit_file(temporary, folder / "d"); });
  EXPECT_FALSE(std::filesystem::exists(temporary));

  const std::string beside_device = temporary_name_beside("/dev/full");
  EXPECT_FALSE(beside_device.starts_with("/dev/"));
  write_file_atomically(beside_device, "x");
  error_of(ExitCode::environment, [&] { commit_file(beside_device, "/dev/full"); });
  EXPECT_FALSE(std::filesystem::exists(beside_device));
}

}  // namespace
}  // namespace tcc
