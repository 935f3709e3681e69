#include "tcc/support/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "support/registry.h"
#include "support/system_error.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"
#include "tcc/support/process.h"

namespace tcc {
namespace {

[[noreturn]] void fail_writing(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::environment, "unwritable-file", path, "file can't be written: " + reason);
}

/// 0 or the error.
int write_all(int fd, OutputFiles::Pieces pieces) {
  for (std::span<const std::byte> bytes : pieces) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  return 0;
}

/// Closes; some file systems report a full disk only here.
int write_all_and_close(int fd, OutputFiles::Pieces pieces) {
  const int error = write_all(fd, pieces);
  const int close_error = ::close(fd) != 0 ? errno : 0;
  return error != 0 ? error : close_error;
}

/// What stands at the place of an output.
struct Target {
  std::string path;         ///< symbolic links followed
  bool replaceable = true;  ///< nothing yet, or a regular file
};

Target find_target(const std::string& path) {
  if (path.empty()) fail_writing(path, "the path is empty");
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return {path, true};
  if (S_ISDIR(status.st_mode)) fail_writing(path, "is a directory");
  if (!S_ISREG(status.st_mode)) return {path, false};
  struct stat link;
  if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
    if (char* resolved = ::realpath(path.c_str(), nullptr)) {
      Target target{resolved, true};
      std::free(resolved);
      return target;
    }
  }
  return {path, true};
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

void write_device(const std::string& path, const std::string& contents_path) {
  const auto contents = MappedFile::open(contents_path);
  int fd;
  do fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) fail_writing(path, describe_error(errno));
  const std::span<const std::byte> bytes = contents->bytes();
  if (const int error = write_all_and_close(fd, OutputFiles::Pieces(&bytes, 1))) fail_writing(path, describe_error(error));
}

/// What stood at a place before a rename, under a second name beside it, so that it can come back.
class Before {
 public:
  explicit Before(const std::string& target) : target_(target) {
    struct stat status;
    exists_ = ::lstat(target.c_str(), &status) == 0;
    if (!exists_) return;
    // An unused name, then a link under it. A file system without hard links has no way back.
    { kept_ = TemporaryFile(folder_of(target), 0600, target).path(); }
    has_link_ = ::link(target.c_str(), kept_.c_str()) == 0;
    if (has_link_) registry::add_file(kept_);
  }
  ~Before() {
    if (!has_link_) return;
    ::unlink(kept_.c_str());
    registry::remove(kept_);
  }
  Before(const Before&) = delete;
  Before& operator=(const Before&) = delete;
  void bring_back() {
    if (!exists_) ::unlink(target_.c_str());
    else if (has_link_) ::rename(kept_.c_str(), target_.c_str());
  }

 private:
  std::string target_, kept_;
  bool exists_ = false, has_link_ = false;
};

}  // namespace

int OutputFiles::stage(const std::string& path, unsigned mode) {
  const Target target = find_target(path);
  TemporaryFile file(target.replaceable ? folder_of(target.path) : temporary_directory(), mode, path);
  const int fd = file.take_descriptor();
  staged_.push_back({path, target.path, target.replaceable, std::move(file)});
  return fd;
}

void OutputFiles::write(const std::string& path, Pieces pieces, unsigned mode) {
  const int fd = stage(path, mode);
  if (const int error = write_all_and_close(fd, pieces)) {
    staged_.pop_back();
    fail_writing(path, describe_error(error));
  }
}

void OutputFiles::write(const std::string& path, std::string_view text, unsigned mode) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text.data(), text.size()));
  write(path, Pieces(&bytes, 1), mode);
}

const std::string& OutputFiles::staged_path(const std::string& path) const {
  for (const Staged& staged : staged_) {
    if (staged.shown == path) return staged.file.path();
  }
  internal_error("`" + path + "` is not staged");
}

void OutputFiles::make_folder(const std::string& path) { folders_.emplace_back(path); }

void OutputFiles::rename_all(std::span<Staged* const> files) {
  const Uninterrupted section;
  std::vector<std::unique_ptr<Before>> done;
  for (Staged* staged : files) {
    // With a single file there is nothing that a failure would leave half done.
    auto before = files.size() > 1 ? std::make_unique<Before>(staged->target) : nullptr;
    if (::rename(staged->file.path().c_str(), staged->target.c_str()) != 0) {
      const int error = errno;
      for (; !done.empty(); done.pop_back()) done.back()->bring_back();
      fail_writing(staged->shown, describe_error(error));
    }
    staged->file.release();
    if (before) done.push_back(std::move(before));
  }
}

void OutputFiles::commit(const std::string& last) {
  std::vector<Staged*> files;
  for (const bool of_last : {false, true}) {
    for (Staged& staged : staged_) {
      if (staged.replaceable && (staged.shown == last) == of_last) files.push_back(&staged);
    }
  }
  for (const Staged& staged : staged_) {
    if (!staged.replaceable) write_device(staged.shown, staged.file.path());
  }
  rename_all(files);
  for (NewFolder& folder : folders_) folder.keep();
  folders_.clear();
  staged_.clear();
}

// Note [Order]
//
// Two renames are two steps for the rest of the world. A process that looks between them, or a machine that stops there, finds new and old side
// by side. For a library and its weights file no order avoids that; the hash of the weights, which both hold, makes it a refusal ("is not the
// one that was written with this library") and never a wrong result. When the weights have not changed, the pair works at each moment.
//
// So the order is chosen by what is best to be left with. The library comes last: it is what `make` looks at. A machine that stops before leaves
// an old library that is older than its model, and the next `make` writes both again. The other way round the library would look new, and
// the pair would stay broken. A process that has its instance already keeps the old weights: they are mapped, and a rename does not touch them.

}  // namespace tcc
