#include "cli/interruption.h"

#include <signal.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace tcc::cli {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};
std::array<struct sigaction, kSignals.size()> previous;  // written before the handler is there
volatile sig_atomic_t received = 0;
int64_t received_at_ns = 0;  // of the handler alone, which runs with these signals blocked

// timeout(1) and terminals send a signal to a process and to its group: what comes within this time is the same request twice.
constexpr int64_t kSameRequestNs = 200'000'000;

int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void restore() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous[i], nullptr);
}

void note(int signal) {
  const int saved_errno = errno;
  const int64_t now = now_ns();
  if (received == 0) {
    received = signal;
    received_at_ns = now;
  } else if (now - received_at_ns > kSameRequestNs) {
    restore();
    raise(signal);  // delivered when the handler returns
  }
  errno = saved_errno;
}

}  // namespace

Interruption::Interruption() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaddset(&action.sa_mask, signal);
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &previous[i]);
    // A signal that the caller wants ignored (nohup, a background job of a script) stays so.
    if (previous[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

Interruption::~Interruption() { restore(); }

bool Interruption::requested() const { return received != 0; }
int Interruption::exit_code() const { return 128 + received; }

}  // namespace tcc::cli
