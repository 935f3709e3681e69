// One list of kernels for several plans: the functions of a library are generated together, so what two of them launch is generated once.

#include <string>
#include <unordered_map>

#include "tcc/plan/plan.h"

namespace tcc::plan {

void merge_kernels(const std::vector<Plan*>& plans) {
  std::vector<loop::Kernel> kernels;
  std::vector<schedule::Schedule> schedules;
  std::vector<std::string> forms;
  std::unordered_map<std::string, int> kernel_numbers, form_numbers;
  for (Plan* plan : plans) {
    std::vector<int> numbers;
    for (size_t i = 0; i < plan->kernels.size(); ++i) {
      const auto [at, is_new] = kernel_numbers.emplace(loop::print(plan->kernels[i], "k"), static_cast<int>(kernels.size()));
      if (is_new) {
        kernels.push_back(plan->kernels[i]);
        schedules.push_back(plan->schedules[i]);
      }
      numbers.push_back(at->second);
    }
    for (const std::string& form : plan->unit_forms) {
      if (form_numbers.emplace(form, static_cast<int>(forms.size())).second) forms.push_back(form);
    }
    for (Launch& launch : plan->launches) {
      if (launch.kind == Launch::Kind::kernel) launch.kernel = numbers.at(static_cast<size_t>(launch.kernel));
    }
  }
  for (Plan* plan : plans) {
    plan->kernels = kernels;
    plan->schedules = schedules;
    plan->unit_forms = forms;
  }
}

}  // namespace tcc::plan
