#include "frontend/fx/function_names.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace tcc::fx {

std::vector<std::string> function_names(const std::vector<std::string>& ids) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const std::string& id : ids) {
    std::string name = id;
    std::replace_if(
        name.begin(), name.end(),
        [](char c) { return static_cast<unsigned char>(c) >= 128 || !std::isalnum(static_cast<unsigned char>(c)); }, '_');
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name.insert(0, "_");
    if (name == "step" || name == "accumulate") name += "_";
    std::string unique = name;
    for (int i = 2; !taken.insert(unique).second; ++i) unique = name + "_" + std::to_string(i);
    names.push_back(unique);
  }
  return names;
}

}  // namespace tcc::fx
