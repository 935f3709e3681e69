// -MD and -MF: a Makefile rule with every file that was read. Names are escaped where make has an escape, and refused where it has none: a
// name is not to become a recipe, an assignment or another name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/driver/options.h"

namespace tcc::driver {

/// Where the rule goes: -MF, or `<library>.d` with -MD; "-" is standard output, empty: none is asked for.
/// Error (usage): -MD with neither -o nor -MF.
std::string dependency_path(const Options& options);
/// Error (usage) for a name that make can't hold, before any work is done; `inputs` are those known by then.
void check_dependencies(const Options& options, const std::vector<std::string>& inputs);
/// The text: the library depends on `inputs`, or, without one, what is emitted does (`products`, paths). Errors as above.
std::string dependencies(const Options& options, const std::vector<std::string>& products, const std::vector<std::string>& inputs);

/// What is in the way of a name, "it has a `;`"; nothing when make can hold it. Targets allow less than prerequisites.
std::optional<std::string> unfit_for_make(const std::string& name, bool target);

/// `targets: inputs`, and after it an empty rule for each input but the first (gcc's -MP): when one of them is gone, make remakes the targets
/// and doesn't stop for want of a rule. The names must fit; an input that make can't hold as a target has no rule of its own.
std::string makefile_rules(const std::vector<std::string>& targets, const std::vector<std::string>& inputs);

}  // namespace tcc::driver
