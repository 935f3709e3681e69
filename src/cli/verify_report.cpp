#include "cli/verify_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/comparison_text.h"
#include "cli/library_flags.h"
#include "tcc/support/printable.h"
#include "tcc/support/standard_output.h"

namespace tcc::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWhose = "the interpreter gives";

Json number(double value) {
  if (std::isfinite(value)) return value;
  return number_text(value);  // JSON has no infinities
}

std::string count_text(int count, const std::string& noun) { return std::to_string(count) + " " + noun + (count == 1 ? "" : "s"); }

bool is_same(const driver::Comparison& a, const driver::Comparison& b) {
  return a.worst == b.worst && a.found == b.found && a.expected == b.expected && a.num_wrong == b.num_wrong &&
         a.num_elements == b.num_elements;
}

Json json_of(const driver::Verification::Output& output) {
  const driver::Comparison& comparison = output.comparison;
  const driver::Tolerance& tolerance = output.tolerance;
  Json row = {{"name", output.name},
              {"dtype", name_of(output.type.dtype)},
              {"shape", output.type.shape()},
              {"passed", comparison.num_wrong == 0},
              {"elements", comparison.num_elements},
              {"wrong", comparison.num_wrong},
              {"largest_difference", number(comparison.max_absolute)},
              {"largest_element", number(comparison.largest)},
              {"rounding", output.rounding ? name_of(*output.rounding) : "none"},
              {"rtol", tolerance.rtol},
              {"atol", tolerance.atol},
              {"of_largest", tolerance.of_largest},
              {"moved", number(tolerance.moved)}};
  if (output.is_state) row["state"] = true;
  if (comparison.num_wrong > 0)
    row["worst"] = {{"element", comparison.worst}, {"found", number(comparison.found)}, {"expected", number(comparison.expected)}};
  return row;
}

}  // namespace

void VerifyReport::say(const std::string& text) const {
  if (!json_) write_stdout(text);
}

void VerifyReport::add(const driver::Verification& verification, const std::vector<driver::Drawn>& drawn) {
  object_["device"] = verification.device;
  object_["passed"] = true;
  if (!drawn.empty()) object_["random"] = to_json(drawn);
  object_["outputs"] = Json::array();
  const bool runs_again =
      std::any_of(verification.outputs.begin(), verification.outputs.end(), [](const auto& output) { return output.is_state; });
  if (runs_again) object_["runs"] = verification.num_runs;
  std::string text = "device: " + verification.device + "\n";
  for (const driver::Drawn& one : drawn) text += driver::describe(one) + "\n";
  for (const driver::Verification::Output& output : verification.outputs) {
    const driver::Comparison& comparison = output.comparison;
    const bool wrong = comparison.num_wrong > 0;
    ++(output.is_state ? num_states_ : num_outputs_);
    num_wrong_ += wrong;
    const std::string name = (output.is_state ? "state `" : "output `") + output.name + "`";
    if (runs_again) text += "run " + std::to_string(output.run) + ", " + (output.is_state ? "state " : "");
    text += printable(output.name) + ": " + to_string(output.type) + " largest difference " + number_text(comparison.max_absolute);
    if (comparison.largest > 0 && comparison.max_absolute > 0)
      text += ", " + number_text(comparison.max_absolute / comparison.largest) + " of the largest element";
    if (output.tolerance.moved > 0) text += ", rounding on the way allows " + number_text(output.tolerance.moved);
    text += wrong ? ", differs\n" : "\n";
    object_["outputs"].push_back(json_of(output));
    if (runs_again) object_["outputs"].back()["run"] = output.run;
    std::string bounds = to_string(output.tolerance);
    if (output.rounding) bounds += " (" + std::string(name_of(*output.rounding)) + (output.is_gradient ? ", gradients)" : ")");
    outputs_by_tolerance_[bounds].push_back(output.name);
    num_runs_ = std::max(num_runs_, output.run);
    if (!wrong) continue;
    wrong_.push_back(comparison);
    faults_.error("verification-failed", model_,
                  name + (output.run > 1 ? " of run " + std::to_string(output.run) : "") + ": " +
                      describe_worst(comparison, output.type.shape(), kWhose));
  }
  say(text);
}

void VerifyReport::add(const driver::DirectionalDerivative& derivative) {
  ++num_derivatives_;
  num_wrong_derivatives_ += !derivative.agrees;
  std::string text =
      "gradient " + number_text(derivative.gradient) + " along a random direction, finite difference " + number_text(derivative.difference);
  Json row = {{"name", derivative.name},
              {"passed", derivative.agrees},
              {"gradient", number(derivative.gradient)},
              {"difference", number(derivative.difference)},
              {"at_kink", derivative.at_kink},
              {"not_finite", derivative.num_not_finite}};
  object_["derivatives"].push_back(std::move(row));
  std::string remark = derivative.at_kink ? ", at a kink" : derivative.agrees ? "" : ", differs";
  if (derivative.num_not_finite > 0)
    remark += ", without " + count_text(static_cast<int>(derivative.num_not_finite), "element") + " that are not finite";
  say(printable(derivative.name) + ": " + text + remark + "\n");
  if (!derivative.agrees) faults_.error("verification-failed", model_, "`" + derivative.name + "`: " + text);
}

void VerifyReport::add(const driver::FirstDifference& first) {
  if (first.node == nullptr) {
    faults_.note(
        model_, "every value is right when it is computed as an output of its own: the fault shows only in how they are computed together");
    return;
  }
  const Location& loc = first.node->loc;
  const std::string where = (loc.file.empty() ? model_ : loc.file.str()) + (loc.node.empty() ? "" : ":" + loc.node.str());
  std::string message = "the first value that differs is made here";
  // Said already, when it is an output itself.
  const bool said = wrong_.size() == 1 && is_same(wrong_.front(), first.comparison);
  if (!said) message += ": " + describe_worst(first.comparison, first.node->result(first.result)->type.shape(), kWhose);
  faults_.add({Diagnostic::Severity::note, "", where, message, print(*first.node)});
  object_["first_difference"] = {{"value", first.node->result(first.result)->name}, {"node", loc.node.str()}, {"text", print(*first.node)}};
}

std::string VerifyReport::verdict() const {
  const bool passed = num_wrong_ + num_wrong_derivatives_ == 0;
  std::string text;
  std::string all = count_text(num_outputs_, "output");
  if (num_states_ > 0) all += " and " + count_text(num_states_, "state tensor") + " of " + count_text(num_runs_, "run");
  if (passed) text = "passed: " + all;
  else text = "failed: " + std::to_string(num_wrong_) + " of " + all;
  if (num_derivatives_ > 0 && passed) text += ", " + count_text(num_derivatives_, "derivative");
  if (num_wrong_derivatives_ > 0)
    text += ", " + std::to_string(num_wrong_derivatives_) + " of " + count_text(num_derivatives_, "derivative");
  for (const auto& [bounds, names] : outputs_by_tolerance_) {
    text += outputs_by_tolerance_.size() == 1 ? "; " : "\n  " + count_text(static_cast<int>(names.size()), "output") + ": ";
    text += bounds;
  }
  return text + "\n";
}

int VerifyReport::finish() {
  say(verdict());
  object_["passed"] = !faults_.has_errors();
  if (json_) write_stdout(object_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  faults_.checkpoint(ExitCode::verification);
  return 0;
}

}  // namespace tcc::cli
