// Lowering gives equal units equal text (parameters, loops and scalars are named by what they are), so text is what tells forms apart. The layers of a
// transformer become a handful of forms: choosing, applying and all of code generation run once for each. A cache carries that over to other plans of the
// same target: the functions of a library, and the plans that are tried with more or less saved, differ in few forms.

#include "plan/forms.h"

#include <mutex>
#include <unordered_map>

#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"
#include "tcc/support/text.h"

namespace tcc::plan {

struct FormCache::Impl {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const Form>> forms;  ///< by target and text
};

FormCache::FormCache() : impl_(std::make_unique<Impl>()) {}
FormCache::~FormCache() = default;

namespace {

/// All that choosing a schedule looks at, as text.
std::string key_of(const schedule::Target& target) {
  std::string key = target.name;
  for (const int64_t number : {int64_t{target.vector_bytes}, int64_t{target.vector_registers}, int64_t{target.cores}, target.l1_bytes,
                               target.l2_bytes, target.shared_bytes, int64_t{target.allow_tf32}}) {
    key += " " + std::to_string(number);
  }
  return key + " " + print_float(target.bytes_per_ns) + " " + print_float(target.flops_per_ns) + "\n";
}

std::shared_ptr<const Form> make_form(const loop::Unit& unit, const std::string& text, const schedule::Target& target) {
  auto form = std::make_shared<Form>();
  form->text = text;
  form->params = unit.params;
  if (unit.body.empty()) return form;  // all its results are empty
  form->schedule = schedule::choose(unit, target);
  try {
    form->kernels = schedule::split_kernels(schedule::apply(unit, form->schedule, target), target, &form->temporaries);
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;  // a hand-made schedule that does not fit is the user's fault, a chosen one is ours
    internal_error(error.diagnostics()[0].message + " (chosen schedule: " + schedule::print(form->schedule) + ")");
  }
  for (const loop::Kernel& kernel : form->kernels) form->costs_ns.push_back(schedule::estimate_ns(kernel, target));
  return form;
}

}  // namespace

Forms make_forms(const Graph& graph, const group::Groups& groups, const schedule::Target& target, FormCache* cache) {
  const int64_t num_units = static_cast<int64_t>(groups.units.size());
  std::vector<loop::Unit> units(static_cast<size_t>(num_units));
  std::vector<std::string> texts(units.size());
  Forms result;
  result.checks.resize(units.size());
  parallel_for(num_units, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t at = static_cast<size_t>(i);
      units[at] = group::lower(graph, groups.units[at], &result.checks[at]);
      texts[at] = loop::print(units[at]);
    }
  });

  std::unordered_map<std::string, int> number_of;
  std::vector<size_t> first;  // a unit of each form
  for (size_t i = 0; i < units.size(); ++i) {
    const auto [at, is_new] = number_of.emplace(texts[i], static_cast<int>(first.size()));
    if (is_new) first.push_back(i);
    result.of_unit.push_back(at->second);
  }
  result.forms.resize(first.size());
  const std::string key = key_of(target);
  if (cache) {
    const std::lock_guard lock(cache->impl().mutex);
    const auto& known = cache->impl().forms;
    for (size_t i = 0; i < first.size(); ++i) {
      if (const auto at = known.find(key + texts[first[i]]); at != known.end()) result.forms[i] = at->second;
    }
  }
  parallel_for(static_cast<int64_t>(first.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto& form = result.forms[static_cast<size_t>(i)];
      const size_t unit = first[static_cast<size_t>(i)];
      if (!form) form = make_form(units[unit], texts[unit], target);
    }
  });
  if (cache) {
    const std::lock_guard lock(cache->impl().mutex);
    for (auto& form : result.forms) form = cache->impl().forms.emplace(key + form->text, form).first->second;
  }
  return result;
}

}  // namespace tcc::plan
