// The files that a command writes, as one: all of them appear, or none does and what was there before is as it was.
//
//   OutputFiles files;
//   files.write("m.so.weights", weights);          // staged: a temporary file beside m.so.weights
//   linker writes to files.stage("m.so", 0777);
//   files.commit();                                // renamed, in the order staged
//
// Everything that can fail (folders, permissions, a full disk) fails while it is staged. Should a rename fail all the same, the ones before it
// are taken back. Signals wait until the commit is over. What remains is a machine that stops between two renames; Note [Order] in the .cpp says
// what is found then.
//
// A symbolic link at a place keeps pointing where it did. A device or a pipe there can't be renamed over: it is written before the first rename.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/temporary.h"

namespace tcc {

class OutputFiles {
 public:
  using Pieces = std::span<const std::span<const std::byte>>;
  OutputFiles() = default;
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  /// Stages the contents of `path`, pieces one after the other. `mode` is the final permission, less the umask.
  /// Error (environment, unwritable-file): no such folder, no permission, a folder in its place, a full disk.
  void write(const std::string& path, Pieces pieces, unsigned mode = 0666);
  void write(const std::string& path, std::string_view text, unsigned mode = 0666);
  /// Stages an empty file for the caller to fill, through the descriptor, which the caller closes, before commit().
  int stage(const std::string& path, unsigned mode = 0666);
  /// Where the file lies that will be `path` at commit(); `path` has been staged.
  const std::string& staged_path(const std::string& path) const;
  /// Makes a folder for outputs, unless it is there. It stays when they are committed.
  void make_folder(const std::string& path);
  /// `last`, where it is among them, is renamed after all others.
  void commit(const std::string& last = "");

 private:
  struct Staged {
    std::string shown;   ///< the path as it was given
    std::string target;  ///< symbolic links followed
    bool replaceable = true;
    TemporaryFile file;
  };
  static void rename_all(std::span<Staged* const> files);
  std::vector<NewFolder> folders_;  // before the files, so that these are gone first
  std::vector<Staged> staged_;
};

}  // namespace tcc
