#include "driver/progress.h"

#include <unistd.h>

#include <cstdio>
#include <exception>

#include "tcc/support/text.h"

namespace tcc::driver {

namespace {

using namespace std::chrono_literals;
constexpr auto kQuietTime = 1s;
constexpr auto kInterval = 100ms;

}  // namespace

Progress::Progress(ProgressStyle style) : style_(style) {
  if (style_ == ProgressStyle::automatic && !isatty(STDERR_FILENO)) style_ = ProgressStyle::off;
}

Progress::~Progress() {
  clear();
  if (std::uncaught_exceptions() == 0) finish();  // a step that failed is not done
}

/// Of tools that follow a compilation: a step is over, and how long it took.
void Progress::finish() {
  if (style_ != ProgressStyle::json || name_.empty()) return;
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - step_start_;
  std::fprintf(stderr, "{\"step\": %s, \"parts\": %lld, \"done\": true, \"ms\": %.1f}\n", print_quoted(name_).c_str(),
               static_cast<long long>(done_), passed.count());
}

void Progress::step(const std::string& name, int64_t total) {
  const std::lock_guard lock(mutex_);
  finish();
  name_ = name;
  step_start_ = std::chrono::steady_clock::now();
  done_ = 0;
  total_ = total;
  if (style_ == ProgressStyle::plain) std::fprintf(stderr, "%s\n", name_.c_str());
  if (style_ == ProgressStyle::json)
    std::fprintf(stderr, "{\"step\": %s, \"parts\": %lld}\n", print_quoted(name_).c_str(), static_cast<long long>(total_));
  if (style_ == ProgressStyle::automatic) show();
}

void Progress::advance() {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (style_ == ProgressStyle::automatic) show();
}

void Progress::show() {
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < kQuietTime || now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%s", name_.c_str());
  if (total_ > 0) std::fprintf(stderr, " %lld/%lld", static_cast<long long>(done_), static_cast<long long>(total_));
  std::fflush(stderr);
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (shown_) std::fprintf(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace tcc::driver
