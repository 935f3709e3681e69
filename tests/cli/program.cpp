#include "cli/program.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tcc/support/files.h"

namespace tcc::test {

namespace fs = std::filesystem;

Folder::Folder() {
  char name[] = "/tmp/tcc_cli_XXXXXX";
  path_ = ::mkdtemp(name);
}

Folder::~Folder() { fs::remove_all(path_); }

void Folder::write(const std::string& name, const std::string& text) const {
  write_file_atomically(path_ + "/" + name, std::string_view(text));
}

std::string Folder::read(const std::string& name) const { return read_text_file(path_ + "/" + name); }

std::vector<std::string> Folder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), path_).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Variable::Variable(std::string name, const std::string& value) : name_(std::move(name)) {
  if (const char* before = std::getenv(name_.c_str())) before_ = before;
  ::setenv(name_.c_str(), value.c_str(), 1);
}

Variable::~Variable() {
  if (before_) ::setenv(name_.c_str(), before_->c_str(), 1);
  else ::unsetenv(name_.c_str());
}

Result run_shell(const std::string& command, const std::string& folder) {
  const Folder pipes;
  const std::string line = "cd '" + folder + "' && export MODELS='" TCC_MODELS_DIR "' TCC='" TCC_EXECUTABLE "' && { " + command +
                           "\n} > '" + (pipes / "out") + "' 2> '" + (pipes / "err") + "'";
  const int status = std::system(("bash <<'END_OF_COMMAND'\n" + line + "\nEND_OF_COMMAND\n").c_str());
  Result result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = pipes.read("out");
  result.err = pipes.read("err");
  return result;
}

Result run_tcc(const std::string& arguments, const std::string& folder) { return run_shell("\"$TCC\" " + arguments, folder); }

std::string small_graph() {
  return R"(graph @small(%x: f32[4, 3]) -> (%p: f32[4, 2]) {
  weight @w1: f32[3, 5] = [0.5, -1, 0.25, 2, 1, 1.5, 0.75, -0.5, 0, 1, -2, 0.125, 1, 1, -1]
  weight @b1: f32[5] = [0.1, 0.2, -0.3, 0, 1]
  weight @w2: f32[5, 2] = [1, -1, 0.5, 0.5, -0.25, 2, 1, 0, -1, 1]
  %h: f32[4, 5] = matmul(%x, @w1)    loc("fc1/MatMul")
  %b: f32[4, 5] = add(%h, @b1)    loc("fc1/Add")
  %r: f32[4, 5] = relu(%b)    loc("relu/Relu")
  %z: f32[4, 2] = matmul(%r, @w2)    loc("fc2/MatMul")
  %p: f32[4, 2] = softmax(%z) {axis=1}    loc("softmax/Softmax")
}
)";
}

}  // namespace tcc::test
