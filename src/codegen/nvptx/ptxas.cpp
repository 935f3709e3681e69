// ptxas, when the machine has it: PTX to a cubin for one chip. tcc works without it; the driver then compiles the PTX at load.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tcc/codegen/codegen.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"
#include "tcc/support/process.h"
#include "tcc/support/temporary.h"

extern char** environ;

namespace tcc::codegen {
namespace {

bool is_program(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

/// The status of waitpid. The child ends with this process, should a signal end that.
int run_to_end(const std::string& program, char* const* argv, const posix_spawn_file_actions_t& actions) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;  // ignored here, which a child would inherit
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGXFSZ);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  int failed;
  {
    const Uninterrupted section;
    failed = posix_spawn(&child, program.c_str(), &actions, &attributes, argv, environ);
    if (failed == 0) add_child(child);
  }
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    throw Error(ExitCode::environment, "failed-tool", program, std::string("can't be started: ") + std::strerror(failed));
  }
  // Ended, but still there: its id is its own until it is off the list.
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {}
  const Uninterrupted section;
  remove_child(child);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

/// Whether ptxas found fault with the PTX, which is ours. Only its own words tell that: it may be a script that can't start the real one, or
/// lack memory, a disk or a library.
bool refuses_ptx(int status, const std::string& log) {
  if (!WIFEXITED(status)) return false;
  for (const char* reason :
       {"emory allocation failure", "ould not open", "ould not write", "o space left", "annot open", "loading shared libraries"}) {
    if (log.find(reason) != std::string::npos) return false;
  }
  return log.starts_with("ptxas ") || log.find("\nptxas ") != std::string::npos;
}

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
  std::string input = folder.file("in.ptx"), output = folder.file("out.cubin"), log = folder.file("log");
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
  int status;
  try {
    status = run_to_end(program, argv.data(), actions);
  } catch (...) {
    posix_spawn_file_actions_destroy(&actions);
    throw;
  }
  posix_spawn_file_actions_destroy(&actions);
  std::string text = read_text_file(log);
  if (status != 0 && refuses_ptx(status, text)) internal_error("ptxas refuses a kernel for " + arch + ": " + text);
  if (status != 0) {
    const std::string how = WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status)) : "failed";
    throw Error(ExitCode::environment, "failed-tool", program,
                how + (text.empty() ? "" : ": " + text.substr(0, text.find_last_not_of('\n') + 1)),
                "-march=ptx does without it: the driver compiles the PTX when the library is loaded");
  }
  if (report) *report = text;
  return read_text_file(output);
}

}  // namespace tcc::codegen
