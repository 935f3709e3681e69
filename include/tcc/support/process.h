// How a process of ours ends: by a signal, without memory, or by a fault. Whichever it is, nothing temporary stays (temporary.h).
//
//   handle_signals()      SIGINT, SIGTERM, SIGHUP and SIGPIPE remove what is temporary, then end the process as they would by themselves
//   handle_faults(...)    memory that is not there ends the process with a message and ExitCode::environment, wherever it is missed: in a
//                         thread, or inside code that is not made for exceptions
//
// Both are for programs. As a library, tcc leaves the process alone.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace tcc {

/// While one of these lives, signals and faults of other threads wait: what it spans happens whole or not at all. Keep it short, and never wait
/// for another thread in it. They nest.
class Uninterrupted {
 public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
};

/// A signal that is ignored when the process starts stays so (nohup). SIGXFSZ is ignored from here on: a write beyond a limit on file sizes
/// then fails as one on a full disk does.
void handle_signals();

/// How messages of handle_faults() look; the same as `tcc::to_string` and `--diagnostics=json` make, without taking memory.
enum class FaultText { plain, json };
/// Replaces the handlers of `operator new` and std::terminate.
void handle_faults(FaultText text);
/// Says that there is not enough memory, removes what is temporary and ends the process with ExitCode::environment. Takes no memory itself.
[[noreturn]] void end_without_memory();
/// The same for an invariant of ours, or of a library below, that does not hold: ExitCode::internal.
[[noreturn]] void end_with_internal_error(std::string_view what);

/// A child that is killed when a signal or a fault ends this process. Remove it before its id may belong to another process.
void add_child(pid_t child);
void remove_child(pid_t child);

}  // namespace tcc
