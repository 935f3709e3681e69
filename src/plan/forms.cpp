// Lowering gives equal units equal text (parameters, loops and scalars are named by what they are), so text is what tells forms apart. The layers of a
// transformer become a handful of forms: choosing, applying and all of code generation run once for each.

#include "plan/forms.h"

#include <unordered_map>

#include "tcc/support/parallel.h"

namespace tcc::plan {

Forms make_forms(const Graph& graph, const group::Groups& groups, const schedule::Target& target) {
  const int64_t num_units = static_cast<int64_t>(groups.units.size());
  std::vector<loop::Unit> units(static_cast<size_t>(num_units));
  std::vector<std::string> texts(units.size());
  parallel_for(num_units, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t at = static_cast<size_t>(i);
      units[at] = group::lower(graph, groups.units[at]);
      texts[at] = loop::print(units[at]);
    }
  });

  Forms result;
  std::unordered_map<std::string, int> number_of;
  std::vector<const loop::Unit*> first;  // a unit of each form
  for (size_t i = 0; i < units.size(); ++i) {
    const auto [at, is_new] = number_of.emplace(texts[i], static_cast<int>(first.size()));
    if (is_new) first.push_back(&units[i]);
    result.of_unit.push_back(at->second);
  }
  result.forms.resize(first.size());
  for (const auto& [text, number] : number_of) result.forms[static_cast<size_t>(number)].text = text;
  parallel_for(static_cast<int64_t>(first.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Form& form = result.forms[static_cast<size_t>(i)];
      const loop::Unit& unit = *first[static_cast<size_t>(i)];
      form.params = unit.params;
      if (unit.body.empty()) continue;  // all its results are empty
      form.schedule = schedule::choose(unit, target);
      form.kernels = schedule::split_kernels(schedule::apply(unit, form.schedule, target), target, &form.temporaries);
      for (const loop::Kernel& kernel : form.kernels) form.costs_ns.push_back(schedule::estimate_ns(kernel, target));
    }
  });
  return result;
}

}  // namespace tcc::plan
