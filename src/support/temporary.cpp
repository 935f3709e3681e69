#include "tcc/support/temporary.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "support/registry.h"
#include "support/system_error.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/process.h"

namespace tcc {
namespace {

constexpr int kMostNames = 100;  // 64 random bits: a second one is hardly ever needed

std::string random_word() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) bits = static_cast<uint64_t>(::getpid());
  std::string word;
  for (int i = 0; i < 16; ++i, bits >>= 4) word += "0123456789abcdef"[bits & 15];
  return word;
}

[[noreturn]] void fail(const std::string& shown, const char* what, int error) {
  throw Error(ExitCode::environment, "unwritable-file", shown, std::string(what) + ": " + describe_error(error));
}

/// Calls make(path) with one name after another until it does not find something there. 0 or the error.
template <class Make> int make_unused(const std::string& beginning, const std::string& ending, std::string* path, Make make) {
  for (int i = 0; i < kMostNames; ++i) {
    *path = beginning + random_word() + ending;
    if (make(*path)) return 0;
    if (errno != EEXIST) return errno;
  }
  return EEXIST;
}

}  // namespace

std::string temporary_directory() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != 0 ? folder : "/tmp";
}

TemporaryFile::TemporaryFile(const std::string& folder, unsigned mode, const std::string& shown) {
  const Uninterrupted section;
  // A short name of its own: that of the file it stands for may already be as long as the file system allows.
  const int error = make_unused(folder + "/.tcc-", ".tmp", &path_, [&](const std::string& path) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, static_cast<mode_t>(mode));
    return fd_ >= 0;
  });
  if (error != 0) fail(shown, "file can't be written", error);
  registry::add_file(path_);
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, {})), fd_(std::exchange(other.fd_, -1)) {}

TemporaryFile::~TemporaryFile() {
  if (fd_ >= 0) ::close(fd_);
  if (path_.empty()) return;
  const Uninterrupted section;
  ::unlink(path_.c_str());
  registry::remove(path_);
}

int TemporaryFile::take_descriptor() { return std::exchange(fd_, -1); }

void TemporaryFile::release() {
  const Uninterrupted section;
  registry::remove(path_);
  path_.clear();
}

TemporaryFolder::TemporaryFolder() {
  const Uninterrupted section;
  const std::string place = temporary_directory();
  const int error = make_unused(place + "/tcc-", "", &path_, [&](const std::string& path) { return ::mkdir(path.c_str(), 0700) == 0; });
  if (error != 0) fail(place, "a temporary folder can't be made", error);
  registry::add_folder(path_);
}

TemporaryFolder::~TemporaryFolder() {
  const Uninterrupted section;
  for (const std::string& file : files_) {
    ::unlink(file.c_str());
    registry::remove(file);
  }
  if (path_.empty()) return;
  ::rmdir(path_.c_str());
  registry::remove(path_);
}

std::string TemporaryFolder::file(const std::string& name) {
  const Uninterrupted section;
  files_.push_back(path_ + "/" + name);
  registry::add_file(files_.back());
  return files_.back();
}

void TemporaryFolder::keep() {
  const Uninterrupted section;
  for (const std::string& file : files_) registry::remove(file);
  files_.clear();
  registry::remove(path_);
  path_.clear();
}

NewFolder::NewFolder(const std::string& path) {
  const Uninterrupted section;
  if (::mkdir(path.c_str(), 0777) != 0) {
    if (errno == EEXIST) return;  // that it is a folder shows when files are written
    fail(path, "the folder can't be made", errno);
  }
  path_ = path;
  registry::add_folder(path_);
}

NewFolder::NewFolder(NewFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

NewFolder::~NewFolder() {
  if (path_.empty()) return;
  const Uninterrupted section;
  ::rmdir(path_.c_str());
  registry::remove(path_);
}

void NewFolder::keep() {
  if (path_.empty()) return;
  const Uninterrupted section;
  registry::remove(path_);
  path_.clear();
}

}  // namespace tcc
