// How long each pass and stage took: `--time-report`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tcc::driver {

class TimeReport {
 public:
  /// Adds to the row of that name (rows keep the order of their first use). A pass that runs several times has one row.
  void add(const std::string& name, double milliseconds);
  /// A table: milliseconds, share of the total, number of runs, name.
  std::string table() const;

 private:
  struct Row {
    std::string name;
    double milliseconds = 0;
    int runs = 0;
  };
  std::vector<Row> rows_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Adds the time of its life to a report.
class Timed {
 public:
  Timed(TimeReport& report, std::string name) : report_(report), name_(std::move(name)) {}
  ~Timed() {
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start_;
    report_.add(name_, passed.count());
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  TimeReport& report_;
  std::string name_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tcc::driver
