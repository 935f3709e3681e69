#include "cli/interruption.h"

#include <signal.h>

#include <array>

namespace tcc::cli {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};
std::array<struct sigaction, kSignals.size()> previous;  // written before the handler is there
volatile sig_atomic_t received = 0;

void restore() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous[i], nullptr);
}

void note(int signal) {
  received = signal;
  restore();
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
