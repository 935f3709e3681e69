#include "tcc/support/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "scratch.h"
#include "tcc/support/command_files.h"
#include "tcc/support/output_files.h"

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

TEST(Files, MapsFilesOfUnknownSize) { EXPECT_FALSE(MappedFile::open("/proc/self/status")->text().empty()); }

TEST(Files, ReadsRegularFilesAlone) {
  ScratchFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", (folder / "socket").c_str());
  ASSERT_EQ(bind(socket, reinterpret_cast<struct sockaddr*>(&address), sizeof address), 0);
  const auto check = [](const std::string& path, const std::string& reason) {
    const std::string expected = "file can't be read: " + reason + " [unreadable-file]";
    EXPECT_NE(error_of(ExitCode::environment, [&] { MappedFile::open(path); }).find(expected), std::string::npos);
    EXPECT_NE(error_of(ExitCode::environment, [&] { read_text_file(path); }).find(expected), std::string::npos);
  };
  check(folder / "pipe", "is a pipe, a regular file was expected");
  check(folder / "socket", "is a socket, a regular file was expected");
  check("/dev/zero", "is a device, a regular file was expected");
  check(std::string("a\0b", 3), "its name goes on after a NUL");
  close(socket);
}

TEST(Files, APipeIsWrittenDirectly) {
  ScratchFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::string text(200000, 'x');
  std::thread writer([&] { write_file_atomically(folder / "pipe", text); });
  std::string got(text.size(), 0);
  const int fd = open((folder / "pipe").c_str(), O_RDONLY);
  for (size_t at = 0; at < got.size();) {
    const ssize_t bytes = read(fd, got.data() + at, got.size() - at);
    ASSERT_GT(bytes, 0);
    at += static_cast<size_t>(bytes);
  }
  close(fd);
  writer.join();
  EXPECT_EQ(got, text);
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

TEST(OutputFiles, AppearTogetherOrNotAtAll) {
  ScratchFolder folder;
  write_file_atomically(folder / "a", "old");
  {
    OutputFiles files;
    files.make_folder(folder / "new");
    files.write(folder / "a", "new");
    files.write(folder / "new/b", "new");
    EXPECT_EQ(read_text_file(folder / "a"), "old");
    EXPECT_EQ(error_of(ExitCode::environment, [&] { files.write(folder / "none/c", "x"); }),
              (folder / "none/c") + ": error: file can't be written: no such file or directory [unwritable-file]");
  }
  EXPECT_EQ(folder.names(), Names{"a"});
  OutputFiles files;
  files.make_folder(folder / "new");
  files.write(folder / "a", "new");
  files.write(folder / "new/b", "new");
  files.commit();
  EXPECT_EQ(read_text_file(folder / "a"), "new");
  EXPECT_EQ(read_text_file(folder / "new/b"), "new");
  EXPECT_EQ(folder.names().size(), 2u);
}

// What only a rename finds out: by then other files have their new contents.
TEST(OutputFiles, AFailedRenameTakesTheOthersBack) {
  ScratchFolder folder;
  write_file_atomically(folder / "a", "old");
  OutputFiles files;
  files.write(folder / "a", "new");
  files.write(folder / "b", "new");
  files.write(folder / "c", "new");
  std::filesystem::create_directories(folder / "c/d");
  EXPECT_EQ(error_of(ExitCode::environment, [&] { files.commit(); }),
            (folder / "c") + ": error: file can't be written: is a directory [unwritable-file]");
  EXPECT_EQ(read_text_file(folder / "a"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "b"));
}

TEST(OutputFiles, ADeviceIsWrittenBeforeAnyFileAppears) {
  ScratchFolder folder;
  OutputFiles files;
  files.write(folder / "a", "new");
  files.write("/dev/full", "new");
  error_of(ExitCode::environment, [&] { files.commit(); });
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

TEST(CommandFiles, OneFileUnderSeveralNames) {
  ScratchFolder folder;
  write_file_atomically(folder / "in", "x");
  std::filesystem::create_directory(folder / "d");
  std::filesystem::create_directory_symlink("d", folder / "e");
  std::filesystem::create_hard_link(folder / "in", folder / "hard");
  std::filesystem::create_symlink("in", folder / "soft");
  for (const char* name : {"in", "hard", "soft", "d/../in", "./in", "e/../in"}) {
    CommandFiles files;
    files.reads(folder / "in", "the model");
    files.writes(folder / name, "-o");
    EXPECT_EQ(error_of(ExitCode::usage, [&] { files.check_distinct(); }), (folder / name) + ": error: -o would replace the model `" +
                                                                              (folder / "in") + "` [overwritten-file]\n" + (folder / name) +
                                                                              ": help: give it another name");
  }
  // Files that are not there yet.
  for (const char* name : {"d/out", "e/out", "d/./out", "d//out", "d/../e/out"}) {
    CommandFiles files;
    files.writes(folder / "d/out", "-o");
    files.writes(folder / name, "-MD");
    EXPECT_NE(error_of(ExitCode::usage, [&] { files.check_distinct(); }).find("-MD and -o"), std::string::npos);
  }
  CommandFiles others;
  others.reads(folder / "in", "the model");
  for (const char* name : {"in2", "d/in", "d/i", "new"}) others.writes(folder / name, name);
  others.writes("/dev/null", "a device");
  others.writes("/dev/null", "the same");
  others.check_distinct();
  others.check_writable();
  others.writes(folder / "d", "-o");
  EXPECT_EQ(error_of(ExitCode::environment, [&] { others.check_writable(); }),
            (folder / "d") + ": error: file can't be written: is a directory [unwritable-file]");
  CommandFiles long_name;
  long_name.writes(folder / std::string(300, 'n'), "-o");
  EXPECT_NE(error_of(ExitCode::environment, [&] { long_name.check_writable(); }).find("file name too long"), std::string::npos);
}

}  // namespace
}  // namespace tcc
