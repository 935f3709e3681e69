#include "cli/launch_profile.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/begin_anew.h"
#include "tcc/support/printable.h"

namespace tcc::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLeastRuns = 5;
constexpr double kSeconds = 1;
// A clock around each launch costs time, and on CUDA the graph that makes launches cheap. Where the launches by themselves take so much
// longer than the run that they are part of, their shares are not those of the run.
constexpr double kLargestSum = 1.5;
// A launch whose middle half of times is this wide, of its own median and of the sum, has no share worth printing.
constexpr double kWidestOfMedian = 0.5, kWidestOfSum = 0.05;

double quantile(const std::vector<double>& sorted, double fraction) {
  return sorted[static_cast<size_t>(fraction * static_cast<double>(sorted.size() - 1) + 0.5)];
}

std::string row_text(double us, const std::optional<double>& share, const std::string& rest) {
  char head[64], percent[16] = "    -";
  if (share) std::snprintf(percent, sizeof percent, "%5.1f", *share);
  std::snprintf(head, sizeof head, "%10.2f  %s  ", us, percent);
  return head + rest + "\n";
}

}  // namespace

LaunchProfile profile_launches(runtime::Instance& instance, double whole_us, int runs) {
  LaunchProfile profile;
  profile.whole_us = whole_us;
  std::vector<std::vector<double>> times;
  const auto start = Clock::now();
  const auto wants_more = [&] {
    if (profile.runs < std::min(kLeastRuns, runs)) return true;
    return profile.runs < runs && std::chrono::duration<double>(Clock::now() - start).count() < kSeconds;
  };
  for (; wants_more(); ++profile.runs) {
    const std::vector<runtime::LaunchTime> launches = run_or_begin_anew(instance, [&] { return instance.profile_prepared(); });
    times.resize(launches.size());
    for (size_t l = 0; l < launches.size(); ++l) {
      times[l].push_back(launches[l].time_us);
      if (profile.runs == 0) profile.rows.push_back({launches[l].label, launches[l].kernel, launches[l].grid, 0, std::nullopt});
    }
  }
  for (size_t l = 0; l < times.size(); ++l) {
    std::sort(times[l].begin(), times[l].end());
    profile.sum_us += profile.rows[l].median_us = quantile(times[l], 0.5);
  }
  if (profile.sum_us > kLargestSum * whole_us) {
    profile.doubt = "launches timed one by one take much longer than the whole run, so they have no shares of it";
    return profile;
  }
  for (size_t l = 0; l < times.size() && profile.sum_us > 0; ++l) {
    const double width = quantile(times[l], 0.75) - quantile(times[l], 0.25), median = profile.rows[l].median_us;
    if (width > kWidestOfMedian * median && width > kWidestOfSum * profile.sum_us) {
      profile.doubt = "`-`: the times of this launch differ too much from run to run";
      continue;
    }
    profile.rows[l].share = 100 * median / profile.sum_us;
  }
  return profile;
}

std::string to_text(const LaunchProfile& profile) {
  std::string text = "        us      %  kernel        grid  label\n";
  for (const LaunchProfile::Row& row : profile.rows) {
    char rest[64];
    std::snprintf(rest, sizeof rest, "%-8s %9llu  ", row.kernel.c_str(), static_cast<unsigned long long>(row.grid));
    text += row_text(row.median_us, row.share, rest + printable(row.label));
  }
  char line[160];
  std::snprintf(line, sizeof line, "%10.2f         sum of %zu launches, medians over %d runs\n", profile.sum_us, profile.rows.size(),
                profile.runs);
  text += line;
  std::snprintf(line, sizeof line, "%10.2f         the whole run, median\n", profile.whole_us);
  text += line;
  std::snprintf(line, sizeof line, "%10.2f         %s\n", profile.whole_us - profile.sum_us,
                profile.whole_us >= profile.sum_us ? "overhead: between the launches"
                                                   : "overhead: below zero, the clocks between launches cost more");
  text += line;
  if (!profile.doubt.empty()) text += profile.doubt + "\n";
  return text;
}

void add_to(const LaunchProfile& profile, nlohmann::ordered_json* report) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const LaunchProfile::Row& row : profile.rows) {
    nlohmann::ordered_json object = {{"label", row.label}, {"kernel", row.kernel}, {"grid", row.grid}, {"us", row.median_us}};
    if (row.share) object["share"] = *row.share / 100;
    rows.push_back(std::move(object));
  }
  (*report)["profile"] = std::move(rows);
  (*report)["profile_runs"] = profile.runs;
  (*report)["profile_sum_us"] = profile.sum_us;
  (*report)["overhead_us"] = profile.whole_us - profile.sum_us;
}

}  // namespace tcc::cli
