// Runs the tcc program of this build, as a user would.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tcc::test {

struct Result {
  int exit_code = -1;
  std::string out, err;
};

/// `arguments` is shell text behind the program's path; $MODELS is the folder of unpacked models. Runs in `folder`.
Result run_tcc(const std::string& arguments, const std::string& folder);
/// Any shell command.
Result run_shell(const std::string& command, const std::string& folder);

/// A folder that goes with everything in it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  /// Names of everything in it, sorted.
  std::vector<std::string> files() const;

 private:
  std::string path_;
};

/// A variable of the environment of this process, which has its old value back in the end.
class Variable {
 public:
  Variable(std::string name, const std::string& value);
  ~Variable();
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

/// A small model as graph text, with its weights' values in it: two layers, and a softmax over rows.
std::string small_graph();

}  // namespace tcc::test
