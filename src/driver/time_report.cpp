#include "driver/time_report.h"

#include <algorithm>
#include <cstdio>

namespace tcc::driver {

void TimeReport::add(const std::string& name, double milliseconds) {
  auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.name == name; });
  if (row == rows_.end()) row = rows_.insert(rows_.end(), Row{name});
  row->milliseconds += milliseconds;
  row->runs++;
}

std::string TimeReport::table() const {
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start_;
  const double total = std::max(passed.count(), 1e-6);
  std::string text = "        ms      %   runs  stage\n";
  const auto line = [&](double milliseconds, int runs, const std::string& name) {
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, "%10.1f  %5.1f  ", milliseconds, 100 * milliseconds / total);
    text += numbers;
    std::snprintf(numbers, sizeof numbers, runs > 0 ? "%5d  " : "       ", runs);
    text += numbers + name + "\n";
  };
  double rest = total;
  for (const Row& row : rows_) {
    line(row.milliseconds, row.runs, row.name);
    rest -= row.milliseconds;
  }
  line(std::max(rest, 0.0), 0, "everything else");
  line(total, 0, "total");
  return text;
}

}  // namespace tcc::driver
