#include "fuzz/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace tcc::attack {
namespace {

constexpr rlim_t kCpuSeconds = 10;
constexpr double kWallSeconds = 60;  // several times the CPU time: the machine may have other work
constexpr size_t kKeptBytes = 4096;

std::string end_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text.size() > kKeptBytes ? text.substr(text.size() - kKeptBytes) : text;
}

void limit(int resource, rlim_t value, rlim_t grace = 0) {
  const rlimit limits{value, value + grace};
  setrlimit(static_cast<__rlimit_resource>(resource), &limits);
}

[[noreturn]] void execute(const std::vector<std::string>& command, const std::string& folder, const std::string& log, size_t memory_bytes) {
  limit(RLIMIT_CPU, kCpuSeconds, 2);  // with a grace, so that it ends by SIGXCPU: SIGKILL would say nothing of the reason
  limit(RLIMIT_AS, memory_bytes);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, rlim_t{1} << 31);
  setenv("TMPDIR", folder.c_str(), 1);
  if (chdir(folder.c_str()) != 0) _exit(126);
  const int nothing = open("/dev/null", O_RDONLY), errors = open((log + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600),
            output = open((log + ".out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(nothing, 0);
  dup2(output, 1);
  dup2(errors, 2);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

std::string Outcome::text() const {
  if (timed_out) return "no end after " + std::to_string(kCpuSeconds) + " s";
  if (signal != 0) return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  return "exit " + std::to_string(exit_code);
}

Outcome run(const std::vector<std::string>& command, const std::string& folder, size_t memory_bytes) {
  const std::string log = folder + ".log";  // beside the folder, whose files are counted
  const pid_t child = fork();
  if (child == 0) execute(command, folder, log, memory_bytes);
  Outcome outcome;
  int status = 0;
  rusage usage{};
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  auto pause = std::chrono::microseconds(200);
  while (wait4(child, &status, WNOHANG, &usage) == 0) {
    if (seconds() > kWallSeconds) {
      outcome.timed_out = true;
      kill(child, SIGKILL);
      wait4(child, &status, 0, &usage);
      break;
    }
    std::this_thread::sleep_for(pause);
    if (pause < std::chrono::milliseconds(5)) pause *= 2;
  }
  const auto time = [](const timeval& value) { return static_cast<double>(value.tv_sec) + static_cast<double>(value.tv_usec) * 1e-6; };
  outcome.cpu_seconds = time(usage.ru_utime) + time(usage.ru_stime);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) {
    outcome.signal = WTERMSIG(status);
    outcome.timed_out = outcome.timed_out || outcome.signal == SIGXCPU || outcome.cpu_seconds > static_cast<double>(kCpuSeconds) - 0.5;
  }
  outcome.errors = end_of(log + ".err");
  outcome.output = end_of(log + ".out");
  return outcome;
}

}  // namespace tcc::attack
