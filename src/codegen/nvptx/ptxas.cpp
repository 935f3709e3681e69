// ptxas, when the machine has it: PTX to a cubin for one chip. tcc works without it; the driver then compiles the PTX at load.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "tcc/codegen/codegen.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"

extern char** environ;

namespace tcc::codegen {
namespace {

bool is_program(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// A private folder that goes with its files.
struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    const char* base = std::getenv("TMPDIR");
    path = std::string(base && *base ? base : "/tmp") + "/tcc-XXXXXX";
    if (!mkdtemp(path.data())) throw Error(ExitCode::environment, "unwritable-file", path, "cannot make a temporary folder");
  }
  ~TemporaryFolder() {
    for (const char* name : {"/in.ptx", "/out.cubin", "/log"}) unlink((path + name).c_str());
    rmdir(path.c_str());
  }
};

}  // namespace

std::string find_ptxas() {
  if (const char* chosen = std::getenv("TCC_PTXAS")) return is_program(chosen) ? chosen : "";
  if (const char* path = std::getenv("PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      size_t end = std::min(rest.find(':'), rest.size());
      std::string candidate = std::string(rest.substr(0, end)) + "/ptxas";
      if (is_program(candidate)) return candidate;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return is_program("/usr/local/cuda/bin/ptxas") ? "/usr/local/cuda/bin/ptxas" : "";
}

std::string assemble_ptx(const std::string& ptx, const std::string& arch, std::string* report) {
  std::string program = find_ptxas();
  if (program.empty()) throw Error(ExitCode::environment, "missing-tool", "", "ptxas is not found", "set TCC_PTXAS to its path");
  TemporaryFolder folder;
  std::string input = folder.path + "/in.ptx", output = folder.path + "/out.cubin", log = folder.path + "/log";
  write_file_atomically(input, ptx);
  std::string arch_flag = "-arch=" + arch;
  std::vector<std::string> words{program, "-v", arch_flag, "-O3", input, "-o", output};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (!failed) {
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  }
  std::string text = failed ? "cannot start it" : read_text_file(log);
  if (failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0) internal_error("ptxas refuses a kernel for " + arch + ": " + text);
  if (report) *report = text;
  return read_text_file(output);
}

}  // namespace tcc::codegen
