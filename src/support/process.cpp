// The end of the process, and the registry of what must be gone by then.
//
// A handler may interrupt any thread anywhere, so it must not touch what that thread, or another, is changing. Hence the protocol between
// sections (Uninterrupted) and whoever ends the process: each side first announces itself, then looks for the other.
//
//   section                                 end
//     ++open_sections                         stopping = signal or exit code
//     stopping? then this was the end         open_sections == 0? then remove everything and go;
//   ...                                       otherwise the section that closes last does it
//     --open_sections == 0 and stopping? remove everything and go
//
// Both are sequentially consistent: at least one of them sees the other. Who removes therefore has the registry for itself, and needs only
// calls that POSIX allows in handlers.
#include "tcc/support/process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <vector>

#include "support/registry.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

struct Entry {
  std::string path;
  bool folder = false;
};

/// There from before the program starts, without taking memory: the first to look may be a handler, when there is none. Never destroyed: threads of
/// ours may live longer than static objects.
template <class T> union Lasting {
  T value;
  constexpr Lasting() : value() {}
  ~Lasting() {}
};
constinit Lasting<std::vector<Entry>> entries_storage;
constinit Lasting<std::vector<pid_t>> children_storage;
std::vector<Entry>& entries() { return entries_storage.value; }
std::vector<pid_t>& children() { return children_storage.value; }
std::mutex registry_mutex;  // among sections of several threads

std::atomic<int> open_sections{0};
/// 0, a signal, or kExit + the exit code.
std::atomic<int> stopping{0};
constexpr int kExit = 1000;
std::atomic<bool> removing{false};
thread_local int depth = 0;
FaultText fault_text = FaultText::plain;

[[noreturn]] void wait_for_the_end() {
  while (true) ::pause();
}

/// Only calls that are safe in a signal handler.
void remove_all() {
  for (const pid_t child : children()) {
    ::kill(child, SIGKILL);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
  }
  for (const Entry& entry : entries()) {
    if (!entry.folder) ::unlink(entry.path.c_str());
  }
  for (auto entry = entries().rbegin(); entry != entries().rend(); ++entry) {
    if (entry->folder) ::rmdir(entry->path.c_str());
  }
}

[[noreturn]] void end_now() {
  static thread_local bool here = false;
  if (here) ::_exit(static_cast<int>(ExitCode::internal));  // a fault in what follows
  if (removing.exchange(true)) wait_for_the_end();          // another thread is at it
  here = true;
  remove_all();
  const int how = stopping.load();
  if (how >= kExit) ::_exit(how - kExit);
  ::signal(how, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, how);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(how);
  ::_exit(128 + how);
}

void on_signal(int signal) {
  int running = 0;
  stopping.compare_exchange_strong(running, signal);  // the first one counts
  if (open_sections.load() == 0) end_now();
}

[[noreturn]] void end_with_code(ExitCode code) {
  int running = 0;
  stopping.compare_exchange_strong(running, kExit + static_cast<int>(code));
  // A fault inside a section of this thread: it can't wait for itself. No other thread is in the registry, since that takes a section too.
  if (open_sections.load() <= (depth > 0 ? 1 : 0)) end_now();
  wait_for_the_end();
}

void write_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

/// As JSON has texts; what would need an escape is left out, for there is no memory to be had.
void write_json_text(std::string_view text) {
  for (const char c : text) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) continue;
    write_stderr({&c, 1});
  }
}

void say(const char* severity, const char* kind, std::string_view message) {
  if (fault_text == FaultText::json) {
    for (const std::string_view text :
         {std::string_view("{\"severity\":\""), std::string_view(severity), std::string_view("\",\"kind\":\""), std::string_view(kind),
          std::string_view("\",\"where\":\"\",\"message\":\"")})
      write_stderr(text);
    write_json_text(message);
    write_stderr("\"}\n");
    return;
  }
  for (const std::string_view text : {std::string_view("tcc: "), std::string_view(severity), std::string_view(": "), message,
                                      std::string_view(" ["), std::string_view(kind), std::string_view("]\n")})
    write_stderr(text);
}

void on_new_failed() {
  // Inside a section the exception goes to its end first.
  if (depth > 0) throw std::bad_alloc();
  end_without_memory();
}

[[noreturn]] void on_terminate() {
  std::string_view what = "the program was ended by an exception that nothing handles";
  if (const std::exception_ptr exception = std::current_exception()) {
    try {
      std::rethrow_exception(exception);
    } catch (const std::bad_alloc&) { end_without_memory(); } catch (const Error& error) {
      write_stderr(error.what());
      write_stderr("\n");
      end_with_code(error.code());
    } catch (const std::exception& error) { end_with_internal_error(error.what()); } catch (...) {
    }
  }
  end_with_internal_error(what);
}

}  // namespace

Uninterrupted::Uninterrupted() {
  if (depth++ > 0) return;
  open_sections.fetch_add(1);
  if (stopping.load() == 0) return;
  if (open_sections.fetch_sub(1) == 1) end_now();
  wait_for_the_end();
}

Uninterrupted::~Uninterrupted() {
  if (--depth > 0) return;
  const bool last = open_sections.fetch_sub(1) == 1;
  if (stopping.load() == 0) return;
  if (last) end_now();
  wait_for_the_end();
}

void handle_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction before;
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
  ::signal(SIGXFSZ, SIG_IGN);
}

void handle_faults(FaultText text) {
  fault_text = text;
  std::set_new_handler(on_new_failed);
  std::set_terminate(on_terminate);
}

void end_without_memory() {
  say("error", "out-of-memory", "there is not enough memory");
  end_with_code(ExitCode::environment);
}

void end_with_internal_error(std::string_view what) {
  say("internal error", "internal-error", what);
  end_with_code(ExitCode::internal);
}

void add_child(pid_t child) {
  const Uninterrupted section;
  const std::lock_guard lock(registry_mutex);
  children().push_back(child);
}

void remove_child(pid_t child) {
  const Uninterrupted section;
  const std::lock_guard lock(registry_mutex);
  std::erase(children(), child);
}

namespace registry {

void add_file(const std::string& path) {
  const std::lock_guard lock(registry_mutex);
  entries().push_back({path, false});
}

void add_folder(const std::string& path) {
  const std::lock_guard lock(registry_mutex);
  entries().push_back({path, true});
}

void remove(const std::string& path) {
  const std::lock_guard lock(registry_mutex);
  std::erase_if(entries(), [&](const Entry& entry) { return entry.path == path; });
}

}  // namespace registry
}  // namespace tcc
