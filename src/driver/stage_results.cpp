#include "driver/stage_results.h"

#include <algorithm>

#include "driver/generate_code.h"

namespace tcc::driver {

std::string print_forms(const std::vector<loop::FirstForm>& forms) {
  std::string text;
  for (const loop::FirstForm& form : forms) {
    text += loop::print(*form.unit);
    if (!text.ends_with('\n')) text += '\n';
  }
  return text;
}

std::string print_kernels(const std::vector<loop::Kernel>& kernels, const std::vector<std::string>& comments) {
  std::string text;
  for (size_t k = 0; k < kernels.size(); ++k) text += (comments.empty() ? "" : comments[k]) + loop::print(kernels[k], kernel_name(k));
  return text;
}

std::string text_of(const group::Groups& groups) { return group::print(groups); }
std::string text_of(const group::LoweredUnits& lowered) { return print_forms(lowered.forms); }
std::string text_of(const plan::Plan& plan) { return plan::print(plan); }

std::string text_of(const schedule::ScheduledUnits& scheduled) {
  std::string text;
  for (size_t u = 0; u < scheduled.units.size(); ++u) {
    const schedule::ScheduledUnit& unit = *scheduled.units[u];
    text += "// " + schedule::print(unit.schedule) + "\n";
    for (size_t k = 0; k < unit.kernels.size(); ++k)
      text += loop::print(unit.kernels[k], "unit" + std::to_string(u) + "_" + std::to_string(k));
  }
  return text;
}

std::vector<std::string> faults_of(const group::Groups& groups) { return group::verify(groups); }

std::vector<std::string> faults_of(const group::LoweredUnits& lowered) {
  std::vector<std::string> faults;
  for (const loop::FirstForm& form : lowered.forms) {
    for (const std::string& fault : loop::verify_first_form(*form.unit)) faults.push_back(fault);
  }
  return faults;
}

std::vector<std::string> faults_of(const schedule::ScheduledUnits& scheduled) {
  std::vector<std::string> faults;
  for (const auto& unit : scheduled.units) {
    for (const loop::Kernel& kernel : unit->kernels) {
      for (const std::string& fault : loop::verify_kernel(kernel)) faults.push_back(fault + "\n(" + schedule::print(unit->schedule) + ")");
    }
  }
  return faults;
}

std::vector<std::string> faults_of(const plan::Plan& plan) {
  std::vector<std::string> faults = plan::verify(plan);
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    for (const std::string& fault : loop::verify_kernel(plan.kernels[k])) faults.push_back("kernel " + kernel_name(k) + ": " + fault);
  }
  return faults;
}

Fault parts_of(const std::string& fault) {
  const size_t end = std::min(fault.find('\n'), fault.size());
  return {fault.substr(0, end), fault.substr(std::min(fault.find_first_not_of(" \n", end), fault.size()))};
}

}  // namespace tcc::driver
