// --emit=remat: why the plan is what it is.

#include <cstdio>

#include "tcc/residuals/residuals.h"
#include "tcc/support/text.h"

namespace tcc::residuals {
namespace {

/// 1234567 -> "1_234_567", as plans print bytes.
std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, "_");
  return digits;
}

std::string microseconds(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", ns / 1000);
  return text;
}

/// Left-aligned in its column; numbers to the right.
void add_column(std::string& line, const std::string& text, size_t width, bool right) {
  const std::string blanks(text.size() < width ? width - text.size() : 0, ' ');
  line += right ? blanks + text : text + blanks;
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<char>& right) {
  std::vector<size_t> widths(right.size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? " " : "  ";
      add_column(line, row[i], widths[i], right[i] != 0);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string print(const Result& result, const std::string& graph_name) {
  const TriedPlan& taken = result.tried[result.taken];
  std::string text = "remat " + print_global_name(graph_name) + " mode " + std::string(name_of(result.options.mode));
  if (result.options.budget_bytes > 0) text += " budget " + grouped(result.options.budget_bytes);
  text += " peak " + grouped(taken.peak_bytes) + " fixed " + grouped(result.options.fixed_bytes) + " {\n";
  text += "  // taken: " + taken.name + ", " + result.reason + "\n";

  std::vector<std::vector<std::string>> rows{{"// plan", "peak bytes", "time us", "saved", "bytes saved", "computed again", ""}};
  for (size_t i = 0; i < result.tried.size(); ++i) {
    const TriedPlan& plan = result.tried[i];
    std::string marks = i == result.taken ? "taken" : "";
    if (result.options.budget_bytes > 0 && plan.peak_bytes > result.options.budget_bytes) marks = "above the budget";
    else if (marks.empty() && !plan.on_front) marks = "another is better in both";
    rows.push_back({"plan " + print_value_name(plan.name).substr(1), grouped(plan.peak_bytes), microseconds(plan.cost_ns),
                    std::to_string(plan.num_saved), grouped(plan.saved_bytes), std::to_string(plan.num_copies),
                    marks.empty() ? "" : "// " + marks});
  }
  text += table(rows, {0, 1, 1, 1, 1, 1, 0});

  rows = {{"// value", "", "bytes", "save us", "recompute us", "op"}};
  for (const Candidate& candidate : result.candidates) {
    std::string what = candidate.op;
    if (!candidate.node.empty()) what += "  loc(\"" + candidate.node + "\")";
    rows.push_back({candidate.saved ? "save" : "recompute", print_value_name(candidate.value) + ": " + candidate.type,
                    grouped(candidate.size_bytes), microseconds(candidate.save_ns), microseconds(candidate.recompute_ns), what});
  }
  return text + table(rows, {0, 0, 1, 1, 1, 0}) + "}\n";
}

}  // namespace tcc::residuals
