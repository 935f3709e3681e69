// Files and folders that go away: when their object does, and when a signal or a fault ends the process (process.h).
//
// Their names are random and their creation is exclusive, so that neither another process nor a link that somebody laid there is ever hit.
#pragma once

#include <string>
#include <vector>

namespace tcc {

/// $TMPDIR, or /tmp.
std::string temporary_directory();

/// A new file, open for writing.
class TemporaryFile {
 public:
  /// `mode` less the umask. Error (environment, unwritable-file), which names `shown`, when it can't be made.
  TemporaryFile(const std::string& folder, unsigned mode, const std::string& shown);
  ~TemporaryFile();
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  const std::string& path() const { return path_; }
  /// The descriptor, for the caller to close; once.
  int take_descriptor();
  /// It has been renamed: there is nothing left to remove.
  void release();

 private:
  std::string path_;
  int fd_ = -1;
};

/// A new folder below temporary_directory() that nobody else may enter, with the files that are named by file().
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  /// The path of a file in it, which may or may not come to exist.
  std::string file(const std::string& name);
  /// It stays, with what is in it.
  void keep();

 private:
  std::string path_;
  std::vector<std::string> files_;
};

/// A folder that is made for outputs and goes away again, when it is empty, unless it is kept. One that was there before is left alone.
class NewFolder {
 public:
  /// Error (environment, unwritable-file) when it can't be made.
  explicit NewFolder(const std::string& path);
  ~NewFolder();
  NewFolder(NewFolder&& other) noexcept;
  NewFolder& operator=(NewFolder&&) = delete;
  void keep();

 private:
  std::string path_;  ///< empty: not ours
};

}  // namespace tcc
