#include "tcc/support/command_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "support/system_error.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

bool is_device_or_pipe(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

[[noreturn]] void unwritable(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::environment, "unwritable-file", path, "file can't be written: " + reason);
}

/// A file at that place could be made or replaced, as far as the system says before it is tried.
void require_writable(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) unwritable(path, "is a directory");
    if (!S_ISREG(status.st_mode)) {
      if (::access(path.c_str(), W_OK) != 0) unwritable(path, describe_error(errno));
      return;
    }
  } else if (errno != ENOENT) {
    unwritable(path, describe_error(errno));
  }
  if (path.ends_with('/')) unwritable(path, "is a directory");
  // The new file is made beside the place and renamed: that is a matter of the folder. A link is followed to where it leads.
  std::error_code error;
  std::string real = path;
  if (std::filesystem::is_symlink(path, error) && std::filesystem::exists(path, error)) real = std::filesystem::canonical(path, error);
  const size_t slash = real.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : real.substr(0, slash);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) unwritable(path, describe_error(errno));
}

}  // namespace

CommandFiles::Place CommandFiles::place_of(const std::string& path, const std::string& role) {
  Place place{path, role};
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    place.exists = true;
    place.device = status.st_dev;
    place.inode = status.st_ino;
  }
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, error);
  // Relative where no part of it exists.
  place.canonical = error ? path : std::filesystem::absolute(canonical, error).lexically_normal().string();
  return place;
}

bool CommandFiles::same(const Place& a, const Place& b) {
  return (a.exists && b.exists && a.device == b.device && a.inode == b.inode) || a.canonical == b.canonical;
}

void CommandFiles::reads(const std::string& path, const std::string& role) {
  if (std::find(read_paths_.begin(), read_paths_.end(), path) != read_paths_.end()) return;
  read_paths_.push_back(path);
  inputs_.push_back(place_of(path, role));
}

void CommandFiles::reads_stdin(const std::string& role) {
  struct stat status;
  if (::fstat(STDIN_FILENO, &status) != 0 || !S_ISREG(status.st_mode)) return;
  inputs_.push_back({"<stdin>", role, true, status.st_dev, status.st_ino, "<stdin>"});
}

void CommandFiles::writes(const std::string& path, const std::string& role) { outputs_.push_back(place_of(path, role)); }

void CommandFiles::check_distinct() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Place& output = outputs_[i];
    if (is_device_or_pipe(output.path)) continue;
    for (const Place& input : inputs_) {
      if (!same(output, input)) continue;
      throw Error(ExitCode::usage, "overwritten-file", output.path, output.role + " would replace " + input.role + " `" + input.path + "`",
                  "give it another name");
    }
    for (size_t j = 0; j < i; ++j) {
      if (!same(output, outputs_[j])) continue;
      throw Error(ExitCode::usage, "overwritten-file", output.path,
                  output.role + " and " + outputs_[j].role + " (`" + outputs_[j].path + "`) are one file", "give one of them another name");
    }
  }
}

void CommandFiles::check_writable() const {
  for (const Place& output : outputs_) require_writable(output.path);
}

}  // namespace tcc
