// Every file that a command reads and writes: no output may take the place of an input or of another output, and each must be writable before
// any work is done.
//
// Two paths are one file when they lead to the same device and inode (links of either kind), or, where nothing is yet, to the same name in the
// same folder. Devices and pipes as outputs are left out: nothing in them is replaced.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tcc {

class CommandFiles {
 public:
  /// `role` completes "... would replace <role> `path`": "the model", "the value of input `x`".
  void reads(const std::string& path, const std::string& role);
  /// Standard input, where that is a file; a Makefile could not hold its name.
  void reads_stdin(const std::string& role);
  /// `role` is how the user asked for it: "-o", "--emit=ptx".
  void writes(const std::string& path, const std::string& role);

  /// Error (usage, overwritten-file) that names both files.
  void check_distinct() const;
  /// Error (environment, unwritable-file): no such folder, a folder in its place, no permission, a name that is too long.
  void check_writable() const;

  /// What was read, in order, each once; without standard input.
  const std::vector<std::string>& read_paths() const { return read_paths_; }

 private:
  struct Place {
    std::string path, role;
    bool exists = false;
    dev_t device = 0;
    ino_t inode = 0;
    std::string canonical;
  };
  static Place place_of(const std::string& path, const std::string& role);
  static bool same(const Place& a, const Place& b);
  std::vector<Place> inputs_, outputs_;
  std::vector<std::string> read_paths_;
};

}  // namespace tcc
